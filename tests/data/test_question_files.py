"""Question files in every format, and what happens to broken ones."""

import gzip
import json
from datetime import date
from pathlib import Path

import pytest

from subquest.codec import from_dict, to_dict
from subquest.data import questions_from, read_questions
from subquest.data.formats import to_question
from subquest.data.question_sets import filter_questions
from subquest.errors import DataError
from subquest.record import Question

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8")
    return path


def test_files(tmp_path: Path) -> None:
    rows = [{"id": str(i), "question": f"q{i}?", "answers": ["a"]} for i in range(3)]
    plain = write(tmp_path / "a.jsonl", *rows)
    assert [q.id for q in read_questions(plain)] == ["0", "1", "2"]
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as f:
        f.write("\n".join(map(json.dumps, rows)))
    assert len(read_questions(tmp_path / "b.jsonl.gz")) == 3
    write(tmp_path / "c.json", json.dumps({"Data": rows}))
    assert len(read_questions(tmp_path / "c.json")) == 3
    write(tmp_path / "d.csv", "Question,Answer", '"Who, then?",A')
    assert read_questions(tmp_path / "d.csv")[0].question == "Who, then?"
    (tmp_path / "world").mkdir()
    write(tmp_path / "world" / "questions.jsonl", *rows)
    assert len(questions_from(str(tmp_path / "world"))) == 3


def test_a_repeated_id_is_skipped_too(tmp_path: Path) -> None:
    rows = [{"id": "1", "question": question, "answers": ["x"]} for question in ("a?", "b?", "a?")]
    bad: list[str] = []
    (kept,) = read_questions(write(tmp_path / "x.jsonl", *rows), skip_bad=True, bad=bad)
    assert kept.question == "a?"
    assert "x.jsonl:2: the id '1' is used earlier by a different question" in bad[0]
    assert "x.jsonl:3: repeats question '1'" in bad[1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"question": "a?", "answers": ["x"]}', "{oops"], r"x\.jsonl:2: not JSON"),
        (['{"question": "a?"}'], r"x\.jsonl:1: no known format has the fields question"),
        (['{"question": "", "answers": []}'], r"x\.jsonl:1: the question is empty"),
        (['{"question": 5, "answers": []}'], r"x\.jsonl:1: 'question' must be a text"),
        (["[1]"], r"x\.jsonl:1: expected an object"),
        ([""], "no questions in it"),
        (
            ['{"id":"1","question":"a?","answers":["x"]}', '{"id":"1","question":"b?","answers":["x"]}'],
            r":2: the id '1' is used earlier",
        ),
    ],
)
def test_broken_files_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_questions(write(tmp_path / "x.jsonl", *lines))


