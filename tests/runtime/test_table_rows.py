"""Rows of tables: those that a query is about are shown, and a row of somebody else supports nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.citation import KEPT, keep_parts, place_in_whole
from subquest.engine.scripted import ScriptedEngine
from subquest.record import Document, Question
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.statements import sentences
from subquest.runtime.table_rows import is_row, matching_rows
from subquest.systems import registry

STAFF = """Name: Mona Sharp; Office: Old Quay; Role: surveyor; Phone: ext. 200
Name: Dana Moss; Office: Harbour Row; Role: ranger; Phone: ext. 201
Name: Iris Moss; Office: Old Quay; Role: ranger; Phone: ext. 207
Name: Gus Carr; Office: Mill Lane; Role: cook; Phone: ext. 208"""


def table(text: str = STAFF, **meta: Any) -> Document:
    count = text.count("\n")
    return Document("staff.csv#1", "staff.csv", text, {"file": "staff.csv", "line": 2, "line_end": 2 + count, **meta})


def names(document: Document) -> list[str]:
    return [line.split(";")[0].removeprefix("Name: ") for line in document.text.splitlines()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What is the phone of Iris Moss?", ["Iris Moss"]),
        ("iris moss phone extension", ["Iris Moss"]),
        ("Who of Iris Moss and Gus Carr is a cook?", ["Iris Moss", "Gus Carr"]),
        ("rangers", ["Dana Moss", "Iris Moss"]),
        ("the ranger at Old Quay", ["Iris Moss"]),
        ("Which roles are there?", ["Mona Sharp", "Dana Moss", "Iris Moss", "Gus Carr"]),
        ("opening hours of the museum", ["Mona Sharp", "Dana Moss", "Iris Moss", "Gus Carr"]),
    ],
)
def test_the_rows_that_a_query_is_about(query: str, found: list[str]) -> None:
    assert names(matching_rows(table(), query)) == found


def test_the_citation_is_that_of_the_rows() -> None:
    assert {"line": 4}.items() <= matching_rows(table(), "Iris Moss").meta.items()
    assert "line_end" not in matching_rows(table(), "Iris Moss").meta
    assert {"line": 3, "line_end": 4}.items() <= matching_rows(table(), "rangers").meta.items()
    gaps = table(line_end=19)  # empty lines between rows: which line is which cannot be told
    assert {"line": 2, "line_end": 19}.items() <= matching_rows(gaps, "Iris Moss").meta.items()


def test_a_row_without_a_first_cell_belongs_to_the_row_above() -> None:
    text = "Region: North; City: Kestel; Depots: 3\nCity: Marn; Depots: 2\nRegion: South; City: Tull; Depots: 1"
    assert matching_rows(table(text), "depots of the North").text == "\n".join(text.splitlines()[:2])


def test_rows_that_begin_with_a_label() -> None:
    text = "09:30; Office: Old Quay; Phone: ext. 200\n10:00; Office: Mill Lane; Phone: ext. 201\nPhone: ext. 202"
    assert [is_row(line) for line in text.splitlines()] == [True, True, False]
    assert matching_rows(table(text), "Mill Lane").text == "\n".join(text.splitlines()[1:])
    rows = table("Iris Moss; Office: Old Quay; Phone: ext. 207\nGus Carr; Office: Mill Lane; Phone: ext. 208")
    assert supported("ext. 207", "What is the phone of Iris Moss?", documents=(rows,))
    assert not supported("ext. 208", "What is the phone of Iris Moss?", documents=(rows,))
    assert supported("Iris Moss", "Who has the phone ext. 207?", documents=(rows,))


def test_prose_is_left_alone() -> None:
    text = "Iris Moss works at Old Quay.\nDana Moss does not: she left."
    assert matching_rows(Document("a.txt#1", "a", text, {"line": 3}), "Iris Moss").text == text
    assert not is_row("Note: the office is closed on Mondays.")
    assert not is_row("The office is closed on Mondays; reason: the lift is old.")


def test_a_row_is_one_sentence() -> None:
    assert [STAFF[start:end] for start, end in sentences(STAFF)] == STAFF.splitlines()


def supported(result: str, task: str, *, query: str = "", documents: tuple[Document, ...] = (table(),)) -> bool | None:
    finding = Finding(task, result, "", documents, query=query)
    return support_of(result, task, [finding]).supported


def test_a_row_of_somebody_else_supports_nothing() -> None:
    task = "What is the phone of Iris Moss?"
    assert supported("ext. 207", task)
    assert not supported("ext. 201", task)
    assert not supported("ext. 200", task)
    assert supported("ext. 208", "What is the phone of the cook that Iris Moss knows?", query="phone of Gus Carr")
    assert supported("Iris Moss", "Who is the ranger at Old Quay?")
    elsewhere = Document("stock.csv#1", "stock.csv", "Item: lamp; Shelf: B2\nItem: pump; Shelf: C4", {"file": "s.csv"})
    assert supported("C4", "On which shelf of the Old Quay depot is the pump?", documents=(table(), elsewhere))


def shapes(folder: Path) -> Mapping[str, tuple[str, str]]:
    """Three tables of different shapes; for each question, words of its row and of a row beside it."""
    folder.mkdir()
    (folder / "staff.csv").write_text(
        "Name,Office,Phone\n" + "".join(f"Person {n:03},Office {n % 7},ext. {200 + n}\n" for n in range(90))
    )
    stock = "".join(f"K-{1000 + n};part {n};{'ABCDE'[n % 5]}{n}\n" for n in range(90))
    (folder / "stock.csv").write_text(f"Depot stock list\n\nItem no;Part;Shelf\n{stock}")
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Site", *(f"Month {n}" for n in range(1, 13))])
    for site in ("Castle", "Lighthouse", "Mill Museum", "Rose Garden", "Tram Depot"):
        sheet.append([site, *(len(site) * 100 + n for n in range(1, 13))])
    book.save(folder / "visitors.xlsx")
    return {
        "What is the phone of Person 041?": ("ext. 241", "ext. 240"),
        "On which shelf is item K-1037?": ("C37", "B36"),
        "How many visitors did the Lighthouse have in Month 8?": ("Month 8: 1008", "Site: Castle"),
    }


def test_tables_of_three_shapes_give_the_row_that_was_asked_for(tmp_path: Path) -> None:
    asked = shapes(tmp_path / "docs")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "docs"])
        for question, (right, beside) in asked.items():
            shown = matching_rows(index.search(question, 1)[0].document, question)
            assert right in shown.text, question
            assert beside not in shown.text, question


async def test_evidence_gives_the_place_of_a_row_in_the_whole_passage(tmp_path: Path) -> None:
    """The role was shown one row, or its table and prose cut to few tokens; `start` counts from the passage's start."""
    asked = shapes(tmp_path / "docs")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "docs"])
        for question, (right, _) in asked.items():
            for tokens in (None, 40):
                engine = ScriptedEngine([f"<answer>{right.removeprefix('Month 8: ')}</answer>"])
                system = registry.get("rag")(engine, index, search_tokens=tokens)
                episode = await system.solve(Question("q", question))
                assert episode.evidence
                for quote in episode.evidence:
                    whole = index.get(quote.id)
                    assert whole is not None
                    assert whole.text.startswith(quote.quote, quote.start), (question, tokens)
                assert any(quote.start for quote in episode.evidence)


