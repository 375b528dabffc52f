"""The parts of the verl adapter that need no verl; the rest is held to verl itself in `make parity`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subquest.engine.base import Message, Sampling
from subquest.errors import ContextOverflow
from subquest.record import Question, Step
from subquest.train.tiny import tiny_source
from subquest.train.verl.data import question_of, to_row, write_rows
from subquest.train.verl.engine import ServerEngine
from subquest.train.verl.reward import compute_score

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
