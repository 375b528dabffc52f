"""Native tool calls, seen by systems as tags."""

import json
from typing import Any

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.openai import Action, OpenAIEngine

from .loopback import Answer, Loopback, Request, chat, delta, events

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]
SEARCH = Action("search", "Search the corpus.", "query", "a short question")
ANSWER = Action("answer", "Give the final answer.")


def call(name: str, arguments: str, id: str = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    return chat(text, "tool_calls", message={"tool_calls": list(calls)})


def engine_at(server: Loopback, **options: Any) -> OpenAIEngine:
    return OpenAIEngine("m", base_url=server.url, protocol="tools", **options)


async def test_a_call_is_a_tag_and_its_result_a_tool_message() -> None:
    async with Loopback(calling(call("search", '{"query": "capital"}'), text="I look."), chat("plain")) as server:
        session = await engine_at(server, actions=[SEARCH, ANSWER]).open(PROMPT)
        turn = await session.generate(Sampling())
        assert (turn.text, turn.finish) == ("I look.\n<search>capital</search>", "tool")
        assert turn.tool_calls[0].name == "search"
        assert session.segments[-1].text == turn.text
        await session.append("<documents>Lima</documents>")
        last = await session.generate(Sampling())
        assert (last.text, last.finish) == ("plain", "end")
        assert [t["function"]["name"] for t in server.posts[0]["tools"]] == ["search", "answer"]
        assert server.posts[0]["tools"][0]["function"]["parameters"] == {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "a short question"}},
            "required": ["query"],
        }
        assert server.posts[1]["messages"][2:] == [
            {"role": "assistant", "content": "I look.", "tool_calls": [call("search", '{"query": "capital"}')]},
            {"role": "tool", "tool_call_id": "c1", "content": "<documents>Lima</documents>"},
        ]


async def test_several_calls_in_one_turn() -> None:
    calls = [call("task", '{"text": "one"}', "a"), call("task", '{"text": "two"}', "b")]
    async with Loopback(calling(*calls), chat("ok")) as server:
        session = await engine_at(server, actions=[Action("task", "Hand out.")]).open(PROMPT)
        turn = await session.generate(Sampling())
        assert turn.text == "<task>one</task>\n<task>two</task>"
        await session.append("<result>1 and 2</result>")
        await session.generate(Sampling())
        assistant, first, second = server.posts[1]["messages"][2:]
        assert assistant["content"] is None
        assert (first["tool_call_id"], first["content"]) == ("a", "<result>1 and 2</result>")
        assert (second["tool_call_id"], second["role"]) == ("b", "tool")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"query": "q"}', "q"),
        ('{"search_query": "q"}', "q"),
        ('{"query": ["a", "b"]}', '["a", "b"]'),
        ("not json", "not json"),
        ('"bare"', "bare"),
        ("", ""),
        ("{}", ""),
        ("[" * 100_000, "[" * 100_000),
        ('{"query": "two\nlines"}', "two\nlines"),
        ('{"query": "q"}{"query": "q"}', "q"),
        ("{'query': 'q'}", "q"),
        ('{"query": "cut o', "cut o"),
        ('{"query": q}', "q"),
        ('"{\\"query\\": \\"q\\"}"', "q"),
        ("{", "{"),
    ],
    ids=lambda text: text[:30],
)
def test_arguments_as_models_write_them(arguments: str, text: str) -> None:
    assert SEARCH.argument_of(arguments) == text


async def test_calls_in_a_stream_other_tags_and_unknown_tools() -> None:
    hira = Action("search", "Search.", "query", opening="<|begin_search|>", closing="<|end_search|>")
    pieces = [
        delta(delta={"tool_calls": [{"index": 0, "id": "x", "function": {"name": "search", "arguments": '{"que'}}]}),
        delta(delta={"tool_calls": [{"index": 0, "function": {"arguments": 'ry": "q"}'}}]}),
        delta(delta={"tool_calls": [{"index": 1, "id": "y", "function": {"name": "guess", "arguments": "{}"}}]}),
        delta(None, "tool_calls"),
    ]
    async with Loopback(Answer(pieces=events(*pieces))) as server:
        session = await engine_at(server, actions=[hira], stream=True).open(PROMPT)
        turn = await session.generate(Sampling())
        assert turn.text == "<|begin_search|>q<|end_search|>"
        assert turn.problems == ("there is no function 'guess'; there are search",)
        assert [(c.id, c.arguments) for c in turn.tool_calls] == [("x", '{"query": "q"}'), ("y", "{}")]