async def test_evidence_of_several_attempts_has_places_in_whole_passages(tmp_path: Path) -> None:
    """Each attempt was shown another row of one passage."""
    (tmp_path / "staff.csv").write_text("Name,Office,Phone\nBo Lind,Pier,11\nMona Sharp,Quay,12\nIris Moss,Pier,13\n")
    asked = ["phone of Mona Sharp", "phone of Iris Moss", "phone of Bo Lind"]
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "staff.csv"])
        (whole,) = index.documents()
        replies = [reply for query in asked for reply in (f"<search>{query}</search>", "<answer>12</answer>")]
        system = registry.get("search-r1")(ScriptedEngine(replies), index, votes=3)
        episode = await system.solve(Question("q", "What is the phone of Mona Sharp?"))
    (quote,) = episode.evidence
    assert quote.quote == "Name: Mona Sharp; Office: Quay; Phone: 12"
    assert quote.start == whole.text.index("Name: Mona Sharp") > 0


@given(st.data())
def test_the_kept_parts_of_kept_parts_know_their_place(data: st.DataObject) -> None:
    whole = "".join(map(chr, range(0x4E00, 0x4E00 + data.draw(st.integers(1, 60)))))
    meta: Mapping[str, Any] = data.draw(st.sampled_from([{}, {KEPT: "a field of a corpus"}]))
    text = whole
    for gap in ("\n", "\n…\n"):
        ends = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=8)))
        parts = list(zip(ends[::2], ends[1::2], strict=False))
        meta, text = keep_parts(meta, text, parts, gap)
        for at, sign in enumerate(text):
            assert sign in gap or whole[place_in_whole(meta, at)] == sign