def test_skipping_bad_rows_reports_them(tmp_path: Path) -> None:
    bad: list[str] = []
    good = '{"id":"1","question":"a?","answers":["x"]}'
    questions = read_questions(write(tmp_path / "x.jsonl", good, "{oops", good), skip_bad=True, bad=bad)
    assert [q.id for q in questions] == ["1"]
    assert [b.partition("x.jsonl:")[2][:9] for b in bad] == ["2: not JS", "3: repeat"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("q.jsonl", '{"id": "1", "question": "Who?", "answers": ["I"]}\r\n'), ("q.csv", "id,question,answer\n1,Who?,I\n")],
)
def test_a_byte_order_mark_is_no_text(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    (question,) = read_questions(tmp_path / name)
    assert (question.id, question.question, question.answers) == ("1", "Who?", ("I",))


def test_wrong_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes('{"question": "é", "answers": []}'.encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        read_questions(tmp_path / "x.jsonl")


def test_lists_in_the_cells_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text(
        """question,answers\nWho?,"[""A"", ""B\u00e9""]"\nWhere?,"['C']"\nWhat?,[unknown]\nHow?,"[1, 2]"\n"""
    )
    assert [q.answers for q in read_questions(path)] == [("A", "B\u00e9"), ("C",), ("[unknown]",), ("[1, 2]",)]


def test_fields_of_plain_rows_and_of_tables_count(tmp_path: Path) -> None:
    rows = [
        {"question": "Where?", "answer": "Kestel", "hops": 10, "type": "bridge", "level": 2, "split": "dev"},
        {"question": "When?", "answer": "Kestel", "hops": 3, "decomposition": ["Who?", {"question": "When?"}]},
    ]
    first, second = read_questions(write(tmp_path / "q.jsonl", *rows))
    assert (first.hops, first.type, first.level, first.split) == (10, "bridge", "2", "dev")
    assert [step.question for step in second.decomposition] == ["Who?", "When?"]
    assert filter_questions([first, second], "hops>=4") == [first]
    cells = '1,Where?,"[""Kestel""]",10,"[""A"", ""B""]"'
    (question,) = read_questions(write(tmp_path / "q.csv", "id,question,answers,hops,supporting_titles", cells))
    assert (question.hops, question.supporting_titles) == (10, ("A", "B"))


def test_values_that_tables_have_and_json_has_not(tmp_path: Path) -> None:
    """Whole numbers beside gaps come as 1994.0 and NaN; a run could not be written, or not be read again."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        {"id": "1", "question": "When?", "answers": [1994.0], "hops": 2.0, "seen": date(2026, 1, 2), "image": b"\xff"},
        {"id": "2", "question": "Where?", "answers": [None], "hops": None, "seen": None, "image": None},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "q.parquet")
    first, second = read_questions(tmp_path / "q.parquet")
    assert (first.answers, first.hops, dict(first.meta)) == (("1994",), 2, {"seen": "2026-01-02"})
    assert (second.answers, second.hops) == ((), None)
    assert to_question({"question": "Is it?", "answer": True}).answers == ("yes",)
    half = to_question({"id": "1", "question": "Half \ud83d?", "answers": ["\ud83d"]})
    assert (half.question, half.answers) == ("Half \ufffd?", ("\ufffd",))
    assert to_question({"question": "How many?", "answer": float("nan")}).answers == ()
    assert from_dict(Question, to_dict(to_question({"question": "a?", "answers": ["b"], "type": 3, "dataset": 5})))


def test_tables_lose_no_rows_and_mix_no_cells(tmp_path: Path) -> None:
    stray = write(tmp_path / "a.csv", "question,answer", '"Heroes is by whom?,Bowie', "Other?,Paris", "Third?,Rome")
    assert [q.answers for q in read_questions(stray)] == [("Bowie",), ("Paris",), ("Rome",)]
    with pytest.raises(DataError, match=r"b\.csv:3: 3 cells, where the first row has 2"):
        read_questions(write(tmp_path / "b.csv", "question,answer", "Who?,I", "Where, then?,Kestel"))
    long = write(tmp_path / "c.csv", "question, answer,context", f'"Who, then?",I,{"x" * 200_000}')
    assert read_questions(long)[0].answers == ("I",)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    packed = bytearray(gzip.compress(b'{"question": "a?", "answers": ["b"]}\n' * 2000))
    packed[40] ^= 0xFF
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    (tmp_path / "b.parquet").write_bytes(b"nothing of the kind")
    write(tmp_path / "c.json", "[" * 100_000)
    write(tmp_path / "d.jsonl", "[" * 100_000)
    for name in ("a.jsonl.gz", "b.parquet", "c.json", "d.jsonl"):
        with pytest.raises(DataError, match=name):
            read_questions(tmp_path / name)
    twice = write(tmp_path / "e.jsonl", {"question": "a?", "answer": "b"}, {"question": "a?", "answer": "c"})
    with pytest.raises(DataError, match="the question occurs earlier with other answers"):
        read_questions(twice)


def test_aliases_beside_an_answer_are_gold_answers(tmp_path: Path) -> None:
    rows = [{"question": "Where?", "answer": "NYC", "aliases": ["New York", "NYC"]}]
    rows += [{"question": "Who?", "answer": ["Mila"], "answer_aliases": "Mila Torrun"}]
    assert [q.answers for q in read_questions(write(tmp_path / "q.jsonl", *rows))] == [
        ("NYC", "New York"),
        ("Mila", "Mila Torrun"),
    ]
    table = write(tmp_path / "q.csv", "question,answer,aliases", 'Where?,NYC,"[""New York""]"', "Who?,Mila,")
    assert [q.answers for q in read_questions(table)] == [("NYC", "New York"), ("Mila",)]
