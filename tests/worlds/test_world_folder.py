"""Broken rows are named with their file and line; a defect of the program is not reported as a broken row."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError
from subquest.input_file import parse_json
from subquest.worlds import Recipe, check_world, write_world
from subquest.worlds.programs import FactBase, Undecided, parse_program, run_operation, run_steps
from subquest.worlds.site import Site
from subquest.worlds.world_folder import read_facts


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, Recipe(seed=3, articles=160, questions=20))
    return folder


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Path:
    for file in world.glob("*.jsonl"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def put(folder: Path, name: str, number: int, changes: dict[str, Any]) -> None:
    """Change some fields of a row; its number counts from 1."""
    path = folder / name
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **changes}) + "\n"
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("corpus.jsonl", {"text": None}, "text must be text, not None"),
        ("corpus.jsonl", {"title": ["a"]}, "title must be text, not ['a']"),
        ("facts.jsonl", {"aliases": "a"}, "aliases must be a list, not 'a'"),
        ("facts.jsonl", {"facts": [["a", "father", "b", 1]]}, "facts[1] must be a list of 5"),
        ("questions.jsonl", {"answers": [1]}, "answers[1] must be text, not 1"),
        ("questions.jsonl", {"riddle": 1}, "unknown key 'riddle'"),
    ],
)
@pytest.mark.parametrize("action", ["check", "sample", "site"])
def test_a_broken_row_is_named_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str, name: str, changes: dict[str, Any], why: str
) -> None:
    read = {"check": ("corpus", "facts", "questions"), "sample": ("corpus", "questions"), "site": ("corpus", "facts")}
    put(folder, name, 7, changes)
    more = ["--write", str(folder / "site")] if action == "site" else []
    is_read = name.removesuffix(".jsonl") in read[action]
    assert main(["world", action, str(folder), *more]) == (2 if is_read else 0)
    if is_read:
        message = capsys.readouterr().err
        assert f"{folder / name}:7: " in message
        assert why in message


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": "q", "question": 5, "decomposition": []}, "'question' must be a text, not 5"),
        ({"question": "?"}, "no known format has the fields question"),
        ({"question": "?", "decomposition": [{"question": ["?"]}]}, "a step of 'decomposition' must be a question"),
        ({"question": "?", "decomposition": [5]}, "a step of 'decomposition' must be a question"),
        ({"question": "?", "decomposition": 5}, "'decomposition' must be a list of steps, not 5"),
        ({"question": "?", "decomposition": [], "meta": ["a"]}, "'meta' must be an object"),
        ([], "expected an object"),
    ],
)
def test_a_broken_plan_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: object, why: str
) -> None:
    good = {"id": 1, "question": "Who?", "decomposition": [{"question": "Bo >> father", "answer": None, "n": 1}]}
    (tmp_path / "q.jsonl").write_text(json.dumps(good) + "\n" + json.dumps(row) + "\n")
    assert main(["world", "plans", str(tmp_path / "q.jsonl")]) == 2
    message = capsys.readouterr().err
    assert f"{tmp_path / 'q.jsonl'}:2: " in message
    assert why in message
    (tmp_path / "q.jsonl").write_text(json.dumps(good) + "\n")
    assert main(["world", "plans", str(tmp_path / "q.jsonl")]) == 0


@pytest.mark.parametrize(
    ("action", "broken"),
    [
        ("check", "subquest.worlds.checker.run_steps"),
        ("sample", "subquest.worlds.random_stream.RandomStream.sample"),
        ("site", "subquest.worlds.site.Site.build"),
        ("plans", "subquest.data.gold_plans.rewrite_plan"),
    ],
)
@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, AttributeError])
def test_a_defect_of_ours_is_not_called_a_wrong_row(
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    action: str,
    broken: str,
    error: type[Exception],
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error("a defect")

    monkeypatch.setattr(broken, fail)
    place = world / "questions.jsonl" if action == "plans" else world
    assert main(["world", action, str(place)]) == 1
    assert re.search(rf"an error in Subquest \({error.__name__}: '?a defect'?\)", capsys.readouterr().err)


def test_articles_and_facts_go_together(folder: Path) -> None:
    corpus = (folder / "corpus.jsonl").read_text().splitlines(keepends=True)
    (folder / "corpus.jsonl").write_text("".join(corpus[:-1]))
    for read in (check_world, Site.open):
        with pytest.raises(DataError, match=r"has a line for '.*' where corpus\.jsonl has no article"):
            read(folder)
    (folder / "corpus.jsonl").write_text("".join([corpus[1], corpus[0], *corpus[2:]]))
    for read in (check_world, Site.open):
        with pytest.raises(DataError, match=r"has no line for article '.*' where corpus\.jsonl has one"):
            read(folder)


@pytest.mark.parametrize("line", [b"{oops", b"\xff", b"1" * 5000, b"[" * 100_000])
def test_what_is_no_json(line: bytes) -> None:
    with pytest.raises(DataError, match=r"here:1: not (JSON|UTF-8)"):
        parse_json(line, "here:1")


@pytest.mark.parametrize(
    ("relation", "value", "why"),
    [
        ("birth_date", "1950-06-01", ""),
        ("birth_date", "1950-13-01", "must be a date"),
        ("birth_date", 1950, "must be a date"),
        ("founded", 1950, ""),
        ("founded", "1950", "must be a whole number"),
        ("population", True, "must be text or a whole number"),
        ("father", "p1", ""),
        ("father", 5, "must be text"),
        ("alias", "Bo", ""),
        ("shoe_size", 5, "there is no relation 'shoe_size'"),
    ],
)
def test_values_fit_their_relation(relation: str, value: object, why: str, tmp_path: Path) -> None:
    row = {"id": "a", "name": "A", "kind": "person", "aliases": [], "facts": [["a", relation, value, 0, 1]]}
    (tmp_path / "facts.jsonl").write_text(json.dumps(row))
    if not why:
        (read,) = read_facts(tmp_path)
        assert read.facts == [("a", relation, value, 0, 1)]
    else:
        with pytest.raises(DataError, match=rf"facts\.jsonl:1: .*{why}"):
            list(read_facts(tmp_path))


GET = ["get", "a", "father"]


@pytest.mark.parametrize(
    ("program", "operation", "why"),
    [
        ([GET], ["last"], ""),
        ([GET, ["all", "#1", "children"], ["get", "#2.1", "father"]], ["last"], ""),
        ([GET, GET], ["pick", 1, 2, "min", "a", "#1"], ""),
        (None, ["last"], "program must be a list"),
        ([], ["last"], "program must be a list"),
        ([["get", "a"]], ["last"], "program[1] must be a list of 3"),
        ([["take", "a", "father"]], ["last"], "must be one of all, get, of, not 'take'"),
        ([["all", "a", "father"]], ["last"], "there is no relation 'father' to all"),
        ([["get", "#1", "father"]], ["last"], "'#1' is no earlier step"),
        ([GET, ["get", "#1&2", "father"]], ["last"], "'#1&2' is no earlier step"),
        ([GET], [], "operation must be one of"),
        ([GET], ["guess"], "operation must be one of"),
        ([GET], ["count", 2], "operation must be one of"),
        ([GET], ["same", 1], "operation must be one of"),
        ([GET, GET], ["pick", 1, 2, "least", "a", "b"], "operation must be one of"),
        ([GET, GET], ["pick", 1, 2, "min", "#1.0", "b"], "operation must be one of"),
    ],
)
def test_programs_refer_to_what_there_is(program: object, operation: object, why: str) -> None:
    meta = {"program": program, "operation": operation}
    if not why:
        assert parse_program(meta).operation == operation
    else:
        with pytest.raises(DataError, match=re.escape(why)):
            parse_program(meta)


def test_programs_that_the_facts_do_not_carry_are_undecided() -> None:
    facts = FactBase()
    facts.add("f", "director", "d")
    with pytest.raises(Undecided, match="step 1 gives 1 things"):
        run_steps([("all", "d", "directed"), ("get", "#1.1", "release_date")], facts)
    with pytest.raises(Undecided, match="d is no date"):
        run_operation(["years", 1, 2], ["d", 1950])
    mixed: list[list[str | int | list[str]]] = [[["a"], 1], [["a", "b"], 1, "x"]]
    for values in mixed:
        with pytest.raises(Undecided, match="cannot be compared"):
            run_operation(["best", "max", 1, 2], values)
