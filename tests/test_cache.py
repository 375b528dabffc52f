import asyncio
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest.cache import Cache, CachedEngine, CachedSearch
from subquest.engine import Engine, Message, Sampling, Session
from subquest.engine.openai import Action, OpenAIEngine
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import DataError, EngineRefused, SearchError, UsageError
from subquest.record import Document, Hit
from subquest.retrieval.search import Search

from .engine.loopback import Answer, Loopback, chat
from .engine.test_openai_tokenizer import REPLIES, VLLM, WHOLE, ByteTokenizer, converse
from .engine.test_openai_tokenizer import model as vllm

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with closing(Cache(tmp_path / "deep" / "cache.sqlite")) as cache:
        yield cache


def test_values_come_back_by_kind_and_key(cache: Cache) -> None:
    cache.put("page", {"url": "a", "n": 1}, {"text": "é" * 1000})
    assert cache.get("page", {"n": 1, "url": "a"}) == {"text": "é" * 1000}
    assert cache.get("search", {"n": 1, "url": "a"}) is None
    assert cache.get("page", {"n": 2, "url": "a"}) is None
    assert cache.get("page", {"n": 1, "url": "a"}, max_age=-1) is None
    cache.put("page", {"url": "a", "n": 1}, "new")
    again = Cache(cache.path)
    assert again.get("page", {"url": "a", "n": 1}) == "new"
    assert (again.stats().entries, again.stats().hits, cache.stats().misses) == (1, 1, 3)
    cache.put("search", "x", 1)
    cache.clear("page")
    assert (again.get("page", {"url": "a", "n": 1}), again.get("search", "x")) == (None, 1)


