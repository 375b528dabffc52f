"""Gold traces of written organisations: the real systems with a teacher in the model's place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.paperwork.dataset import write_split
from subquest.paperwork.writing import write_organisations
from subquest.process import run_sync
from subquest.record import Episode, Question
from subquest.retrieval import Index
from subquest.train.data import load_material, open_search
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart
from subquest.train.rollouts import MemoisedSearch
from subquest.train.teacher import Traces, make_traces

from .rule_writer import rule_writer


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Question], Index]]:
    out = tmp_path_factory.mktemp("traces")
    written = run_sync(write_organisations(rule_writer(), out, 2))
    write_split(written, out / "train", "train")
    material = load_material([DataPart(str(out / "train"))])
    with open_search(material.documents, out / "index", material.papers) as index:
        yield material.questions, index


def traces(system: str, asked: list[Question], index: Index, prompts: str = "full") -> Traces:
    source = tiny_source()
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    settings = {"prompts": prompts, "abstain": True, "document_tokens": 4000}
    return run_sync(make_traces(system, asked, MemoisedSearch(index), vocabulary, CHATML, **settings))


@pytest.mark.parametrize("system", ["coda", "search-r1", "decor", "apex"])
def test_most_questions_give_a_trace_in_the_full_prompts(system: str, questions: tuple[list[Question], Index]) -> None:
    asked, index = questions
    if system != "coda":
        asked = [q for q in asked if "sql" not in q.meta and q.type != "calculation"]
    made = traces(system, asked, index)
    assert len(made.episodes) > 0.7 * len(asked), made.rejected
    unknown = [e for e in made.episodes if e.question.unanswerable]
    assert len(unknown) > 0.7 * sum(q.unanswerable for q in asked)
    assert all(e.stop_reason == "abstained" for e in unknown)
    if system == "coda":
        bridges = [e for e in made.episodes if e.question.type == "bridge"]
        assert all(len(e.by_role("executor")) == len(e.question.decomposition) for e in bridges)


def queries(episode: Episode) -> list[list[str]]:
    """The SQL of each executor."""
    return [re.findall(r"<sql>(.*?)</sql>", "".join(t.written_turns)) for t in episode.by_role("executor")]


def test_an_executor_queries_a_table_only_for_what_is_asked_of_all_its_rows(
    questions: tuple[list[Question], Index],
) -> None:
    asked, index = questions
    made = traces("coda", [q for q in asked if "sql" in q.meta or q.type in ("row", "single")], index)
    kinds = {e.question.type for e in made.episodes if any(queries(e))}
    assert {"count", "total", "highest", "latest", "list", "ranking", "bridge"} <= kinds
    described = 0
    for episode in made.episodes:
        sql = episode.question.meta.get("sql", {})
        steps = [step.question for step in episode.question.decomposition]
        for n, (executor, found) in enumerate(zip(episode.by_role("executor"), queries(episode), strict=True), 1):
            if str(n) not in sql:
                described += "rows of a table" in executor.text
                assert found == [] or n > len(steps), "only a computation comes after the steps"
            elif found:
                assert re.sub(r"FROM \w+", "FROM {table}", found[0]) == sql[str(n)][1]
                assert f"{found[0].split('FROM ')[1].split()[0]}: " in executor.text, "the table was described"
    assert described > 10, "rows are also read beside a table that could be queried"


def test_sums_and_dates_are_computed_by_an_executor(questions: tuple[list[Question], Index]) -> None:
    asked, index = questions
    some = [q for q in asked if q.type in ("sum", "difference", "calculation")]
    made = traces("coda", some, index)
    assert len(made.episodes) > 0.7 * len(some), made.rejected
    for episode in made.episodes:
        *_, last = episode.by_role("executor")
        assert "".join(last.written_turns).count("<sql>SELECT ") == 1
        assert "<search>" not in "".join(last.written_turns)
        assert "only has to be computed" in last.text
        assert episode.by_role("planner")[0].written_turns[-2].endswith(f"<task>{last.task}</task>")
    compact = traces("coda", some, index, prompts="compact")
    assert {e.question.type for e in compact.episodes} <= {"sum", "difference"}
    assert not any(any(queries(e)) for e in compact.episodes)
    assert traces("search-r1", [q for q in some if q.type == "calculation"], index).episodes == []
