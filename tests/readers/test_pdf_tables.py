"""Tables in PDF files: rows stay together, prose in columns is no table, and no word is lost."""

from __future__ import annotations

import io

import pytest

from subquest.readers import Part
from subquest.readers.pdf import read_pdf
from subquest.retrieval.passages import Passages

from .made import pdf_of_streams

pytest.importorskip("pypdfium2", reason="PDF needs the extra `web-tools`")

Word = tuple[float, float, str]


def page(*words: Word) -> bytes:
    """A page of words at places."""
    drawn = " ".join(f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in words)
    return pdf_of_streams([drawn.encode("cp1252")])


def grid(top: float, rows: list[list[str]], columns: list[float], step: float = 16) -> list[Word]:
    return [
        (x, top - step * n, cell) for n, row in enumerate(rows) for x, cell in zip(columns, row, strict=True) if cell
    ]


def read(*words: Word) -> list[Part]:
    return list(read_pdf(io.BytesIO(page(*words))))


TABLE = [["Site", "First call", "Time"], ["Kelm", "Outreach nurse", "30 min"], ["Brunn", "Ambulance", "10 min"]]


def test_rows_of_a_table_stay_together() -> None:
    parts = read((60, 740, "Who to call is in the table below."), *grid(700, TABLE, [60, 220, 380]), (60, 600, "End."))
    assert [part.cells or part.text for part in parts] == [
        "Who to call is in the table below.",
        *map(tuple, TABLE),
        "End.",
    ]
    assert {part.place["page"] for part in parts} == {1}
    (_, rows, _) = Passages("a.pdf").of_parts(parts)
    assert rows.text.split("\n")[0] == "Site: Kelm; First call: Outreach nurse; Time: 30 min"
    assert (rows.meta["page"], rows.meta["row"]) == (1, 2)


def test_a_cell_of_two_lines_and_numbers_on_the_right() -> None:
    words = [*grid(700, TABLE[:2], [60, 220, 380]), (220, 674, "by bleep"), *grid(650, TABLE[2:], [60, 220, 395])]
    assert [part.cells for part in read(*words) if part.row][1] == ("Kelm", "Outreach nurse by bleep", "30 min")
    assert [part.cells for part in read(*words) if part.row][2] == ("Brunn", "Ambulance", "10 min")


def test_prose_in_two_columns_is_no_table() -> None:
    line = "the river rises near the town and ends in the sea"
    parts = read(*grid(700, [[line, line]] * 20, [40, 320], 12))
    assert [part.row for part in parts] == [False]
    assert parts[0].text.count("the river") == 40


def test_two_lines_with_a_gap_are_no_table() -> None:
    parts = read((60, 700, "Name:"), (200, 700, "Ana"), (60, 684, "Post:"), (200, 684, "Nurse"))
    assert [part.row for part in parts] == [False]


def test_a_page_without_text_is_an_empty_part() -> None:
    assert [(part.text, dict(part.place)) for part in read()] == [("", {"page": 1})]


@pytest.mark.parametrize(
    ("above", "called"),
    [
        ("Emergency calls", "Emergency calls"),
        ("Table 2. Calls by site.", "Table 2. Calls by site."),
        ("See below.", ""),
    ],
)
def test_a_table_is_called_what_the_line_above_it_says(above: str, called: str) -> None:
    parts = read((60, 740, "We answer all calls."), (60, 720, above), *grid(700, TABLE, [60, 220, 380]))
    *_, rows = Passages("a.pdf").of_parts(parts)
    assert rows.title == " > ".join(filter(None, ["a.pdf", called]))
