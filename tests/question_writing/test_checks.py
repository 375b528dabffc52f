"""What a question has to be before the model is asked about it again."""

from __future__ import annotations

import pytest

from subquest.question_writing import checks
from subquest.question_writing.checks import Pair
from subquest.record import Document, Question, Step

PASSAGE = Document(
    "p",
    "Minutes of 4 May",
    "Ruth Abel reported that the roof of Pell Hall leaks above the library. Harcastle Joinery will mend it for 14,500 "
    "pounds before 3 June 2024. Tools, ladders and paint are stored in the cellar of Dunmore House until 9 July 2024.",
)


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Which firm repairs the roof of Pell Hall?", "Harcastle Joinery", ""),
        ("How much money is paid to Harcastle Joinery?", "14,500 pounds", ""),
        ("What can I find in the cellar of Dunmore House?", "Tools, ladders, paint", ""),
        ("When is the work at Pell Hall over, if Ruth Abel and her board are right?", "3 June 2024", ""),
        ("Which firm repairs the roof", "Harcastle Joinery", checks.MALFORMED),
        ("Who? Which firm repairs Pell Hall?", "Harcastle Joinery", checks.MALFORMED),
        ("Which firm repairs [the roof of] Pell Hall?", "Harcastle Joinery", checks.MALFORMED),
        ("Which firm is named in the text about Pell Hall?", "Harcastle Joinery", checks.DANGLING),
        ("What does this firm get from Pell Hall?", "14,500 pounds", checks.DANGLING),
        ("What did she say about Pell Hall?", "leaks", checks.DANGLING),
        ("Which firm repairs the roof of Pell Hall?", "", checks.ABSENT),
        ("How many pounds does Pell Hall need?", "Ruth Abel", checks.OTHERWISE),
        ("Who closed Pell Hall?", "£14", checks.OTHERWISE),
        ("Since when has Pell Hall been closed?", "₹14", checks.OTHERWISE),
        ("What is the endowment of Pell Hall, whose roof is old?", "₹14", ""),
        ("Why does Ruth Abel speak?", "the roof of Pell Hall leaks above the library. Harcastle Joinery", checks.LONG),
        ("What is known of Pell Hall?", "It leaks", checks.LONG),
        ("What does the firm Harcastle Joinery of Pell do?", "Harcastle Joinery", checks.LEAK),
        ("Which firm repairs the roof of Kestel Hall?", "Harcastle Joinery", checks.ADDED),
        ("Which firm gets the money?", "Harcastle Joinery", checks.VAGUE),
        ("What part of Pell Hall leaks above the library, as was reported?", "the roof", checks.COPIED),
    ],
)
def test_a_question_is_used_or_refused_for_a_reason(question: str, answer: str, reason: str) -> None:
    assert checks.question_flaw(question, answer, PASSAGE) == reason


def test_the_words_of_a_table_are_no_copy() -> None:
    table = Document(
        "t", "Register", "asset: KV-12; kind: milk tanker stopper; site: Low Mill\nasset: KV-13; kind: saw"
    )
    assert not checks.question_flaw("What is kept as a milk tanker stopper in Low Mill?", "KV-12", table)


def test_an_answer_from_the_row_of_another_thing_is_refused() -> None:
    table = Document("t", "Staff", "name: Ruth Abel; team: Roofs\nname: Ivo Sund; team: Gates; office: Low Mill")
    assert checks.question_flaw("In which office does Ruth Abel work?", "Low Mill", table) == checks.ROW
    assert not checks.question_flaw("In which office does Ivo Sund work?", "Low Mill", table)


def test_a_name_that_is_wanted_has_to_be_there() -> None:
    asked = "Which firm repairs the roof of Pell Hall?"
    assert checks.question_flaw(asked, "Harcastle Joinery", PASSAGE, "Dunmore House") == checks.UNNAMED
    assert not checks.question_flaw(asked, "Harcastle Joinery", PASSAGE, "Pell Hall")


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        ("harcastle joinery", "Harcastle Joinery"),
        ("4,500 pounds", ""),
        ("tools, paint and ladders", "Tools, paint, ladders"),
        ("tools, paint and ropes", ""),
        ("Harcastle", "Harcastle"),
        ("hall", "Hall"),
        ("june", "June"),
        ("all", ""),
    ],
)
def test_an_answer_is_taken_as_the_passage_writes_it(answer: str, written: str) -> None:
    assert checks.as_written(answer, PASSAGE.text) == written


def test_a_list_has_three_items() -> None:
    assert checks.items_of("wool, flour and paper") == ["wool", "flour", "paper"]
    assert checks.items_of("Research and Development, Sales, and Accounts") == [
        "Research and Development",
        "Sales",
        "Accounts",
    ]
    assert checks.items_of("Portland, Oregon") == []
    assert checks.items_of("3 June, 9 July and 1 May") == []


