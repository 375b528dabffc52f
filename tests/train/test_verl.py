"""The parts of the verl adapter that need no verl; the rest is held to verl itself in `make parity`."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from subquest.engine.interface import Message, Sampling
from subquest.errors import ContextOverflow
from subquest.record import Question, Step
from subquest.rewards import Reward
from subquest.train.batch import Batch, Rollout, pack
from subquest.train.loss import LOSSES, policy_loss
from subquest.train.random_model import tiny_source
from subquest.train.verl.advantages import role_advantages, role_weights
from subquest.train.verl.data import question_of, to_row, write_rows
from subquest.train.verl.engine import ServerEngine
from subquest.train.verl.reward import compute_score

from ..systems.fakes import FakeSearch
from .episodes import episode, trajectory

QUESTION = Question("q1", "Who wrote it?", ("Ada Vale", "A. Vale"), "toy", "train", 2, decomposition=(Step("a", "b"),))


class Servers:
    def __init__(self, tokenizer: Any, replies: list[str]) -> None:
        self.tokenizer, self.replies = tokenizer, replies
        self.requests: list[tuple[str, list[int], dict[str, Any]]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        self.requests.append((request_id, prompt_ids, sampling_params))
        ids = self.tokenizer.encode(self.replies.pop(0))
        return SimpleNamespace(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields={"max_global_steps": 4})


def engine(replies: list[str], window: int = 2000) -> tuple[ServerEngine, Servers]:
    tokenizer = tiny_source("qwen2").tokenizer
    servers = Servers(tokenizer, replies)
    return ServerEngine(servers, tokenizer, window=window, sampling={"temperature": 0.7, "logprobs": True}), servers


async def test_a_session_sends_its_whole_context_in_ids_and_keeps_what_came_back() -> None:
    one, servers = engine(["<task>first</task>", "<answer>Ada</answer><|im_end|>"])
    session = await one.open([Message("system", "Plan."), Message("user", "Who?")])
    turn = await session.generate(Sampling(max_tokens=50, stop=("</task>",), logprobs=True))
    assert (turn.finish, turn.stop, turn.text) == ("stop", "</task>", "<task>first</task>")
    await session.append("<result>Ada</result>")
    last = await session.generate(Sampling(max_tokens=50, stop=("</task>",)))
    assert (last.finish, last.text) == ("end", "<answer>Ada</answer>")
    (first_id, first_ids, first_how), (second_id, second_ids, _) = servers.requests
    assert first_id == second_id  # the servers keep the prefix of a request
    assert first_how["stop"] == ["</task>"]
    assert (first_how["temperature"], first_how["max_tokens"]) == (0.7, 50)
    context = [i for s in session.segments for i in s.token_ids]
    assert second_ids == context[: len(second_ids)]
    assert second_ids[: len(first_ids)] == first_ids
    kinds = [s.kind for s in session.segments]
    assert kinds == ["prompt", "prompt", "agent", "env", "agent"]
    assert [s.policy for s in session.segments if s.kind == "agent"] == [4, 4]
    assert all(len(s.logprobs or ()) == len(s.token_ids) for s in session.segments if s.kind == "agent")


async def test_a_stop_string_inside_a_token_and_tokens_of_a_padded_vocabulary() -> None:
    one, servers = engine(["a <|im_start|>", "b"])
    session = await one.open([Message("user", "Who?")])
    turn = await session.generate(Sampling(max_tokens=50, stop=("<|im_st",)))
    assert (turn.finish, turn.stop, turn.text) == ("stop", "<|im_st", "a <|im_st")
    assert session.segments[-1].text == "a <|im_start|>"
    padding = len(servers.tokenizer) + 5
    servers.tokenizer = SimpleNamespace(encode=lambda text: [padding])
    turn = await session.generate(Sampling(max_tokens=50, stop=("<|im_st",)))
    assert (turn.finish, turn.text, turn.token_ids) == ("length", "", (padding,))


async def test_a_full_window_is_told() -> None:
    one, servers = engine(["x"], window=30)
    session = await one.open([Message("user", "word " * 20)])
    with pytest.raises(ContextOverflow, match="fills the window of 30"):
        await session.generate(Sampling(max_tokens=5))
    assert not servers.requests


def test_questions_survive_verls_rows(tmp_path: Path) -> None:
    write_rows([QUESTION], tmp_path / "train.jsonl")
    row = json.loads((tmp_path / "train.jsonl").read_text())
    assert row["agent_name"] == "subquest"
    assert row["reward_model"]["ground_truth"] == {"target": ["Ada Vale", "A. Vale"]}
    assert question_of(row) == QUESTION
    handed = {k: v for k, v in to_row(QUESTION, 0).items() if k != "prompt"} | {"raw_prompt": row["prompt"]}
    handed["extra_info"] = {"index": 7, "split": "train"}
    plain = question_of(handed)
    assert (plain.question, plain.answers, plain.dataset) == (QUESTION.question, QUESTION.answers, "toy")


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("<think>so</think><answer>the Ada Vale</answer>", 1.0),
        ("<answer>Bo</answer><answer>A. Vale</answer>", 1.0),
        ("Ada Vale", 0.0),
    ],
)
def test_the_reward_function_reads_the_answer(text: str, score: float) -> None:
    assert compute_score("toy", text, {"target": ["Ada Vale", "A. Vale"]})["score"] == score
    assert compute_score("toy", text, ["Ada Vale", "A. Vale"], {"index": 1})["em"] == score


def sessions(turns: int) -> tuple[Batch, list[str], list[dict[str, Any]]]:
    """Three rollouts of one question in which planner and filter have so many turns, of all lengths; verl's rows."""
    rewards = {"planner": (1.0, 0.2, -1.0), "filter": (0.5, 0.6, 0.1), "answerer": (1.0, -1.0, -1.0)}
    episodes, keys, fields = [], [], []
    for session in range(3):
        roles = [*["planner", "filter"] * turns, "answerer"]
        lengths = [1 + (5 * n + 3 * session) % 7 for n in range(len(roles))]
        made = [trajectory(f"{session}-{n}", role, ("prompt", [1]), ("agent", [2] * lengths[n]))
                for n, role in enumerate(roles)]  # fmt: skip
        episodes.append(episode(str(session), *made))
        keys += [f"u_{session}_{n}" for n in range(len(made))]
        fields += [{"role": role, "role_reward": rewards[role][session]} for role in roles]
    advantages = iter(role_advantages(keys, fields))
    rollouts = [Rollout(e, {t.id: next(advantages) for t in e.trajectories}) for e in episodes]
    return pack(rollouts, aggregation="role-mean"), keys, fields


