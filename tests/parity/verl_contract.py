"""Our verl adapter against verl itself: what the loop returns, what verl's advantage code makes of it, DECOR's trainer.

No GPU, no Ray and no servers: verl's own classes and functions are called as its workers call them, with a stand-in for
the rollout servers that writes scripted turns in the tokenizer's ids.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from datasets import load_dataset
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopOutput,
    DictConfigWrap,
    _agent_loop_registry,
)
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.workers.rollout.replica import TokenOutput

from subquest.train.verl import loop as loops
from subquest.train.verl import roles
from subquest.train.verl.data import write_rows

from .ledger import Ledger
from .sessions import CODA, DECOR, QUESTION, ROLLOUT, Servers, loop_facts, make_loop, masks, session_trials, vocabulary

BATCHES = 200


def check(fact: bool, what: str) -> None:
    print(f"  {what:<90} {'ok' if fact else 'BROKEN'}")
    if not fact:
        raise SystemExit(1)


def loop_contract() -> None:
    print("verl: the agent loop")
    check(_agent_loop_registry["subquest"]["_target_"] == "subquest.train.verl.loop.SubquestLoop", "registered")
    check(issubclass(loops.SubquestLoop, AgentLoopBase), "an AgentLoopBase")
    with tempfile.TemporaryDirectory() as folder:
        write_rows([QUESTION], Path(folder) / "train.jsonl")
        (row,) = load_dataset("json", data_files=str(Path(folder) / "train.jsonl"), cache_dir=folder)["train"]
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": ROLLOUT}})
    loop = make_loop(
        Servers(vocabulary(), TokenOutput),
        trainer_config=DictConfigWrap(config),
        processor=None,
        dataset_cls=None,
        data_config=DictConfigWrap(OmegaConf.create({})),
    )
    for fact, what in loop_facts(loop, row):
        check(fact, what)
    (output, *_) = next(session_trials([0])).rows
    check(isinstance(output, AgentLoopOutput), "outputs are verl's own")
    check(
        float(output.as_dict()["rm_scores"][-1]) == np.float32(output.reward_score), "with the reward in their fields"
    )


def advantages(ledger: Ledger) -> None:
    """CoDA by verl's plain grpo: rewards as the loop gives them, verl's own multi-trajectory advantage."""
    for trial in session_trials(range(BATCHES)):
        mask = masks(trial.rows)
        scores = torch.zeros_like(mask)
        for n, output in enumerate(trial.rows):
            scores[n, len(output.response_ids) - 1] = output.reward_score
        data = DataProto.from_dict(
            tensors={"token_level_rewards": scores, "response_mask": mask},
            non_tensors={"uid": np.array([k.split("_")[0] for k in trial.keys], dtype=object)},
        )
        made = compute_advantage_for_multi_trajectories(data, trial.keys, AdvantageEstimator.GRPO)
        ledger.compare(CODA, trial.mine[CODA], made.batch["advantages"])


def decor(ledger: Ledger) -> None:
    """DECOR's trainer: its advantage step on verl's nested tensors, the queue replaced by a dictionary."""
    trainer = get_trainer_cls("subquest_decor")
    signature = list(inspect.signature(trainer._compute_advantage).parameters)
    check(signature == ["self", "batch", "metrics"], "the trainer is registered and overrides verl's advantage step")
    for trial in session_trials(range(BATCHES)):
        mask = torch.nested.as_nested_tensor([torch.tensor(o.response_mask) for o in trial.rows], layout=torch.jagged)
        extra = [dict(o.extra_fields) for o in trial.rows]
        put: dict[str, Any] = {}
        roles.tq = SimpleNamespace(
            kv_batch_get=lambda mask=mask, extra=extra, **_: {"response_mask": mask, "extra_fields": extra},
            kv_batch_put=lambda put=put, **fields: put.update(fields) or "stored",
        )
        batch = SimpleNamespace(keys=trial.keys, partition_id="train")
        done = trainer._compute_advantage(trainer.__new__(trainer), batch, {})
        assert done == "stored"
        assert isinstance(put["fields"], TensorDict)
        ledger.compare(DECOR, trial.mine[DECOR], put["fields"]["advantages"].to_padded_tensor(0.0))


def main() -> int:
    torch.set_num_threads(1)
    loop_contract()
    ledger = Ledger("verl adapter")
    advantages(ledger)
    decor(ledger)
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main())
