"""OpenDocument files: texts under their headings, sheets by row, slides; what repeats endlessly, and what is locked."""

import io

import pytest

from subquest.errors import DataError
from subquest.readers import Part, reader, sniff

from .made import archive, opendocument


def parts_of(content: bytes) -> list[Part]:
    read = reader(sniff(content, "file.bin"))
    assert read is not None
    return list(read(io.BytesIO(content)))


def row(*cells: str, repeated: int = 1) -> str:
    inner = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
    return f'<table:table-row table:number-rows-repeated="{repeated}">{inner}</table:table-row>'


def test_a_text_has_sections_lists_tables_and_notes() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>Since May.</text:p></text:note-body></text:note>"
    )
    body = (
        "<office:text><text:tracked-changes><text:p>Deleted words</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Cleaning</text:h>'
        f'<text:p>Clean it<text:s text:c="3"/>on Friday{note}.<text:line-break/>Then<text:tab/>rest.</text:p>'
        "<text:list><text:list-item><text:p>Open the door</text:p></text:list-item></text:list>"
        '<text:h text:outline-level="2">Parts</text:h>'
        f"<table:table>{row('Part', 'Price')}{row('Door', '120')}</table:table>"
        '<text:h text:outline-level="1">Repair</text:h><text:p>Call <text:span>Holm</text:span>.</text:p></office:text>'
    )
    content = opendocument("text", body, title="Oven manual")
    assert sniff(content) == "odt"
    parts = parts_of(content)
    assert [(part.text, part.section) for part in parts] == [
        ("Cleaning", ("Cleaning",)),
        ("Clean it on Friday (Since May.). Then rest.", ("Cleaning",)),
        ("- Open the door", ("Cleaning",)),
        ("Parts", ("Cleaning", "Parts")),
        ("| Part | Price |", ("Cleaning", "Parts")),
        ("| Door | 120 |", ("Cleaning", "Parts")),
        ("Repair", ("Repair",)),
        ("Call Holm.", ("Repair",)),
    ]
    assert [part.title for part in parts] == ["Oven manual", *[""] * 7]
    assert (parts[5].place, parts[5].cells) == ({"row": 2}, ("Door", "120"))


def test_a_spreadsheet_has_values_by_row_and_does_not_grow() -> None:
    cells = (
        '<table:table-cell office:value-type="float" office:value="12.5"><text:p>12,50</text:p></table:table-cell>'
        '<table:table-cell office:value-type="date" office:date-value="2026-05-01T00:00:00"><text:p>1 May</text:p>'
        "</table:table-cell><table:covered-table-cell/>"
        '<table:table-cell office:value-type="percentage" office:value="0.8"><text:p>80%</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="16000"/>'
    )
    body = (
        f'<office:spreadsheet><table:table table:name="Stock">{row("Count", "Since", "", "Share")}'
        '<table:table-row table:number-rows-repeated="7"/>'
        f"<table:table-row>{cells}</table:table-row>{row('same', repeated=999_999_999)}{row('last')}</table:table>"
        f'<table:table table:name="Staff">{row("Ida")}</table:table></office:spreadsheet>'
    )
    content = opendocument("spreadsheet-template", body)
    assert sniff(content) == "ods"
    first, values, *same, last, staff = parts_of(content)
    assert (first.cells, first.place) == (("Count", "Since", "", "Share"), {"sheet": "Stock", "row": 1})
    assert (values.cells, values.place) == (("12.5", "2026-05-01", "", "80%"), {"sheet": "Stock", "row": 9})
    assert len(same) == 1000
    assert (last.cells, last.place) == (("last",), {"sheet": "Stock", "row": 9 + 999_999_999 + 1})
    assert staff.place == {"sheet": "Staff", "row": 1}


def test_a_presentation_has_slides() -> None:
    def slide(*boxes: str) -> str:
        inner = "".join(
            f"<draw:frame><draw:text-box><text:p>{box}</text:p></draw:text-box></draw:frame>" for box in boxes
        )
        return f"<draw:page>{inner}</draw:page>"

    table = f"<draw:page><draw:frame><table:table>{row('Year', 'Sum')}</table:table></draw:frame></draw:page>"
    body = f"<office:presentation>{slide('Plans', 'A second oven')}{slide()}{table}</office:presentation>"
    content = opendocument("presentation", body)
    assert sniff(content) == "odp"
    assert [(part.text, part.place, part.section) for part in parts_of(content)] == [
        ("Plans\nA second oven", {"slide": 1}, ("Plans",)),
        ("", {"slide": 2}, ()),
        ("| Year | Sum |", {"slide": 3}, ("| Year | Sum |",)),
    ]


def test_one_with_a_password_says_so() -> None:
    with pytest.raises(DataError, match="encrypted"):
        parts_of(opendocument("text", "", manifest="<encryption-data/>"))


def test_an_archive_that_is_no_document_is_an_archive() -> None:
    assert sniff(archive({"mimetype": "application/epub+zip", "content.xml": "<a/>"})) == "zip"
    assert sniff(archive({"mimetype": "application/vnd.oasis.opendocument.text"})) == "zip"
