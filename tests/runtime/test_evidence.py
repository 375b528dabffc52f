"""Which sentence of which document is quoted for a finding, and whether an answer is supported."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from subquest.record import Document
from subquest.runtime.evidence import Finding, is_stated, support, support_of
from subquest.runtime.statements import sentences

from ..timing import clear_caches, slower

BROTHER = Document("1", "Sugan Kond", "On his father's side Kond came from the family of Yube Kond, his father.")
ASKED = Document("2", "Meza Kond", "Meza Kond made films. Yube Kond and Kanze Guhi were Kond's parents.")


def quoted(finding: Finding) -> list[tuple[str, str]]:
    return [(e.title, e.quote) for e in support([finding])]


def test_the_article_about_what_was_asked_is_quoted_not_its_namesakes() -> None:
    finding = Finding("Who was Meza Kond's father?", "Yube Kond", "", (BROTHER, ASKED))
    assert quoted(finding) == [("Meza Kond", "Yube Kond and Kanze Guhi were Kond's parents.")]


def test_an_article_about_a_namesake_says_nothing() -> None:
    finding = Finding("Who was Meza Kond's father?", "Yube Kond", "", (BROTHER,))
    assert quoted(finding) == []
    assert quoted(replace(finding, task="Who was Sugan Kond's father?")) == [(BROTHER.title, BROTHER.text)]


def test_what_was_noted_decides_between_sentences_of_one_article() -> None:
    article = Document("3", "Ys", "Ys was founded in 1725. The railway came in 1725 too, some say.")
    finding = Finding("When was Ys founded?", "1725", "Ys was founded in 1725.", (article,))
    assert quoted(finding) == [("Ys", "Ys was founded in 1725.")]


def test_nothing_is_quoted_where_no_document_states_it() -> None:
    assert quoted(Finding("Who was Meza Kond's father?", "Bo Lind", "", (BROTHER, ASKED))) == []


def test_text_without_spaces_is_quoted_by_its_sentences() -> None:
    text = "奥文桥于1931年开通。它由米拉·托伦设计。她出生于凯斯特尔！"
    document = Document("d", "奥文桥", text)
    (evidence,) = support([Finding("谁设计了奥文桥？", "米拉·托伦", "", [document])])
    assert evidence.quote == "它由米拉·托伦设计。"
    assert text[evidence.start :].startswith(evidence.quote)
    assert [text[a:b] for a, b in sentences(text)] == [
        "奥文桥于1931年开通。",
        "它由米拉·托伦设计。",
        "她出生于凯斯特尔！",
    ]


def test_the_number_of_an_item_is_no_sentence_and_states_nothing() -> None:
    text = "1. Call before 6:00.\n  2. Bring a note. Sign it.\n3. Sick pay lasts six weeks.\nIn 1931. Then it closed."
    said = [
        "Call before 6:00.",
        "Bring a note.",
        "Sign it.",
        "Sick pay lasts six weeks.",
        "In 1931.",
        "Then it closed.",
    ]
    assert [text[a:b] for a, b in sentences(text)] == said
    rules = Document("d", "Rules", text)
    assert support([Finding("How many weeks does sick pay last?", "3", "", [rules])]) == ()
    (evidence,) = support([Finding("How many weeks does sick pay last?", "six", "", [rules])])
    assert evidence.quote == "Sick pay lasts six weeks."


def test_of_a_text_without_full_stops_the_part_with_the_result_is_quoted() -> None:
    words = " ".join(f"word{n}" for n in range(3000))
    text = f"{words} the bridge was designed by Mira Holt {words}"
    (evidence,) = support([Finding("Who designed the bridge?", "mira holt", "", [Document("d", "Talk", text)])])
    assert "designed by Mira Holt" in evidence.quote
    assert 900 < len(evidence.quote) <= 1000
    assert text[evidence.start : evidence.start + len(evidence.quote)] == evidence.quote
    assert {evidence.quote.split()[0], evidence.quote.split()[-1]} <= set(text.split())


TOWN = Document("4", "Kestel", "It is a town of 3,200 people. The mayor is Bo Lind.")
TORRUN = Document("5", "Mila Torrun", "Mila Torrun was an engineer. She was born in Kestel in 1889. She left in 1931.")
READ = Finding("", "", "", (TOWN, TORRUN))
BORN = Finding("When was Mila Torrun born?", "1889", "", (TORRUN,), "1.1")
LEFT = Finding("When did Mila Torrun leave?", "1931", "", (TORRUN,), "1.2")


def supported(answer: str, *findings: Finding, question: str = "?") -> bool | Literal["parts"] | None:
    """Also checks that an answer has quotes if and only if it, or its parts, are supported."""
    found = support_of(answer, question, findings or (READ,))
    assert bool(found.evidence) == bool(found.supported or found.parts)
    return "parts" if found.parts else found.supported


@pytest.mark.parametrize("answer", ["3,200", "3200", "3 200", "3\u202f200 people", "2024", "Bo Lind"])
def test_an_answer_that_a_document_states_is_supported(answer: str) -> None:
    dated = Document("6", "", "It has 3 200 seats and opened on 2024-05-17.")
    assert supported(answer, READ, Finding("", "", "", (dated,))) is True


@pytest.mark.parametrize("answer", ["3", "200", "320", "3.2", "17", "Lind Bo", "Kest", "yes", "Paris", "Torrun Kestel"])
def test_an_answer_that_stands_in_no_document_is_not(answer: str) -> None:
    assert supported(answer) is False


RATES = Document(
    "7",
    "Expenses > What is paid",
    "The club pays for travel, meals and rooms.\n\n- A bicycle costs it 14 pence per mile. Ask first.\n"
    "- Meals are covered up to 32 pounds per day. Drinks are not.\n- A tent: 21 pounds per day.",
)


@pytest.mark.parametrize(
    ("answer", "supported"),
    [("32 pounds per day", True), ("32 pounds", True), ("21 pounds per day", False), ("14 pence per mile", False)],
)
def test_an_answer_may_repeat_words_of_the_question(answer: str, supported: bool) -> None:
    question = "How much does the club pay for meals per day?"
    read = Finding("", "", "", (RATES,), query=question)
    assert support_of(answer, question, [read]).supported is supported


@pytest.mark.parametrize(
    ("question", "answer", "supported"),
    [
        ("Who runs the summer fair?", "Ada Holm", True),
        ("Who runs the summer fair?", "27 June", False),
        ("Who runs the summer fair?", "600 euros", False),
        ("By whom is the summer fair run?", "27 June", False),
        ("Where is the summer fair?", "Mill Yard", True),
        ("Where is the summer fair?", "27 June", False),
        ("In which town is the summer fair?", "27 June", False),
        ("When is the summer fair?", "27 June", True),
        ("How much may the summer fair cost?", "600 euros", True),
        ("How much may the summer fair cost?", "Ada Holm", False),
        ("Which band plays at the summer fair?", "Trio 7", True),
        ("Who plays at the summer fair?", "Trio 7", True),
    ],
)
def test_an_answer_of_another_kind_is_not_supported(question: str, answer: str, supported: bool) -> None:
    text = (
        "The summer fair is on 27 June in Mill Yard. Ada Holm runs it. It may cost 600 euros. Trio 7 plays at the fair."
    )
    fair = (Document("8", "Summer fair", text),)
    for finding in (Finding("", "", "", fair, query=question), Finding(question, answer, "", fair)):
        assert support_of(answer, question, [finding]).supported is supported


@pytest.mark.parametrize(("answer", "supported"), [("Bo Lind", True), ("Kestel", False)])
def test_what_was_only_read_must_be_about_more_than_the_name(answer: str, supported: bool) -> None:
    """A page about something mentions much that was not asked."""
    question = "Which architect drew the plans for the second hall of the Orvane Theatre?"
    text = "The Orvane Theatre stands in Kestel. Its second hall was built to plans by Bo Lind."
    read = Finding("", "", "", (Document("1", "Orvane Theatre", text),), query=question)
    assert support_of(answer, question, [read]).supported is supported


@pytest.mark.parametrize(
    ("question", "supported"),
    [("Who leads the repair of the towpath?", False), ("What about the gates?", True), ("How bad is the leak?", True)],
)
def test_a_longer_answer_is_about_the_question_too(question: str, supported: bool) -> None:
    answer = "leaking more than in the year before"
    lock = Document("1", "Mill Lock", f"The gates are {answer}.")
    pages = (lock, Document("2", "Towpath", "Ada Holm leads the repair."))
    for finding in (Finding("", "", "", pages, query=question), Finding(question, answer, "", pages)):
        assert support_of(answer, question, [finding]).supported is supported


HOURS = Document(
    "9",
    "hours.csv",
    "Member: Bo Lind; Date: 7 May; Hours: 3\nMember: Ada Holm; Date: 7 May; Hours: 2.5\n"
    "Member: Bo Lind; Date: 9 May; Hours: 4\nMember: all; Date: May; Total hours: 9.5",
    {"line": 2, "line_end": 5},
)


@pytest.mark.parametrize(
    ("question", "answer", "supported"),
    [
        ("How many hours did Bo Lind work in total?", "3", False),
        ("How many hours did Bo Lind work on 9 May?", "4", True),
        ("How many hours did Ada Holm work in total?", "2.5", True),
        ("How many hours are the total of all members in May?", "9.5", True),
    ],
)
def test_one_row_of_several_is_no_total(question: str, answer: str, supported: bool) -> None:
    read = Finding("", "", "", (HOURS,), query=question)
    assert support_of(answer, question, [read]).supported is supported


PAPERS = (
    Document("1", "Minutes of 3 May > Boathouse", "The roof leaks. Ada Holm leads the repair. It begins in July."),
    Document("2", "Minutes of 3 May > Garden", "Bo Lind leads the planting."),
    Document("3", "contacts.txt", "Ada Holm lives in Varn and keeps the keys. Bo Lind lives in Kestel."),
)


@pytest.mark.parametrize(("answer", "supported"), [("Varn", True), ("Kestel", False)])
def test_a_name_leads_from_one_document_to_the_next(answer: str, supported: bool) -> None:
    """Small collections have no article about each person whose title could be mentioned."""
    for question in (
        "In which town does the person who leads the repair of the boathouse live?",
        "Where does the head of the repair at the boathouse live?",
    ):
        read = Finding("", "", "", PAPERS, query=question)
        assert support_of(answer, question, [read]).supported is supported


def test_no_answer_is_neither() -> None:
    assert supported(" ") is None


def test_words_in_common_do_not_state_a_result() -> None:
    finding = Finding("Where was Mila Torrun born?", "Varn", "", (TORRUN,))
    assert quoted(finding) == []


def test_a_title_states_an_answer_with_the_sentence_that_was_asked_for() -> None:
    found = support_of("Kestel", "Which town has 3,200 people?", (Finding("", "", "", (TOWN,)),))
    assert [(e.title, e.quote) for e in found.evidence] == [("Kestel", "It is a town of 3,200 people.")]


@pytest.mark.parametrize(
    ("result", "states"),
    [
        ("The engineer Mila Torrun was born in Kestel in 1889.", True),
        ("Mila Torrun was born in Varn in 1889.", False),
        ("Mila Torrun was born in Kestel in 1899.", False),
        ("Ada Torrun was born in Kestel in 1889.", False),
        ("Mila Torrun was not born in Kestel.", False),
        ("Mila Torrun was born in Kestel. She left for Paris in 1931.", False),
    ],
)
def test_a_sentence_is_stated_by_its_names_and_numbers(result: str, states: bool) -> None:
    assert is_stated(Finding("Where?", result, "", (TORRUN,))) is states


@pytest.mark.parametrize(
    ("answer", "result", "is_supported"),
    [
        ("Kestel", "Mila Torrun, who taught at the Lyceum of Varn, was born in Kestel.", True),
        ("Varn", "Mila Torrun, who taught at the Lyceum of Varn, was born in Kestel.", False),
        ("Varn", "Mila Torrun was born in Varn.", False),
    ],
)
def test_a_result_may_say_more_than_the_answer(answer: str, result: str, is_supported: bool) -> None:
    found = Finding("Where was Mila Torrun born?", result, "", (TORRUN,))
    assert supported(answer, found, question="Where was the designer of the bridge born?") is is_supported


def test_yes_and_no_rest_on_sub_results_that_are_all_quoted() -> None:
    assert supported("Yes", BORN, LEFT) == "parts"
    assert supported("no.", BORN, replace(LEFT, result="1950")) is False
    assert supported("no", BORN, replace(LEFT, result="")) is False
    assert supported("No Country for Old Men", BORN, LEFT) is False


def test_a_value_worked_out_rests_on_sub_results_with_numbers() -> None:
    assert supported("42 years", BORN, LEFT) is True
    assert supported("42 years in Paris", BORN, LEFT) is False
    assert supported("5,000", Finding("Where was she born?", "Kestel", "", (TORRUN,))) is False


def test_a_choice_rests_on_sub_results_that_are_all_quoted() -> None:
    question = "Which is older, Kestel or the bridge?"
    people = Finding("How many people live in Kestel?", "3,200", "", (TOWN,))
    assert supported("Kestel", people, question=question) == "parts"
    assert supported("the bridge", people, question=question) is False
    assert supported("Kestel", replace(people, result="5,000"), question=question) is False


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Who designed the Orvane Bridge?", "Orvane Bridge", False),
        ("Who designed the Orvane Bridge?", "Mila Torrun", True),
        ("Is the Orvane Bridge or the ferry older?", "Orvane Bridge", "parts"),
        ("Which is older, the Orvane Bridge and the Varn Bridge compared?", "Orvane Bridge", "parts"),
    ],
)
def test_a_name_of_the_question_is_an_answer_only_if_it_offers_a_choice(
    question: str, answer: str, expected: bool | str
) -> None:
    note = "The Orvane Bridge was designed by Mila Torrun."
    finding = Finding("", note, "", (Document("b", "Bridge", f"{note} It opened in 1931."),))
    assert supported(answer, finding, question=question) == expected


def test_a_yes_of_an_executor_rests_on_its_notes_or_on_what_was_asked() -> None:
    yes = Finding("Was Mila Torrun an engineer?", "yes", "", (TORRUN,))
    assert quoted(yes) == [("Mila Torrun", "Mila Torrun was an engineer.")]
    assert quoted(replace(yes, result="no")) == []
    noted = replace(yes, result="no", notes="She was born in Kestel in 1889.")
    assert quoted(noted) == [("Mila Torrun", "She was born in Kestel in 1889.")]


def test_a_long_answer_may_say_no_more_than_the_quotes_and_the_question() -> None:
    people = Finding("How many people live in Kestel?", "3,200", "", (TOWN,))
    born = Finding("Where was Mila Torrun born?", "Kestel", "", (TORRUN,))
    assert supported("The engineer Mila Torrun comes from Kestel, which has 3,200 people.", born, people) is True
    assert supported("The engineer Mila Torrun comes from Kestel, which is near Paris.", born, people) is False


@pytest.mark.parametrize("unit", [" ", "1", "1,", "A", "A. ", "Aa. ", "(", "-1 ", "no, ", "米"])
def test_time_grows_with_the_length_of_texts_and_not_faster(unit: str) -> None:
    def reading(length: int) -> Callable[[], object]:
        text = (unit * length)[:length]
        finding = Finding(text, text, text, (Document("d", text, text),))
        return lambda: support_of(text, text, (finding,))

    assert slower(reading(12_000), reading(3_000), most=10, least=0.015, before=clear_caches) == ""


def test_what_a_sentence_says_itself_counts_more_than_its_title() -> None:
    mail = Document("m", "Bus to the Hartfeld festival", "From: Ruta Kalnina\nTo: Hanna Weiss")
    minutes = Document(
        "c", "minutes", "The choir sings at the festival in Hartfeld. Ruta Kalnina organises the journey."
    )
    question = "Who organises the journey to the Hartfeld festival?"
    found = support_of("Ruta Kalnina", question, [Finding(question, "Ruta Kalnina", "", (mail, minutes))])
    assert [quote.quote for quote in found.evidence if quote.states_answer] == ["Ruta Kalnina organises the journey."]


def test_rows_of_one_table_that_were_read_apart_are_quoted_each_once() -> None:
    """A role that asks about a row is shown that row alone, so each of them begins its text."""
    ada, sten = "Name: Ada Brandt; Deputy: Sten Vik; Phone: 4410", "Name: Sten Vik; Deputy: Ida Moe; Phone: 4413"
    whole = Document("staff.csv#1", "staff.csv", f"{ada}\n{sten}")
    findings = [
        Finding("Who is the deputy of Ada Brandt?", "Sten Vik", "", [replace(whole, text=ada)]),
        Finding("What is the phone of Sten Vik?", "4413", "", [replace(whole, text=sten)]),
    ]
    assert [quote.quote for quote in support(findings)] == [ada, sten]
    again = replace(findings[1], documents=[whole])
    assert [quote.quote for quote in support([*findings, again])] == [ada, sten]
    last = support_of("4413", "What is the phone of the deputy of Ada Brandt?", [*findings, again]).evidence
    assert [(quote.quote, quote.states_answer) for quote in last] == [(ada, False), (sten, True)]


@pytest.mark.parametrize(
    ("question", "is_supported"),
    [
        ("What is the phone of Sten Vik?", True),
        ("What do the phones of Ada Brandt and Sten Vik add up to?", False),
        ("Whose phone?", False),
    ],
)
def test_of_several_results_of_one_kind_the_one_that_the_question_names_is_its_answer(
    question: str, is_supported: bool
) -> None:
    numbers = {"Ada Brandt": "4410", "Sten Vik": "4413"}
    findings = [
        Finding(f"What is the phone of {name}?", number, "", [Document(name, name, f"{name} has the phone {number}.")])
        for name, number in numbers.items()
    ]
    assert supported("4413", *findings, question=question) is is_supported
