"""Answers as files, read back by the readers of the package."""

import html.parser
import importlib.util
from pathlib import Path

import msgspec
import pytest

from subquest.errors import MissingDependency, UsageError
from subquest.exports import FORMATS, check_export, export, write_export
from subquest.readers import reader
from subquest.record import Episode, Evidence, Question, Report, Section, Sentence, Usage

SOURCES = (
    Evidence("d1", "Orvane Bridge", "It was designed by Mila Torrun.", place={"file": "a.pdf", "page": 3}),
    Evidence("d2", "<b>Torrun</b> & *Co*", "She was born in <Kestel> [sic].", place={"file": "b.md", "line": 12}),
)
SECTIONS = (
    Section("Design", "Who?", (Sentence("The Orvane Bridge was designed by Mila Torrun.", (1,)),)),
    Section("Origin <script>", "Where?", (Sentence("She was born in <Kestel>.", (1, 2)),)),
    Section("Toll", "How much?", missing="not found in the documents"),
)
EPISODE = Episode(
    "e1",
    Question("q", "About the Orvane Bridge"),
    "coda",
    "scripted",
    evidence=SOURCES,
    report=Report("report", "About the Orvane Bridge", SECTIONS),
)


def text_of(path: Path) -> str:
    """What a file says, by the reader of its kind."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8").replace("\\", "")
    read = reader(path.suffix[1:])
    assert read is not None
    with path.open("rb") as file:
        return " ".join(part.text for part in read(file))


def with_text(text: str) -> Episode:
    section = Section("One", "?", (Sentence(text, (1,)),))
    return Episode("e", Question("q", "Q"), "s", "m", evidence=SOURCES[:1], report=Report("report", "A", (section,)))


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_holds_sections_citations_and_sources_with_page_and_line(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"report.{form}"
    check_export(path)
    write_export(EPISODE, path)
    check_export(path)  # an older one of its kind may be replaced
    text = " ".join(text_of(path).split())
    for expected in (
        "designed by Mila Torrun [1].",
        "Not found in the documents.",
        "Orvane Bridge, a.pdf, page 3",
        "b.md, line 12",
        "Sources",
    ):
        assert expected in text, (expected, text)


@pytest.mark.parametrize("form", FORMATS)
def test_the_quote_that_states_the_answer_is_marked(form: str, tmp_path: Path) -> None:
    stating = msgspec.structs.replace(SOURCES[1], states_answer=True)
    for sources, marks in (((SOURCES[0], stating), 1), ((stating,), 0), (SOURCES, 0)):
        path = tmp_path / f"{len(sources)}-{marks}.{form}"
        write_export(msgspec.structs.replace(EPISODE, evidence=sources), path)
        assert " ".join(text_of(path).split()).count("(states the answer)") == marks


def test_text_of_documents_is_never_markup() -> None:
    class Tags(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.found.append(tag)

    tags = Tags()
    tags.feed(export(EPISODE, "html").decode())
    assert not {"script", "b", "kestel"} & set(tags.found)
    markdown = export(EPISODE, "md").decode()
    assert r"\<b\>Torrun\</b\> & \*Co\*" in markdown
    assert r"\[sic\]" in markdown


def test_citations_link_to_their_sources() -> None:
    page = export(EPISODE, "html").decode()
    assert '<a href="#source-2">[2]</a>' in page
    assert '<li id="source-2">' in page


def test_a_short_answer_can_be_exported_too() -> None:
    episode = Episode("e", Question("q", "Who?"), "coda", "m", answer="Mila Torrun", evidence=SOURCES[:1])
    for form in FORMATS:
        assert export(episode, form)
    assert "Mila Torrun" in export(episode, "md").decode()


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_says_that_an_answer_is_not_supported(form: str, tmp_path: Path) -> None:
    unsupported = Episode("e", Question("q", "Who?"), "coda", "m", answer="Mila Torrun", supported=False)
    parts = msgspec.structs.replace(unsupported, evidence=SOURCES[:1], parts_supported=True)
    supported = msgspec.structs.replace(parts, supported=True, parts_supported=False)
    texts = []
    for number, episode in enumerate((unsupported, parts, supported)):
        path = tmp_path / f"{number}.{form}"
        write_export(episode, path)
        texts.append(" ".join(text_of(path).split()))
    assert "Not supported by a document." in texts[0]
    assert "Its parts are supported, the conclusion is not checked." in texts[1]
    assert "upported" not in texts[2]


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_says_why_there_is_no_answer(form: str, tmp_path: Path) -> None:
    abstained = Episode("e", Question("q", "Who?"), "coda", "m", stop_reason="abstained", usage=Usage(searches=1))
    failed = msgspec.structs.replace(abstained, stop_reason="failed")
    for episode, said in ((abstained, "Unknown: the documents that were read do not say."), (failed, "(failed).")):
        path = tmp_path / f"{episode.stop_reason}.{form}"
        write_export(episode, path)
        assert said in " ".join(text_of(path).split())


def test_letters_that_are_not_western_are_embedded_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pdf"
    write_export(with_text("Мост открыт в 1931 году — “да”."), path)
    assert "Мост открыт" in text_of(path)
    monkeypatch.setattr("subquest.exports.pdf_file._fonts", list)
    with pytest.raises(UsageError, match="SUBQUEST_FONT"):
        export(with_text("Мост"), "pdf")
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"has no .* SUBQUEST_FONT"):
        export(with_text("橋\U000f0000"), "pdf")


def test_control_characters_break_no_format() -> None:
    for form in FORMATS:
        assert export(with_text("A \x00\x1b[31m \ud800 bridge\x0b."), form)


def test_refusals_name_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"end it with \.md, \.html, \.docx, \.pdf"):
        check_export(tmp_path / "report.txt")
    with pytest.raises(UsageError, match="no folder"):
        check_export(tmp_path / "nowhere" / "report.md")
    with pytest.raises(UsageError, match="no format 'exe'"):
        export(EPISODE, "exe")
    (tmp_path / "other.pdf").write_text("my notes")
    with pytest.raises(UsageError, match="another kind"):
        check_export(tmp_path / "other.pdf")
    monkeypatch.setattr("subquest.exports.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"subquest\[report\]"):
        check_export(tmp_path / "report.docx")
    assert importlib.util.find_spec("docx") is not None
