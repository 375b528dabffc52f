"""Gold traces of written organisations: the real systems with a teacher in the model's place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subquest.data import questions_from
from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.paperwork.dataset import write_split
from subquest.paperwork.writing import write_organisations
from subquest.process import run_sync
from subquest.record import Question
from subquest.retrieval import Index
from subquest.retrieval.corpus import read
from subquest.train.random_model import tiny_source
from subquest.train.teacher import make_traces

from .rule_writer import rule_writer


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Question], Index]]:
    out = tmp_path_factory.mktemp("traces")
    written = run_sync(write_organisations(rule_writer(), out, 2))
    write_split(written, out / "train", "train")
    with Index.build(out / "papers.sq", read([str(out / "train" / "corpus.jsonl")])) as index:
        yield questions_from(str(out / "train")), index


@pytest.mark.parametrize("system", ["coda", "search-r1", "decor", "apex"])
def test_most_questions_give_a_trace_in_the_full_prompts(system: str, questions: tuple[list[Question], Index]) -> None:
    asked, index = questions
    source = tiny_source()
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    made = run_sync(
        make_traces(system, asked, index, vocabulary, CHATML, prompts="full", abstain=True, document_tokens=4000)
    )
    assert len(made.episodes) > 0.7 * len(asked), made.rejected
    unknown = [e for e in made.episodes if e.question.unanswerable]
    assert len(unknown) > 0.7 * sum(q.unanswerable for q in asked)
    assert all(e.stop_reason == "abstained" for e in unknown)
    if system == "coda":
        bridges = [e for e in made.episodes if e.question.type == "bridge"]
        assert all(len(e.by_role("executor")) == len(e.question.decomposition) for e in bridges)
        summed = next(e for e in made.episodes if e.question.type == "sum")
        assert f" = {summed.answer}" in summed.by_role("planner")[0].written_turns[-1]