def verls(batch: Batch, keys: list[str], fields: list[dict[str, Any]], new: torch.Tensor) -> torch.Tensor:
    """verl's `gspo`, written out: one ratio a row, the mean over rows of the mean over tokens."""
    rows = batch.layout.trajectory
    tokens = torch.bincount(rows)
    weights = torch.tensor(role_weights(keys, fields, tokens.tolist()))
    total = torch.zeros(())
    for row in range(len(tokens)):
        own = rows == row
        ratio = (new[own] - OLD[: new.numel()][own]).mean().exp()
        advantage = (batch.advantages[own][0] * weights[row]).float()
        total = total - torch.minimum(ratio * advantage, ratio.clamp(1 - 3e-4, 1 + 4e-4) * advantage) / len(tokens)
    return total


def ours(batch: Batch, new: torch.Tensor) -> torch.Tensor:
    settings = LOSSES["decor"]
    units = batch.layout.units(settings.level)
    return policy_loss(new, OLD[: new.numel()], batch.advantages, batch.weights, settings, units=units).total


OLD = -torch.rand(200, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("turns", "moved", "same"), [(3, 0.0, True), (1, 0.2, True), (3, 0.2, False)])
def test_decors_objective_on_verl(turns: int, moved: float, same: bool) -> None:
    """Eq. 4 and 5 where the weights have not moved, or a role has one turn. Else verl's ratios are a turn's each."""
    batch, keys, fields = sessions(turns)
    noise = torch.randn(batch.rows.numel(), generator=torch.Generator().manual_seed(2))
    gradients = []
    for loss in (lambda new: verls(batch, keys, fields, new), lambda new: ours(batch, new)):
        new = (OLD[: batch.rows.numel()] + moved * noise).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(new), new)
        gradients.append(gradient)
    assert gradients[1].abs().sum() > 0
    assert torch.allclose(*gradients, atol=1e-6) is same


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our loop on a stand-in for the two classes it takes from verl."""
    stand_in: Any = ModuleType("verl.experimental.agent_loop.agent_loop")
    stand_in.AgentLoopBase, stand_in.AgentLoopOutput = object, SimpleNamespace
    stand_in.register = lambda name: lambda kind: kind
    for name in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.delitem(sys.modules, "subquest.train.verl.loop", raising=False)
    yield importlib.import_module("subquest.train.verl.loop")
    sys.modules.pop("subquest.train.verl.loop", None)


async def test_on_verl_decor_may_have_a_compressor_and_a_judge_of_its_own(loop: Any, tmp_path: Path) -> None:
    """What the compressor writes never becomes a row: it is another model's."""
    for name, reply in (("facts", "facts"), ("judge", "yes")):
        (tmp_path / f"{name}.jsonl").write_text((json.dumps({"reply": reply}) + "\n") * 20)
    long = " ".join(f"fact{n}" for n in range(60))
    replies = ["<search>Orvane one</search>", f"<filter>{long}</filter>", "<search>Orvane two</search>",
               f"<filter>{long}</filter>", "<search>None</search>", "<answer>Ada Vale</answer>"]  # fmt: skip
    made = loop.SubquestLoop(
        system="decor",
        judge=f"scripted:{tmp_path / 'judge.jsonl'}",
        compressor=f"scripted:{tmp_path / 'facts.jsonl'}",
        settings={"memory_tokens": 200},
        max_tokens=500,
    )
    assert made.reward.answer_judge.instruction == "decor"
    made.search = FakeSearch()
    made.tokenizer = tiny_source("qwen2").tokenizer
    made.server_manager = Servers(made.tokenizer, replies)
    made.rollout_config = SimpleNamespace(prompt_length=4000, response_length=2000)
    seen: list[Any] = []
    score = made.reward.score

    class Reward:
        async def score(self, episodes: Any) -> Any:
            seen.extend(episodes)
            return await score(episodes)

    made.reward = Reward()
    row = {**to_row(QUESTION, 0), "raw_prompt": ""}
    outputs = await made.run({"temperature": 1.0}, **row)
    assert [t.model for t in seen[0].by_role("compressor")] == [f"scripted:{tmp_path / 'facts.jsonl'}"]
    roles = [o.extra_fields["role"] for o in outputs]
    assert roles == ["filter", "filter", "planner", "planner", "planner", "answerer"]
    assert all(o.extra_fields["role_reward"] is not None for o in outputs)


