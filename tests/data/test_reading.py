"""Question sets in every published form, and what happens to broken ones."""

import gzip
import json
from datetime import date
from pathlib import Path

import pytest

from subquest.codec import from_dict, to_dict
from subquest.data import questions_from, read_questions
from subquest.data.formats import to_question
from subquest.data.reading import of_set, sample, unified
from subquest.data.select import select
from subquest.errors import DataError, UsageError
from subquest.record import Question, Step

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"

ROWS = {
    "flashrag": (
        {"id": "t1", "question": "Who?", "golden_answers": ["A", "B"], "metadata": {"type": "bridge"}},
        ("A", "B"),
    ),
    "verl": (
        {
            "data_source": "nq",
            "prompt": [{"role": "user", "content": "Who?"}],
            "reward_model": {"style": "rule", "ground_truth": {"target": ["A"]}},
            "extra_info": {"split": "train", "index": 3},
        },
        ("A",),
    ),
    "hotpotqa": (
        {
            "_id": "h",
            "question": "Who?",
            "answer": "A",
            "supporting_facts": [["T", 0], ["U", 1], ["T", 2]],
            "type": "bridge",
        },
        ("A",),
    ),
    "2wiki": (
        {
            "_id": "w",
            "question": "Who?",
            "answer": "A",
            "supporting_facts": [["T", 0], ["U", 1]],
            "evidences": [["T", "father", "A"]],
        },
        ("A",),
    ),
    "musique": (
        {
            "id": "2hop__1_2",
            "question": "Who?",
            "answer": "A",
            "answer_aliases": ["AA"],
            "question_decomposition": [
                {"question": "x", "answer": "B", "paragraph_support_idx": 0},
                {"question": "#1 y", "answer": "A"},
            ],
            "paragraphs": [{"idx": 0, "title": "T"}],
        },
        ("A", "AA"),
    ),
    "triviaqa": ({"QuestionId": "q", "Question": "Who?", "Answer": {"Value": "A", "Aliases": ["A", "B"]}}, ("A", "B")),
    "popqa": ({"id": 7, "question": "Who?", "possible_answers": '["A", "B"]'}, ("A", "B")),
    "gaia": ({"task_id": "g", "Question": "Who?", "Final answer": "A", "Level": 2, "file_name": "x.png"}, ("A",)),
    "webwalkerqa": (
        {"question": "Who?", "answer": "A", "root_url": "u", "info": {"difficulty_level": "easy", "lang": "zh"}},
        ("A",),
    ),
    "hle": ({"id": "e", "question": "Who?", "answer": "A", "answer_type": "exactMatch", "category": "Math"}, ("A",)),
    "frames": ({"Prompt": "Who?", "Answer": "A", "wiki_links": "['https://x/wiki/Big_Ben']"}, ("A",)),
    "simpleqa": ({"metadata": "{'answer_type': 'Person'}", "problem": "Who?", "answer": "A"}, ("A",)),
    "bamboogle": ({"Question": "Who?", "Answer": "A"}, ("A",)),
    "hira": ({"Question": "Who?", "answer": "A", "file_name": ""}, ("A",)),
    "tongyi": ({"question": "Who?", "answer": "A"}, ("A",)),
}


@pytest.mark.parametrize("form", ROWS)
def test_each_form(form: str) -> None:
    row, answers = ROWS[form]
    question = to_question(row)
    assert (question.question, question.answers) == ("Who?", answers)
    assert question.id


