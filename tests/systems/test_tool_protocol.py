"""Every system by native tool calls, against a server that refuses what an OpenAI-compatible one would refuse."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

from subquest.cache import Cache, CachedEngine
from subquest.engine.openai import OpenAIEngine
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

from ..engine.loopback import Answer, Loopback, Request, chat
from ..runtime.test_window import Library

QUESTION = "Which river flows through Kestel?"
NO_ACTION = {"no action", "no query", "no <plan>", "no <filter>", "no <answer>"}
SEARCHES = (*("coda", "decor", "apex", "plan-and-solve", "react", "search-o1", "search-r1", "autorefine"),)
SEARCHES += (*("research", "recall", "r1-searcher", "zerosearch", "simpledeepsearcher", "stepsearch", "o2-searcher"),)
SEARCHES += ("search-agent", "truncation", "hira", "webthinker", "react-tools", "plan-experts")


class Server:
    """A model that acts by functions alone; `problems` collects what is wrong with the requests."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.called: list[str] = []
        self._ids = itertools.count()

    def __call__(self, request: Request) -> Answer:
        body = request.body
        self._check(body["messages"], body.get("tools", []))
        tools = {t["function"]["name"]: t["function"]["parameters"]["required"][0] for t in body.get("tools", [])}
        name, argument = self._choose(tools, body["messages"])
        if not name:
            return Answer(chat(argument))
        self.called.append(name)
        arguments = json.dumps({tools[name]: argument})
        call = {"id": f"c{next(self._ids)}", "type": "function", "function": {"name": name, "arguments": arguments}}
        return Answer(chat(None, "tool_calls", message={"tool_calls": [call]}))

    def _choose(self, tools: dict[str, str], messages: list[dict[str, Any]]) -> tuple[str, str]:
        """The action of a reader of these messages: plan, hand out, find out, then answer."""
        said = str(messages[-1]["content"])
        if "one word" in said or "reply: retrieve" in said:
            return "decide", "no" if "yes" in said else "retrieve"
        known = any("Lume" in str(m["content"]) for m in messages) or (
            "look" in tools and messages[-1]["role"] == "tool"
        )
        finding = {
            "call_subtask": QUESTION,
            "task": QUESTION,
            "search": "river Kestel",
            "run_python": "print('Lume')",
            "look": "data: map.png",
        }
        telling = {"plan": QUESTION, "filter": "The Lume flows.", "result": "the Lume", "answer": "the Lume"}
        telling["finish"] = "the Lume"
        if known and tools.keys() == {"search"}:
            return "search", "None"
        for name, argument in (telling if known else finding | telling).items():
            if name in tools:
                return name, argument
        return "", _free(said)

    def _check(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        names = [t["function"]["name"] for t in tools]
        if len(set(names)) < len(names) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", n) for n in names):
            self.problems.append(f"names {names}")
        if any(t["type"] != "function" or not t["function"]["description"] for t in tools):
            self.problems.append("a tool without its form")
        open_calls: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                    self.problems.append("a tool message that answers no call")
            elif open_calls:
                self.problems.append("a call without an answer")
                open_calls = []
            if message["role"] == "assistant":
                open_calls = [c["id"] for c in message.get("tool_calls", [])]
                if message["content"] is None and not open_calls:
                    self.problems.append("an assistant message without content")
        if open_calls:
            self.problems.append("a call without an answer")


class Careless(Server):
    """Calls what does not exist and forgets arguments beside its calls, and writes broken JSON."""

    def __call__(self, request: Request) -> Answer:
        answer = super().__call__(request)
        calls = answer.body["choices"][0]["message"].get("tool_calls", [])
        if calls:
            function = calls[0]["function"]
            function["arguments"] = function["arguments"].removesuffix('"}')
            empty = {"name": function["name"], "arguments": ""}
            unknown = {"name": "browser.open", "arguments": "{}"}
            calls += [{"id": f"d{next(self._ids)}", "type": "function", "function": f} for f in (empty, unknown)]
            calls.reverse()
        return answer

    def _check(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        """As strict as servers whose chat templates read the calls."""
        super()._check(messages, tools)
        for call in (c["function"] for m in messages for c in m.get("tool_calls", [])):
            if not isinstance(json.loads(call["arguments"]), dict) or not re.fullmatch(r"[\w-]+", call["name"]):
                self.problems.append(f"a call that a template cannot read: {call}")


class Textual(Server):
    """A server that does not recognise the calls of its model and hands them through as text."""

    def __call__(self, request: Request) -> Answer:
        answer = super().__call__(request)
        message = answer.body["choices"][0]["message"]
        for call in message.pop("tool_calls", []):
            function = call["function"] | {"arguments": json.loads(call["function"]["arguments"])}
            message["content"] = f"```json\n{json.dumps(function, indent=2)}\n```"
        return answer


def _free(said: str) -> str:
    """What roles without functions write: JSON for coordinator and planners, prose for the rest."""
    chosen = {"selected_agent_name": "deep", "query_plan": ["river Kestel"], "plan": [QUESTION]}
    final = {"conclusion": {"reasoning_process": "", "final_conclusion": "the Lume"}, "memory": {}}
    return f"{json.dumps(chosen | final)} So the answer is the Lume." if "Lume" not in said[-40:] else "the Lume"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    documents = [Document("1", "Kestel", "Kestel is a town. The river Lume flows through Kestel.")]
    with Index.build(tmp_path_factory.mktemp("index") / "kestel", documents) as index:
        yield index


async def ask(
    name: str, index: Index, model: type[Server] = Server, **settings: Any
) -> tuple[Episode, Server, Loopback]:
    server = model()
    async with Loopback(server) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools")
        episode = await registry.get(name)(engine, index, **settings).solve(QUESTION)
        await engine.close()
    return episode, server, loopback


@pytest.mark.parametrize("name", registry.names())
async def test_every_system_acts_by_calls(name: str, index: Index) -> None:
    episode, server, loopback = await ask(name, index)
    assert server.problems == []
    assert "Lume" in episode.answer
    acting = {r for r, table in registry.get(name)(OpenAIEngine("m", base_url=loopback.url)).actions().items() if table}
    assert {t.role for t in episode.trajectories} & acting
    assert not NO_ACTION & {e for t in episode.trajectories if t.role in acting for e in t.format_errors}
    assert (episode.usage.searches > 0) == (name in SEARCHES or name in ("rag", "ircot"))
    if name in SEARCHES:
        assert "search" in server.called
    told = [m["content"] for post in loopback.posts if "tools" in post for m in post["messages"][:1]]
    assert all("calling the functions" in text for text in told)


@pytest.mark.parametrize("name", ["coda", "decor", "apex", "hira", "react", "search-r1", "react-tools", "webthinker"])
async def test_broken_calls_do_not_keep_a_system_from_its_answer(name: str, index: Index) -> None:
    episode, server, _ = await ask(name, index, Careless)
    assert server.problems == []
    assert "Lume" in episode.answer
    assert episode.usage.searches > 0
    assert not NO_ACTION & {e for t in episode.trajectories for e in t.format_errors}
    told = {e.data["message"] for e in episode.events if e.kind == "error" and e.data["where"] == "format"}
    assert any("there is no function 'browser.open'" in text for text in told)
    assert any("was called without its" in text for text in told)
    assert any("are no JSON object" in text for text in told)


@pytest.mark.parametrize("name", ["coda", "decor", "apex", "hira", "react", "search-r1", "react-tools", "webthinker"])
async def test_calls_that_a_server_hands_through_as_text_are_carried_out(name: str, index: Index) -> None:
    episode, server, _ = await ask(name, index, Textual)
    assert server.problems == []
    assert "Lume" in episode.answer
    assert (episode.stop_reason, episode.usage.searches > 0) == ("answered", True)
    assert not NO_ACTION & {e for t in episode.trajectories for e in t.format_errors}


SPOKEN = {
    "react": (
        "Thought: I look.\nAction: Search[river Kestel]\nObservation:",
        " So it is the Lume.\nAction: Finish[the Lume]",
    ),
    "search-r1": ("<search>river Kestel</search>", "<answer>the Lume</answer>"),
    "hira": (f"I ask.\n<|begin_call_subtask|>{QUESTION}<|end_call_subtask|>", "So: \\boxed{the Lume}"),
}
"""What a model writes in systems that work in completion mode: first, and after what came back."""


@pytest.mark.parametrize("name", SPOKEN)
async def test_a_model_that_never_calls_gets_on_with_tools_as_it_does_without(name: str, index: Index) -> None:
    """Its contexts differ by nothing but the line about functions, so one protocol is as good as the other."""
    first, then = SPOKEN[name]

    def model(request: Request) -> Answer:
        messages = request.body["messages"]
        if name == "hira" and not messages[0]["content"].startswith("You plan how"):
            return Answer(chat(_free(str(messages[-1]["content"]))))
        return Answer(chat(then if first in str(messages[-1]["content"]) else first))

    asked = []
    for protocol in ("tags", "tools"):
        async with Loopback(model) as loopback:
            engine = OpenAIEngine("m", base_url=loopback.url, protocol=protocol)  # type: ignore[arg-type]
            episode = await registry.get(name)(engine, index).solve(QUESTION)
            await engine.close()
        assert (episode.answer, episode.stop_reason) == ("the Lume", "answered")
        asked.append([post["messages"][1:] for post in loopback.posts])
    assert asked[0] == asked[1]


@pytest.mark.parametrize("name", ["coda", "decor", "apex", "hira", "react", "search-r1", "react-tools", "webthinker"])
@pytest.mark.parametrize("arguments", ['{"query": "river", "task": "river", "steps": "river", "word": "no"}', "", "{}"])
async def test_the_same_call_for_ever_ends_with_a_reason(name: str, arguments: str, index: Index) -> None:
    def model(request: Request) -> Answer:
        tools = [t["function"]["name"] for t in request.body.get("tools", [])]
        if not tools:
            return Answer(chat(_free("")))
        call = {"id": "c", "type": "function", "function": {"name": tools[0], "arguments": arguments}}
        return Answer(chat(None, "tool_calls", message={"tool_calls": [call]}))

    async with Loopback(model) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools")
        episode = await registry.get(name)(engine, index).solve(QUESTION)
        await engine.close()
    assert episode.stop_reason in ("forced", "no answer", "answered")
    assert episode.answer or any(e.kind in ("limit", "error") for e in episode.events)


class Talker(Server):
    """Says its answer in plain words, and calls again only if it is told to call a function."""

    def __call__(self, request: Request) -> Answer:
        *_, last = request.body["messages"]
        answer = super().__call__(request)
        calls = answer.body["choices"][0]["message"].get("tool_calls", [])
        named = f"call one of the functions: {', '.join(t['function']['name'] for t in request.body.get('tools', []))}."
        if any(c["function"]["name"] in ("answer", "finish") for c in calls) and named not in str(last["content"]):
            return Answer(chat("It is the river Lume."))
        return answer


@pytest.mark.parametrize("name", ["react", "search-r1", "hira", "react-tools"])
async def test_a_model_that_talks_after_its_calls_is_told_to_call(name: str, index: Index) -> None:
    server = Talker()
    async with Loopback(server) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools", continuation="turns")
        episode = await registry.get(name)(engine, index).solve(QUESTION)
        await engine.close()
    assert server.problems == []
    assert (episode.answer, episode.stop_reason) == ("the Lume", "answered")


@pytest.mark.parametrize("name", ["react", "search-r1", "autorefine", "coda", "hira"])
async def test_an_argument_of_two_lines_is_read_whole(name: str, index: Index) -> None:
    class TwoLines(Server):
        def __call__(self, request: Request) -> Answer:
            answer = super().__call__(request)
            for call in answer.body["choices"][0]["message"].get("tool_calls", []):
                arguments = json.loads(call["function"]["arguments"])
                spread = {key: text.replace(" ", "\n", 1) for key, text in arguments.items()}
                call["function"]["arguments"] = json.dumps(spread)
            return answer

    episode, _, _ = await ask(name, index, TwoLines)
    assert (episode.answer.split(), episode.stop_reason) == (["the", "Lume"], "answered")
    assert not NO_ACTION & {e for t in episode.trajectories for e in t.format_errors}


async def test_apex_decides_searches_and_answers_by_calls(index: Index) -> None:
    _, server, _ = await ask("apex", index)
    assert server.called == ["plan", "decide", "search", "decide", "answer", "answer"]


async def test_hira_hands_out_and_its_expert_searches_by_calls(index: Index) -> None:
    episode, server, _ = await ask("hira", index, experts="deep")
    assert server.called[:2] == ["call_subtask", "search"]
    assert {"planner", "deep", "explorer"} <= {t.role for t in episode.trajectories}
    written = next(t for t in episode.trajectories if t.role == "planner").agent_text
    assert written.startswith("<|begin_call_subtask|>")
    assert written.endswith("\\boxed{the Lume}")


async def test_two_calls_of_one_turn_get_a_result_each(index: Index) -> None:
    calls = [
        {"id": i, "type": "function", "function": {"name": "task", "arguments": json.dumps({"task": t})}}
        for i, t in (("a", "one"), ("b", "two"))
    ]
    replies = [
        chat(None, "tool_calls", message={"tool_calls": calls}),
        chat("<result>first</result>"),
        chat("<result>second</result>"),
        chat("<answer>done</answer>"),
    ]
    async with Loopback(*replies) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools")
        await registry.get("coda")(engine, index).solve(QUESTION)
        await engine.close()
        results = [m for m in loopback.posts[-1]["messages"] if m["role"] == "tool"]
    assert {(m["tool_call_id"], m["content"]) for m in results} in (
        {("a", "<result>first</result>"), ("b", "<result>second</result>")},
        {("a", "<result>second</result>"), ("b", "<result>first</result>")},
    )


async def test_sub_tasks_of_hira_that_one_turn_calls_together_come_back_in_order(index: Index) -> None:
    """The repeated one is refused, and has its place among the results all the same."""
    tasks = ("one", "two", "one")
    calls = [
        {"id": i, "type": "function", "function": {"name": "call_subtask", "arguments": json.dumps({"task": t})}}
        for i, t in zip("abc", tasks, strict=True)
    ]
    final = chat(json.dumps({"conclusion": {"final_conclusion": "found"}}))

    def reply(request: Any) -> Any:
        said = " ".join(str(m.get("content")) for m in request.body["messages"])
        if "tools" not in request.body:
            return Answer(chat('{"query_plan": []}') if "query_plan" in said and "Documents:" not in said else final)
        done = any(m["role"] == "tool" for m in request.body["messages"])
        return Answer(chat("\\boxed{done}") if done else chat(None, "tool_calls", message={"tool_calls": calls}))

    async with Loopback(reply) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools")
        episode = await registry.get("hira")(engine, index, experts="search", memory=False).solve(QUESTION)
        await engine.close()
        results = [m["content"] for m in loopback.posts[-1]["messages"] if m["role"] == "tool"]
    assert ["already carried out" in text for text in results] == [False, False, True]
    assert [t.task for t in episode.by_role("search")] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "tool", "settings", "limit"),
    [
        ("hira", "call_subtask", {"experts": "search", "memory": False, "subtasks": 1}, "1 sub-tasks"),
        ("react-tools", "search", {"actions": 1}, "1 action of agent"),
    ],
)
async def test_calls_of_one_turn_beyond_a_limit_are_told(
    index: Index, name: str, tool: str, settings: dict[str, Any], limit: str
) -> None:
    argument = "task" if tool == "call_subtask" else "query"
    calls = [
        {"id": i, "type": "function", "function": {"name": tool, "arguments": json.dumps({argument: t})}}
        for i, t in (("a", "one"), ("b", "two"))
    ]

    def reply(request: Any) -> Any:
        done = "tools" not in request.body or any(m["role"] == "tool" for m in request.body["messages"])
        return Answer(chat('{"query_plan": []} \\boxed{x}') if done else chat(None, message={"tool_calls": calls}))

    async with Loopback(reply) as loopback:
        engine = OpenAIEngine("m", base_url=loopback.url, protocol="tools")
        episode = await registry.get(name)(engine, index, **settings).solve(QUESTION)
        await engine.close()
    assert (limit, "two") in [(e.data["what"], e.data["message"]) for e in episode.events if e.kind == "limit"]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("options", [{"protocol": "tools"}, {"continuation": "turns"}], ids=str)
