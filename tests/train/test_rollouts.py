"""The search of a training, and its figures."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineRefused, SearchError
from subquest.record import Document, Hit, Question, Usage
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.systems.coda import CoDA
from subquest.train import rollouts
from subquest.train.rollouts import MemoisedSearch, episode_figures
from tests.systems.fakes import FakeSearch

from .episodes import rollouts_of


class Counting:
    """Answers with the query as the document, and keeps what it was asked."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], int]] = []
        self.fails = False

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.asked.append((tuple(queries), k))
        if self.fails:
            raise SearchError("down")
        return [[Hit(Document(f"{query}-{n}", query, ""), 1.0) for n in range(k)] for query in queries]


def ids(found: list[list[Hit]]) -> list[list[str]]:
    return [[hit.document.id for hit in hits] for hits in found]


async def test_a_query_is_sent_once() -> None:
    counting = Counting()
    search = MemoisedSearch(counting)
    assert search.name == "counting"
    first = await search.retrieve(["a", "b"], 2)
    assert ids(first) == [["a-0", "a-1"], ["b-0", "b-1"]]
    first[0].clear()  # what a caller does to its list is its own business
    assert ids(await search.retrieve(["b", "c", "a", "c"], 2)) == [
        ["b-0", "b-1"], ["c-0", "c-1"], ["a-0", "a-1"], ["c-0", "c-1"],
    ]  # fmt: skip
    assert ids(await search.retrieve(["a"], 1)) == [["a-0"]], "another k is another question"
    assert counting.asked == [(("a", "b"), 2), (("c",), 2), (("a",), 1)]


def test_tables_are_listed_once(tmp_path: Path) -> None:
    assert MemoisedSearch(Counting()).tables is None
    (tmp_path / "staff.csv").write_text("Name,Site\nAda,Kelm\n")
    with Index.build(tmp_path / "docs.sq", []) as index:
        ingest(index, [tmp_path / "staff.csv"])
        search = MemoisedSearch(index)
        assert search.tables is not None
        assert search.tables.all() is search.tables.all()
        assert search.tables.query("SELECT name FROM staff").rows == (("Ada",),)


async def test_what_is_asked_meanwhile_goes_out_together() -> None:
    counting = Counting()
    search = MemoisedSearch(counting)
    texts = ["a", "b", "a", "c", "a"]
    found = await asyncio.gather(*(search.retrieve([text], 1) for text in texts), search.retrieve(["b"], 2))
    assert [ids(one)[0][0] for one in found] == ["a-0", "b-0", "a-0", "c-0", "a-0", "b-0"]
    assert counting.asked == [(("a", "b", "c"), 1), (("b",), 2)], "one call at a time, each query once"


async def test_one_query_that_fails_is_nobody_elses_failure() -> None:
    class Picky(Counting):
        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            if "bad" in queries:
                raise SearchError("bad query")
            return await super().retrieve(queries, k)

    search = MemoisedSearch(Picky())
    good, bad, other = await asyncio.gather(
        *(search.retrieve([text], 1) for text in ("good", "bad", "other")), return_exceptions=True
    )
    assert isinstance(bad, SearchError)
    assert not isinstance(good, BaseException)
    assert not isinstance(other, BaseException)
    assert ids(good) + ids(other) == [["good-0"], ["other-0"]]


async def test_a_search_that_forgets_a_query_leaves_nobody_waiting() -> None:
    class Short(Counting):
        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return (await super().retrieve(queries, k))[1:]

    async with asyncio.timeout(60):
        with pytest.raises(ValueError, match="zip"):
            await MemoisedSearch(Short()).retrieve(["a", "b"], 1)


async def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    search = MemoisedSearch(Counting())
    impatient = asyncio.create_task(search.retrieve(["a"], 1))
    patient = asyncio.create_task(search.retrieve(["a"], 1))
    await asyncio.sleep(0)
    impatient.cancel()
    assert ids(await patient) == [["a-0"]]
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_a_failed_search_is_tried_again() -> None:
    counting = Counting()
    search = MemoisedSearch(counting)
    counting.fails = True
    with pytest.raises(SearchError):
        await search.retrieve(["a"], 1)
    counting.fails = False
    assert ids(await search.retrieve(["a"], 1)) == [["a-0"]]


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "REMEMBERED", 3)
    counting = Counting()
    search = MemoisedSearch(counting)
    for query in "abcda":
        assert ids(await search.retrieve([query], 1)) == [[f"{query}-0"]]
    assert ids(await search.retrieve(["v", "w", "x", "y", "z"], 1)) == [["v-0"], ["w-0"], ["x-0"], ["y-0"], ["z-0"]]
    assert [asked[0] for asked, _ in counting.asked] == ["a", "b", "c", "d", "a", "v"]


def test_what_failed_is_no_forced_answer() -> None:
    question = Question("q", "Which?", ("a",))
    forced = ScriptedEngine({"planner": ["<task>b</task>", "<answer>a</answer>"], "executor": ["<result>a</result>"]})
    failed = ScriptedEngine({"planner": [EngineRefused("401")]})
    systems = [CoDA(engine, FakeSearch(), turns=1) for engine in (forced, failed)]
    figures = episode_figures([asyncio.run(system.solve(question)) for system in systems])
    assert (figures["forced"], figures["failed"]) == (0.5, 0.5)


def test_prompt_tokens_that_were_in_the_cache_are_not_counted_as_computed() -> None:
    spent = Usage(prompt_tokens=50, cached_tokens=30, completion_tokens=4)
    figures = episode_figures([replace(rollouts_of(name, {"planner": 2}), usage=spent) for name in "ab"])
    assert (figures["prefilled"], figures["completion_tokens"]) == (40, 8)
    assert figures["length_planner"] == 4, "two tokens of a prompt and two that were written"
