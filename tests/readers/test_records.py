"""JSON that holds records is read as rows; any other JSON, and corpora of JSON lines, are read as before."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tempfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.readers import records
from subquest.readers.part import Part
from subquest.readers.records import read_json
from subquest.readers.text import read_json_text
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.retrieval.ingest.report import Report
from subquest.tools.files import from_bytes

from .made import archive, put

STAFF: list[dict[str, Any]] = [
    {"name": "Ana Ruiz", "office": "Old Quay", "pay": 1200, "address": {"city": "Kelm", "zip": "0071"}},
    {"name": "Bo Lind", "office": None, "pay": 1450.50, "knows": ["French", "Thai"], "leads": True},
]
ROWS = (
    "name: Ana Ruiz; office: Old Quay; pay: 1200; address.city: Kelm; address.zip: 0071\n"
    "name: Bo Lind; pay: 1450.5; knows: French, Thai; leads: true"
)


def built(folder: Path, files: dict[str, str | bytes]) -> tuple[Index, Report]:
    index = Index.build(folder / "docs.sq", [])
    return index, ingest(index, [put(folder / "docs", files)])


def parts(text: str | bytes) -> list[Part]:
    return list(read_json(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def lines_of(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("indent", [None, 1])
def test_records_are_rows_and_a_table(tmp_path: Path, indent: int | None) -> None:
    files: dict[str, str | bytes] = {
        "a.json": json.dumps(STAFF, indent=indent),
        "b.json": json.dumps({"updated": "2025-08-30", "staff": STAFF, "tags": ["x", 1], "none": []}, indent=indent),
        "c.jsonl": lines_of(STAFF),
        "d.jsonl.gz": gzip.compress(lines_of(STAFF).encode()),
        "e.zip": archive({"f.ndjson": lines_of(STAFF), "g.json": json.dumps(STAFF)}),
    }
    index, report = built(tmp_path, files)
    with index:
        assert (report.problems, report.notes) == ([], [])
        found = list(index.documents())
        assert [d.title for d in found if d.text == ROWS] == [
            "a.json", "b.json > staff", "c.jsonl", "d.jsonl.gz", "f.ndjson", "g.json",
        ]  # fmt: skip
        (beside,) = [d for d in found if d.text != ROWS]
        assert beside.meta["file"] == "docs/b.json"
        assert json.loads(beside.text) == {"updated": "2025-08-30", "tags": ["x", 1], "none": []}
        assert len(index.tables.all()) == 6
        asked = index.tables.query("SELECT name, address_zip FROM b_staff WHERE pay > 1300 OR address_city = 'kelm'")
        assert asked.text == "name: Ana Ruiz; address_zip: 0071\nname: Bo Lind; address_zip: "
        places = {d.meta.get("member", d.meta["file"]): d.meta for d in found if d.text == ROWS}
        counted = ("line", "line_end") if indent else ("row", "row_end")
        assert [places["docs/a.json"][name] for name in counted] == ([2, 11] if indent else [1, 2])
        assert [places["docs/c.jsonl"][name] for name in ("line", "line_end")] == [1, 2]


CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=9)
TABLES = st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(TABLES, st.sampled_from([None, 2]), st.booleans())
def test_records_are_read_as_the_same_rows_of_csv_are(rows: list[list[str]], indent: int | None, ascii: bool) -> None:
    names = ["Place", "Keeper", "Depth"]
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_ALL).writerows([names, *([f"{cell}x" for cell in row] for row in rows)])
    values = [dict(zip(names, [f"{cell}x" for cell in row], strict=True)) for row in rows]
    files: dict[str, str | bytes] = {
        "a.csv": made.getvalue(),
        "b.json": json.dumps(values, indent=indent, ensure_ascii=ascii),
        "c.jsonl": "".join(json.dumps(value, ensure_ascii=ascii) + "\n" for value in values),
    }
    with tempfile.TemporaryDirectory() as folder:
        index, report = built(Path(folder), files)
        with index:
            assert report.problems == []
            texts = {name: [d.text for d in index.documents() if d.meta["file"] == f"docs/{name}"] for name in files}
            assert texts["b.json"] == texts["c.jsonl"] == texts["a.csv"]
            asked = [index.tables.query(f"SELECT place, keeper, depth FROM {name}").text for name in "abc"]
            assert asked[0] == asked[1] == asked[2]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.", max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.integers(1, 9), st.sampled_from([None, 0, 3]))
def test_no_value_is_lost_wherever_a_stretch_ends(value: Any, chunk: int, indent: int | None) -> None:
    """Every plain value stands in a row or in the text, and what is no table is read as it was."""
    text = json.dumps(value, indent=indent)
    before, records._CHUNK = records._CHUNK, chunk
    try:
        found = parts(text)
    finally:
        records._CHUNK = before
    assert found == parts(text)
    if not any(part.row for part in found):
        assert found == list(read_json_text(io.BytesIO(text.encode())))
        return
    lists = {None: value} if isinstance(value, list) else {k: v for k, v in value.items() if k not in beside_of(found)}
    for key, own in lists.items():
        section = () if key is None else (key,)
        header, *rows = [part for part in found if part.row and part.section == section]
        assert header.header
        assert len(rows) == sum(any(str(v).split() for v in plain(record)) for record in own)
        for record, row in zip([r for r in own if any(str(v).split() for v in plain(r))], rows, strict=True):
            assert all(" ".join(str(v).split()) in row.text for v in plain(record))


def beside_of(found: list[Part]) -> dict[str, Any]:
    return {key: value for part in found if not part.row for key, value in json.loads(part.text).items()}


def plain(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [one for inner in (value.values() if isinstance(value, dict) else value) for one in plain(inner)]
    return [] if value is None or value == "" else [value if isinstance(value, str) else json.dumps(value)]


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", "[[1, 2], [3, 4]]", "[1, 2]", '"words"', "", "[{}]", '[{"a": 1}, 2]', '[{"a": 1}, {"a": [[1]]}]',
        '[{"a": {"b": {"c": 1}}}]', '{"a": {"b": 1}, "c": [1, {"d": 2}]}', '{"a": [{"b": 1}], "a": [{"b": 2}]}',
        '[{"a": 1}, {"a": 2}', '{"a": [{"b": 1}]', '[{"a": 1}] more', '{"a": 1}\n{"a": 2}\n', '[{"a": 1,}]',
        '[{"a.b": 1, "a": {"b": 2}}]', '[{"": 1}]', f'[{{"{"a" * 201}": 1}}]', "[" * 100_000, '[{"a":' * 5000,
        json.dumps([{f"n{n}": n} for n in range(1025)]),
    ],
)  # fmt: skip
def test_other_json_is_read_as_it_was(text: str) -> None:
    assert parts(text) == list(read_json_text(io.BytesIO(text.encode())))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_records_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    values = [{"town": "Köln", "mayor": "Zoë Weiß"}, {"town": "Kelm", "mayor": "Bo"}]
    text = json.dumps(values, ensure_ascii=False, indent=1)
    written = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    index, report = built(tmp_path, {"a.json": text.encode(encoding), "b.jsonl": written.encode(encoding)})
    with index:
        assert report.problems == []
        assert {d.text for d in index.documents()} == {"town: Köln; mayor: Zoë Weiß\ntown: Kelm; mayor: Bo"}


def test_a_long_list_is_not_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.retrieval.table_passages.MOST", 5)
    values = [{"number": n, "place": f"Place {n}"} for n in range(30_000)]
    index, report = built(tmp_path, {"a.json": json.dumps({"places": values}), "b.jsonl": lines_of(values)})
    with index:
        assert [note.reason.startswith("a long table") for note in report.notes] == [True, True]
        for table in index.tables.all():
            assert index.tables.query(f"SELECT count(*), sum(number) FROM {table.name}").text.endswith(": 449985000")


def test_numbers_are_as_they_are_written_and_lone_surrogates_are_signs(tmp_path: Path) -> None:
    text = '[{"a": 1.50, "b": 1e3, "c": %s, "d": "\\ud800", "e": NaN}]' % ("9" * 5000)
    index, report = built(tmp_path, {"a.json": text, "b.json": '{"t": [{"a": 1}], "n": %s}' % ("9" * 5000)})
    with index:
        assert report.problems == []
        texts = " ".join(d.text for d in index.documents())
        assert "a: 1.50; b: 1e3; d: ?; e: NaN" in texts.replace(f"c: {'9' * 5000}; ", "")
        assert "9" * 5000 in texts


@pytest.mark.parametrize(
    ("lines", "rows", "reasons"),
    [
        (['{"city": "Kelm"}', "not json", "", '{"city": "Marn"}'], 2, ["line 2: not JSON"]),
        (['{"id": 1, "city": "Kelm"}', "null"], 1, ["line 2: expected an object, got null"]),
        (['{"id": "d3"}'], 0, ["line 1: document 'd3' has no text"]),
        (
            ['{"title": "A"}', '{"id": "1", "title": "B"}'],
            0,
            ["line 1: the document", "line 2: document '1'"],
        ),
        (['{"city": "Kelm"}', '{"id": "1", "text": "x"}'], 0, ["line 1: the document has no id"]),
        (['{"city": "Kelm"}', '{"id": "1", "contents": "x"}'], 0, ["line 1: the document has no id"]),
        (['{"text": "x", "stars": 5}'], 0, ["line 1: the document has no id"]),
        (['{"id": "q", "question": "Who?", "answers": ["Bo"]}'], 0, ["line 1: document 'q' has no text"]),
        (
            ['{"city": "Kelm"}', '{"city": [{"deep": 1}]}'],
            0,
            ["line 1: the document", "line 2: the document"],
        ),
        (['{"city": "Kelm"}', "[1]"], 0, ["line 1: the document has no id", "line 2: expected an object, got list"]),
    ],
)
def test_lines_are_records_only_where_they_are_no_corpus(
    tmp_path: Path, lines: list[str], rows: int, reasons: list[str]
) -> None:
    index, report = built(tmp_path, {"a.jsonl": "\n".join(lines)})
    with index:
        found = [d for d in index.documents() if d.meta.get("file")]
        assert sum(d.text.count("\n") + 1 for d in found) == rows
        problems = [str(problem).removeprefix("docs/a.jsonl: ") for problem in report.problems]
        assert len(problems) == len(reasons)
        assert all(map(str.startswith, problems, reasons))


def test_records_attached_to_a_message_are_rows(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "Staff"
    message.set_content("See below.")
    message.add_attachment(json.dumps(STAFF).encode(), maintype="application", subtype="json", filename="s.json")
    index, _ = built(tmp_path, {"a.eml": message.as_bytes()})
    with index:
        assert ROWS in {d.text for d in index.documents()}


def test_records_before_damage_are_kept(tmp_path: Path) -> None:
    lines = (b'{"city": "%s", "n": %d}\n' % (os.urandom(9).hex().encode(), n) for n in range(9000))
    long, short = gzip.compress(b"".join(lines)), gzip.compress(lines_of(STAFF).encode())
    index, report = built(tmp_path, {"a.jsonl.gz": long[:-2000], "b.jsonl.gz": short[:-9]})
    with index:
        assert [problem.reason[:8] for problem in report.problems] == ["damaged:", "damaged:"]
        assert "n: 4000" in " ".join(d.text for d in index.documents())


def test_a_tool_shows_the_document() -> None:
    assert json.loads(from_bytes(json.dumps(STAFF).encode(), "json").text) == STAFF
