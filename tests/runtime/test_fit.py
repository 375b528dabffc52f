"""Whether an answer fits a question better than its rivals."""

import pytest

from subquest.record import Document
from subquest.runtime.comparison import decides
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.fit import Fit
from subquest.runtime.spots import kind_of
from subquest.runtime.statements import claim_of, words_of
from subquest.runtime.word_forms import terms_of

BRIDGE = Document(
    "1",
    "Orvane Bridge",
    "The Orvane Bridge crosses the River Tern at Varn. It was designed by Mila Torrun and paid for by Ada Holt, who "
    "also founded the Varn Museum. It opened in 1931 and was closed in 1987.",
)
TORRUN = Document(
    "2", "Mila Torrun", "Mila Torrun (1889 - 1960) was an engineer. She was born in Kestel and died in Lund."
)
ROWS = Document(
    "3",
    "assets.csv",
    "asset: NRD-E22; what it is: van; site: Sandby Yard\nasset: NRD-E45; what it is: pump; site: Holm Hall",
)
ALL = (BRIDGE, TORRUN, ROWS)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("Who designed the Orvane Bridge?", "Mila Torrun", "Ada Holt"),
        ("Who paid for the Orvane Bridge?", "Ada Holt", "Varn Museum"),
        ("When was the Orvane Bridge closed?", "1987", "1889"),
        ("Which river does the Orvane Bridge cross?", "River Tern", "Ada Holt"),
        ("Where was the designer of the Orvane Bridge born?", "Kestel", "Varn"),
        ("In which year did Mila Torrun die?", "1960", "1889"),
        ("Which pump is kept at Holm Hall?", "NRD-E45", "NRD-E22"),
    ],
)
def test_what_else_stands_there_does_not_fit(question: str, right: str, wrong: str) -> None:
    def supported(answer: str) -> bool | None:
        return support_of(answer, question, [Finding(question, answer, "", ALL, query=question)]).supported

    assert (supported(right), supported(wrong)) == (True, False)


def test_a_name_in_a_note_is_no_answer_by_that() -> None:
    note = "It was designed by Mila Torrun and paid for by Ada Holt, who also founded the Varn Museum."
    findings = [Finding("", note, "", ALL)]
    assert support_of("Mila Torrun", "Who designed the Orvane Bridge?", findings).supported is True
    assert support_of("Varn Museum", "Who designed the Orvane Bridge?", findings).supported is False


def test_names_and_codes_are_rivals_in_a_sub_task() -> None:
    read = [
        Document(
            "4", "Suppliers", "supplier: Kelby Motors; head office: Lund\nsupplier: Holm & Sons; head office: Varn"
        ),
        Document("5", "Assets", "asset: NRD-E22; supplier: Kelby Motors\nasset: NRD-E45; supplier: Holm & Sons"),
    ]
    fit = Fit("In which town is the head office of Kelby Motors?", read, one_step=True)
    assert (fit.accepts(claim_of("Lund")), fit.accepts(claim_of("NRD-E22"))) == (True, False)


def test_a_word_that_only_begins_a_sentence_is_hardly_a_name() -> None:
    read = [
        Document("6", "Mila Torrun", "Mila Torrun was Swedish. Later she lived in Lund. Though old, she kept working.")
    ]
    fit = Fit("What was the nationality of Mila Torrun?", read, one_step=True)
    assert (fit.accepts(claim_of("Swedish")), fit.accepts(claim_of("Though"))) == (True, False)


def test_an_answer_without_names_and_numbers_has_no_rivals() -> None:
    assert Fit("What was Mila Torrun?", ALL, one_step=True).accepts(claim_of("engineer"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Mila Torrun", "name"), ("1931", "year"), ("4 May 1931", "date"), ("412", "number"), ("NRD-E45", "code")],
)
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(words_of(text).line) == kind


def test_forms_of_a_word_are_one_word() -> None:
    assert terms_of("won winner") == terms_of("win")
    assert terms_of("director birth") == terms_of("directed born")


FILMS = [
    ("Who directed Alder?", "Mila Torrun"),
    ("Who directed Birch?", "Ada Holt"),
    ("When was Mila Torrun born?", "4 May 1889"),
    ("When was Ada Holt born?", "1890"),
]


@pytest.mark.parametrize(
    ("question", "answer", "decided"),
    [
        ("Which film has the older director, Alder or Birch?", "Alder", True),
        ("Which film has the older director, Alder or Birch?", "Birch", False),
        ("Which film has the younger director, Alder or Birch?", "Birch", True),
        ("Which film has the better director, Alder or Birch?", "Birch", None),
        ("Was the director of Alder born later than the director of Birch?", "no", True),
        ("Were the directors of Alder and Birch born in the same year?", "yes", False),
    ],
)
def test_sub_results_decide_a_comparison(question: str, answer: str, decided: bool | None) -> None:
    assert decides(question, answer, FILMS) is decided
