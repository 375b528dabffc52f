"""Questions written by a model: what is kept, what is refused, and how a stopped run continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.engine.scripted import Context
from subquest.errors import DataError, UsageError
from subquest.process import run_sync
from subquest.question_writing import checks, prompts, writing
from subquest.question_writing.passages import draw_passages, subject_of
from subquest.question_writing.writing import Writer, Written, totals, write_questions
from subquest.record import Document, Question
from subquest.retrieval.index import Index
from subquest.worlds.random_stream import RandomStream

from .rule_writer import DOCUMENTS, collection, rule_writer


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with collection(tmp_path) as made:
        yield made


def write(index: Index, count: int = 100, **options: object) -> list[Written]:
    change, how = options.pop("change", None), {k: options.pop(k) for k in ("seconds", "workers") if k in options}
    writer = Writer(rule_writer(change), index, **options)  # type: ignore[arg-type]
    out = index.path.parent / "out"
    return run_sync(write_questions(writer, index, out, count, **{"workers": 4, **how}))  # type: ignore[arg-type]


def questions(written: list[Written]) -> dict[str, Question]:
    return {q.question: q for one in written for q in one.questions}


def test_questions_of_one_to_three_hops_have_their_plans(index: Index) -> None:
    made = questions(write(index))
    single = made["Who was the engineer behind the Orvane Bridge?"]
    assert single.answers == ("Mila Torrun",)
    assert single.supporting_ids == ("bridge",)
    chain = next(q for q in made.values() if q.hops == 3)
    described = "the place of the childhood that the engineer behind the Orvane Bridge had to spend"
    assert chain.question == f"Who governs {described} today?"
    assert (chain.type, chain.answers) == ("bridge", ("Pavel Orn",))
    assert chain.supporting_ids == ("bridge", "torrun", "kestel")
    assert [(s.question, s.answer) for s in chain.decomposition] == [
        ("Who was the engineer behind the Orvane Bridge?", "Mila Torrun"),
        ("In which place did #1 spend her childhood?", "Kestel"),
        ("Who governs #2 today?", "Pavel Orn"),
    ]
    listed = made["Which goods come from Kestel?"]
    assert listed.type == "list"
    assert listed.answers == ("Wool, flour, paper", "Wool, flour and paper")
    assert listed.meta["items"] == {"1": ["Wool", "flour", "paper"]}


def test_what_is_refused_is_counted_by_reason(index: Index) -> None:
    written = write(index)
    _, refused = totals(written)
    assert refused[f"single: {checks.DANGLING}"] == 1
    assert refused[f"single: {checks.ABSENT}"] == 1
    assert refused[f"single: {checks.MALFORMED}"] == 3  # nothing is written about the hamlets
    assert "Who is the elected mayor of the town Kestel?" not in questions(written)  # a copy, kept in other words only


def test_a_question_that_is_not_clear_by_itself_gets_a_name(index: Index) -> None:
    found = [questions(_again(index, seed)) for seed in range(4)]
    assert not any("What was the sum paid for it?" in made for made in found)
    assert any("What was the sum paid for the Orvane Bridge?" in made for made in found)


def test_yes_or_no_is_decided_by_code(index: Index) -> None:
    found = [q for seed in range(6) for q in questions(_again(index, seed)).values() if q.type == "yes-no"]
    assert {q.answers for q in found} == {("yes",), ("no",)}
    for question in found:
        (step,) = question.decomposition
        assert question.answers == ("yes" if step.answer in question.question else "no",)
        assert question.meta["operation"] == ["is", 1, question.meta["operation"][2]]
        assert question.meta["operation"][2] in question.question


def _again(index: Index, seed: int) -> list[Written]:
    (index.path.parent / "out" / writing.JOURNAL).unlink(missing_ok=True)
    return write(index, seed=seed, workers=1)


def test_the_model_must_agree_as_often_as_is_asked(index: Index) -> None:
    """The likeliest reply is wrong, the drawn one is right."""
    asked: set[str] = set()

    def wrong_at_first(context: Context, reply: str) -> str:
        if context.messages[0].content != prompts.READ:
            return reply
        first = context.last not in asked
        asked.add(context.last)
        return "None" if first else reply

    assert "Who was the engineer behind the Orvane Bridge?" in questions(write(index, change=wrong_at_first))
    (index.path.parent / "out" / writing.JOURNAL).unlink()
    asked.clear()
    strict = write(index, change=wrong_at_first, agree=2)
    assert not questions(strict)
    assert totals(strict)[1][f"single: {writing.DIFFERENT}"] >= 5
    (index.path.parent / "out" / writing.JOURNAL).unlink()
    asked.clear()
    assert questions(write(index, change=wrong_at_first, agree=0))
    assert not asked


def test_the_model_reads_the_passage_among_others(index: Index) -> None:
    shown: list[str] = []

    def look(context: Context, reply: str) -> str:
        if context.messages[0].content == prompts.READ:
            shown.append(context.last)
        return reply

    write(index, change=look)
    about = next(text for text in shown if text.endswith("Who was the engineer behind the Orvane Bridge?"))
    assert "Document: Orvane Bridge\n" in about
    assert about.count("Document: ") > 1


def test_a_question_whose_passage_is_not_found_is_kept_only_on_request(tmp_path: Path) -> None:
    others = [
        Document(
            f"o{n}", "Orvane Bridge", f"Orvane Bridge, engineer, part {n}: who was behind it, on what day, for carts."
        )
        for n in range(12)
    ]
    with Index.build(tmp_path / "many.sq", [*DOCUMENTS, *others]) as index:
        asked = "Who was the engineer behind the Orvane Bridge?"
        written = write(index)
        assert asked not in questions(written)
        assert totals(written)[1][f"single: {writing.NOT_FOUND}"] > 0
        (tmp_path / "out" / writing.JOURNAL).unlink()
        assert asked in questions(write(index, unfound=True))


def test_a_stopped_run_continues_where_it_was(index: Index) -> None:
    first = write(index, 3, workers=1)
    assert len(questions(first)) >= 3
    whole = write(index, workers=1)
    assert len(first) < len(whole)
    assert whole == _again(index, 0)
    journal = index.path.parent / "out" / writing.JOURNAL
    journal.write_bytes(journal.read_bytes() + b'{"passage": "bri')  # killed while writing
    asked: list[str] = []

    def count(context: Context, reply: str) -> str:
        asked.append(reply)
        return reply

    assert write(index, change=count) == whole
    assert not asked


def test_time_that_is_up_leaves_what_is_finished(index: Index) -> None:
    assert write(index, seconds=1e-6) == []


def test_a_model_that_never_follows_is_given_up(tmp_path: Path) -> None:
    pages = [Document(f"d{n}", f"Page {n}", f"Page {n} says {'something about many things ' * 9}.") for n in range(40)]
    reason = r"no question of use about 20 passages: not one question .*larger"
    with Index.build(tmp_path / "x.sq", pages) as index, pytest.raises(UsageError, match=reason):
        write(index, change=lambda context, reply: "I am happy to help.")


def test_passages_are_drawn_over_files_by_the_seed() -> None:
    text = "word " * 30
    documents = [
        Document(f"{file}#{n}", "", text, {"file": file})
        for file, size in (("a", 9), ("b", 2), ("c", 1))
        for n in range(size)
    ]
    order = draw_passages([*documents, Document("short", "", "few words")], 5)
    assert sorted(order) == sorted(d.id for d in documents)
    assert {id[0] for id in order[:3]} == {"a", "b", "c"}
    assert {id[0] for id in order[3:5]} == {"a", "b"}
    assert order == draw_passages(documents, 5)
    assert order != draw_passages(documents, 6)
    with pytest.raises(DataError, match="no passage has"):
        draw_passages([Document("short", "", "few words")], 0)
    with pytest.raises(DataError, match="no passages"):
        draw_passages([], 0)


def test_a_name_of_the_passage_is_asked_about() -> None:
    text = "The Falworth Paper Mill reported that KV-12 had failed. Priya Holub from the Falworth Paper Mill saw KV-12."
    passage = Document("p", "KV-12.txt", text)
    drawn = Counter(subject_of(passage, RandomStream(seed)) for seed in range(400))
    assert drawn.keys() == {"Falworth Paper Mill", "KV-12", "Priya Holub"}
    assert drawn["KV-12"] > drawn["Falworth Paper Mill"] > drawn["Priya Holub"]
    assert subject_of(Document("p", "Ruhn (town)", "Ruhn is a town."), RandomStream(0)) == "Ruhn"
    assert subject_of(Document("p", "Rules", "Leave the room as it was."), RandomStream(0)) == ""
