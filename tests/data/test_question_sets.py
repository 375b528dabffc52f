"""Question sets by name or path: named in tables, filtered, sampled."""

from pathlib import Path

import pytest

from subquest.data import questions_from
from subquest.data.question_sets import filter_questions, merge_repeated, name_sources, sample_questions
from subquest.errors import UsageError
from subquest.record import Question

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_sets_have_the_names_of_their_files_and_of_the_registry(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "mine.jsonl.gz").touch()
    sources = ["hotpotqa:dev", str(tmp_path / "mine.jsonl.gz"), str(tmp_path / "world")]
    assert name_sources(sources) == dict(zip(("hotpotqa", "mine", "world"), sources, strict=True))


def test_sets_of_one_name_get_longer_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "questions.jsonl").touch()
    (tmp_path / "b" / "questions.csv").touch()
    assert name_sources(["a/questions.jsonl", "b/questions.jsonl"]) == {
        "a/questions": "a/questions.jsonl",
        "b/questions": "b/questions.jsonl",
    }
    assert len(name_sources(["a/questions.jsonl", "b/questions.jsonl", "b/questions.csv", "c/b/questions.jsonl"])) == 4
    assert name_sources(["hotpotqa:dev", "hotpotqa", "nq"]) == {
        "hotpotqa:dev": "hotpotqa:dev",
        "hotpotqa": "hotpotqa",
        "nq": "nq",
    }
    assert name_sources(["a", "./a", str(tmp_path / "a")]) == {"a": "a"}  # one folder, however it is written
    assert name_sources(["nq", "nq"]) == {"nq": "nq"}


@pytest.mark.parametrize(
    ("source", "message"),
    [("hotpotq", "did you mean 'hotpotqa'"), ("no/such.jsonl", "no file"), ("gaia", "was not found")],
)
def test_unknown_sources(source: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUBQUEST_DATA", str(tmp_path))
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=message):
        questions_from(source)


def test_unify_and_sample() -> None:
    twins = [
        Question("1", "Who is it?", ("A",)),
        Question("2", "who is  it?", ("B", "A")),
        Question("3", "Else?", ("C",)),
    ]
    assert [(q.id, q.answers) for q in merge_repeated(twins)] == [("1", ("A", "B")), ("3", ("C",))]
    many = [Question(str(i), "q") for i in range(100)]
    assert sample_questions(many, 10, 1) == sample_questions(many, 10, 1)
    assert sample_questions(many, 10, 1) != sample_questions(many, 10, 2)
    ids = [int(q.id) for q in sample_questions(many, 10)]
    assert ids == sorted(ids)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real question sets are not beside the checkout")
def test_real_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBQUEST_DATA", str(REAL))
    counts = {
        name: len(questions_from(name)) for name in ("hotpotqa", "2wiki", "musique", "bamboogle", "popqa", "frames")
    }
    assert counts["2wiki"] == counts["musique"] == 500
    assert counts["hotpotqa"] == 485  # 15 of the 500 rows repeat another word for word
    assert counts["popqa"] < 14_267  # questions with one text and several gold answers are unified
    assert len(questions_from("hotpotqa:dev")) == 300


def test_filters_by_truths_and_by_numbers_of_tables(tmp_path: Path) -> None:
    rows = [Question(str(n), "a?", meta={"answerable": n > 1, "score": str(n), "lang": "de"}) for n in (1, 9, 10)]
    assert [q.id for q in filter_questions(rows, "answerable=true")] == ["9", "10"]
    assert [q.id for q in filter_questions(rows, "answerable!=Yes")] == ["1"]
    with pytest.raises(UsageError, match="true or false"):
        filter_questions(rows, "answerable=maybe")
    assert [q.id for q in filter_questions(rows, "score>=9")] == ["9", "10"]
    assert [q.id for q in filter_questions(rows, "score<10")] == ["1", "9"]
    assert len(filter_questions(rows, "lang>=d")) == 3
