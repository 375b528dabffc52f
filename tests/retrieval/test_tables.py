"""Whole tables: a query runs over every row of every table of the files, and over nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.errors import DataError
from subquest.retrieval import Index, table_passages, tables
from subquest.retrieval.ingest import ingest
from tests.readers.made import archive, docx, put, xlsx

pytest.importorskip("openpyxl", reason="XLSX needs the extra `web-tools`")

SITES = ("Kelm", "Brunn", "Ostel")
STAFF = "Name,Site,Annual pay (£),Code,Joined\n" + "".join(
    f'Person {n},{SITES[n % 3]},"£{1000 + n:,}",{n:03d},20{n % 25:02d}-01-01\n' for n in range(400)
)
RAIN = [["Rain in mm"], ["town", "mm"], ["Kelm", 12.5], ["Brunn", 7]]
OFFERS = [["Firm", "Price"], ["Finch", "£31,900"], ["Marlin", "£42,750"]]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return put(
        tmp_path / "docs",
        {
            "staff.csv": STAFF,
            "book.xlsx": xlsx(
                {"Rain": [["Rain in mm"], ["town", "mm"], ["Kelm", 12.5], ["Brunn", 7]], "Notes": [["x"]]}
            ),
            "page.md": "# Drugs\n\n## Doses\n\n| Drug | Dose |\n|---|---|\n| A | 5 |\n| B | n/a |\n",
            "memo.docx": docx(
                ("berschrift1", "Offers"), [["Firm", "Price"], ["Finch", "£31,900"], ["Marlin", "£42,750"]]
            ),
            "all.zip": archive({"inner.csv": "group,size\none,1\ntwo,2\n"}),
        },
    )


@pytest.fixture
def index(tmp_path: Path, docs: Path) -> Index:
    made = Index.build(tmp_path / "docs.sq", [])
    ingest(made, [docs])
    return made


def only(index: Index, sql: str) -> str:
    ((value,),) = index.tables.query(sql).rows
    return value


def test_questions_over_all_rows(index: Index) -> None:
    assert only(index, "SELECT count(*) FROM staff WHERE site = 'kelm'") == "134"
    assert only(index, "SELECT sum(annual_pay) FROM staff") == str(sum(1000 + n for n in range(400)))
    assert only(index, "SELECT code FROM staff ORDER BY annual_pay LIMIT 1") == "000"
    grouped = index.tables.query("SELECT site, count(*) AS people FROM staff GROUP BY site ORDER BY 1;")
    assert grouped.text == "site: Brunn; people: 133\nsite: Kelm; people: 134\nsite: Ostel; people: 133".replace(
        "Site", "site"
    )
    assert [dict(table.place) for table in grouped.tables] == [{"file": "docs/staff.csv", "line": 1}]
    assert only(index, "SELECT max(mm) FROM book_rain") == "12.5"
    assert only(index, "SELECT row_in_file FROM book_rain WHERE town = 'Brunn'") == "4"
    assert only(index, "SELECT max(price) - min(price) FROM memo_offers") == "10850"
    assert only(index, "SELECT dose FROM page_doses WHERE drug = 'B'") == "n/a"
    assert only(index, "SELECT sum(size) FROM inner") == "3"
    assert only(index, "SELECT count(*) FROM tables") == "5"
    assert index.tables.query("SELECT * FROM staff WHERE site = 'nowhere'").text == "No row matches."


def test_what_a_model_is_told_about_a_table(index: Index) -> None:
    found = {table.name: table for table in index.tables.all()}
    assert set(found) == {"staff", "book_rain", "page_doses", "memo_offers", "inner"}
    assert found["staff"].described == (
        "staff: 400 rows of docs/staff.csv, line 1. Columns: row_in_file INTEGER, name TEXT (Person 0; Person 1; "
        "Person 2), site TEXT (Kelm; Brunn; Ostel), annual_pay INTEGER (£1,000; £1,001; £1,002), code TEXT (000; 001; "
        "002), joined DATE (2000-01-01; 2001-01-01; 2002-01-01)"
    )
    assert found["inner"].place["member"] == "inner.csv"


def test_long_results_are_cut_and_counted(index: Index) -> None:
    found = index.tables.query("SELECT name FROM staff")
    assert (len(found.rows), found.total) == (tables.SHOWN, 400)
    assert found.text.endswith("… 50 of 400 rows are shown …")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "empty"),
        ("DELETE FROM staff", "only SELECT"),
        ("DROP TABLE staff", "only SELECT"),
        ("WITH x AS (SELECT 1) DELETE FROM staff", "cannot modify|only SELECT"),
        ("SELECT * FROM catalogue", "only SELECT over the tables"),
        ("SELECT * FROM sqlite_master", "only SELECT over the tables"),
        ("ATTACH '/tmp/x.db' AS x", "only SELECT"),
        ("PRAGMA query_only = OFF", "only SELECT"),
        ("SELECT load_extension('x')", "only SELECT|no such function"),
        ("SELECT 1; SELECT 2", "one query at a time"),
        ("SELECT * FROM nowhere", "^no such table: nowhere; the tables are: .*staff"),
        ("SELECT nme FROM staff WHERE site = 'St Brid's'", '^near "s": syntax error$'),
        ("SELECT name FROM staff WHERE site == = 'Kelm'", '^near "=": syntax error$'),
        ("SELECT replace(printf('%1000d', 1), ' ', printf('%2000d', 1))", "too big"),
        ("SELECT '" + "x" * 5000 + "'", "at most 4,000"),
        ("EXPLAIN SELECT 1", "only SELECT"),
    ],
)
def test_a_query_reads_tables_and_nothing_else(index: Index, sql: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        index.tables.query(sql)
    assert only(index, "SELECT count(*) FROM staff") == "400"


@pytest.mark.parametrize(
    ("sql", "ran"),
    [
        ("SELECT n FROM shops WHERE site = 'St Brid's'", "SELECT n FROM shops WHERE site = 'St Brid''s'"),
        ("SELECT n FROM shops WHERE site LIKE '%Brid's%';", "SELECT n FROM shops WHERE site LIKE '%Brid''s%'"),
        ("SELECT n, 'O'Hara' FROM shops LIMIT 1", "SELECT n, 'O''Hara' FROM shops LIMIT 1"),
        (
            """SELECT n FROM shops WHERE site = "St Brid's" AND site = 'St Brid's'""",
            """SELECT n FROM shops WHERE site = "St Brid's" AND site = 'St Brid''s'""",
        ),
        ("SELECT n FROM shops WHERE site='St Brid''s'", "SELECT n FROM shops WHERE site='St Brid''s'"),
    ],
)
def test_an_apostrophe_inside_a_literal_may_stand_alone(tmp_path: Path, sql: str, ran: str) -> None:
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [put(tmp_path / "docs", {"shops.csv": "Site,N\nSt Brid's,7\nKelm,8\n"})])
        found = index.tables.query(sql)
    assert (found.rows[0][0], found.total, found.sql) == ("7", 1, ran)


