"""Tables with many columns: every part of a row says which row it is, and queries run over the columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.citation import cite
from subquest.readers.part import CELLS
from subquest.record import Document
from subquest.retrieval import Index, table_passages
from subquest.retrieval.ingest import ingest
from subquest.retrieval.ingest.table_writer import COLUMNS
from subquest.retrieval.tables import Table
from subquest.runtime.table_queries import described
from subquest.runtime.table_rows import is_row
from tests.readers.made import docx, put, xlsx

pytest.importorskip("openpyxl", reason="XLSX needs the extra `web-tools`")

NAMES = ["Station name", *(f"Water level {n}" for n in range(1, 70))]
ROWS = [[f"Post {row}", *(f"{row}{n:02} mm" for n in range(1, 70))] for row in range(1, 13)]


def csv(names: list[str], rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in [names, *rows])


def markdown(names: list[str], rows: list[list[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "# The **river**\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in lines)


FILES = {
    "levels.csv": (csv(NAMES, ROWS), "docs/levels.csv, line {line}", 2),
    "levels.xlsx": (xlsx({"Levels": [NAMES, *ROWS]}), "docs/levels.xlsx, sheet Levels, row {line}", 2),
    "levels.md": (markdown(NAMES, ROWS), "docs/levels.md, line {line}", 5),
    "levels.docx": (docx(("berschrift1", "River"), [NAMES, *ROWS]), "docs/levels.docx, section River, row {line}", 2),
}
"""Each file with the citation of a row, and the number of the first."""


def all_documents(index: Index) -> list[Document]:
    return sorted(index.documents(), key=lambda document: int(document.id.rpartition("#")[2]))


@pytest.fixture(params=FILES)
def wide(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Index]]:
    with Index.build(tmp_path / "i.sq", []) as index:
        report = ingest(index, [put(tmp_path / "docs", {request.param: FILES[request.param][0]})])
        assert (report.skipped, report.notes) == (0, [])
        yield request.param, index


def test_each_part_of_a_row_names_it_and_holds_whole_cells(wide: tuple[str, Index]) -> None:
    name, index = wide
    _, citation, first = FILES[name]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for document in all_documents(index):
        begin, *cells = document.text.split("; ")
        row = begin.removeprefix("Station name: ")
        line = first + int(row.removeprefix("Post ")) - 1
        assert cite(document.meta) == citation.format(line=line)
        assert len(document.text.split()) <= 125
        assert is_row(document.text)
        found[row] += cells
    wanted = {row[0]: [f"{n}: {cell}" for n, cell in zip(NAMES[1:], row[1:], strict=True)] for row in ROWS}
    assert found == wanted


def test_a_search_that_finds_parts_of_rows_leads_to_the_table(wide: tuple[str, Index]) -> None:
    _, index = wide
    (table,) = index.tables.all()
    assert (table.rows, [column.label for column in table.columns[1:]]) == (len(ROWS), NAMES)
    hits = [hit.document for hit in index.search("water level 33 at Post 7", 5)]
    assert hits[0].text.startswith("Station name: Post 7; ")
    assert "Water level 33: 733 mm" in hits[0].text
    sql = f"SELECT count(*), max(water_level_69) FROM {table.name} WHERE station_name <> 'Post 12'"
    assert index.tables.query(sql).rows == (("11", "969 mm"),)
    documents = all_documents(index)
    last = [document for document in documents if "Station name: Post 12;" in document.text]
    others = [document for document in documents if document not in last]
    for some in (hits, documents[-1:], last, others):
        assert [found.name for found in index.tables.behind(some)] == [table.name]
    assert len(others) > table.rows, "parts are no rows"
    assert index.tables.behind([*others, last[0]]) == [], "some of each row is shown"


def test_an_index_that_is_brought_up_to_date_is_like_a_new_one(tmp_path: Path, wide: tuple[str, Index]) -> None:
    name, index = wide
    changed = [*ROWS[:4], [*ROWS[4][:9], "", "dry", *ROWS[4][11:]], *ROWS[6:], ["Post 99", "7 mm"]]
    content = {
        "levels.csv": csv(NAMES, changed),
        "levels.xlsx": xlsx({"Levels": [NAMES, *changed]}),
        "levels.md": markdown(NAMES, changed),
        "levels.docx": docx(("berschrift1", "River"), [NAMES, *changed]),
    }[name]
    docs = put(tmp_path / "docs", {name: content})
    ingest(index, [docs])
    with Index.build(tmp_path / "new.sq", []) as new:
        ingest(new, [docs])
        assert all_documents(index) == all_documents(new)
        assert [table._replace(number=0) for table in index.tables.all()] == [
            table._replace(number=0) for table in new.tables.all()
        ]
        (table,) = new.tables.all()
        sql = f"SELECT * FROM {table.name}"
        assert index.tables.query(sql).rows == new.tables.query(sql).rows
        assert any("Water level 8: 508 mm; Water level 10: dry" in document.text for document in all_documents(index))
    assert index.verify() == []


def test_a_row_that_is_cut_counts_once_in_a_long_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_passages, "MOST", 5)
    with Index.build(tmp_path / "i.sq", []) as index:
        report = ingest(index, [put(tmp_path / "docs", {"levels.csv": csv(NAMES, ROWS)})])
        assert "not the last 7;" in report.notes[0].reason
        lines = [document.meta["line"] for document in all_documents(index)]
        assert sorted(set(lines)) == [2, 3, 4, 5, 6]
        assert len(lines) > 5
        assert index.tables.query("SELECT count(*) FROM levels").rows == (("12",),)


def test_a_cell_that_is_longer_than_a_passage_is_cut_under_the_name_of_its_row_and_column(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(700)]
    title = " ".join(f"t{n}" for n in range(60))
    rows = [["Kelm", " ".join(words[:650]), "3"], [title, " ".join(words[:300]), "4"], [" ".join(words), "short", "5"]]
    docs = put(tmp_path / "docs", {"a.csv": csv(["Town", "Report", "Rank"], rows)})
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [docs])
        documents = all_documents(index)
        assert index.tables.query("SELECT sum(rank) FROM a").rows == (("12",),)
    first, second, third = ([d.text for d in documents if d.meta["line"] == line] for line in (2, 3, 4))
    assert len(first) > 5
    assert all(text.startswith("Town: Kelm; Report: w") for text in first)
    assert [word for text in first for word in re.findall(r"\bw\d+", text)] == words[:650]
    assert first[-1].endswith("; Rank: 3")
    assert second[0] == f"Town: {title}"
    assert len(second) == 5
    assert all(re.match(r"Town: t0 t1 [t\d ]{70,95} …; (Report: w|Rank: 4$)", text) for text in second[1:])
    assert [word for text in third for word in re.findall(r"\bw\d+", text)][:700] == words
    assert re.fullmatch(r"Town: w0 w1 .{70,95} …; Report: short; Rank: 5", third[-1])


@pytest.mark.parametrize("kind", ["csv", "md"])
def test_paragraphs_in_the_first_row_are_no_names(tmp_path: Path, kind: str) -> None:
    def text(n: int) -> str:
        return " ".join(f"Paragraph {n} tells at length how the water rose at post {n} that spring." for _ in range(4))

    rows = [[text(n) for n in range(start, start + 3)] for start in (0, 3, 6)]
    content = csv(rows[0], rows[1:]) if kind == "csv" else markdown(rows[0], rows[1:])
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [put(tmp_path / "docs", {f"a.{kind}": content})])
        assert index.tables.all() == []
        for n in range(9):
            assert sum(d.text.count(f"Paragraph {n} tells") for d in all_documents(index)) >= 4
        assert not any(": Paragraph" in document.text for document in all_documents(index))


def test_the_summary_says_which_columns_cannot_be_queried(tmp_path: Path) -> None:
    def table(width: int) -> str:
        return csv([f"Column {n}" for n in range(width)], [[f"v{row}x{n}" for n in range(width)] for row in range(3)])

    files = {"a.csv": table(COLUMNS), "b.csv": table(COLUMNS + 7), "c.csv": table(CELLS + 1)}
    with Index.build(tmp_path / "i.sq", []) as index:
        report = ingest(index, [put(tmp_path / "docs", files)])
        assert [str(note) for note in report.notes] == [
            "docs/b.csv: a wide table: queries over tables use its first 200 columns, and not the last 7; search finds "
            "all of them",
            "docs/c.csv: 4 rows of more than 1,024 cells: they are read as text, without the names of their columns, "
            "and queries over tables do not use them; divide the table into narrower ones",
        ]
        assert {table.name: len(table.columns) - 1 for table in index.tables.all()} == {"a": COLUMNS, "b": COLUMNS}
        (hit,) = index.search("v2x206", 1)
        assert hit.document.text.startswith("Column 0: v2x0; ")
        assert hit.document.text.endswith("; Column 206: v2x206")
        assert [str(note) for note in ingest(index, [tmp_path / "docs"]).notes] == [str(n) for n in report.notes]


def test_a_prompt_describes_a_wide_table_without_cutting_a_column(tmp_path: Path) -> None:
    def only(width: int) -> Table:
        names = [f"Height above the gauge {n:03}" for n in range(width)]
        rows = [[f"about {row} or {n}" for n in range(width)] for row in range(3)]
        with Index.build(tmp_path / f"{width}.sq", []) as index:
            ingest(index, [put(tmp_path / f"d{width}", {"a.csv": csv(names, rows)})])
            (table,) = index.tables.all()
            return table

    few, more, most = only(40), only(100), only(200)
    assert described([few]) == few.described
    assert described([more]).endswith("height_above_the_gauge_098 TEXT, height_above_the_gauge_099 TEXT")
    shown = described([most])
    assert len(shown) < 4100
    found = re.fullmatch(
        r".*\bheight_above_the_gauge_(\d{3}) TEXT and (\d+) more, listed by: SELECT \* FROM a LIMIT 1", shown
    )
    assert found is not None
    assert int(found[1]) + 1 + int(found[2]) == 200


def test_a_wide_table_without_rows_is_found_by_its_columns(tmp_path: Path) -> None:
    names = [f"Long column {n}" for n in range(120)]
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [put(tmp_path / "docs", {"a.csv": csv(names, [])})])
        found = all_documents(index)
        assert all(document.text.startswith("Long column 0 | ") for document in found)
        assert [cell for document in found for cell in document.text.split(" | ")[1:]] == names[1:]
        assert index.tables.all() == []