def test_details_of_forms() -> None:
    assert to_question(ROWS["verl"][0]).id == "nq/train/3"
    assert to_question(ROWS["hotpotqa"][0]).supporting_titles == ("T", "U")
    assert to_question(ROWS["2wiki"][0]).decomposition == (Step("T >> father", "A"),)
    musique = to_question(ROWS["musique"][0])
    assert (musique.hops, musique.type, musique.supporting_titles) == (2, "2hop", ("T",))
    gaia = to_question(ROWS["gaia"][0])
    assert (gaia.level, gaia.type, gaia.files) == ("2", "file", ("x.png",))
    assert to_question(ROWS["webwalkerqa"][0]).meta["lang"] == "zh"
    assert to_question(ROWS["frames"][0]).supporting_titles == ("Big Ben",)


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


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"question": "a?", "answers": ["x"]}', "{oops"], r"x\.jsonl:2: not JSON"),
        (['{"question": "a?"}'], r"x\.jsonl:1: no known form has the fields question"),
        (['{"question": "", "answers": []}'], r"x\.jsonl:1: the question is empty"),
        (['{"question": 5, "answers": []}'], r"x\.jsonl:1: 'question' is not a text"),
        (["[1]"], r"x\.jsonl:1: expected an object"),
        ([""], "no questions in it"),
        (
            ['{"id":"1","question":"a?","answers":["x"]}', '{"id":"1","question":"b?","answers":["x"]}'],
            r":2: the id '1' was used before",
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


@pytest.mark.parametrize(
    ("source", "message"),
    [("hotpotq", "did you mean 'hotpotqa'"), ("no/such.jsonl", "no file"), ("gaia", "not at hand")],
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
    assert [(q.id, q.answers) for q in unified(twins)] == [("1", ("A", "B")), ("3", ("C",))]
    many = [Question(str(i), "q") for i in range(100)]
    assert sample(many, 10, 1) == sample(many, 10, 1)
    assert sample(many, 10, 1) != sample(many, 10, 2)
    ids = [int(q.id) for q in sample(many, 10)]
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


def test_ids_that_are_numbers_and_lists_of_one() -> None:
    row = {"question": "Where?", "answers": ["Kestel"], "supporting_ids": [7, "8"], "supporting_titles": "Mila Torrun"}
    found = to_question(row)
    assert (found.supporting_ids, found.supporting_titles) == (("7", "8"), ("Mila Torrun",))
    for wrong in ([None], [{"title": "x"}], {"a": 1}, 5, [True]):
        with pytest.raises(DataError, match="'supporting_titles' must be a list of texts"):
            to_question({**row, "supporting_titles": wrong})


def test_files_of_several_sets_as_search_r1_has_them() -> None:
    rows = [
        {
            "id": "test_0",
            "question": f"{name}?",
            "golden_answers": ["A"],
            "data_source": name,
            "prompt": [{"role": "user", "content": "Answer the given question."}],
            "reward_model": {"style": "rule", "ground_truth": {"target": ["A"]}},
            "extra_info": {"index": 0, "split": "test"},
            "metadata": None,
        }
        for name in ("nq", "popqa")
    ]
    questions = [to_question(row) for row in rows]
    assert [(q.id, q.dataset) for q in questions] == [("nq/test_0", "nq"), ("popqa/test_0", "popqa")]
    assert [(q.dataset, q.meta["data_source"]) for q in of_set("merged", questions)] == [
        ("merged", "nq"),
        ("merged", "popqa"),
    ]
    assert [(q.dataset, q.meta) for q in of_set("one", questions[:1])] == [("one", {})]


def test_answers_in_the_objects_of_the_hub() -> None:
    squad = {"id": "s", "question": "Who?", "answers": {"text": ["A", "B"], "answer_start": [1, 2]}}
    assert to_question(squad).answers == ("A", "B")
    trivia = {"question": "Who?", "question_id": "t", "answer": {"value": "A", "aliases": ["A", "Aa"], "type": "x"}}
    assert to_question(trivia).answers == ("A", "Aa")
    for wrong in ({"start": 1}, [["A"]], [{"text": "A"}]):
        with pytest.raises(DataError, match="text"):
            to_question({"question": "Who?", "answers": wrong})


def test_lists_in_the_cells_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text(
        """question,answers\nWho?,"[""A"", ""B\u00e9""]"\nWhere?,"['C']"\nWhat?,[unknown]\nHow?,"[1, 2]"\n"""
    )
    assert [q.answers for q in read_questions(path)] == [("A", "B\u00e9"), ("C",), ("[unknown]",), ("[1, 2]",)]


def test_titles_of_frames_are_those_of_the_articles() -> None:
    links = "['https://en.wikipedia.org/wiki/Ir%C3%A8ne_Joliot-Curie#Life', 'https://en.wikipedia.org/wiki/AC/DC']"
    question = to_question({"Prompt": "Who?", "Answer": "A", "wiki_links": links})
    assert question.supporting_titles == ("Ir\u00e8ne Joliot-Curie", "AC/DC")


def test_fields_of_plain_rows_and_of_tables_count(tmp_path: Path) -> None:
    rows = [
        {"question": "Where?", "answer": "Kestel", "hops": 10, "type": "bridge", "level": 2, "split": "dev"},
        {"question": "When?", "answer": "Kestel", "hops": 3, "decomposition": ["Who?", {"question": "When?"}]},
    ]
    first, second = read_questions(write(tmp_path / "q.jsonl", *rows))
    assert (first.hops, first.type, first.level, first.split) == (10, "bridge", "2", "dev")
    assert [step.question for step in second.decomposition] == ["Who?", "When?"]
    assert select([first, second], "hops>=4") == [first]
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


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "a?", "answers": ["b"], "hops": "three"}, "'hops' must be a whole number"),
        ({"question": "a?", "answers": ["b"], "meta": "note"}, "'meta' must be an object"),
        ({"question": "a?", "answers": ["b"], "decomposition": [["x"]]}, "a step of 'decomposition' must be"),
    ],
)
def test_fields_that_cannot_be_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_question(row)


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
    with pytest.raises(DataError, match="the question was there before with other answers"):
        read_questions(twice)