@pytest.mark.parametrize(
    ("where", "missing"),
    [
        ("site = 'Brun'", "No site is 'Brun'; the closest: Brunn."),
        ("name LIKE '%Person 900%'", "No name is 'Person 900'; the closest: Person 0; Person 1; Person 2."),
        ("\"code\" = 'zz'", "No code is 'zz'."),
        ("site = 'kelm' AND name = 'Person 1'", "Each of these values is in the table, but no row has all of them."),
        ("site = 'X''s' AND name = 'Person 1'", 'No site is "X\'s".'),
        ("annual_pay > 9000", ""),
        ("other = 'Kelm' OR site = ''", None),
    ],
)
def test_a_query_without_rows_says_which_values_there_are_not(index: Index, where: str, missing: str | None) -> None:
    if missing is None:
        with pytest.raises(DataError, match="no such column: other"):
            index.tables.query(f"SELECT name FROM staff WHERE {where}")
        return
    assert index.tables.query(f"SELECT name FROM staff WHERE {where}").missing == missing
    assert index.tables.query(f"SELECT count(*), sum(annual_pay) FROM staff WHERE {where}").missing == missing


def test_a_query_with_rows_has_nothing_to_explain(index: Index) -> None:
    assert index.tables.query("SELECT count(*) FROM staff WHERE site = 'Kelm'").missing == ""
    assert index.tables.query("SELECT name FROM staff WHERE site = 'Kelm'").missing == ""


def test_a_wrong_name_comes_back_with_the_right_ones(index: Index) -> None:
    def reason(sql: str) -> str:
        with pytest.raises(DataError) as caught:
            index.tables.query(sql)
        return str(caught.value)

    names = {table.name for table in index.tables.all()}
    staff = "staff (row_in_file, name, site, annual_pay, code, joined)"
    assert reason("SELECT GBP FROM staff") == f"no such column: GBP; the columns are: {staff}"
    both = "staff (name, row_in_file, site, annual_pay, code, joined); inner (row_in_file, group_, size)"
    wrong = 'SELECT s.nme FROM staff AS s JOIN "inner" AS i'
    assert sorted(reason(wrong).removeprefix("no such column: s.nme; the columns are: ").split("; ")) == sorted(
        both.split("; ")
    )
    for table in ("staf", "staff.csv", '"docs/Staff.csv"', "main.staffs"):
        told = reason(f"SELECT * FROM {table}")
        assert told.startswith(f"no such table: {table.strip(chr(34))}; did you mean {staff}? Other tables: ")
        assert set(told.rpartition(": ")[2].split(", ")) == names - {"staff"}
    assert "did you mean book_rain (row_in_file, town, mm)?" in reason("SELECT * FROM book.rain")


