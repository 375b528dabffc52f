"""Spreadsheets: what openpyxl writes is read as openpyxl reads it, and so is what other programs write."""

from __future__ import annotations

import datetime
import io
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.errors import DataError
from subquest.readers.part import Part, row_of
from subquest.readers.xlsx import read_xlsx
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest

from .made import archive

openpyxl = pytest.importorskip("openpyxl", reason="the tests write spreadsheets with it")

LETTERS = st.characters(exclude_categories=["Cs", "Cc"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**14), 10**14),
    st.floats(-1e12, 1e12, allow_nan=False).map(lambda number: round(number, 6)),
    st.text(LETTERS, min_size=1, max_size=12).filter(lambda text: text[0] not in "=#" and "_x" not in text),
    st.dates(datetime.date(1905, 1, 1)),
    st.datetimes(datetime.datetime(1905, 1, 1)).map(lambda moment: moment.replace(microsecond=0)),
    st.times().map(lambda time: time.replace(microsecond=0)),
    st.integers(0, 400 * 86_400).map(lambda seconds: datetime.timedelta(seconds=seconds)),
)
SHEETS = st.lists(st.lists(st.lists(VALUES, max_size=6), max_size=5), min_size=1, max_size=3)


def by_openpyxl(file: io.BytesIO) -> list[Part]:
    """The same rows, read by the library."""

    def shown(value: object) -> str:
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if isinstance(value, datetime.datetime) and value.time() == datetime.time():
            return str(value.date())
        return "" if value is None else str(value)

    parts = []
    for sheet in openpyxl.load_workbook(file, data_only=True).worksheets:
        rows = [(n, [shown(v) for v in row]) for n, row in enumerate(sheet.iter_rows(values_only=True), 1)]
        full = [row_of(cells, {"sheet": sheet.title, "row": n}) for n, cells in rows if "".join(cells).strip()]
        parts += full or [Part("", {"sheet": sheet.title})]
    return parts


@settings(max_examples=60, deadline=None)
@given(SHEETS, st.booleans(), st.booleans())
def test_what_openpyxl_writes_is_read_as_openpyxl_reads_it(
    sheets: list[list[list[object]]], since_1904: bool, streamed: bool
) -> None:
    book = openpyxl.Workbook(write_only=streamed)
    book.epoch = openpyxl.utils.datetime.MAC_EPOCH if since_1904 else openpyxl.utils.datetime.WINDOWS_EPOCH
    if not streamed:
        book.remove(book.active)
    for n, rows in enumerate(sheets):
        sheet = book.create_sheet(f"Sheet {n}")
        for row in rows:
            sheet.append(row)
    made = io.BytesIO()
    book.save(made)
    assert list(read_xlsx(made)) == by_openpyxl(made)


def test_merged_cells_stand_where_they_begin() -> None:
    book = openpyxl.Workbook()
    book.active.merge_cells("B2:D3")
    book.active["B2"] = "Harvest"
    made = io.BytesIO()
    book.save(made)
    assert list(read_xlsx(made)) == [row_of(["", "Harvest"], {"sheet": "Sheet", "row": 2})]


RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
RELATION = '<Relationship Id="{}" Type="http://purl.oclc.org/ooxml/officeDocument/relationships/{}" Target="{}"/>'
MAIN = 'xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINKS = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def raw(rows: str, **more: str) -> io.BytesIO:
    """A book as another program may write it: names with a prefix, parts in other places, a chart's sheet first."""
    members = {
        "_rels/.rels": RELATIONS.format(RELATION.format("a", "officeDocument", "/book/main.xml")),
        "book/main.xml": f'<x:workbook {MAIN} {LINKS}><x:sheets><x:sheet name="Chart" r:id="c"/>'
        '<x:sheet name="Data" r:id="d"/></x:sheets></x:workbook>',
        "book/_rels/main.xml.rels": RELATIONS.format(
            RELATION.format("c", "chartsheet", "chart.xml")
            + RELATION.format("d", "worksheet", "../sheets/one.xml")
            + RELATION.format("s", "sharedStrings", "strings.xml")
            + RELATION.format("f", "styles", "styles.xml")
        ),
        "book/chart.xml": f"<x:chartsheet {MAIN}/>",
        "sheets/one.xml": f"<x:worksheet {MAIN}><x:sheetData>\n{rows}\n</x:sheetData></x:worksheet>",
        "book/strings.xml": f"<x:sst {MAIN}><x:si><x:r><x:t>Kelm </x:t></x:r><x:r><x:t>Town</x:t></x:r>"
        "<x:rPh><x:t>kelm</x:t></x:rPh></x:si><x:si><x:t>two_x000A_lines</x:t></x:si></x:sst>",
        "book/styles.xml": f'<x:styleSheet {MAIN}><x:numFmts><x:numFmt numFmtId="170" formatCode="[$-409]d\\-mmm;@"/>'
        '<x:numFmt numFmtId="171" formatCode="0.0&quot; days&quot;"/><x:numFmt numFmtId="172" formatCode="[Red]0"/>'
        '<x:numFmt numFmtId="173" formatCode="0.0%;[Red]\\-0.0%"/>'
        '<x:numFmt numFmtId="174" formatCode="0.0&quot;%&quot;"/>'
        '</x:numFmts><x:cellStyleXfs><x:xf numFmtId="14"/></x:cellStyleXfs><x:cellXfs><x:xf numFmtId="0"/>'
        '<x:xf numFmtId="170"/><x:xf numFmtId="171"/><x:xf numFmtId="172"/><x:xf numFmtId="46"/>'
        '<x:xf numFmtId="9"/><x:xf numFmtId="10"/>'
        '<x:xf numFmtId="173"/><x:xf numFmtId="174"/></x:cellXfs>'
        "</x:styleSheet>",
    }
    return io.BytesIO(archive({**members, **more}))


def cells(rows: str) -> list[tuple[object, tuple[str, ...]]]:
    return [(part.place["row"], part.cells) for part in read_xlsx(raw(rows))]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('<x:c t="s"><x:v>0</x:v></x:c>', "Kelm Town"),
        ('<x:c t="s"><x:v>1</x:v></x:c>', "two lines"),
        ('<x:c t="inlineStr"><x:is><x:r><x:t>a </x:t></x:r><x:r><x:t>b</x:t></x:r></x:is></x:c>', "a b"),
        ("<x:c><x:f>SUM(A1:A9)</x:f><x:v>45</x:v></x:c>", "45"),
        ('<x:c t="str"><x:f>A1&amp;"x"</x:f><x:v>Ax</x:v></x:c>', "Ax"),
        ('<x:c t="e"><x:v>#N/A</x:v></x:c>', "#N/A"),
        ('<x:c t="b"><x:v>1</x:v></x:c>', "True"),
        ('<x:c t="d"><x:v>2025-03-04T00:00:00</x:v></x:c>', "2025-03-04"),
        ("<x:c><x:v>1.5E3</x:v></x:c>", "1500"),
        ('<x:c s="1"><x:v>45292</x:v></x:c>', "2024-01-01"),
        ('<x:c s="1"><x:v>45292.75</x:v></x:c>', "2024-01-01 18:00:00"),
        ('<x:c s="1"><x:v>99999999</x:v></x:c>', "99999999"),
        ('<x:c s="2"><x:v>3.5</x:v></x:c>', "3.5"),
        ('<x:c s="3"><x:v>7</x:v></x:c>', "7"),
        ('<x:c s="4"><x:v>1.5</x:v></x:c>', "1 day, 12:00:00"),
        ('<x:c s="5"><x:v>0.155</x:v></x:c>', "15.5%"),
        ('<x:c s="5"><x:v>0.15499999999999997</x:v></x:c>', "15.5%"),
        ('<x:c s="6"><x:v>1</x:v></x:c>', "100%"),
        ('<x:c s="7"><x:v>-1.2E-3</x:v></x:c>', "-0.12%"),
        ('<x:c s="7" t="str"><x:v>none</x:v></x:c>', "none"),
        ('<x:c s="8"><x:v>15.5</x:v></x:c>', "15.5"),
    ],
)
def test_cells_of_other_programs(cell: str, shown: str) -> None:
    assert cells(f"<x:row>{cell}</x:row>") == [(1, (shown,))]