def test_filters_by_truths_and_by_numbers_of_tables(tmp_path: Path) -> None:
    rows = [Question(str(n), "a?", meta={"answerable": n > 1, "score": str(n), "lang": "de"}) for n in (1, 9, 10)]
    assert [q.id for q in select(rows, "answerable=true")] == ["9", "10"]
    assert [q.id for q in select(rows, "answerable!=Yes")] == ["1"]
    with pytest.raises(UsageError, match="true or false"):
        select(rows, "answerable=maybe")
    assert [q.id for q in select(rows, "score>=9")] == ["9", "10"]
    assert [q.id for q in select(rows, "score<10")] == ["1", "9"]
    assert len(select(rows, "lang>=d")) == 3


def test_2wiki_as_lists_as_objects_and_as_texts() -> None:
    facts, triples = [["Mara", 0], ["Quill", 1]], [["Mara", "mother", "Quill"]]
    forms: list[tuple[object, object]] = [
        (facts, triples),
        (
            [{"title": title, "sent_id": at} for title, at in facts],
            [dict(zip(("fact", "relation", "entity"), triple, strict=True)) for triple in triples],
        ),
        ({"title": ["Mara", "Quill"], "sent_id": [0, 1]}, triples),
        (json.dumps(facts), json.dumps(triples)),
    ]
    for supporting, evidences in forms:
        row = {"question": "a?", "answer": "b", "supporting_facts": supporting, "evidences": evidences}
        question = to_question(row)
        assert question.supporting_titles == ("Mara", "Quill")
        assert question.decomposition == (Step("Mara >> mother", "Quill"),)


def test_aliases_beside_an_answer_are_gold_answers(tmp_path: Path) -> None:
    rows = [{"question": "Where?", "answer": "NYC", "aliases": ["New York", "NYC"]}]
    rows += [{"question": "Who?", "answer": ["Mila"], "answer_aliases": "Mila Torrun"}]
    assert [q.answers for q in read_questions(write(tmp_path / "q.jsonl", *rows))] == [
        ("NYC", "New York"),
        ("Mila", "Mila Torrun"),
    ]
    table = write(tmp_path / "q.csv", "question,answer,aliases", 'Where?,NYC,"[""New York""]"', "Who?,Mila,")
    assert [q.answers for q in read_questions(table)] == [("NYC", "New York"), ("Mila",)]
