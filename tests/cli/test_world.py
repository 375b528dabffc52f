"""`subquest world` as scripts use it."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.cli.world import parse_hops
from subquest.data import read_questions
from subquest.data.question_export import export_world
from subquest.errors import UsageError
from subquest.worlds import Recipe, write_world


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def test_make_writes_the_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["world", "make", "--seed", "8", "--articles", "200", "--questions", "20", "--out", str(tmp_path)]
    command += ["--form", "flashrag,verl", "--workers", "1", "--json"]
    assert main(command) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["articles"], made["questions"]) == (200, 20)
    corpus = list(read_lines(tmp_path / "corpus.jsonl"))
    assert [set(row) for row in corpus[:1]] == [{"id", "title", "text"}]
    flash = list(read_lines(tmp_path / "flashrag_corpus.jsonl"))
    assert flash[5] == {"id": corpus[5]["id"], "contents": f'"{corpus[5]["title"]}"\n{corpus[5]["text"]}'}
    asked = list(read_lines(tmp_path / "questions.jsonl"))
    assert next(read_lines(tmp_path / "flashrag_questions.jsonl"))["golden_answers"] == asked[0]["answers"]
    assert main(["world", "sample", str(tmp_path), "-n", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("## ") == 2
    assert shown.count("answer: ") == 2
    (tmp_path / "mine.txt").touch()
    assert main([*command, "--seed", "9", "--form", "subquest"]) == 0  # another world: forms of the old one must go
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "corpus.jsonl", "facts.jsonl", "mine.txt", "questions.jsonl", "redirects.jsonl", "world.json",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_verls_rows(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet where pyarrow is there, the same rows as JSON lines where it is not; our own reader reads both."""
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet", reason="verl's form is parquet only with pyarrow")
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_world(tmp_path, Recipe(seed=8, articles=200, questions=20, unanswerable=0.2))
    (path,) = export_world(tmp_path, "verl")
    assert path.name == f"verl.{kind}"
    rows = parquet.read_table(path).to_pylist() if kind == "parquet" else list(read_lines(path))
    asked = [q for q in read_lines(tmp_path / "questions.jsonl") if q.get("answers")]
    assert len(rows) == len(asked) < 20
    for row, question in zip(rows, asked, strict=True):
        assert row["reward_model"] == {"style": "rule", "ground_truth": {"target": question["answers"]}}
        assert row["prompt"] == [{"role": "user", "content": question["question"]}]
        assert (row["data_source"], row["ability"]) == (question["dataset"], "fact-reasoning")
        assert row["extra_info"]["split"] == "train"
    assert [row["extra_info"]["id"] for row in rows] == [question["id"] for question in asked]
    monkeypatch.undo()
    again = read_questions(path)
    assert [(q.question, list(q.answers)) for q in again] == [(q["question"], q["answers"]) for q in asked]


def test_make_tells_when_questions_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["world", "make", "--articles", "160", "--questions", "3000", "--types", "superlative", "--hops", "8"]
    assert main([*command, "--out", str(tmp_path), "--workers", "1"]) == 1
    assert "could not be found" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--hops", "many"],
        ["--hops", "0"],
        ["--types", "riddle"],
        ["--articles", "5"],
        ["--form", "csv"],
        ["--split", "all"],
    ],
)
def test_wrong_usage_exits_2_and_writes_nothing(wrong: list[str], tmp_path: Path) -> None:
    assert main(["world", "make", "--out", str(tmp_path / "w"), *wrong]) == 2
    assert not (tmp_path / "w").exists()


def test_hops_in_all_their_forms() -> None:
    assert parse_hops("2") == (2,)
    assert parse_hops("1-4") == (1, 2, 3, 4)
    assert parse_hops("2,4-6,5") == (2, 4, 5, 6)
    with pytest.raises(UsageError, match="write numbers"):
        parse_hops("two")


