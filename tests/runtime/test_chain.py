"""Which sentences lead from a question to the one that states its answer."""

import pytest

from subquest.record import Document
from subquest.runtime.evidence import Finding, support_of

BRIDGE = Document("1", "Orvane Bridge", "It opened in 1931. The Orvane Bridge was designed by Mila Torrun.")
TORRUN = Document("2", "Mila Torrun", "Mila Torrun was an engineer. She was born in Kestel.")
KESTEL = Document("3", "Kestel", "Kestel lies on the Sarn. The mayor of the town is Bo Lind.")
HOLT = Document("4", "Ada Holt", "Ada Holt designed bridges too. She was born in Varn.")
ALL = (HOLT, KESTEL, TORRUN, BRIDGE)
MINUTES = Document("5", "Minutes > Towpath", "The survey is done. Ruth Abern leads the repair.")
STAFF = Document("6", "staff.csv", "Name: Ruth Abern; Office: Fenwick\nName: Bo Lind; Office: Marsden")
DESIGNED, BORN = "The Orvane Bridge was designed by Mila Torrun.", "She was born in Kestel."


def quotes(question: str, answer: str, *documents: Document, task: bool = False) -> list[str]:
    """The quotes in order; the last one, and no other, states the answer."""
    finding = Finding(question, answer, "", documents) if task else Finding("", "", "", documents, query=question)
    found = support_of(answer, question, [finding])
    assert [quote.states_answer for quote in found.evidence][-1:] == [True][: len(found.evidence)]
    assert sum(quote.states_answer for quote in found.evidence) <= 1
    return [quote.quote for quote in found.evidence]


@pytest.mark.parametrize("task", [False, True])
def test_the_document_of_the_answer_is_mentioned_by_the_sentence_before(task: bool) -> None:
    assert quotes("Where was the designer of the Orvane Bridge born?", "Kestel", *ALL, task=task) == [DESIGNED, BORN]


def test_a_chain_goes_over_as_many_documents_as_it_needs() -> None:
    question = "Who is the mayor of the town where the designer of the Orvane Bridge was born?"
    assert quotes(question, "Bo Lind", *ALL) == [DESIGNED, BORN, "The mayor of the town is Bo Lind."]


def test_a_row_of_a_table_is_reached_by_a_name_that_both_have() -> None:
    question = "In which office does the person work who leads the towpath repair?"
    row = "Name: Ruth Abern; Office: Fenwick"
    assert quotes(question, "Fenwick", STAFF, MINUTES, task=True) == ["Ruth Abern leads the repair.", row]


def test_a_sentence_before_it_in_the_document_names_what_was_asked() -> None:
    novel = Document(
        "7", "Honest Widow", "It has a memoir by Ada Holt as its model. The novel was published by Lind & Sons."
    )
    question = "Who published the novel modelled on a memoir by Ada Holt?"
    assert quotes(question, "Lind & Sons", novel) == [
        "It has a memoir by Ada Holt as its model.",
        "The novel was published by Lind & Sons.",
    ]


def test_a_sentence_about_the_question_itself_needs_no_other() -> None:
    assert quotes("Where was Mila Torrun born?", "Kestel", *ALL) == [BORN]
    assert quotes("Who designed the Orvane Bridge?", "Mila Torrun", *ALL) == [DESIGNED]


def test_a_number_by_itself_leads_nowhere() -> None:
    fees = Document(
        "8", "Fees", "A vessel under 12 m pays 38 florins a night; a vessel of 12 m or more pays 61 florins."
    )
    arrivals = Document("9", "arrivals.csv", "Vessel: Dunlin 14; Cargo: salt; Fee (florins): 38")
    question = "How many florins a night does a vessel of 14 m pay?"
    assert quotes(question, "61", arrivals, fees) == [fees.text]


def test_what_leads_nowhere_is_not_quoted() -> None:
    hearsay = Document("8", "Ys", "A designer and the Orvane Bridge are names of boats.")
    assert quotes("Where was the designer of the Orvane Bridge born?", "Kestel", hearsay, *ALL) == [DESIGNED, BORN]


def test_a_name_that_neither_sentence_is_about_leads_nowhere() -> None:
    registers = Document("8", "Parish registers", "The designer, a friend of Sudria Roads, was born in Kestel.")
    owners = Document("9", "Owners", "The Orvane Bridge, whose designer is famous, is owned by Sudria Roads.")
    question = "Where was the designer of the Orvane Bridge born?"
    assert quotes(question, "Kestel", owners, registers, task=True) == [registers.text]


def test_a_name_that_the_sentence_begins_with_or_that_the_other_document_has_as_its_title_leads_to_it() -> None:
    people = Document("8", "People of Sudria", "It is long. Mila Torrun was born in Kestel.")
    question = "Where was the designer of the Orvane Bridge born?"
    assert quotes(question, "Kestel", people, BRIDGE) == [DESIGNED, "Mila Torrun was born in Kestel."]
    firm = Document("9", "Torrun & Lind", "Torrun & Lind were the designer of the Orvane Bridge.")
    prizes = Document("10", "Prizes of 1932", "The gold medal went to the partners of Torrun & Lind.")
    question = "Which medal went to the designer of the Orvane Bridge?"
    assert quotes(question, "gold medal", prizes, firm) == [firm.text, prizes.text]


def test_a_question_word_that_begins_a_second_sentence_is_no_name() -> None:
    governor = Document("8", "Bo Lind", "Bo Lind, who was a singer, is governor of Varn.")
    assert quotes("Take the town of the Orvane Bridge. Who is its governor?", "Bo Lind", governor, task=True) == []


def test_a_sub_result_that_leads_to_the_answer_is_not_followed_by_another_of_its_kind() -> None:
    again = Document("9", "Bridges", "The designer of the Orvane Bridge, born abroad, was Mila Torrun.")
    steps = [
        Finding("Who designed the Orvane Bridge?", "Mila Torrun", "", (BRIDGE,), "1.1"),
        Finding("Where was Mila Torrun born?", "Kestel", "", (again, TORRUN), "1.2"),
    ]
    found = support_of("Kestel", "Where was the designer of the Orvane Bridge born?", steps)
    assert [(quote.quote, quote.trajectory) for quote in found.evidence] == [(DESIGNED, "1.1"), (BORN, "1.2")]


def test_of_a_yes_no_quote_states_the_answer() -> None:
    steps = [
        Finding("Who designed the Orvane Bridge?", "Mila Torrun", "", (BRIDGE,)),
        Finding("Where was Mila Torrun born?", "Kestel", "", (TORRUN,)),
    ]
    found = support_of("yes", "Was the designer of the Orvane Bridge born in Kestel?", steps)
    assert [quote.quote for quote in found.evidence] == [DESIGNED, BORN]
    assert not any(quote.states_answer for quote in found.evidence)
