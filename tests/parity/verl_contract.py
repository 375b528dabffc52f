"""Our verl adapter against verl itself: what the loop returns, what verl's advantage code makes of it, DECOR's trainer.

No GPU, no Ray and no servers: verl's own classes and functions are called as its workers call them, with a stand-in for
the rollout servers that writes scripted turns in the tokenizer's ids.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from batches import Ledger, random_rollouts
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

from subquest.record import Document, Episode, Hit, Question, Step
from subquest.rewards.base import Reward
from subquest.train.advantage import BASELINES, trajectory_advantages
from subquest.train.tiny import tiny_source
from subquest.train.verl import loop as loops
from subquest.train.verl import roles
from subquest.train.verl.data import question_of, write_rows
from subquest.train.verl.reward import compute_score

QUESTION = Question("q1", "Who wrote it?", ("Ada Vale",), dataset="toy", split="train", decomposition=(Step("a", "b"),))
PLANNER = ("<think>one step</think><task>Who is the author?</task>", "<answer>Ada Vale</answer>")
EXECUTOR = ("<search>author</search>", "<refine>Ada Vale wrote it.</refine><result>Ada Vale</result>")


class Search:
    async def retrieve(self, queries: list[str], k: int) -> list[list[Hit]]:
        return [[Hit(Document("d", "Book", "Ada Vale wrote it."), 1.0)] for _ in queries]


class Servers:
    """Writes the script of the role whose prompt it sees, in the ids of the tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.turns: dict[str, int] = {}
        self.seen: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        self.seen.append(sampling_params)
        turn = self.turns.get(request_id, 0)
        self.turns[request_id] = turn + 1
        text = self.tokenizer.decode(prompt_ids)
        script = EXECUTOR if "Task: " in text else PLANNER
        ids = self.tokenizer.encode(script[turn], add_special_tokens=False)
        ids.append(self.tokenizer.eos_token_id)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={"max_global_steps": 7})


def check(fact: bool, what: str) -> None:
    print(f"  {what:<90} {'ok' if fact else 'BROKEN'}")
    if not fact:
        raise SystemExit(1)


def make_loop(tokenizer: Any, servers: Servers, **options: Any) -> Any:
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"prompt_length": 4096, "response_length": 4096}}})
    loops._search = lambda place: Search()  # type: ignore[assignment]
    return loops.SubquestLoop(
        trainer_config=DictConfigWrap(config), server_manager=servers, tokenizer=tokenizer, processor=None,
        dataset_cls=None, data_config=DictConfigWrap(OmegaConf.create({})), **options,
    )  # fmt: skip


def loop_contract() -> None:
    print("verl: the agent loop")
    check(_agent_loop_registry["subquest"]["_target_"] == "subquest.train.verl.loop.SubquestLoop", "registered")
    check(issubclass(loops.SubquestLoop, AgentLoopBase), "an AgentLoopBase")
    tokenizer = tiny_source("qwen2", [QUESTION.question, *PLANNER, *EXECUTOR]).tokenizer
    servers = Servers(tokenizer)
    loop = make_loop(tokenizer, servers, system="coda", settings={"turns": 3})
    with tempfile.TemporaryDirectory() as folder:
        write_rows([QUESTION], Path(folder) / "train.jsonl")
        (row,) = load_dataset("json", data_files=str(Path(folder) / "train.jsonl"), cache_dir=folder)["train"]
    check(question_of(row) == QUESTION, "a question survives verl's rows, its plan included")
    plain = {**row, "extra_info": {"index": 3, "split": "train"}}
    check(question_of(plain).answers == QUESTION.answers, "rows of other projects are questions too")
    row["raw_prompt"] = row.pop("prompt")
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
    outputs = asyncio.run(loop.run(sampling, **row))
    check(all(isinstance(o, AgentLoopOutput) for o in outputs) and len(outputs) == 2, "a list of AgentLoopOutput")
    check([o.extra_fields["role"] for o in outputs] == ["executor", "planner"], "the planner comes last")
    check(outputs[-1].reward_score == 3.0 + 2.0 + 0.5, "its reward is the episode's (answer, two formats, refine)")
    for output, script in zip(outputs, (EXECUTOR, PLANNER), strict=True):
        actions = [i for i, m in zip(output.response_ids, output.response_mask, strict=True) if m]
        written = [i for text in script for i in (*tokenizer.encode(text), tokenizer.eos_token_id)]
        check(actions == written, f"{output.extra_fields['role']}: masked tokens are those that were sampled")
        inside = [p for p, m in zip(output.response_logprobs, output.response_mask, strict=True) if m]
        check(set(inside) == {-0.5}, f"{output.extra_fields['role']}: log-probs stand beside them")
        field = output.as_dict()
        check(float(field["rm_scores"][-1]) == output.reward_score, f"{output.extra_fields['role']}: verl's own fields")
    ends = {s for request in servers.seen for s in request["stop"]}
    check(ends == {"<result>", "<documents>"}, "no role can write what the environment says")
    score = compute_score("toy", "<think>x</think><answer>ada vale</answer>", {"target": ["Ada Vale"]})
    check(score == {"score": 1.0, "em": 1.0, "f1": 1.0}, "the reward function in verl's form")