@pytest.mark.parametrize(
    "handed_through",
    [
        'I look.\n<tool_call>\n{"name": "search", "arguments": {"query": "q"}}\n</tool_call>',
        'I look.\n```json\n{"name": "search", "arguments": {"query": "q"}}\n```\n',
        'I look.\n{"name": "search", "parameters": {"query": "q"}}',
        "I look.\n<function=search>\n<parameter=query>\nq\n</parameter>\n</function>",
    ],
    ids=["hermes", "fence", "bare", "xml"],
)
async def test_a_call_that_the_server_hands_through_as_text_is_a_call(handed_through: str) -> None:
    async with Loopback(chat(handed_through), chat("plain")) as server:
        session = await engine_at(server, actions=[SEARCH, ANSWER]).open(PROMPT)
        turn = await session.generate(Sampling())
        assert (turn.text, turn.finish, turn.problems) == ("I look.\n<search>q</search>", "tool", ())
        await session.append("<documents>Lima</documents>")
        await session.generate(Sampling())
    assert server.posts[1]["messages"][2:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": [call("search", '{"query": "q"}', "call00000")]},
        {"role": "tool", "tool_call_id": "call00000", "content": "<documents>Lima</documents>"},
    ]


async def test_what_comes_after_an_action_in_text_continues_the_message_as_it_does_without_tools() -> None:
    replies = (
        chat("I look. <a>q</a>"),
        calling(call("search", '{"query": "r"}'), text=" Again."),
        chat("So: "),
        chat("x"),
    )
    sent = []
    for options in ({}, {"protocol": "tools", "actions": [SEARCH]}):
        async with Loopback(*replies) as server:
            session = await OpenAIEngine("m", base_url=server.url, **options).open(PROMPT, mode="completion")
            for found in ("[found]", "[more]", "[last]"):
                await session.generate(Sampling(stop=("</a>",)))
                await session.append(found)
            await session.generate(Sampling())
            sent.append([post["messages"] for post in server.posts])
    tags, tools = sent
    assert tools[1] == tags[1] == [*tools[0], {"role": "assistant", "content": "I look. <a>q</a>[found]"}]
    calls = [call("search", '{"query": "r"}')]
    called = {"role": "assistant", "content": "I look. <a>q</a>[found] Again.", "tool_calls": calls}
    assert tools[2][2:] == [called, {"role": "tool", "tool_call_id": "c1", "content": "[more]"}]
    assert tools[3] == [*tools[2], {"role": "assistant", "content": "So: [last]"}]


async def test_calls_stay_calls_where_an_endpoint_refuses_to_continue_a_message() -> None:
    left = [calling(call("search", '{"query": "q"}'), text="I look."), chat("<a>r</a>"), chat("done")]

    def answer(request: Request) -> Answer:
        if request.body["messages"][-1]["role"] == "assistant":
            return Answer({"error": {"message": "the last message must be a user message"}}, 400)
        return Answer(left.pop(0))

    async with Loopback(answer) as server:
        engine = engine_at(server, actions=[SEARCH])
        session = await engine.open(PROMPT, mode="completion")
        for found in ("[found]", "[more]"):
            await session.generate(Sampling())
            await session.append(found)
        assert (await session.generate(Sampling())).text == "done"
    assert server.posts[-1]["messages"][2:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": [call("search", '{"query": "q"}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "[found]"},
        {"role": "assistant", "content": "<a>r</a>"},
        {"role": "user", "content": "[more]"},
    ]
    assert engine.continuation == "turns"


async def test_tags_written_by_the_model_work_too_and_forks_keep_calls() -> None:
    answers = (chat("<search>q"), calling(call("search", '{"query": "r"}')), chat("end"))
    async with Loopback(*answers) as server:
        session = await engine_at(server, actions=[SEARCH]).open(PROMPT)
        turn = await session.generate(Sampling(stop=("</search>",)))
        assert turn.text == "<search>q</search>"
        await session.append("docs")
        assert json.dumps(server.posts[0]["messages"]).count("docs") == 0
        await session.generate(Sampling())
        assert server.posts[1]["messages"][-1] == {"role": "user", "content": "docs"}
        twin = session.fork()
        await twin.append("more")
        await twin.generate(Sampling())
        assert server.posts[2]["messages"][-1]["role"] == "tool"


async def test_actions_by_role() -> None:
    async with Loopback(chat("x")) as server:
        engine = engine_at(server).with_actions({"executor": [SEARCH]})
        await (await engine.for_role("executor").open(PROMPT)).generate(Sampling())
        await (await engine.for_role("planner").open(PROMPT)).generate(Sampling())
        assert "tools" in server.posts[0]
        assert "tools" not in server.posts[1]
        assert engine.for_role("executor").endpoint is engine.endpoint