def test_rows_and_cells_say_where_they_are_or_follow_the_one_before() -> None:
    placed = '<x:row r="3"><x:c r="C3"><x:v>1</x:v></x:c><x:c><x:v>2</x:v></x:c></x:row>'
    assert cells(f"{placed}<x:row><x:c><x:v>3</x:v></x:c></x:row>") == [(3, ("", "", "1", "2")), (4, ("3",))]
    backwards = '<x:row r="1"><x:c r="B1"><x:v>2</x:v></x:c><x:c r="A1"><x:v>1</x:v></x:c></x:row>'
    assert cells(backwards) == [(1, ("1", "2"))]


@pytest.mark.parametrize(
    ("rows", "more", "reason"),
    [
        ('<x:row r="1"><x:c r="ZZZZZZZZZ1"><x:v>1</x:v></x:c></x:row>', {}, "there is no column ZZZZZZZZZ"),
        ('<x:row r="1"><x:c r="1"><x:v>1</x:v></x:c></x:row>', {}, "there is no column"),
        ('<x:row r="1000000000"><x:c><x:v>1</x:v></x:c></x:row>', {}, "more than 1,048,576 rows"),
        ("<x:row><x:c>", {}, "sheets/one.xml: mismatched tag"),
        ("", {"sheets/one.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "declares entities: refused"),
        ("", {"book/strings.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "declares entities: refused"),
        ("", {"_rels/.rels": RELATIONS.format("")}, "it has no xl/workbook.xml"),
    ],
)
def test_what_is_damaged_or_a_trap_is_refused(rows: str, more: Mapping[str, str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        list(read_xlsx(raw(rows, **more)))


def test_the_first_row_of_a_sheet_comes_before_the_last_is_read() -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Data")
    for n in range(30_000):
        sheet.append([n, n % 97, n * n])
    made = io.BytesIO()
    book.save(made)

    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            self.taken += len(data)
            return data

    file = Counted(made.getvalue())
    rows = read_xlsx(file)
    assert next(rows).cells == ("0", "0", "0")
    first, file.taken = file.taken, 0
    assert sum(1 for _ in rows) == 29_999
    assert first < file.taken  # most of the sheet was read after its first row


@given(st.integers(-(10**8), 10**8), st.integers(0, 8), st.sampled_from(["0%", "0.00%", '0.0" of"%', "#,##0.0 %"]))
def test_a_share_is_shown_in_percent_as_exactly_as_it_is_stored(number: int, places: int, code: str) -> None:
    share = Decimal(number).scaleb(-places)
    book = openpyxl.Workbook()
    book.active.append([float(share)])
    book.active["A1"].number_format = code
    made = io.BytesIO()
    book.save(made)
    (part,) = read_xlsx(made)
    assert part.text.endswith("% |")
    assert Decimal(part.cells[0][:-1]) == 100 * share


def test_formulas_that_were_never_computed_are_counted() -> None:
    rows = (
        '<x:row r="1"><x:c><x:v>1</x:v></x:c><x:c><x:f>A1*2</x:f></x:c><x:c><x:f>A1*3</x:f><x:v/></x:c></x:row>'
        '<x:row r="2"><x:c><x:f>A1</x:f><x:v>4</x:v></x:c><x:c t="str"><x:f>""</x:f><x:v></x:v></x:c></x:row>'
        '<x:row r="3"><x:c><x:f>A2</x:f></x:c></x:row><x:row r="4"><x:c><x:v>7</x:v></x:c></x:row>'
        '<x:row r="5"><x:c><x:f>A4</x:f></x:c></x:row>'
    )
    assert [(p.place.get("row"), p.text, p.uncomputed) for p in read_xlsx(raw(rows))] == [
        (1, "| 1 |", 2),
        (2, "| 4 |", 0),
        (4, "| 7 |", 1),
        (None, "", 1),
    ]


def test_a_note_says_that_formulas_were_never_computed(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Item", "Planned", "Spent"], ["Dredging", 412500, "=B2*0.9"], ["Crane", 1750000, "=B3*0.9"]):
        book.active.append(row)
    book.save(tmp_path / "budget.xlsx")
    with Index.build(tmp_path / "b.sq", []) as index:
        (note,) = ingest(index, [tmp_path / "budget.xlsx"]).notes
        assert note.reason.startswith("the file has no value for 2 formulas, ")
        (found,) = index.documents()
        assert found.text == "Item: Dredging; Planned: 412500\nItem: Crane; Planned: 1750000"