def test_what_is_told_of_wrong_names_is_short(tmp_path: Path) -> None:
    """However many tables and columns there are; what is close to the wrong name is told before the rest."""
    files = {f"list-of-things-{n:03}.csv": "a,b\n1,2\n" for n in range(150)}
    files["wide.csv"] = ",".join(f"Measurement{n}" for n in range(10, 50)) + "\n" + ",".join("1" * 40) + "\n"
    files["rainfall.csv"] = "Town,mm\nKelm,3\n"
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [put(tmp_path / "docs", files)])
        with pytest.raises(
            DataError, match=r"did you mean rainfall \(row_in_file, town, mm\)\?.* and 1\d\d more"
        ) as table:
            index.tables.query("SELECT * FROM rainfal")
        with pytest.raises(DataError, match=r"are: wide \(measurement49, .* and 2\d more\)$") as column:
            index.tables.query("SELECT measurment49 FROM wide")
    assert max(len(str(told.value)) for told in (table, column)) < 500


def test_a_query_without_an_end_is_stopped(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SECONDS", 0.2)
    with pytest.raises(DataError, match=r"longer than 0\.2 seconds"):
        index.tables.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")


def test_tables_follow_their_files(tmp_path: Path, docs: Path, index: Index) -> None:
    put(docs, {"staff.csv": "Name,Site\nAna,Kelm\nJo,Kelm\n"})
    (docs / "book.xlsx").unlink()
    put(docs, {"page.md": b"\x00\x01 broken"})
    ingest(index, [docs], prune=True)
    assert only(index, "SELECT count(*) FROM staff") == "2"
    assert "book_rain" not in {table.name for table in index.tables.all()}
    assert "inner" in {table.name for table in index.tables.all()}
    assert index.verify() == []


def test_an_index_without_tables_has_none(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"a.txt": "No table here."})
    with Index.build(tmp_path / "plain.sq", []) as made:
        assert not made.tables
        ingest(made, [docs])
        assert not made.tables
        with pytest.raises(DataError, match="no table"):
            made.tables.query("SELECT 1 FROM staff")


def test_a_long_table_makes_a_bounded_number_of_passages(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_passages, "MOST", 10)
    with Index.build(tmp_path / "long.sq", []) as made:
        report = ingest(made, [docs / "staff.csv"])
        assert made.info().documents == 10
        (note,) = report.notes
        assert "search finds its first rows, and not the last" in note.reason
        assert only(made, "SELECT count(*) FROM staff") == "400"


def test_decimal_commas_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(
        "Item;Price;Stock;Code\nlamp;8,81;1.200;1,5-2\npump;1.024,50 €;12;7,25\nbolt;3;0;x\n", encoding="utf-8"
    )
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "prices.csv"])
        total = index.tables.query("SELECT sum(price), max(price), typeof(code) FROM prices").rows
        assert [float(value) for value in total[0][:2]] == pytest.approx([1036.31, 1024.5])
        assert total[0][2] == "text"


def test_dates_are_compared_as_dates(tmp_path: Path) -> None:
    """However a column writes them; one that holds anything else stays as it is."""
    rows = ("lamp,9 January 2024,17.05.2024,n/a", "pump,12 Dec 2023,01.06.2023,2024-01-01", "bolt,,3.12.2024,")
    (tmp_path / "items.csv").write_text("Item,Bought,Checked,Sold\n" + "\n".join(rows), encoding="utf-8")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "items.csv"])
        (table,) = index.tables.all()
        assert [column.type for column in table.columns[1:]] == ["TEXT", "DATE", "DATE", "TEXT"]
        assert table.columns[2].samples == ("2024-01-09", "2023-12-12")
        assert only(index, "SELECT item FROM items WHERE bought IS NOT NULL ORDER BY bought LIMIT 1") == "pump"
        assert only(index, "SELECT count(*) FROM items WHERE checked BETWEEN '2024-01-01' AND '2024-12-31'") == "2"
        assert only(index, "SELECT julianday(checked) - julianday(bought) FROM items WHERE item = 'lamp'") == "129.0"
        assert index.verify() == []


def test_arithmetic_needs_no_table(tmp_path: Path) -> None:
    with Index.build(tmp_path / "plain.sq", []) as made:
        assert only(made, "SELECT 6 * 90 * 9.5") == "5130.0"
    assert tables.compute("SELECT date('2026-05-01', '-60 days')").rows == (("2026-03-02",),)
    for sql, reason in (("SELECT load_extension('x')", "only SELECT"), ("DROP TABLE t", "only SELECT"), ("", "empty")):
        with pytest.raises(DataError, match=reason):
            tables.compute(sql)


def test_a_table_is_not_named_twice_by_its_file_and_its_heading(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"asset-register.md": "# Asset register\n\n| a | b |\n|---|---|\n| x | 1 |\n"})
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [docs])
        fixed = index.tables.unchanging()
        assert [table.name for table in fixed.all()] == ["asset_register"]
        put(docs, {"more.csv": "c,d\ny,2\n"})
        ingest(index, [docs])
        assert (len(fixed.all()), len(index.tables.all())) == (1, 2)
