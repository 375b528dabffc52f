"""Our side of every comparison of `make parity`, against what TRL and verl computed when they were last run.

The peers need environments of their own, so here their figures come from a file. Whatever the comparisons use of our
losses, advantages, presets and of the verl adapter runs here with the rest of the tests.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
import torch

from subquest.train.loss import LOSSES
from subquest.train.verl.data import to_row

from .ledger import RECORDED, SEEDS, figures
from .trials import (
    TRL,
    VERL,
    group_trials,
    kl_trials,
    multi_trajectory_trials,
    small_llama,
    trl_trials,
    verl_trials,
)

PEERS: dict[str, dict[str, list[list[float]]]] = json.loads(RECORDED.read_text())
TOLERANCE = 1e-5


class Recorded:
    """Holds our figures to a peer's, and knows which of them have been compared."""

    def __init__(self, peer: str) -> None:
        self.figures = PEERS[peer]
        self.compared: set[str] = set()

    def compare(self, seed: int, mine: Mapping[str, torch.Tensor]) -> None:
        for name, values in mine.items():
            self.compared.add(name)
            theirs = self.figures[name][seed]
            size = TOLERANCE * max(1.0, *map(abs, theirs))
            assert figures(values) == pytest.approx(theirs, rel=0, abs=size), f"{name}, batch {seed}"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_losses_and_gradients_are_those_of_trl() -> None:
    recorded, model = Recorded("TRL"), small_llama()
    for name in TRL:
        for seed, trial in enumerate(trl_trials(name, model, range(SEEDS))):
            recorded.compare(seed, trial.mine)
    assert recorded.compared == set(recorded.figures)


@pytest.mark.slow
def test_losses_and_advantages_are_those_of_verl() -> None:
    recorded = Recorded("verl")
    for name in VERL:
        for seed, trial in enumerate(verl_trials(name, range(SEEDS))):
            recorded.compare(seed, trial.mine)
    for trials in (kl_trials, group_trials, multi_trajectory_trials):
        for seed, trial in enumerate(trials(range(SEEDS))):
            recorded.compare(seed, trial.mine)
    assert recorded.compared == set(recorded.figures)


@pytest.mark.slow
def test_the_verl_adapter_keeps_its_contract(sessions: ModuleType) -> None:
    rollout = SimpleNamespace(**sessions.ROLLOUT)
    loop = sessions.make_loop(sessions.Servers(sessions.vocabulary()), rollout_config=rollout)
    assert [what for fact, what in sessions.loop_facts(loop, to_row(sessions.QUESTION, 0)) if not fact] == []
    recorded = Recorded("verl adapter")
    roles = importlib.import_module("subquest.train.verl.roles")
    for seed, trial in enumerate(sessions.session_trials(range(SEEDS))):
        recorded.compare(seed, trial.mine)
        fields, mask = [row.extra_fields for row in trial.rows], sessions.masks(trial.rows)
        weights = roles.role_weights(trial.keys, fields, mask.sum(-1).int().tolist())
        mine = (torch.tensor(roles.role_advantages(trial.keys, fields)) * torch.tensor(weights))[:, None] * mask
        assert torch.allclose(mine, trial.mine[sessions.DECOR], atol=TOLERANCE)
    assert recorded.compared == set(recorded.figures)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter at work, with stand-ins for what it takes from verl; nothing of them stays behind."""

    class Loop:
        def __init__(self, **given: Any) -> None:
            self.__dict__.update(given)

    def stays(*_: str) -> Any:
        return lambda kind: kind

    names = {
        "verl.experimental.agent_loop.agent_loop": {
            "AgentLoopBase": Loop,
            "AgentLoopOutput": SimpleNamespace,
            "register": stays,
        },
        "verl.trainer.ppo.v1": {"register_trainer": stays},
        "verl.trainer.ppo.v1.trainer_sync": {"PPOTrainerSync": object},
        "verl.workers.utils.padding": {"response_to_nested": None},
        "transfer_queue": {},
        "tensordict": {"TensorDict": dict},
    }
    for name, members in names.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    ours = ("subquest.train.verl.loop", "subquest.train.verl.roles", "tests.parity.sessions")
    for name in ours:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module("tests.parity.sessions")
    for name in ours:  # registered with the fixture, so that they go with it
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    return found


def test_every_preset_that_a_peer_has_is_compared() -> None:
    compared = {(s.level, s.aggregation) for *_, s in (*TRL.values(), *VERL.values())}
    peers = ("grpo", "bnpo", "dapo", "dr-grpo", "gspo", "verl")
    assert {(LOSSES[name].level, LOSSES[name].aggregation) for name in peers} <= compared
