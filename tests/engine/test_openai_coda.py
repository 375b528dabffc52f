"""CoDA over HTTP, end to end: by tags, by native tool calls, from the cache, and through a failing endpoint."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cache import Cache, CachedEngine
from subquest.engine import Engine
from subquest.engine.openai import OpenAIEngine
from subquest.engine.openai.engine import Protocol
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems.coda import CoDA

from .loopback import Answer, Loopback, Request, chat

SCRIPT = [
    (r"Lima</result>", "answer", "Lima"),
    (r"<documents>", "result", "Lima"),
    (r"find the capital of Peru", "search", "capital of Peru"),
    (r"What is the capital", "task", "find the capital of Peru"),
]


def model(request: Request) -> Answer:
    """Acts on the newest thing it was told, by a tool call where tools are offered, else by a tag."""
    said = request.body["messages"][-1]["content"]
    name, argument = next((name, arg) for pattern, name, arg in SCRIPT if re.search(pattern, said))
    if "tools" in request.body:
        offered = {t["function"]["name"]: t["function"]["parameters"]["required"][0] for t in request.body["tools"]}
        arguments = json.dumps({offered[name]: argument})
        call = {"id": f"c{len(said)}", "type": "function", "function": {"name": name, "arguments": arguments}}
        return Answer(chat(None, "tool_calls", message={"tool_calls": [call]}))
    return Answer(chat(f"<{name}>{argument}</{name}>"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index") / "peru.sq"
    with Index.build(folder, [Document("1", "Peru", "Lima is the capital of Peru.")]) as index:
        yield index


async def ask(engine: Engine, index: Index) -> Episode:
    return await CoDA(engine, index).solve("What is the capital of Peru?")


def turns(episode: Episode) -> list[tuple[str, str]]:
    return [(t.role, t.agent_text) for t in episode.trajectories]


async def test_tags_and_tools_lead_to_the_same_episode(index: Index) -> None:
    episodes = []
    protocols: tuple[Protocol, ...] = ("tags", "tools")
    for protocol in protocols:
        async with Loopback(model) as server:
            engine = OpenAIEngine("m", base_url=server.url, protocol=protocol)
            episodes.append(await ask(engine, index))
            assert all(("tools" in post) == (protocol == "tools") for post in server.posts)
            roles = {m["role"] for post in server.posts for m in post["messages"]}
            assert ("tool" in roles) == (protocol == "tools")
    tags, tools = episodes
    assert tags.answer == tools.answer == "Lima"
    assert turns(tags) == turns(tools)
    assert tools.usage.model_calls == 4
    assert not any(t.format_errors for e in episodes for t in e.trajectories)


async def test_a_cached_episode_asks_nothing(index: Index, tmp_path: Path) -> None:
    async with Loopback(model) as server:
        cache = Cache(tmp_path / "cache")
        engine = CachedEngine(OpenAIEngine("m", base_url=server.url), cache)
        first = await ask(engine, index)
        asked = len(server.posts)
        second = await ask(engine, index)
        assert (asked, len(server.posts)) == (4, 4)
        assert turns(first) == turns(second)
        assert (first.usage.cache_hits, second.usage.cache_hits) == (0, 4)
        assert second.usage.prompt_tokens == first.usage.prompt_tokens


async def test_retries_are_events_of_their_context(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.engine.openai.endpoint.FIRST_WAIT", 0.01)
    async with Loopback(Answer({"error": {"message": "boom"}}, 500), model) as server:
        episode = await ask(OpenAIEngine("m", base_url=server.url), index)
        assert episode.answer == "Lima"
        (retry,) = [e for e in episode.events if e.kind == "retry"]
        assert (retry.trajectory, retry.data["where"], retry.data["attempt"]) == ("1", "engine", 1)
        assert "boom" in retry.data["message"]


async def test_tools_through_the_cache(index: Index, tmp_path: Path) -> None:
    async with Loopback(model) as server:
        engine = CachedEngine(OpenAIEngine("m", base_url=server.url, protocol="tools"), Cache(tmp_path / "cache"))
        first, second = await ask(engine, index), await ask(engine, index)
        assert (len(server.posts), second.usage.cache_hits) == (4, 4)
        assert turns(first) == turns(second)
        assert all("tools" in post for post in server.posts)


async def test_a_dead_endpoint_ends_the_episode_with_its_reason(index: Index) -> None:
    async with Loopback(Answer({"error": {"message": "bad key"}}, 401)) as server:
        episode = await ask(OpenAIEngine("m", base_url=server.url), index)
        assert episode.answer == ""
        assert "OPENAI_API_KEY" in episode.errors[0].message