def test_pairs_are_read_however_they_are_labelled() -> None:
    reply = '1. **Q:** "Who was it?"\n**A:** Ruth Abel.\n\nQuestion 2: Where?\nAnswer: Pell\n'
    reply += "Q: And then?\nNotes\nQ: Why?\nA: rain"
    assert checks.read_pairs(reply) == [Pair("Who was it?", "Ruth Abel"), Pair("Where?", "Pell"), Pair("Why?", "rain")]
    assert checks.read_pairs("Here are some questions about the text.") == []


def test_other_values_have_the_shape_of_the_answer() -> None:
    assert checks.alternatives("3 June 2024", PASSAGE, "When?") == ["9 July 2024"]
    assert checks.alternatives("2019", Document("d", "", "From 2019 to 2021, 15 people."), "When?") == ["2021"]
    assert checks.alternatives("Pell Hall", PASSAGE, "Where?") == ["Dunmore House"]
    assert checks.alternatives("Pell Hall", PASSAGE, "Is it Dunmore House?") == []
    assert checks.alternatives("leaks above the library", PASSAGE, "What?") == []


@pytest.mark.parametrize(
    ("answer", "entity"),
    [("Pell Hall", True), ("KVR-E12", True), ("Academy of Ruhn", True), ("Kestel", True), ("3 June 2024", False),
     ("June", False), ("14,500 pounds", False), ("the roof", False), ("Tools, ladders, paint", False)],
)  # fmt: skip
def test_names_are_told_from_dates_and_phrases(answer: str, entity: bool) -> None:
    assert checks.is_entity(answer) is entity


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("Does Harcastle Joinery repair the roof of Pell Hall?", ""),
        ("Which of them repairs the roof of Pell Hall, Harcastle Joinery?", checks.MALFORMED),
        ("Does somebody repair the roof of Pell Hall?", checks.LOST),
        ("Does Harcastle Joinery repair the roof?", checks.LOST),
        ("Does Harcastle Joinery of Ruhn repair the roof of Pell Hall?", checks.ADDED),
    ],
)
def test_a_yes_or_no_question_asks_for_the_suggestion(made: str, reason: str) -> None:
    assert checks.yes_no_flaw(made, "Which firm repairs the roof of Pell Hall?", "Harcastle Joinery") == reason


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("In which town is the firm that repairs the roof of Pell Hall registered?", ""),
        ("In which town is Harcastle Joinery, the firm that repairs the roof of Pell Hall, registered?", checks.LEAK),
        ("In which town is the Harcastle firm that repairs the roof of Pell Hall registered?", checks.LEAK),
        ("In which town, Ruhn, is the firm that repairs the roof of Pell Hall registered?", checks.LEAK),
        ("In which town is the firm registered?", checks.LOST),
        ("Is the firm that repairs the roof of Pell Hall registered in a town?", checks.LOST),
        ("In which town is the firm that repairs the roof of Pell Hall and Dunmore House registered?", checks.ADDED),
    ],
)
def test_a_joined_question_has_both_and_not_what_lies_between(made: str, reason: str) -> None:
    asked = "Which firm repairs the roof of Pell Hall?"
    first = Question("1", asked, ("Harcastle Joinery",), decomposition=(Step(asked, "Harcastle Joinery", "Minutes"),))
    second = "In which town is Harcastle Joinery registered?"
    assert checks.joined_flaw(made, first, second, "Harcastle Joinery", "Ruhn") == reason


@pytest.mark.parametrize(
    ("second", "made"),
    [
        ("Where does Ruth Abel live?", "Where does the person who reported live?"),
        ("Is the Ruth Abel of Pell known?", "Is the person who reported of Pell known?"),
        ("What is Ruth Abel's job title?", "What is the job title of the person who reported?"),
        ("Ruth Abel lives where?", "The person who reported lives where?"),
        ("What does Ruth Abel's brother do in the town of Pell?", ""),
        ("Does Ruth Abel know Ruth Abel?", ""),
    ],
)
def test_a_description_takes_the_place_of_a_name(second: str, made: str) -> None:
    assert checks.join(second, "Ruth Abel", "the person who reported") == made


@pytest.mark.parametrize(
    ("reply", "described"),
    [
        ("The firm that repairs the roof of Pell Hall.", "the firm that repairs the roof of Pell Hall"),
        ("Which firm repairs the roof of Pell Hall?", ""),
        ("the firm that repairs a roof", ""),
        ("the firm that repairs the roof of Pell Hall and Dunmore House", ""),
        ("the firm Harcastle Joinery that repairs the roof of Pell Hall", ""),
    ],
)
def test_a_description_keeps_what_is_asked(reply: str, described: str) -> None:
    asked = "Which firm repairs the roof of Pell Hall?"
    question = Question("1", asked, ("Harcastle Joinery",), decomposition=(Step(asked, "Harcastle Joinery"),))
    assert checks.read_description(reply, question) == described


def test_answers_agree_by_most_words_and_all_numbers() -> None:
    assert checks.agrees("Harcastle Joinery Ltd", "Harcastle Joinery")
    assert not checks.agrees("15,500 pounds", "14,500 pounds")
    assert not checks.agrees("None", "Harcastle Joinery")