@pytest.mark.parametrize(
    ("bad", "problem", "sent_back"),
    [
        (call("guess", '{"x": 1}', "b"), "there is no function 'guess'; there are search, answer", '{"x": 1}'),
        (call("search", "{}", "b"), "search was called without its query", "{}"),
        (call("search", "", "b"), "search was called without its query", '{"query": ""}'),
    ],
    ids=["unknown", "no argument", "empty"],
)
async def test_a_useless_call_is_told_so_and_the_others_are_carried_out(
    bad: dict[str, Any], problem: str, sent_back: str
) -> None:
    good = call("search", '{"query": "q"}', "a")
    for calls in ([bad, good], [good, bad]):
        async with Loopback(calling(*calls), chat("x")) as server:
            session = await engine_at(server, actions=[SEARCH, ANSWER]).open(PROMPT)
            turn = await session.generate(Sampling())
            assert (turn.text, turn.problems) == ("<search>q</search>", (problem,))
            await session.fork().append("<documents>d</documents>")
            await session.append("<documents>d</documents>")
            await session.generate(Sampling())
        assistant, *told = server.posts[1]["messages"][2:]
        assert {c["id"]: c["function"]["arguments"] for c in assistant["tool_calls"]}["b"] == sent_back
        assert {m["tool_call_id"]: m["content"] for m in told} == {"a": "<documents>d</documents>", "b": problem}


async def test_a_turn_of_useless_calls_is_told_what_is_wrong_and_what_the_system_says() -> None:
    calls = [call("a b", "nonsense", "a"), call("answer", "", "b")]
    async with Loopback(calling(*calls), chat("x")) as server:
        session = await engine_at(server, actions=[SEARCH, ANSWER]).open(PROMPT)
        turn = await session.generate(Sampling())
        assert len(turn.problems) == 2
        await session.append("Search or answer.")
        await session.generate(Sampling())
    assistant, first, second = server.posts[1]["messages"][2:]
    assert [c["function"]["name"] for c in assistant["tool_calls"]] == ["a_b", "answer"]
    assert first["content"] == "there is no function 'a b'; there are search, answer\nSearch or answer."
    assert second["content"] == "answer was called without its text"


async def test_malformed_arguments_are_understood_and_sent_back_as_json() -> None:
    async with Loopback(calling(call("search", '{"query": "two\nlines"')), chat("x")) as server:
        session = await engine_at(server, actions=[SEARCH]).open(PROMPT)
        turn = await session.generate(Sampling())
        assert turn.text == "<search>two\nlines</search>"
        assert turn.problems == ("the arguments of search are no JSON object",)
        await session.append("d")
        await session.generate(Sampling())
    (sent,) = server.posts[1]["messages"][2]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"query": "two\nlines"}


async def test_calls_that_come_back_without_a_result_each_are_told_so() -> None:
    calls = [call("search", '{"query": "q"}', "a"), call("search", '{"query": "r"}', "b")]
    async with Loopback(calling(*calls), chat("x")) as server:
        session = await engine_at(server, actions=[SEARCH]).open(PROMPT)
        await session.generate(Sampling())
        await session.append("<documents>only q</documents>")
        await session.generate(Sampling())
    first, second = server.posts[1]["messages"][3:]
    assert first["content"] == "<documents>only q</documents>"
    assert "was not carried out" in second["content"]


@pytest.mark.parametrize("before", [[], ["Peru"]])
async def test_a_call_that_was_cut_is_not_carried_out(before: list[str]) -> None:
    """Half of an argument is another argument. A turn of nothing else is asked for again, with the same context."""
    arguments = [*(json.dumps({"query": query}) for query in before), '{"query": "capital of']
    calls = [{"id": a, "type": "function", "function": {"name": "search", "arguments": a}} for a in arguments]
    async with Loopback(chat(None, "length", message={"tool_calls": calls}), chat("fine")) as server:
        session = await OpenAIEngine("m", base_url=server.url, protocol="tools", actions=[SEARCH]).open(PROMPT)
        turn = await session.generate(Sampling(max_tokens=20))
        assert (turn.text, turn.finish) == ("".join(f"<search>{query}</search>" for query in before), "length")
        if before:
            await session.append("found")
        assert (await session.generate(Sampling(max_tokens=900))).text == "fine"
        sent = [m["role"] for m in server.posts[1]["messages"][2:]]
        assert sent == (["assistant", "tool"] if before else [])