def test_the_oldest_go_when_it_is_full(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", max_bytes=200_000)
    blob = [os.urandom(4_000).hex() for _ in range(100)]
    for i, value in enumerate(blob):
        cache.put("page", i, value)
        assert cache.stats().bytes <= 200_000
    held = [i for i in range(100) if cache.get("page", i) is not None]
    assert held == list(range(100 - len(held), 100))
    assert 30 <= len(held) <= 55
    cache.put("page", "big", os.urandom(300_000).hex())
    assert cache.get("page", "big") is None
    cache.close()
    assert sum(f.stat().st_size for f in tmp_path.iterdir()) < 600_000
    with pytest.raises(UsageError, match="at least 1"):
        Cache(tmp_path / "d", max_bytes=0)


def test_use_keeps_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.cache.cache_file.TOUCH", 0.0)
    cache = Cache(tmp_path / "c", max_bytes=50_000)
    for i in range(40):
        cache.put("page", i, os.urandom(2_000).hex())
        assert cache.get("page", 0) is not None


def _fill(path: Path, worker: int) -> None:
    cache = Cache(path)
    for i in range(60):
        cache.put("page", [worker, i], "x" * i)
        cache.put("page", "shared", worker)
        assert cache.get("page", [worker, i]) == "x" * i


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    path = tmp_path / "c"
    spawn = multiprocessing.get_context("spawn")
    parts: list[Any] = [spawn.Process(target=_fill, args=(path, n)) for n in range(2)]
    parts += [threading.Thread(target=_fill, args=(path, n)) for n in range(2, 5)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    assert [p.exitcode for p in parts[:2]] == [0, 0]
    cache = Cache(path)
    assert cache.stats().entries == 5 * 60 + 1
    assert all(cache.get("page", [n, i]) == "x" * i for n in range(5) for i in range(60))


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("my notes, longer than a header " * 200)
    with pytest.raises(DataError, match="is not a cache"):
        Cache(text)
    assert text.read_text().startswith("my notes")
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE mine (x)")
    before = other.read_bytes()
    with pytest.raises(DataError, match="another kind of database"):
        Cache(other)
    assert other.read_bytes() == before
    with pytest.raises(UsageError, match="cannot open the cache"):
        Cache(tmp_path)


async def test_calls_are_made_once_and_failures_forgotten(cache: Cache) -> None:
    made = 0

    async def fetch() -> str:
        nonlocal made
        made += 1
        if made == 1:
            raise SearchError("down")
        return "page"

    with pytest.raises(SearchError):
        await cache.call("page", "u", fetch)
    assert [await cache.call("page", "u", fetch) for _ in range(3)] == ["page"] * 3
    assert made == 2


def engine_at(server: Loopback, cache: Cache, sampled: bool = False, **options: Any) -> CachedEngine:
    return CachedEngine(OpenAIEngine("m", base_url=server.url, **options), cache, sampled=sampled)


@pytest.mark.parametrize("exact", [False, True])
async def test_a_cached_conversation_is_the_same_to_the_token(cache: Cache, exact: bool) -> None:
    options: dict[str, Any] = {"tokenizer": ByteTokenizer()} if exact else {}
    async with Loopback(vllm(*REPLIES), models=VLLM) as server:
        engine = engine_at(server, cache, **options)
        assert isinstance(engine, Engine)
        first = await converse(await engine.open(PROMPT))
        session = await engine.open(PROMPT)
        assert isinstance(session, Session)
        second = await converse(session)
        assert len(server.posts) == 3
        assert second.segments == first.segments
        assert list(second.token_ids) == WHOLE
        assert second.logprobs == first.logprobs


async def test_hits_show_and_a_miss_after_hits_sees_the_whole_context(cache: Cache) -> None:
    async with Loopback(chat("<a>1</a>"), chat("<b>2</b>"), chat("<c>3</c>")) as server:
        for last in ("same", "other"):
            engine = engine_at(server, cache)
            session = await engine.open(PROMPT)
            first = await session.generate(Sampling(seed=len(last)))
            await session.append("env")
            twin = session.fork()
            await session.append(last)
            second = await session.generate(Sampling())
            await twin.close()
        assert (first.text, first.cached, first.usage.cache_hits) == ("<a>1</a>", True, 1)
        assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.cost) == (11, 7, 0.0)
        assert (second.text, second.cached, second.usage.cache_hits) == ("<c>3</c>", False, 0)
        assert [m["content"] for m in server.posts[2]["messages"]] == ["Plan.", "Who?", "<a>1</a>", "env", "other"]
        assert [s.text for s in session.segments] == ["Plan.", "Who?", "<a>1</a>", "env", "other", "<c>3</c>"]


async def test_everything_that_matters_is_in_the_key(cache: Cache) -> None:
    plain = Sampling(temperature=0.7, seed=1)
    samplings = [
        plain,
        replace(plain, seed=2),
        replace(plain, temperature=0.8),
        replace(plain, top_p=0.9),
        replace(plain, max_tokens=9),
        replace(plain, stop=("x",)),
        replace(plain, logprobs=True),
    ]
    variants: list[dict[str, Any]] = [{}, {"extra": {"a": 1}}, {"protocol": "tools", "actions": [Action("s", "S.")]}]
    async with Loopback(chat("t")) as server, Loopback(chat("t")) as elsewhere:
        asked = 0
        for again in range(2):
            for sampling in samplings:
                await (await engine_at(server, cache).open(PROMPT)).generate(sampling)
            for options in variants[1:]:
                await (await engine_at(server, cache, **options).open(PROMPT)).generate(plain)
            await (await CachedEngine(OpenAIEngine("n", base_url=server.url), cache).open(PROMPT)).generate(plain)
            await (await engine_at(server, cache).open(PROMPT, mode="completion")).generate(plain)
            await (await engine_at(server, cache).open(PROMPT[1:])).generate(plain)
            await (await engine_at(elsewhere, cache).open(PROMPT)).generate(plain)
            if not again:
                asked = len(server.posts)
        assert asked == len(server.posts) == len(samplings) + 5
        assert len(elsewhere.posts) == 1


async def test_random_turns_and_failures_are_not_cached(cache: Cache) -> None:
    async with Loopback(chat("t")) as server:
        random = Sampling(temperature=1.0)
        for _ in range(3):
            turn = await (await engine_at(server, cache).open(PROMPT)).generate(random)
            assert not turn.cached
        assert len(server.posts) == 3
        for _ in range(3):
            await (await engine_at(server, cache, sampled=True).open(PROMPT)).generate(random)
        assert len(server.posts) == 4
    async with Loopback(Answer({"error": "no"}, 403), chat("fine")) as server:
        session = await engine_at(server, cache).open(PROMPT)
        with pytest.raises(EngineRefused):
            await session.generate(Sampling())
        assert (await session.generate(Sampling())).text == "fine"


async def test_retries_are_told_through_the_cache(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.engine.openai.endpoint.FIRST_WAIT", 0.01)
    async with Loopback(Answer({}, 500), chat("fine")) as server:
        session: Any = await engine_at(server, cache).open(PROMPT)
        told: list[Any] = []
        session.on_retry = told.append
        await session.generate(Sampling())
        assert len(told) == 1


async def test_engines_without_identity_run_uncached(cache: Cache) -> None:
    engine = CachedEngine(ScriptedEngine({"planner": ["a", "b"]}), cache).for_role("planner")
    for expected in ("a", "b"):
        assert (await (await engine.open(PROMPT)).generate(Sampling())).text == expected
    assert cache.stats().entries == 0


async def test_actions_pass_through(cache: Cache) -> None:
    async with Loopback(chat("t")) as server:
        engine = engine_at(server, cache, protocol="tools").with_actions({"executor": [Action("search", "S.")]})
        for role in ("executor", "planner", "executor"):
            await (await engine.for_role(role).open(PROMPT)).generate(Sampling())
        assert ["tools" in post for post in server.posts] == [True, False]
    scripted = CachedEngine(ScriptedEngine(["a"]), cache)
    assert scripted.with_actions([]) is scripted


class Corpus:
    """A search that counts what it is asked."""

    name = "corpus"

    def __init__(self, version: int | None = 1) -> None:
        self.asked: list[list[str]] = []
        if version is not None:
            self.identity = {"corpus": "c", "version": version}

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.asked.append(list(queries))
        if "fail" in queries:
            raise SearchError("down")
        return [[Hit(Document(f"{q}{i}", "T", "text", {"page": i}), 1.0 / (i + 1)) for i in range(k)] for q in queries]


async def test_searches_send_only_what_is_new(cache: Cache) -> None:
    corpus = Corpus()
    search = CachedSearch(corpus, cache)
    assert isinstance(search, Search)
    first = await search.retrieve(["a", "b"], 2)
    mixed = await search.retrieve(["c", "a", "b"], 2)
    assert corpus.asked == [["a", "b"], ["c"]]
    assert mixed[1:] == first
    assert mixed == await Corpus().retrieve(["c", "a", "b"], 2)
    assert [getattr(hits, "cached", None) for hits in mixed] == [False, True, True]
    await search.retrieve(["a"], 3)
    await CachedSearch(Corpus(2), cache).retrieve(["a"], 2)
    assert cache.stats().entries == 5
    with pytest.raises(SearchError):
        await search.retrieve(["fail"], 2)
    assert cache.stats().entries == 5
    stale = CachedSearch(corpus, cache, max_age=-1)
    await stale.retrieve(["a"], 2)
    assert corpus.asked[-1] == ["a"]


async def test_searches_without_identity_run_uncached(cache: Cache) -> None:
    corpus = Corpus(None)
    await CachedSearch(corpus, cache).retrieve(["a"], 1)
    await CachedSearch(corpus, cache).retrieve(["a"], 1)
    assert len(corpus.asked) == 2


async def test_many_sessions_at_once(cache: Cache) -> None:
    async with Loopback(lambda request: Answer(chat(request.body["messages"][-1]["content"].upper()))) as server:
        engine = engine_at(server, cache)

        async def ask(n: int) -> str:
            session = await engine.open([Message("user", f"q{n % 20}")])
            return (await session.generate(Sampling())).text

        await asyncio.gather(*(ask(n) for n in range(20)))
        asked = len(server.posts)
        texts = await asyncio.gather(*(ask(n) for n in range(100)))
        assert texts == [f"Q{n % 20}" for n in range(100)]
        assert len(server.posts) == asked


def test_a_damaged_cache_is_passed_over(cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    """What only speeds a run up must not end it."""
    for n in range(300):
        cache.put("page", n, {"text": os.urandom(300).hex()})
    cache._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    cache.close()
    content = bytearray(cache.path.read_bytes())
    content[8192:-8192] = os.urandom(len(content) - 16384)
    cache.path.write_bytes(content)
    again = Cache(cache.path)
    assert [again.get("page", n) for n in range(300)].count(None) > 200
    for n in range(20):
        again.put("page", -n, "new")
    assert len([r for r in caplog.records if "cannot be used" in r.message]) == 1


def test_a_value_that_was_changed_counts_as_missing(cache: Cache) -> None:
    cache.put("page", 1, "text")
    cache._open().execute("UPDATE entries SET value = x'0102'")
    assert cache.get("page", 1) is None
    cache.put("page", 1, "text")
    assert cache.get("page", 1) == "text"


def test_a_full_disk_costs_what_it_cannot_hold_and_no_more(cache: Cache) -> None:
    cache.put("page", 1, "small")
    pages = cache._open().execute("PRAGMA page_count").fetchone()[0]
    cache._open().execute(f"PRAGMA max_page_count = {pages}")
    cache.put("page", 2, os.urandom(100_000).hex())
    assert cache.get("page", 2) is None
    assert cache.get("page", 1) == "small"
