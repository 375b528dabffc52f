"""Rows that are not a world's are told with their file and line; what goes wrong in us is not called a wrong row."""

import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError
from subquest.worlds import Recipe, check_world, write_world
from subquest.worlds.programs import FactBase, Undecided, run_operation, run_steps
from subquest.worlds.relations import INVERSES
from subquest.worlds.rows import parsed, wrong_facts, wrong_program
from subquest.worlds.site import Site


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
        ("corpus.jsonl", {"text": None}, "`text` is not a text"),
        ("corpus.jsonl", {"title": ["a"]}, "`title` is not a text"),
        ("facts.jsonl", {"aliases": "a"}, "`aliases` is not a list of texts"),
        ("facts.jsonl", {"facts": [["a", "father", "b", 1]]}, "not a subject, a relation, a value"),
        ("questions.jsonl", {"answers": [1]}, "Question: answers[1] must be text, not 1"),
        ("questions.jsonl", {"riddle": 1}, "unknown key 'riddle'"),
    ],
)
@pytest.mark.parametrize("action", ["check", "sample", "site"])
def test_a_wrong_row_is_told_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str, name: str, changes: dict[str, Any], why: str
) -> None:
    read = {"check": ("corpus", "facts", "questions"), "sample": ("corpus", "questions"), "site": ("corpus", "facts")}
    put(folder, name, 7, changes)
    more = ["--write", str(folder / "site")] if action == "site" else []
    told = name.removesuffix(".jsonl") in read[action]
    assert main(["world", action, str(folder), *more]) == (2 if told else 0)
    if told:
        message = capsys.readouterr().err
        assert f"{folder / name}:7: " in message
        assert why in message


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": "q", "question": 5}, "Question: question must be text, not 5"),
        ({"question": "?"}, "missing key 'id'"),
        (
            {"id": "q", "question": "?", "decomposition": [{"question": ["?"]}]},
            "Question: decomposition[1].question must be text",
        ),
        ({"id": "q", "question": "?", "decomposition": ["?"]}, "Question: decomposition[1] must be an object, not '?'"),
        ({"id": "q", "question": "?", "decomposition": 5}, "decomposition must be a list, not 5"),
        ({"id": "q", "question": "?", "meta": []}, "Question: meta must be an object"),
        ([], "expected an object"),
    ],
)
def test_a_wrong_plan_is_told_with_its_place(
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
        ("check", "subquest.worlds.check.run_steps"),
        ("sample", "subquest.worlds.stream.Stream.sample"),
        ("site", "subquest.worlds.site.Site.build"),
        ("plans", "subquest.worlds.rewrite.rewrite_plan"),
    ],
)
@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, AttributeError])
def test_a_defect_of_ours_is_not_called_a_wrong_row(
    world: Path, monkeypatch: pytest.MonkeyPatch, action: str, broken: str, error: type[Exception]
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error("a defect")

    monkeypatch.setattr(broken, fail)
    place = world / "questions.jsonl" if action == "plans" else world
    with pytest.raises(error, match="a defect"):
        main(["world", action, str(place)])


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
    with pytest.raises(DataError, match=r"here:1: not JSON"):
        parsed(line, "here:1")


@pytest.mark.parametrize(
    ("relation", "value", "why"),
    [
        ("birth_date", "1950-06-01", ""),
        ("birth_date", "1950-13-01", "is not a date"),
        ("birth_date", 1950, "is not a date"),
        ("founded", 1950, ""),
        ("founded", "1950", "is not a whole number"),
        ("population", True, "is not a whole number"),
        ("father", "p1", ""),
        ("father", 5, "is not a text"),
        ("alias", "Bo", ""),
        ("shoe_size", 5, "there is no relation 'shoe_size'"),
    ],
)
def test_values_fit_their_relation(relation: str, value: object, why: str) -> None:
    row = {"id": "a", "name": "A", "kind": "person", "aliases": [], "facts": [["a", relation, value, 0, 1]]}
    found = wrong_facts(row)
    assert why in found
    assert bool(found) == bool(why)


GET = ["get", "a", "father"]


@pytest.mark.parametrize(
    ("program", "operation", "why"),
    [
        ([GET], ["last"], ""),
        ([GET, ["all", "#1", "children"], ["get", "#2.1", "father"]], ["last"], ""),
        ([GET, GET], ["pick", 1, 2, "min", "a", "#1"], ""),
        (None, ["last"], "is not a list of steps"),
        ([], ["last"], "is not a list of steps"),
        ([["get", "a"]], ["last"], "step 1 of the program is not an action"),
        ([["take", "a", "father"]], ["last"], "'take' is not get, of or all"),
        ([["all", "a", "father"]], ["last"], "there is no relation 'father' to all"),
        ([["get", "#1", "father"]], ["last"], "'#1' is no step before it"),
        ([GET, ["get", "#1&2", "father"]], ["last"], "'#1&2' is no step before it"),
        ([GET], [], "`meta.operation`"),
        ([GET], ["guess"], "`meta.operation`"),
        ([GET], ["count", 2], "`meta.operation`"),
        ([GET], ["same", 1], "`meta.operation`"),
        ([GET, GET], ["pick", 1, 2, "least", "a", "b"], "`meta.operation`"),
        ([GET, GET], ["pick", 1, 2, "min", "#1.0", "b"], "`meta.operation`"),
    ],
)
def test_programs_refer_to_what_there_is(program: object, operation: object, why: str) -> None:
    found = wrong_program({"program": program, "operation": operation})
    assert why in found
    assert bool(found) == bool(why)


def test_programs_that_the_facts_do_not_carry_are_undecided() -> None:
    facts = FactBase()
    facts.add("f", "director", "d")
    with pytest.raises(Undecided, match="step 1 gives 1 things"):
        run_steps([("all", "d", "directed"), ("get", "#1.1", "release_date")], facts, INVERSES)
    with pytest.raises(Undecided, match="d is no date"):
        run_operation(["years", 1, 2], ["d", 1950])
    mixed: list[list[str | int | list[str]]] = [[["a"], 1], [["a", "b"], 1, "x"]]
    for values in mixed:
        with pytest.raises(Undecided, match="cannot be compared"):
            run_operation(["best", "max", 1, 2], values)