def random_sessions(seed: int) -> tuple[list[Episode], list[Reward], list[str], list[AgentLoopOutput]]:
    """Episodes of up to three questions, as records and as what the loop returns for them, with verl's keys."""
    r = random.Random(seed)
    episodes, rewards, keys, rows = [], [], [], []
    for q in range(r.randint(1, 3)):
        for session in range(r.randint(2, 4)):
            made = random_rollouts(r.randrange(1 << 30))[0].episode
            root = made.trajectories[0].id
            trajectories = tuple(
                replace(t, id=f"{q}-{session}-{t.id}", parent=None if t.id == root else f"{q}-{session}-{root}")
                for t in made.trajectories
            )
            episode = Episode(f"{q}-{session}", Question(f"q{q}", f"{q}?"), "", "", trajectories=trajectories)
            worth = {role: r.choice([0.0, 1.0, r.gauss(0, 2)]) for role in {t.role for t in trajectories}}
            steps = {t.id: r.gauss(0, 2) for t in trajectories}  # as DECOR's reward has them; a role's is their mean
            reward = Reward(r.choice([0.0, 1.0, r.gauss(0, 2)]), roles=worth, steps=steps)
            outputs = loops.outputs_of(episode, reward, response_length=4096)
            episodes.append(episode)
            rewards.append(reward)
            keys += [f"uid{q}_{session}_{i}" for i in range(len(outputs))]
            rows += outputs
    return episodes, rewards, keys, rows


def in_order(episodes: list[Episode], by_id: dict[str, float]) -> torch.Tensor:
    """Advantages in the order of the loop's rows: roots last."""
    values = []
    for e in episodes:
        ordered = [t for t in e.trajectories if t.parent is not None] + [t for t in e.trajectories if t.parent is None]
        values += [by_id[t.id] for t in ordered]
    return torch.tensor(values)


def advantages(ledger: Ledger) -> None:
    """CoDA by verl's plain grpo: rewards as the loop gives them, verl's own multi-trajectory advantage."""
    for seed in range(200):
        episodes, rewards, keys, rows = random_sessions(seed)
        width = max(len(o.response_ids) for o in rows)
        scores, mask = torch.zeros(len(rows), width), torch.zeros(len(rows), width)
        for n, output in enumerate(rows):
            scores[n, len(output.response_ids) - 1] = output.reward_score
            mask[n, : len(output.response_ids)] = torch.tensor(output.response_mask, dtype=torch.float32)
        data = DataProto.from_dict(
            tensors={"token_level_rewards": scores, "response_mask": mask},
            non_tensors={"uid": np.array([k.split("_")[0] for k in keys], dtype=object)},
        )
        theirs = compute_advantage_for_multi_trajectories(data, keys, AdvantageEstimator.GRPO).batch["advantages"]
        mine = {t: a for e in trajectory_advantages(episodes, rewards, BASELINES["verl"]) for t, a in e.items()}
        expected = in_order(episodes, mine)[:, None] * mask
        ledger.compare("CoDA's group advantage through the loop and verl's grpo", expected, theirs)


def decor(ledger: Ledger) -> None:
    """DECOR's trainer: its advantage step on verl's nested tensors, the queue replaced by a dictionary."""
    trainer = get_trainer_cls("subquest_decor")
    signature = list(inspect.signature(trainer._compute_advantage).parameters)
    check(signature == ["self", "batch", "metrics"], "the trainer is registered and overrides verl's advantage step")
    for seed in range(200):
        episodes, rewards, keys, rows = random_sessions(seed)
        mask = torch.nested.as_nested_tensor([torch.tensor(o.response_mask) for o in rows], layout=torch.jagged)
        extra = [dict(o.extra_fields) for o in rows]
        put: dict[str, Any] = {}
        roles.tq = SimpleNamespace(
            kv_batch_get=lambda mask=mask, extra=extra, **_: {"response_mask": mask, "extra_fields": extra},
            kv_batch_put=lambda put=put, **fields: put.update(fields) or "stored",
        )
        batch = SimpleNamespace(keys=keys, partition_id="train")
        done = trainer._compute_advantage(trainer.__new__(trainer), batch, {})
        assert done == "stored"
        assert isinstance(put["fields"], TensorDict)
        theirs = put["fields"]["advantages"].to_padded_tensor(0.0)
        mine = {
            t: a for e in trajectory_advantages(episodes, rewards, BASELINES["decor"], by="role") for t, a in e.items()
        }
        tokens = [sum(o.response_mask) for o in rows]
        places = [(*key.rsplit("_", 2)[:2], o.extra_fields["role"]) for key, o in zip(keys, rows, strict=True)]
        pooled = {place: sum(t for t, p in zip(tokens, places, strict=True) if p == place) for place in places}
        rollouts = len({place[:2] for place in places})
        share = torch.tensor([t / pooled[p] * len(rows) / rollouts for t, p in zip(tokens, places, strict=True)])
        expected = (in_order(episodes, mine) * share)[:, None] * mask.to_padded_tensor(0)
        ledger.compare("DECOR's role advantage through the loop and our trainer", theirs, expected)


def main() -> int:
    torch.set_num_threads(1)
    loop_contract()
    ledger = Ledger("verl adapter")
    advantages(ledger)
    decor(ledger)
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main())
