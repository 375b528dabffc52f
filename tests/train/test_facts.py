"""Reading like a teacher: rows of tables."""

from __future__ import annotations

from subquest.record import Question, Step
from subquest.train.facts import facts_of, read, table_rows

BODY = (
    "asset: KVT-E11; what it is: saw; site: Pell Yard; price: £410 asset: KVT-E12; what it is: van; site: Ys Hall "
    "asset: KVT-E13; what it is: van; site: Pell Yard; price: £9,300"
)


def question(task: str, answer: str, items: tuple[str, ...] = ()) -> Question:
    meta = {"items": {"1": items}} if items else {}
    step = Step(task, answer, "register.csv")
    return Question("q", task, (answer,), supporting_titles=("register.csv",), decomposition=(step,), meta=meta)


def note(asked: Question, body: str = BODY) -> str | None:
    found = read(asked, facts_of(asked)[0], f"Doc 1(Title: register.csv) {body}")
    return found.note if found else None


def test_rows_begin_with_the_first_column() -> None:
    assert [row[7:14] for row in table_rows(BODY)] == ["KVT-E11", "KVT-E12", "KVT-E13"]
    assert table_rows("The saw: it was bought late. The van; it was not.") == []


def test_only_the_row_that_is_asked_about_is_noted() -> None:
    row = "register.csv: asset: KVT-E13; what it is: van; site: Pell Yard; price: £9,300"
    assert note(question("What was the price of item KVT-E13?", "£9,300")) == row


def test_a_value_in_the_row_of_something_else_is_not_the_answer() -> None:
    assert note(question("At which site is item KVT-E99 kept?", "Pell Yard")) is None


def test_a_list_is_noted_by_its_rows() -> None:
    told = note(question("Which items are kept at Pell Yard?", "KVT-E11, KVT-E13", ("KVT-E11", "KVT-E13")))
    assert told is not None
    assert "KVT-E12" not in told
    assert "KVT-E11" in told
    assert "KVT-E13" in told


def test_what_nobody_knows_is_read_nowhere() -> None:
    assert note(question("At which site is item KVT-E12 kept?", "")) is None
