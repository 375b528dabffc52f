"""Which sentence of which document is quoted for a finding."""

from subquest.record import Document
from subquest.systems.evidence import Finding, support
from subquest.systems.statements import sentences

BROTHER = Document("1", "Sugan Kond", "On his father's side Kond came from the family of Yube Kond, his father.")
ASKED = Document("2", "Meza Kond", "Meza Kond made films. Yube Kond and Kanze Guhi were Kond's parents.")


def quoted(finding: Finding) -> list[tuple[str, str]]:
    return [(e.title, e.quote) for e in support([finding])]


def test_the_article_about_what_was_asked_is_quoted_not_its_namesakes() -> None:
    finding = Finding("Who was Meza Kond's father?", "Yube Kond", "", (BROTHER, ASKED))
    assert quoted(finding) == [("Meza Kond", "Yube Kond and Kanze Guhi were Kond's parents.")]


def test_without_such_an_article_the_closest_sentence_that_states_the_result_is_quoted() -> None:
    finding = Finding("Who was Meza Kond's father?", "Yube Kond", "", (BROTHER,))
    assert quoted(finding) == [(BROTHER.title, BROTHER.text)]


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


def test_of_a_text_without_full_stops_the_part_with_the_result_is_quoted() -> None:
    words = " ".join(f"word{n}" for n in range(3000))
    text = f"{words} the bridge was designed by Mira Holt {words}"
    (evidence,) = support([Finding("Who designed the bridge?", "mira holt", "", [Document("d", "Talk", text)])])
    assert "designed by Mira Holt" in evidence.quote
    assert 900 < len(evidence.quote) <= 1000
    assert text[evidence.start : evidence.start + len(evidence.quote)] == evidence.quote
    assert {evidence.quote.split()[0], evidence.quote.split()[-1]} <= set(text.split())
    (beginning,) = support([Finding("word7 word8 word9", "", "", [Document("d", "Talk", words)])])
    assert (beginning.start, len(beginning.quote) <= 1000) == (0, True)
