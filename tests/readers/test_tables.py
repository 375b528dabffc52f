"""Tables with delimiters: every dialect is read back, and a stray quotation mark swallows nothing."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.errors import DataError
from subquest.readers import tables
from subquest.readers.tables import csv_rows

FIELDS = ["alpha", "be,ta", "ga;mma", 'de"lta', '"eps"', "ze\nta", "1,5", "a|b", "", "it's", '"']


def rows(text: str, delimiter: str = "") -> list[list[str]]:
    return [row for _, row in csv_rows(io.BytesIO(text.encode()), delimiter)]


@given(
    st.lists(st.lists(st.sampled_from(FIELDS), min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_a_program_writes_is_read_back(table: list[list[str]], delimiter: str, quoting: int, end: str) -> None:
    table = [["one", "two", "three"], *table]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(table)  # type: ignore[arg-type]
    assert rows(out.getvalue()) == table


def test_quotes_that_are_doubled_only_far_below() -> None:
    plain = "".join(f'{n},"plain, with a comma"\n' for n in range(400))
    assert rows(f'id,said\n{plain}400,"He said ""hi, there"" loudly"\n')[-1] == ["400", 'He said "hi, there" loudly']


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('1\t"Hello is a\tA\n2\tNext\tB\n3\tSaid "so" x\tC\n', ['"Hello is a', "Next", 'Said "so" x']),
        ('1\t"Hello\tA\n2\tends here"\tB\n', ['"Hello', 'ends here"']),
        ('1\t"Hello\tA\n2\tNext\tB\n', ['"Hello', "Next"]),
        ('1\t"two\nlines"\tA\n2\t"one"\tB\n', ["two\nlines", "one"]),
        ('1\t"a" b\tA\n', ["a b"]),
    ],
)
def test_a_stray_quotation_mark_swallows_no_row(text: str, found: list[str]) -> None:
    assert [row[1] for row in rows(text, "\t")] == found


def test_rows_keep_their_lines_after_a_stray_mark() -> None:
    table = b'a,b\n1,"open\n2,x\n3,"two\nlines"\n4,y\n'
    assert [(number, row[0]) for number, row in csv_rows(io.BytesIO(table))] == [
        (1, "a"), (2, "1"), (3, "2"), (4, "3"), (6, "4"),
    ]  # fmt: skip


def test_the_delimiter_that_excel_names() -> None:
    assert rows("sep=|\na|b;c\n1|2;3\n") == [["a", "b;c"], ["1", "2;3"]]


def test_long_lines_are_one_row_and_endless_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.readers.text.MAX_LINE", 10)
    assert rows("1\ta text of many words\tTitle\n", "\t") == [["1", "a text of many words", "Title"]]
    monkeypatch.setattr(tables, "FIELD", 30)
    with pytest.raises(DataError, match="line 2: longer than 30"):
        rows("1\tok\tT\n" + "x" * 40 + "\n", "\t")
