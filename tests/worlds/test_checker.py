"""World check fails loudly: every kind of damage to a sound world is found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError
from subquest.worlds import Recipe, check_world, write_world
from subquest.worlds.programs import FactBase, StepRow, Undecided, run_operation, run_steps

Rows = list[dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_world(tmp_path, Recipe(seed=13, articles=240, questions=80, hops=(1, 2, 3, 4, 5)))
    return tmp_path


def damage(folder: Path, name: str, change: Callable[[Rows], None]) -> list[str]:
    path = folder / name
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    return check_world(folder).problems


def first(rows: Rows, relation: str) -> tuple[int, int]:
    """Row and fact number of the first statement of a relation in its subject's own article."""
    for i, row in enumerate(rows):
        for j, fact in enumerate(row["facts"]):
            if fact[1] == relation and fact[0] == row["id"]:
                return i, j
    raise AssertionError(relation)


def test_a_word_changed_in_an_article(folder: Path) -> None:
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    i, j = first(facts, "birth_date")

    def change(rows: Rows) -> None:
        start, end = facts[i]["facts"][j][3:]
        rows[i]["text"] = rows[i]["text"][:start] + "x" * (end - start) + rows[i]["text"][end:]

    problems = damage(folder, "corpus.jsonl", change)
    assert any("birth_date" in p and "is not stated" in p for p in problems)


def test_a_fact_that_contradicts_another(folder: Path) -> None:
    def change(rows: Rows) -> None:
        i, j = first(rows, "father")
        fact = rows[i]["facts"][j]
        rows[i]["facts"].append([fact[0], "father", fact[0], *fact[3:]])

    assert any("father has 2 values" in p for p in damage(folder, "facts.jsonl", change))


def test_a_death_before_the_birth(folder: Path) -> None:
    def change(rows: Rows) -> None:
        for row in rows:
            for fact in row["facts"]:
                if fact[1] == "death_date":
                    fact[2] = "1500-01-01"
                    return

    assert any("comes too early" in p for p in damage(folder, "facts.jsonl", change))


def test_a_wrong_answer(folder: Path) -> None:
    def change(rows: Rows) -> None:
        rows[3]["answers"] = ["Nobody"]

    assert any("the question says ('Nobody',)" in p for p in damage(folder, "questions.jsonl", change))


def test_a_wrong_sub_answer_and_a_wrong_support(folder: Path) -> None:
    def change(rows: Rows) -> None:
        row = next(r for r in rows if r["type"] == "compositional")
        row["decomposition"][0]["answer"] = "Nobody"
        row["decomposition"][1]["support"] = "No such article"

    problems = damage(folder, "questions.jsonl", change)
    assert any("step 1 says 'Nobody'" in p for p in problems)
    assert any("not a supporting article" in p for p in problems)


def test_titles_of_other_articles_in_support(folder: Path) -> None:
    def change(rows: Rows) -> None:
        rows[2]["supporting_titles"][0] = "No such article"
        rows[4]["supporting_titles"] = rows[2]["supporting_titles"][1:]

    problems = damage(folder, "questions.jsonl", change)
    assert sum("are not the titles of" in p for p in problems) == 2


def test_a_fact_that_no_article_states_any_more(folder: Path) -> None:
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    single = next(q for q in questions if q["type"] == "single" and q["meta"]["program"][0][0] == "get")
    subject, relation = single["meta"]["program"][0][1:]

    def change(rows: Rows) -> None:
        for row in rows:
            row["facts"] = [f for f in row["facts"] if f[:2] != [subject, relation]]

    assert any(single["id"] in p and "not decided" in p for p in damage(folder, "facts.jsonl", change))


def test_an_unanswerable_question_that_is_answered(folder: Path) -> None:
    def change(rows: Rows) -> None:
        rows[0]["type"] = "unanswerable"

    assert any("the articles do answer it" in p for p in damage(folder, "questions.jsonl", change))


