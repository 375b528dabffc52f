"""Column names as real files have them: some twice, some missing, some files without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.runtime.table_rows import is_row, matching_rows
from tests.readers.made import put, xlsx

pytest.importorskip("openpyxl", reason="XLSX needs the extra `web-tools`")

Rows = list[list[str]]


def csv(rows: Rows) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def markdown(rows: Rows) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def sheet(rows: Rows) -> bytes:
    return xlsx({"A": rows})


FORMS: dict[str, Callable[[Rows], str | bytes]] = {"csv": csv, "md": markdown, "xlsx": sheet}


def built(folder: Path, form: str, rows: Rows) -> Index:
    index = Index.build(folder / "i.sq", [])
    ingest(index, [put(folder / "docs", {f"a.{form}": FORMS[form](rows)})])
    return index


def documents(index: Index) -> list[Document]:
    return sorted(index.documents(), key=lambda document: int(document.id.rpartition("#")[2]))


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_two_columns_have(tmp_path: Path, form: str) -> None:
    rows = [["Region", "Total", "Costs", "Total"], *([f"Part {n}", str(n), "3", str(n + 3)] for n in range(60))]
    with built(tmp_path, form, rows) as index:
        first = documents(index)[0]
        assert first.text.startswith("Region: Part 0; Total: 0; Costs: 3; Total: 3\nRegion: Part 1; ")
        (table,) = index.tables.all()
        assert "total INTEGER (0; 1; 2), costs INTEGER (3), total_2 INTEGER (3; 4; 5)" in table.described
        assert [column.label for column in table.columns[1:]] == rows[0]
        assert index.tables.query("SELECT sum(total), sum(total_2) FROM a").rows == (("1770", "1950"),)
        assert index.tables.behind([first]) == [table]
        assert index.tables.behind(documents(index)) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [["Pay"], ["Pay", "Site", "Tax"]])
def test_a_first_column_without_a_name(tmp_path: Path, form: str, names: list[str]) -> None:
    rows = [["", *names], *([f"Person {n}", f"{n + 1}00", "Kelm", "9"][: 1 + len(names)] for n in range(60))]
    with built(tmp_path, form, rows) as index:
        shown = documents(index)
        assert shown[0].text.split("\n")[:2] == [
            "; ".join([row[0], *(f"{name}: {cell}" for name, cell in zip(names, row[1:], strict=True))])
            for row in rows[1:3]
        ]
        (table,) = index.tables.all()
        assert "column_1 TEXT (Person 0; Person 1; Person 2), pay INTEGER" in table.described
        assert index.tables.query("SELECT pay FROM a WHERE column_1 = 'Person 41'").rows == (("4200",),)
        assert index.tables.behind(shown[:1]) == [table]
        assert index.tables.behind(shown) == []
        query = "the pay of Person 41"
        found = matching_rows(index.search(query, 1)[0].document, query)
        assert found.text.startswith("Person 41; Pay: 4200")
        assert "\n" not in found.text


def test_rows_without_a_first_name_are_cut_under_their_label(tmp_path: Path) -> None:
    names = ["", *(f"Water level {n}" for n in range(1, 70))]
    rows = [[f"Post {n}", *(f"{n}{at:02} mm" for at in range(1, 70))] for n in range(1, 7)]
    with built(tmp_path, "csv", [names, *rows]) as index:
        shown = documents(index)
        (table,) = index.tables.all()
        assert len(shown) > table.rows == 6
        for document in shown:
            assert document.text.startswith(f"Post {document.meta['line'] - 1}; Water level ")
            assert is_row(document.text)
        first = [document for document in shown if document.meta["line"] == 2]
        assert index.tables.behind(first) == [table]
        assert index.tables.behind([document for document in shown if document.meta["line"] > 2]) == [table]
        assert index.tables.behind([document for document in shown if document not in first[1:]]) == []


@pytest.mark.parametrize(
    "rows",
    [
        [["Ana", "Kelm", "Kelm"], ["Jo", "Brunn", "Kelm"], ["Ken", "Tull", "Brunn"]],
        [["3", "5", "3"], ["4", "4", "6"]],
        [["17 May 2024", "18 May 2024"], ["19 May 2024", "21 May 2024"]],
    ],
)
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_a_file_without_names_has_none(tmp_path: Path, form: str, rows: Rows) -> None:
    with built(tmp_path, form, rows) as index:
        assert documents(index)[0].text == "\n".join(f"| {' | '.join(row)} |" for row in rows)
        assert index.tables.all() == []