def test_plans_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "q.jsonl"
    steps = [
        {"question": "Salt Shore >> director", "answer": "Ann Vik"},
        {"question": "Ann Vik >> spouse", "answer": "Bo"},
    ]
    row = {"id": "1", "question": "Who is the spouse of the director of Salt Shore?", "answers": ["Bo"]}
    source.write_text(
        json.dumps({**row, "decomposition": steps}) + "\n" + json.dumps({**row, "decomposition": None}) + "\n"
    )
    assert main(["world", "plans", str(source), "--out", str(tmp_path / "out.jsonl"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rewritten"], report["linked"], report["refused"]) == (1, 1, {"no plan": 1})
    made = next(read_lines(tmp_path / "out.jsonl"))["decomposition"]
    assert [s["question"] for s in made] == ["Who directed Salt Shore?", "Who is the spouse of #1?"]


def test_site_can_be_written(tmp_path: Path) -> None:
    assert (
        main(["world", "make", "--articles", "160", "--questions", "0", "--out", str(tmp_path / "w"), "--workers", "1"])
        == 0
    )
    assert main(["world", "site", str(tmp_path / "w"), "--write", str(tmp_path / "site")]) == 0
    assert (tmp_path / "site" / "index.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / "site" / "wiki").iterdir())) == 160


def test_a_teacher_rewrites_the_plans_of_a_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every plan is kept or refused for a reason that is counted, and what is kept is a question file."""
    assert main(["world", "make", "--out", str(tmp_path / "w"), "--articles", "160", "--questions", "3"]) == 0
    script = tmp_path / "teacher.jsonl"
    script.write_text('"not in the form"\n' * 3)
    arguments = [
        "world",
        "instruct",
        str(tmp_path / "w"),
        "--model",
        f"scripted:{script}",
        "--out",
        str(tmp_path / "o"),
    ]
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"plans": {"kept": 0, "refused": {"malformed": 3}}}
    assert (tmp_path / "o" / "questions.jsonl").read_text() == ""
    assert main([*arguments[:3], "--model", f"a=scripted:{script},b=scripted:{script}", *arguments[5:]]) == 2


@pytest.mark.embedded
def test_a_teacher_retells_the_traces_of_a_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The teacher without a model; the tokens are the embedded model's."""
    world, out = str(tmp_path / "w"), tmp_path / "o"
    assert main(["world", "make", "--out", world, "--articles", "160", "--questions", "6", "--hops", "1-2"]) == 0
    capsys.readouterr()
    assert main(["world", "instruct", world, "--model", "rules", "--traces", "coda", "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["plans"]["kept"] + sum(report["plans"]["refused"].values()) == 6
    traces = list(read_lines(out / "traces-coda.jsonl"))
    assert len(traces) == report["coda"]["traces"] > 0
    assert report["coda"]["turns"]["kept"] > 0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["world", "make", "--articles", "160", "--questions", "4", "--out", "w"]) == 0
    return tmp_path / "w"


@pytest.mark.parametrize(
    ("action", "file", "key", "value"),
    [
        ("check", "facts.jsonl", "id", None),
        ("check", "facts.jsonl", "facts", "x"),
        ("check", "corpus.jsonl", "text", None),
        ("check", "corpus.jsonl", "title", []),
        ("sample", "questions.jsonl", "decomposition", None),
        ("sample", "corpus.jsonl", "title", ...),
        ("site", "facts.jsonl", "aliases", ...),
        ("plans", "questions.jsonl", "question", 5),
    ],
)
def test_rows_of_another_shape(
    action: str, file: str, key: str, value: Any, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = (world / file).read_text().splitlines()
    row = {**json.loads(first), key: value}
    if value is ...:
        del row[key]
    (world / file).write_text("\n".join([json.dumps(row), *others]) + "\n")
    options = {"sample": ["-n", "160"], "site": ["--write", "site"]}.get(action, [])
    place = "w/questions.jsonl" if action == "plans" else "w"
    status = main(["world", action, place, *options])
    error = capsys.readouterr().err
    assert (status, error.count("\n")) == (2, 1) if status != 1 else "problem" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("content", [b"\xff\xfe\x00binary", b"[1, 2]\n", b"5\n"])
def test_files_that_hold_no_lines(content: bytes, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "questions.jsonl").write_bytes(content)
    for command in (["plans", "w/questions.jsonl"], ["check", "w"], ["sample", "w"]):
        assert main(["world", *command]) == 2, command
        assert "questions.jsonl" in capsys.readouterr().err


def test_a_packed_file_that_is_cut_off(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress((world / "questions.jsonl").read_bytes())
    for content in (packed[:200], b"not packed at all", packed[:50] + b"x" * 300):
        (world / "q.jsonl.gz").write_bytes(content)
        assert main(["world", "plans", "w/q.jsonl.gz"]) == 2
        assert "q.jsonl.gz: not readable" in capsys.readouterr().err