def test_a_question_that_is_there_twice_and_one_that_is_gone(folder: Path) -> None:
    def twice(rows: Rows) -> None:
        rows[1] = rows[0]

    assert damage(folder, "questions.jsonl", twice) == ["world-13-train-r0-q0: another question has the same id"]

    def gone(rows: Rows) -> None:
        del rows[1]

    assert damage(folder, "questions.jsonl", gone) == ["questions.jsonl has 79 rows, world.json says 80"]


def test_a_wrong_number_of_hops(folder: Path) -> None:
    def more(rows: Rows) -> None:
        rows[0]["hops"] += 1

    (problem,) = damage(folder, "questions.jsonl", more)
    assert "hops, but" in problem


def test_two_articles_with_one_title(folder: Path) -> None:
    def change(rows: Rows) -> None:
        rows[1]["title"] = rows[0]["title"]

    assert any("is also that of" in p for p in damage(folder, "corpus.jsonl", change))


def test_broken_files_are_named_with_their_line(folder: Path) -> None:
    (folder / "questions.jsonl").write_text("{}\n{oops\n")
    with pytest.raises(DataError):
        check_world(folder)
    with pytest.raises(DataError, match="does not exist"):
        check_world(folder / "nowhere")


def test_the_command_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["world", "check", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sound"] is True
    (folder / "questions.jsonl").write_text(
        (folder / "questions.jsonl").read_text().replace('"answers":["', '"answers":["not ', 1)
    )
    assert main(["world", "check", str(folder), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 1


class TestPrograms:
    """Operations on facts written out by hand."""

    @pytest.fixture
    def facts(self) -> FactBase:
        base = FactBase()
        rows: list[tuple[str, str, str | int]] = [
            ("f1", "director", "d"),
            ("f2", "director", "d"),
            ("f1", "release_date", "1950-06-01"),
            ("f2", "release_date", "1948-02-03"),
            ("d", "birth_date", "1910-09-09"),
            ("f1", "starring", "s"),
            ("f3", "starring", "s"),
        ]
        for row in rows:
            base.add(*row)
        return base

    def test_steps(self, facts: FactBase) -> None:
        steps: list[StepRow] = [("get", "f1", "director"), ("all", "#1", "directed"), ("get", "#2.1", "release_date")]
        assert run_steps(steps, facts) == ["d", ["f1", "f2"], "1948-02-03"]
        with pytest.raises(Undecided, match="2 things"):
            run_steps([("of", "d", "directed")], facts)
        with pytest.raises(Undecided, match="0 values"):
            run_steps([("get", "f3", "director")], facts)

    @pytest.mark.parametrize(
        ("operation", "values", "answer"),
        [
            (["last"], ["a", "b"], "b"),
            (["pick", 1, 2, "min", "x", "y"], ["1948-02-03", "1950-06-01"], "x"),
            (["pick", 1, 2, "max", "x", "y"], [5, 12], "y"),
            (["pick", 2, 4, "min", "#1", "#3"], ["p", 9, "q", 7], "q"),
            (["order", 1, 2], ["1948-02-03", 1949], "yes"),
            (["order", 1, 2], [1949, "1948-02-03"], "no"),
            (["same", 1, 2], ["a", "a"], "yes"),
            (["years", 1, 2], ["1950-06-01", 1900], 50),
            (["age", 1, 2], ["1910-09-09", "1950-06-01"], 39),
            (["age", 1, 2], ["1910-06-01", "1950-06-01"], 40),
            (["count", 1], [["a", "b", "c"]], 3),
            (["both", 1, 2], [["a", "b"], ["b", "c"]], "b"),
            (["best", "max", 1, 2], [["a", "b"], 3, 8], "b"),
        ],
    )
    def test_operations(self, operation: list[Any], values: list[Any], answer: object) -> None:
        assert run_operation(operation, values) == answer

    @pytest.mark.parametrize(
        ("operation", "values"),
        [
            (["both", 1, 2], [["a"], ["b"]]),
            (["pick", 1, 2, "min", "x", "y"], [3, 3]),
            (["best", "min", 1, 2], [["a", "b"], 1, 1]),
        ],
    )
    def test_ties_are_undecided(self, operation: list[Any], values: list[Any]) -> None:
        with pytest.raises(Undecided):
            run_operation(operation, values)