def test_rows_of_a_forced_turn_and_of_a_prompt_beyond_verls_length(loop: Any) -> None:
    """A forced turn is no action; a context that was opened again with much to read keeps all of it."""
    agent = trajectory("1", "agent", ("prompt", [1, 2]), ("agent", [3, 4]), ("env", [5]), ("agent", [6]))
    long = trajectory("2", "agent", ("prompt", [1] * 6), ("agent", [7, 8]), ("env", [5]), ("agent", [6]))
    only = trajectory("3", "agent", ("prompt", [1]), ("agent", [9]))
    reward, lengths = Reward(1.0, roles={"agent": 1.0}), loop.Lengths(4, 6)
    made = episode("a", replace(agent, forced=True), replace(long, forced=True), replace(only, forced=True))
    first, second = loop.outputs_of(made, reward, lengths)
    assert (first.prompt_ids, first.response_ids, first.response_mask) == ([1, 2], [3, 4, 5, 6], [1, 1, 0, 0])
    assert first.response_logprobs == pytest.approx([-0.3, -0.4, 0, 0])
    assert first.num_turns == 1
    assert (second.prompt_ids, second.response_ids) == ([1] * 4, [1, 1, 7, 8, 5, 6])
    assert second.response_mask == [0, 0, 1, 1, 0, 0]
    (row,) = loop.outputs_of(episode("b", replace(only, forced=True)), reward, lengths)
    assert row.response_mask == [0]
