"""Whatever an endpoint answers, it is a reply or a failure of the endpoint, never a crash of ours."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.engine import Message, Sampling
from subquest.engine.openai import Endpoint, OpenAIEngine
from subquest.engine.openai.reply import MALFORMED, Assembler, Reply, ending, read_reply
from subquest.errors import EngineUnavailable

from .loopback import Answer, Loopback, chat, delta, events

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CALL = {"id": "c", "index": 0, "function": {"name": "f", "arguments": "{}"}}
LOGPROBS = {"content": [{"token": "token_id:5", "logprob": -1.0}]}
FULL: dict[str, Any] = {
    "choices": [
        {
            "message": {"content": "x", "reasoning_content": "r", "tool_calls": [CALL]},
            "finish_reason": "stop",
            "stop_reason": "</a>",
            "token_ids": [5],
            "logprobs": LOGPROBS,
        }
    ],
    "prompt_token_ids": [1],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}
CHUNK: dict[str, Any] = {
    "choices": [{"delta": {"content": "x", "tool_calls": [CALL]}, "token_ids": [5], "logprobs": LOGPROBS}],
    "usage": {"prompt_tokens": 1},
}


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([here] if here else []), *(p for key, part in inner for p in paths(part, (*here, key)))]


def with_value(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return data


@settings(max_examples=400)
@given(path=st.sampled_from(paths(FULL)), value=JSON)
def test_any_value_anywhere_is_a_reply_or_a_failure(path: tuple[Any, ...], value: Any) -> None:
    try:
        reply = read_reply(with_value(FULL, path, value))
    except EngineUnavailable:
        return
    assert isinstance(reply.text, str)
    assert isinstance(reply.reasoning, str)
    assert all(isinstance(i, int) for i in reply.token_ids)
    assert all(isinstance(c.arguments, str) and isinstance(c.id, str) for c in reply.tool_calls)
    assert reply.logprobs is None or not reply.token_ids or len(reply.logprobs) == len(reply.token_ids)


@settings(max_examples=400)
@given(path=st.sampled_from(paths(CHUNK)), value=JSON)
def test_any_value_anywhere_in_a_chunk(path: tuple[Any, ...], value: Any) -> None:
    assembler = Assembler()
    assembler.add(CHUNK)
    try:
        assembler.add(with_value(CHUNK, path, value))
    except MALFORMED:
        return
    whole = assembler.whole()
    with contextlib.suppress(EngineUnavailable):
        assert isinstance(read_reply(whole).text, str)


@given(
    text=st.text(alphabet="ab<>/ x", max_size=30),
    stops=st.lists(st.sampled_from(["</a>", "</b>", "x", "<a>"]), max_size=3),
    tells=st.booleans(),
)
def test_an_ending_only_ever_cuts_after_or_adds_a_stop(text: str, stops: list[str], tells: bool) -> None:
    whole, finish, stop = ending(Reply(text, "stop"), stops, server_tells=tells)
    assert whole.startswith(text) or text.startswith(whole)
    assert (finish == "stop") == bool(stop)
    if stop:
        assert whole.endswith(stop)
        assert all(whole.find(s) in (-1, len(whole) - len(s)) for s in stops)
    else:
        assert (whole, finish) == (text, "end")


async def test_a_malformed_chunk_is_begun_anew_and_odd_text_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.engine.openai.endpoint.FIRST_WAIT", 0.01)
    broken = Answer(pieces=events({"choices": [{"delta": {"content": 5}}]}))
    async with Loopback(broken, Answer(pieces=events(delta("fine", "stop"))), chat("again")) as server:
        engine = OpenAIEngine("m", endpoint=Endpoint(server.url), stream=True)
        session = await engine.open([Message("user", "lone \ud800 surrogate")])
        assert (await session.generate(Sampling())).text == "fine"
        assert json.dumps(server.posts[0]["messages"][0]["content"]) == '"lone ? surrogate"'


def test_halves_of_characters_are_joined_or_replaced() -> None:
    """JSON can hold half a character, and a stream can split one; text that cannot be encoded would break a trace."""
    whole = read_reply({"choices": [{"message": {"content": "a \ud83d\ude00 b \ud83d c"}, "finish_reason": "stop"}]})
    assert whole.text == "a 😀 b \ufffd c"
    parts = Assembler()
    for half in ("\ud83d", "\ude00"):
        parts.add({"choices": [{"delta": {"content": half}}]})
    assert read_reply(parts.whole()).text == "😀"
    call = {"id": "\udcff", "function": {"name": "search", "arguments": '{"query": "\ud83d"}'}}
    (made,) = read_reply({"choices": [{"message": {"content": None, "tool_calls": [call]}}]}).tool_calls
    made.arguments.encode()
    made.id.encode()


def test_calls_that_a_server_streams_under_one_index_stay_apart() -> None:
    """Some interfaces give every call the index 0; others give every piece of a call an id of its own."""
    assembler = Assembler()
    pieces = [("a", "search", '{"query": "one"}'), ("b", "search", '{"query": '), ("b2", None, '"two"}')]
    for identifier, name, arguments in pieces:
        call = {"index": 0, "id": identifier, "function": {"name": name, "arguments": arguments}}
        assembler.add(delta(delta={"tool_calls": [call]}))
    made = read_reply(assembler.whole()).tool_calls
    assert [(c.id, c.name, c.arguments) for c in made] == [
        ("a", "search", '{"query": "one"}'),
        ("b", "search", '{"query": "two"}'),
    ]


@pytest.mark.parametrize(
    ("pieces", "made"),
    [
        ([("search", '{"query": "one"}'), ("search", '{"query": "two"}')], ['{"query": "one"}', '{"query": "two"}']),
        ([("search", '{"query": '), ("search", '"one"}')], ['{"query": "one"}']),
        ([("sea", ""), ("rch", '{"query": "one"}'), (None, "")], ['{"query": "one"}']),
    ],
    ids=["whole calls", "a repeated name", "a name in pieces"],
)
def test_calls_without_ids_are_told_apart_by_their_arguments(pieces: list[tuple[Any, str]], made: list[str]) -> None:
    """Gemini streams whole calls, without ids, all under one index."""
    assembler = Assembler()
    for name, arguments in pieces:
        assembler.add(delta(delta={"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}))
    calls = read_reply(assembler.whole()).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [("search", arguments) for arguments in made]


@pytest.mark.parametrize("token", ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>", "<end_of_turn>\n"])
def test_a_models_end_of_turn_is_no_part_of_its_text(token: str) -> None:
    """vLLM leaves it in the text of a request with tools."""
    assert ending(Reply(f"Action: Finish[Boston]{token}", "stop"), (), server_tells=True)[0] == "Action: Finish[Boston]"
    kept = "a <|im_end|> in the middle, <|end_call_subtask|>"
    assert ending(Reply(kept, "stop"), (), server_tells=True)[0] == kept


@pytest.mark.parametrize("usage", [{"prompt_tokens": "n/a", "completion_tokens": None}, ["?"], "none"])
def test_a_turn_is_not_lost_for_its_usage(usage: Any) -> None:
    reply = read_reply(chat("fine") | {"usage": usage})
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("fine", None, None)


@pytest.mark.parametrize("reason", ["max_tokens", "MAX_TOKENS", "model_length"])
def test_a_turn_that_was_cut_is_known_by_any_word_for_it(reason: str) -> None:
    """Anthropic's and Google's through gateways; Mistral, "Chat Completion API"."""
    assert ending(read_reply(chat("half", reason)), (), server_tells=False) == ("half", "length", "")


def test_parts_of_other_forms() -> None:
    """Databricks, "Query reasoning models": a summary of the reasoning in front of the text."""
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    reply = read_reply(chat(None, message={"content": [thought, {"type": "text", "text": "the "}, "Lume"]}))
    assert (reply.reasoning, reply.text) == ("Hm.", "the Lume")


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_in_the_older_form_is_a_call(stream: bool) -> None:
    call = {"name": "search", "arguments": {"query": "Lume"}}
    message = chat(None, "function_call", message={"function_call": call})
    if stream:
        assembler = Assembler()
        for name, arguments in (("search", ""), ("", '{"query": '), ("", '"Lume"}')):
            assembler.add(delta(delta={"function_call": {"name": name, "arguments": arguments}}))
        message = assembler.whole()
    (made,) = read_reply(message).tool_calls
    assert (made.name, json.loads(made.arguments)) == ("search", {"query": "Lume"})
