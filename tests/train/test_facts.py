"""Reading like a teacher: rows of tables."""

from __future__ import annotations

from subquest.record import Question, Step
from subquest.train.facts import facts_of, read, table_rows
from subquest.train.gold import teacher_for

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


def test_a_word_that_task_and_answer_share_is_written_once() -> None:
    steps = (Step("Where is the laboratory?", "in Pell"), Step("When does it rain in #1?", "June"))
    assert facts_of(Question("q", "?", ("June",), decomposition=steps))[1].task == "When does it rain in Pell?"


def test_a_word_cut_in_half_is_no_answer() -> None:
    body = "They came together with the Court of Pell in June."
    asked = Question("q", "Who came?", ("h the Court of Pell",), supporting_titles=("Court",))
    assert read(asked, facts_of(asked)[0], f"Doc 1(Title: Court) {body}") is None
    whole = Question("q", "Who came?", ("the Court of Pell",), supporting_titles=("Court",))
    assert read(whole, facts_of(whole)[0], f"Doc 1(Title: Court) {body}") is not None


def test_a_plan_with_a_name_that_nobody_could_know_is_not_taught() -> None:
    def refused(film: str) -> bool:
        steps = (Step(f"Who directed {film}?", "Perttu Lepp"), Step("Where was #1 born?", "Joensuu"))
        asked = Question("q", "Where was the director of Pearls And Pigs born?", ("Joensuu",), decomposition=steps)
        return teacher_for("coda", asked) == "the plan has a name that nobody could know"

    assert refused("Helmi ja sikoja")
    assert not refused("Pearls and Pigs")
