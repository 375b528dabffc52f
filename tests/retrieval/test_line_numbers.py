"""Lines of a quote: what is quoted from a passage is cited with its own line in the file, not with the passage's.

Every line of these files has words that say which line it is (`n7n`), so that any place of any passage can be checked.
Formats without lines are cited by paragraph in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.citation import cite
from subquest.cli import main
from subquest.engine.scripted import ScriptedEngine
from subquest.exports.markdown import to_markdown
from subquest.record import Document, Evidence, Hit, Question
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.retrieval.passages import Passages
from subquest.retrieval.splitter import Size
from subquest.runtime.excerpts import excerpts
from subquest.runtime.table_rows import matching_rows
from subquest.systems import registry

from ..readers.made import docx, opendocument

MARKDOWN = """\
---
title: The ferry
owner: harbour
---

# The ferry

The ferry n8n leaves the **old quay** at seven, and it comes back
before n9n noon on every day of the week but Sunday, when the crew
rests n10n. Tickets are sold on board.

- The first [item](https://example.org/a/long/address) n12n
- The second item, which is wrapped in the file because it is
  too long n14n for one line of it
* The third item n15n

> A quotation n17n that somebody wrote down about the ferry and
> that goes on n18n in the next line.

## Times n20n

| Stop | Time |
|---|---|
| Quay n24n | 7:00 |
| Inn n25n | 7:40 |

```
first line of code n28n
second line of code n29n
```
After the code n31n.


Two blank lines above n34n, and a soft-hyph\xaden and an en\xadd of a line that is long enough to be
joined n35n to this one.
"""
TEXT = "".join(
    f"\n\n\nA short title n{n + 3}n\n\nA wrapped paragraph n{n + 5}n that is as long as lines of a mail used to be,\n"
    f"and that ends here n{n + 6}n. Next sentence.\nshort n{n + 7}n\nlines n{n + 8}n\n"
    for n in range(1, 340, 9)
)
LONG = "\n".join(
    f"words n{n}n of one sentence that does not end before the file does, whatever the reader hopes"
    for n in range(1, 90)
)
CSV = "Name,Note\n\n" + "".join(f'n{n}n,"a note\nof three lines\nwith n{n}n"\n\n' for n in range(3, 200, 4))


def numbers(document: Document) -> Iterable[tuple[int, int]]:
    """What each marked word of a passage says its line is, and what a citation of the word says."""
    for found in re.finditer(r"n(\d+)n", document.text):
        place = Evidence.from_document(document, found[0]).place
        yield int(found[1]), next((place[field] for field in ("row", "line", "paragraph") if field in place), 0)


def check(documents: Iterable[Document], fewest: int) -> None:
    pairs = [pair for document in documents for pair in numbers(document)]
    assert len(pairs) >= fewest
    assert [cited for _, cited in pairs] == [true for true, _ in pairs]


def cut(documents: Iterable[Document]) -> list[Document]:
    """Of each passage, what a query for its last marked word needs: less than all of it."""
    found = [(document, re.findall(r"n\d+n", document.text)) for document in documents]
    cuts = [excerpts([Hit(document, 1.0)], words[-1], 8)[0].document for document, words in found if words]
    assert all(words[-1] in part.text for part, (_, words) in zip(cuts, (f for f in found if f[1]), strict=True))
    return cuts


def stored(folder: Path, name: str) -> list[Document]:
    """The passages of a file, read into an index and out of it."""
    with Index.build(folder / "docs.sq", []) as index:
        ingest(index, [folder / name])
        return list(index.documents())


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize(
    ("name", "text", "fewest"),
    [("a.md", MARKDOWN, 15), ("a.txt", TEXT, 180), ("a.rst", LONG, 89), ("a.log", TEXT, 180), ("a.csv", CSV, 90)],
)
def test_every_word_is_cited_with_its_line(tmp_path: Path, name: str, text: str, fewest: int, end: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):  # the words tell the truth
        said = re.findall(r"n(\d+)n", line)
        assert name.endswith("csv") or all(int(one) == number for one in said)
    (tmp_path / name).write_text(text.replace("\n", end), newline="")
    documents = stored(tmp_path, name)
    check(documents, fewest)
    check(cut(documents), 2)


def test_rows_of_a_sheet_with_gaps(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in range(1, 120, 3):
        for column, text in enumerate(("Name", "Note") if row == 1 else (f"n{row}n", "a note"), 1):
            book.active.cell(row, column, text)
    book.save(tmp_path / "a.xlsx")
    documents = stored(tmp_path, "a.xlsx")
    check(documents, 39)
    chosen = matching_rows(documents[0], "note of n16n and n28n")
    assert [pair[0] for pair in numbers(chosen)] == [16, 28]
    check([chosen], 2)
    assert (chosen.meta["row"], chosen.meta["row_end"]) == (16, 28)
    alone = matching_rows(documents[0], "n16n")
    assert cite(Evidence.from_document(alone, "n16n").place).endswith("a.xlsx, sheet Sheet, row 16")


SAYS = "Paragraph n{}n says where it stands and goes on for longer than a line. It ends with a second sentence n{}n."
PARAGRAPHS = [SAYS.format(n, n) for n in range(1, 40)]
HTML = "<html><body><p>{}</p></body></html>".format("</p><p>".join(PARAGRAPHS))
ODT = "<office:text><text:p>{}</text:p></office:text>".format("</text:p><text:p>".join(PARAGRAPHS))
LETTER = "From: n0n@example.org\nSubject: n0n\nContent-Type: text/{}\n\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", docx(*PARAGRAPHS)),
        ("headings.docx", docx("n1n", ("berschrift1", "Head n0n"), *PARAGRAPHS[:9], [["a", "b"]], *PARAGRAPHS[9:])),
        ("a.odt", opendocument("text", ODT)),
        ("a.html", HTML),
        ("a.eml", LETTER.format("plain") + "\n\n\n".join(PARAGRAPHS).replace("longer than", "longer\nthan")),
        ("html.eml", LETTER.format("html") + HTML),
        ("long.eml", LETTER.format("plain") + "\n\n".join(SAYS.format(n, n) for n in range(1, 3000))),
    ],
    ids=["docx", "docx-headings", "odt", "html", "mail", "mail-html", "mail-long"],
)
def test_every_word_is_cited_with_its_paragraph(tmp_path: Path, name: str, content: str | bytes) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    documents = stored(tmp_path, name)
    check(documents, 2 * len(PARAGRAPHS))
    check(cut(documents), 2)
    last = next(document for document in documents if "n39n" in document.text)
    assert cite(Evidence.from_document(last, "n39n").place).endswith(", paragraph 39")


PIECES = st.sampled_from([
    "a short line", "a line that is long enough to be joined with the next one", "- an item", "* *an* item", "", " ",
    "```", "# Heading", "> quoted and long enough to be joined with the next one", "    code", "| a | b |", "|---|---|",
    "A sentence. Another **one**. ", "soft\xadhyphen in a line that is long enough to be joined", "page\x0cbreak",
])  # fmt: skip


@given(st.lists(PIECES, max_size=60), st.booleans(), st.booleans())
def test_any_text(pieces: list[str], markdown: bool, marks: bool) -> None:
    lines = [f"{piece} n{n}n\n" if piece.strip(" -`|") else f"{piece}\n" for n, piece in enumerate(pieces, 1)]
    passages = Passages("a.md", Size(10)).of_lines(lines, markdown=markdown, marks=marks and markdown)
    for document in passages:
        for true, cited in (*numbers(document), *(pair for part in cut([document]) for pair in numbers(part))):
            assert true == cited


def test_an_index_from_before_cites_its_passages() -> None:
    meta = {"file": "a.md", "line": 7, "start": 80}
    old = Document("a.md#1", "a", "First line of it.\nSecond line.", meta)
    assert Evidence.from_document(old, "Second line.").place == {"file": "a.md", "line": 7}
    for odd in (7, "x", "3:", "1 -2", [3], None):  # of documents that somebody else made
        own = Document("a.md#1", "a", old.text, {**meta, "line_steps": odd})
        assert Evidence.from_document(own, "Second line.").place["line"] == 7


BRIDGES = """\
# Bridges

The valley has had a bridge since the mills were built, and people have paid
to cross it ever since. It was made of wood for most of that time.

- It burned down twice.
- It was washed away once, in spring.

The bridge that stands today took four years to build and is made of stone. The
Orvane Bridge was designed by Mila Torrun, who had built nothing of that size
before.
"""
STATED = "The Orvane Bridge was designed by Mila Torrun, who had built nothing of that size before."


@pytest.fixture
def bridges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bridges.md").write_text(BRIDGES)
    with Index.build(tmp_path / "docs.sq", []) as index:
        ingest(index, ["bridges.md"])
    return tmp_path / "docs.sq"


async def test_an_answer_and_its_export_name_the_line(bridges: Path) -> None:
    with Index.open(bridges) as index:
        system = registry.get("rag")(ScriptedEngine(["<answer>Mila Torrun</answer>"]), index)
        episode = await system.solve(Question("q", "Who designed the Orvane Bridge?"))
    (quote,) = episode.evidence
    assert (quote.quote, quote.place["line"]) == (STATED, 9)
    assert "bridges.md, line 9" in to_markdown(episode)


def test_search_names_the_line_of_what_it_marks(bridges: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["search", "designed by Mila Torrun", "--index", str(bridges)]
    assert main(asked) == 0
    assert "bridges.md, line 9\n" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert '"bridges.md, line 9"' in capsys.readouterr().out