async def test_a_full_window_is_opened_again_in_turns_where_no_message_can_be_continued(
    options: dict[str, Any], cached: bool, tmp_path: Path
) -> None:
    """Search-R1 speaks in completion mode; an endpoint that cannot continue a message must not get one to continue."""
    asked: list[list[dict[str, Any]]] = []

    def answer(request: Request) -> Answer:
        asked.append(request.body["messages"])
        following = max([-1, *map(int, re.findall(r"query(\d)", json.dumps(asked[-1])))]) + 1
        if following == 4:
            return Answer(chat("<answer>x</answer>", usage=False))
        if "tools" not in request.body:
            return Answer(chat(f"<search>query{following}</search>", usage=False))
        function = {"name": "search", "arguments": json.dumps({"query": f"query{following}"})}
        call = {"id": f"c{following}", "type": "function", "function": function}
        return Answer(chat(None, "tool_calls", usage=False, message={"tool_calls": [call]}))

    async with Loopback(answer) as loopback:
        engine: Any = OpenAIEngine("m", base_url=loopback.url, context_window=2500, **options)
        engine = CachedEngine(engine, Cache(tmp_path / "cache.sqlite")) if cached else engine
        episode = await registry.get("search-r1")(engine, Library(), k=5, turns=6).solve("Who?")
        await engine.close()
    assert (episode.answer, episode.stop_reason) == ("x", "answered")
    assert any(t.part_of for t in episode.trajectories)
    assert "assistant" not in {messages[-1]["role"] for messages in asked}
    opened_again = next(m for m in asked if len(m) > 3 and "(left out" in str(m))
    assert [m["role"] for m in opened_again[-2:]] == ["assistant", "user"]
