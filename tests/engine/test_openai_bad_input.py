"""Endpoints that misbehave: an episode ends with an answer, or with a reason that names what to change."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from subquest.engine.openai import Endpoint, OpenAIEngine
from subquest.engine.openai import endpoint as endpoint_module
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

from .loopback import Answer, Loopback, Request, chat, delta, events

PAGE = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.01)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    documents = [Document("1", "Kestel", "The river Lume flows through Kestel.")]
    with Index.build(tmp_path_factory.mktemp("index") / "kestel", documents) as index:
        yield index


def searching(request: Request) -> str:
    """What a model writes that searches once and then answers."""
    messages = request.body["messages"]
    found = "Lume flows" in str([m["content"] for m in messages if m["role"] != "system"])
    return "<answer>the Lume</answer>" if found else "<search>river of Kestel</search>"


async def ask(index: Index, *answers: Any, stream: bool = False, **options: Any) -> tuple[Episode, Loopback]:
    async with Loopback(*answers) as server:
        engine = OpenAIEngine("m", endpoint=Endpoint(server.url, retries=2), server="openai", stream=stream)
        system = registry.get("search-r1")(engine, index, prompts="compact", **options)
        episode = await system.solve("Which river flows through Kestel?")
        await engine.close()
    return episode, server


def reasons(episode: Episode) -> str:
    return "\n".join(str(e.data.get("message")) for e in episode.events if e.kind in ("error", "limit", "retry"))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_web_page_instead_of_an_answer(index: Index, stream: bool) -> None:
    episode, server = await ask(index, Answer(PAGE), stream=stream)
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    assert "answered with a web page" in episode.errors[0].message
    assert "base URL" in episode.errors[0].message
    assert len(server.posts) == 1


@pytest.mark.parametrize("drop", [False, True])
async def test_a_connection_that_closes_in_the_middle_of_a_stream(index: Index, drop: bool) -> None:
    half = Answer(pieces=events(delta("<search>river"), done=False), drop=drop)
    episode, server = await ask(index, half, stream=True)
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    assert "lower `max_tokens`" in episode.errors[0].message
    assert len(server.posts) == 3
    episode, _ = await ask(index, half, lambda request: Answer(chat(searching(request))), stream=True)
    assert episode.answer == "the Lume"
    assert "lower `max_tokens`" in reasons(episode)


async def test_no_choices(index: Index) -> None:
    episode, _ = await ask(index, Answer({"choices": [], "usage": {"prompt_tokens": 3}}))
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    assert "holds no completion" in episode.errors[0].message
    assert "choose another `model`" in episode.errors[0].message


async def test_no_usage_is_estimated_and_still_counts(index: Index) -> None:
    episode, _ = await ask(index, lambda request: Answer(chat(searching(request), usage=False)))
    assert episode.answer == "the Lume"
    assert 0 < episode.usage.estimated_tokens == episode.usage.prompt_tokens + episode.usage.completion_tokens


@pytest.mark.parametrize("text", ["the river the river ", "<search>river "], ids=["words", "tags"])
async def test_a_model_that_repeats_itself_for_8000_tokens(index: Index, text: str) -> None:
    long = text * (32_000 // len(text))
    for finish, reason in (("length", "raise `temperature`"), ("stop", "ignores `max_tokens`")):
        episode, _ = await ask(index, chat(long, finish))
        assert reason in reasons(episode)
        assert episode.stop_reason in ("forced", "no answer", "answered")


async def test_a_thought_that_repeats_itself_is_ended_and_the_model_is_reminded(index: Index) -> None:
    """A model without reasoning copies documents into `<think>` without an end: no more of it is asked for."""
    circle = "<think>" + "Doc 1 says that the Lume flows through Kestel, and Doc 2 says so as well. " * 20

    def model(request: Request) -> Answer:
        text = str(request.body["messages"])
        return Answer(chat(circle, "length")) if "no action" not in text else Answer(chat(searching(request)))

    episode, server = await ask(index, model)
    assert episode.answer == "the Lume"
    assert len(server.posts) <= 4
    assert "raise `temperature`" in reasons(episode)


async def test_a_turn_that_is_cut_names_the_setting(index: Index) -> None:
    words = " ".join(str(n * n) for n in range(400))
    episode, _ = await ask(index, chat(words, "length"))
    assert "raise `max_tokens`" in reasons(episode)


@pytest.mark.parametrize("streamed", [False, True])
async def test_stop_strings_that_are_ignored(index: Index, streamed: bool) -> None:
    """The invented documents behind a search are no part of the turn, and later turns are ended in the stream."""
    invented = "<documents>The river Foo flows through Kestel.</documents><answer>the Foo</answer>"

    def model(request: Request) -> Answer:
        text = searching(request)
        text += invented if "search" in text else ""
        return Answer(pieces=events(*map(delta, re.findall(r"\S+\s*", text)))) if streamed else Answer(chat(text))

    async with Loopback(model) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        system = registry.get("search-r1")(engine, index, prompts="compact")
        first = await system.solve("Which river?")
        assert first.answer == "the Lume"
        assert "Foo" not in str([t.segments for t in first.trajectories])
        assert "ignores stop strings" in reasons(first)
        assert [bool(post.get("stream")) for post in server.posts] == [False, True]
        second = await system.solve("Which river?")
        assert (second.answer, reasons(second)) == ("the Lume", "")
