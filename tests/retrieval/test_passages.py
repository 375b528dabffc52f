"""Passages: how a text comes in changes nothing, and each knows its line and headings."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.errors import DataError, UsageError
from subquest.readers import Part
from subquest.readers.columns import header_of, number_in
from subquest.readers.part import row_of
from subquest.retrieval import splitter
from subquest.retrieval.passages import Passages
from subquest.retrieval.splitter import Passage, Size, Splitter, split, unwrapped

PIECES = st.sampled_from([
    "word ", "Two words. ", "End.\n", "\n", "\n\n", "# Head\n", "## Sub\n", "```\n", "# not a head", "長い文。",
    "x" * 300, " ",
])  # fmt: skip


def through(pieces: Iterable[str], size: Size) -> list[Passage]:
    cutter = Splitter(size)
    return [passage for piece in pieces for passage in cutter.line(piece)] + list(cutter.end())


@given(st.lists(PIECES, max_size=120), st.sampled_from([Size(10), Size(12, "tokens")]))
def test_holding_little_gives_the_same_passages(pieces: list[str], size: Size) -> None:
    text = "".join(pieces)
    whole = through(text.splitlines(keepends=True), size)
    held, splitter.HOLD = splitter.HOLD, 1
    try:
        assert through(text.splitlines(keepends=True), size) == whole
    finally:
        splitter.HOLD = held


@given(st.lists(PIECES, max_size=120))
def test_nothing_of_a_text_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = list(split(text, Size(10)))
    assert all(text.count("\n", 0, p.start) + 1 == p.line for p in found)
    rest = list(text)
    for passage in found:
        if text.startswith(passage.text, passage.start):
            rest[passage.start : passage.start + len(passage.text)] = " " * len(passage.text)
    assert all(not line.strip() or line.startswith("#") for line in "".join(rest).split("\n"))


def test_headings_code_and_lines() -> None:
    text = "Intro.\n\n# Birds\n\nRobins.\n\n```\n# no heading\n```\n\n## Owls\n### Snowy\nWhite.\n"
    text += "# Alone\n# Fish\nSwim.\n"
    assert [(p.text, p.section, p.line) for p in split(text)] == [
        ("Intro.", (), 1),
        ("Robins.\n\n```\n# no heading\n```", ("Birds",), 5),
        ("White.", ("Birds", "Owls", "Snowy"), 13),
        ("Alone", ("Alone",), 14),
        ("Swim.", ("Fish",), 16),
    ]


def test_a_word_without_end_is_cut() -> None:
    found = list(split("x" * 100_000))
    assert "".join(p.text for p in found) == "x" * 100_000
    assert max(len(p.text) for p in found) == 100 * 200


def test_tokens_are_estimated() -> None:
    assert Size(200, "tokens").count("Internationalization, of course!") == 3 + 1 + 1 + 1 + 1
    found = list(split("A sentence of exactly eight tokens, or so. " * 100, Size(200, "tokens")))
    assert all(180 <= Size(200, "tokens").count(p.text) <= 250 for p in found[:-1])
    with pytest.raises(UsageError, match="choose from 10"):
        Size(3)


def test_the_end_of_a_wrapped_line_is_joined_with_the_next() -> None:
    """A passage begins with a sentence, which may begin anywhere in a line."""
    assert (
        unwrapped("The quokka fled through\nthe northern shaft.\nshort")
        == "The quokka fled through the northern shaft.\nshort"
    )
    for text in (
        "apple\nbanana\ncherry",
        "Fruit:\napples",
        "Dear Ada\nHow are you?",
        "A. one\ntwo",
        "It ended.\nand so on",
    ):
        assert unwrapped(text) == text


def test_wrapped_prose_is_joined_and_nothing_else() -> None:
    wrapped = (
        "A paragraph that was wrapped at some column of an editor\nby somebody. The next line is a list:\n"
        "- one item that is long enough to be taken for prose, but is none\n- two\n"
        "| a | b | c | d | e | f | g | h | i | j |\n"
        "| 1 |\nshort\nlines\n"
    )
    assert unwrapped(wrapped).split("\n") == [
        "A paragraph that was wrapped at some column of an editor by somebody. The next line is a list:",
        "- one item that is long enough to be taken for prose, but is none",
        "- two",
        "| a | b | c | d | e | f | g | h | i | j |",
        "| 1 |",
        "short",
        "lines",
    ]
    code = "```\n" + "x = a_rather_long_name_for_a_function(1, 2, 3)\n" * 2 + "```"
    assert unwrapped(code) == code


def test_rows_go_together_and_every_cell_names_its_column() -> None:
    rows = [row_of(("name", "number", "note"), {"sheet": "S", "row": 1})]
    rows += [row_of((f"item{n}", str(n), ""), {"sheet": "S", "row": n + 1}) for n in range(1, 40)]
    found = list(Passages("b.xlsx", Size(50)).of_parts(rows))
    assert found[0].text.startswith("name: item1; number: 1\nname: item2; number: 2\n")
    assert found[0].meta == {"file": "b.xlsx", "sheet": "S", "row": 2, "row_end": found[1].meta["row"] - 1}
    assert found[-1].meta["row_end"] == 40
    assert sum(document.text.count("item") for document in found) == 39
    (alone,) = Passages("b.xlsx").of_parts(rows[:1])
    assert (alone.text, alone.meta["row"]) == ("| name | number | note |", 1)
    wide = list(Passages("b.xlsx").of_parts([rows[0], row_of(("word " * 500,), {"row": 2})]))
    assert sum(document.text.count("word") for document in wide) == 500


def test_a_title_above_a_table_is_not_the_names_of_its_columns() -> None:
    given = [["Budget 2024"], ["all amounts in pounds"], ["Department", "Head", "2023"], ["Sales", "Ana Ruiz", "12"]]
    rows = [row_of(cells, {"row": n}) for n, cells in enumerate([*given, ["Ward", "Jo Lamb", "7"]], 1)]
    title, table = Passages("b.xlsx").of_parts(rows)
    assert (title.text, title.meta["row"]) == ("Budget 2024\nall amounts in pounds", 1)
    assert table.text == "Department: Sales; Head: Ana Ruiz; 2023: 12\nDepartment: Ward; Head: Jo Lamb; 2023: 7"


@pytest.mark.parametrize(
    ("rows", "at"),
    [
        ([["name", "age"], ["Ana", "3"]], 0),
        ([["Ana", "34", "Kelm"], ["Jo", "7", "Brunn"]], None),
        ([["Region", "2023", "2024"], ["North", "3", "4"]], 0),
        ([["3", "4"], ["5", "6"]], None),
        ([["a", "a"], ["5", "6"]], 0),
        ([["Region", "Total", "Costs", "Total"], ["North", "5", "3", "8"], ["South", "", "2", "9"]], 0),
        ([["Name", "Hired", "Name"], ["Ana", "17 May 2024", "Jo"], ["Ken", "3 May 2021", "Ana"]], 0),
        ([["Name", "Shelf", "Name"], ["lamp", "B2", "pump"], ["pump", "C14", "bolt"]], 0),
        ([["Ana", "Kelm", "Kelm"], ["Jo", "Brunn", "Kelm"], ["Ken", "Tull", "Brunn"]], None),
        ([["Ana", "Kelm", "Kelm", "34"], ["Jo", "Brunn", "Kelm", "7"]], None),
        ([["lamp B2", "lamp B2"], ["pump C14", "bolt C15"]], None),
        ([["Kelm", "Kelm", "?"], ["Brunn", "Tull", "7"]], None),
        ([["Kelm", "Kelm", "n/a"], ["Brunn", "Tull", "7"], ["Tull", "Kelm", "n/a"]], None),
        ([["Kelm", "Kelm", "Tull"], ["Brunn", "Tull"]], None),
        ([["3.5", "3.5"], ["5", "6"]], None),
        ([["2024-01-02", "2024-01-02"], ["2024-01-03", "2024-01-04"]], None),
        ([["17 May 2024", "18 May 2024"], ["19 May 2024", "20 May 2024"]], None),
        ([["Region", "31 Dec 2023", "31 Dec 2024"], ["North", "3", "4"]], 0),
        ([["", "Pay"], ["Ana", "3"], ["Jo", "4"]], 0),
        ([["", "Site"], ["Ana", "Kelm"], ["Jo", "Brunn"]], 0),
        ([["", "Pay", "Tax"], ["Ana", "3", "1"], ["Jo", "4", "2"]], 0),
        ([["", "Budget"], ["Name", "Pay"], ["Ana", "3"], ["Jo", "4"]], 1),
        ([["Budget"], ["Ana", "3"], ["Jo", "4"]], None),
        ([["Budget", ""], ["Ana", "3"], ["Jo", "4"]], None),
        ([["", "7"], ["Ana", "3"], ["Jo", "4"]], None),
        ([["Title"], ["a", "b", "c"], ["1", "2", "3"], ["1", "2", "3"]], 1),
        ([["2024-01-02", "Kelm"], ["2024-01-03", "Brunn"]], None),
        ([], None),
    ],
)
def test_which_row_names_the_columns(rows: list[list[str]], at: int | None) -> None:
    assert header_of(rows) == at


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("12", 12), ("-3.5", -3.5), ("1,948,000", 1948000), ("£62", 62), ("81%", 81), ("−4", -4), ("0", 0),
        ("0.5", 0.5), ("007", None), ("1,94", None), ("", None), ("x7", None), ("2024-01-01", None), ("1e3", 1000.0),
        ("9" * 30, None),
    ],
)  # fmt: skip
def test_numbers_in_cells(cell: str, number: float | None) -> None:
    assert number_in(cell) == number


def test_a_heading_is_not_repeated_in_the_text_below_it() -> None:
    sections: list[tuple[str, ...]] = [("Owls",), ("Owls",), ("Owls", "Nests"), ("Owls", "Food")]
    texts = ["Owls", "They hoot.", "Nests", "Food"]
    parts = [Part(text, {"page": 1}, section) for text, section in zip(texts, sections, strict=True)]
    made = Passages("a.docx")
    assert [(d.title, d.text) for d in made.of_parts(parts)] == [
        ("a.docx > Owls", "They hoot."),
        ("a.docx > Owls > Nests", "Nests"),  # nothing else stands below it
        ("a.docx > Owls > Food", "Food"),
    ]
    assert (made.pages, made.empty_pages) == (1, 0)


def test_soft_hyphens_do_not_divide_words() -> None:
    (found,) = Passages("a.txt").of_lines(["# Dampf\xadschiff\n", "Die Donau\xaddampf\xadschiff\xadfahrt.\n"])
    assert (found.title, found.text) == ("Dampfschiff", "Die Donaudampfschifffahrt.")


def test_what_was_read_before_a_failure_is_kept() -> None:
    def parts() -> Iterable[Part]:
        yield Part("One.", {"page": 1})
        yield Part("Two.", {"page": 2})
        raise DataError("page 3 cannot be read")

    found = Passages("a.pdf").of_parts(parts())
    assert [(next(found).text), (next(found).text)] == ["One.", "Two."]
    with pytest.raises(DataError, match="page 3"):
        next(found)


def test_no_row_of_a_table_is_lost_however_long_it_is() -> None:
    def rows(*texts: str) -> list[tuple[str, object]]:
        parts = [row_of(text.split("|"), {"row": number}) for number, text in enumerate(texts, 1)]
        return [(document.text, document.meta["row"]) for document in Passages("a.csv").of_parts(parts)]

    long, longer = "first " + "w " * 120, "second " + "v " * 150
    assert rows(long, "b", "c") == [(f"| {long.strip()} |", 1), ("| b |\n| c |", 2)]
    assert rows("a|b", longer + longer)[0][0].startswith("a: second v")
    everything = " ".join(text for text, _ in rows(longer * 5, longer * 4, "c"))
    assert (everything.count("second"), everything.count("v"), everything.count("c |")) == (9, 9 * 150, 1)


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ('---\ntitle: "The Orvane Bridge"\ntags: [bridges]\n---\n# Overview\n', "The Orvane Bridge > Overview"),
        ("---\ntags: [bridges]\n---\n# Overview\n", "Overview"),
        ("---\ntitle: never closed\n# Overview\n", "bridge.md > Overview"),
        ("---\nOnce upon a time.\ntitle: prose\n---\n# Overview\n", "bridge.md > Overview"),
        ("Words.\ntitle: no front matter\n---\n# Overview\n", "bridge.md > Overview"),
    ],
)
def test_front_matter_names_the_page(head: str, title: str) -> None:
    text = head + "It crosses the Lisk. " * 40
    found = list(Passages("bridge.md").of_lines(text.splitlines(keepends=True)))
    assert found[-1].title == title


def test_front_matter_is_no_passage_and_its_fields_are_metadata() -> None:
    head = (
        "---\n# for the site\ntitle: 'The Orvane Bridge'\nauthor: Mila Torrun\ntags: [bridges, \"the Lisk\"]\n"
        "keywords:\n- steel\n- wire\nabstract: >\n  A bridge\n  of steel.\nline: 7\nsection: guides\n---\n"
    )
    body = "It crosses the Lisk.\n\n## History\n\nIt was opened in 1931.\n"
    first, second = Passages("bridge.md").of_lines((head + body).splitlines(keepends=True))
    assert [first.title, second.title] == ["The Orvane Bridge", "The Orvane Bridge > History"]
    assert [first.text, second.text] == ["It crosses the Lisk.", "It was opened in 1931."]
    assert [(d.meta["line"], d.meta["start"]) for d in (first, second)] == [
        (15, len(head)),
        (19, (head + body).index("It was")),
    ]
    assert first.meta["author"] == "Mila Torrun"
    assert first.meta["tags"] == ["bridges", "the Lisk"]
    assert first.meta["keywords"] == ["steel", "wire"]
    assert first.meta["abstract"] == "A bridge of steel."
    assert ("section" in first.meta, second.meta["section"]) == (False, "History")


def test_rules_around_prose_are_no_front_matter() -> None:
    text = "---\nThe Orvane Bridge: a bridge.\n\n- It crosses the Lisk.\n---\nIt is long.\n"
    (found,) = Passages("bridge.md").of_lines(text.splitlines(keepends=True))
    assert "The Orvane Bridge: a bridge." in found.text
    assert "It crosses the Lisk." in found.text


@pytest.mark.parametrize(
    ("line", "words"),
    [("# Birds ##\n", "Birds"), ("# C#\n", "C"), ("# a # b\n", "a # b"), ("##  ##\n", "#"), ("# Owls  \n", "Owls")],
)
def test_signs_that_close_a_heading_are_not_its_words(line: str, words: str) -> None:
    assert next(split(f"{line}They fly.\n")).heading == words


def test_rows_carry_what_their_table_is_called() -> None:
    rows = [["Winter timetable"], ["Line", "First bus"], ["7", "05:40"], ["9", "06:10"]]
    parts = [row_of(cells, {"sheet": "Buses", "row": n}) for n, cells in enumerate(rows, 1)]
    title, table = Passages("times.xlsx").of_parts(parts)
    assert title.text == "Winter timetable"
    assert table.title == "times.xlsx > Buses > Winter timetable"
    assert table.text.startswith("Line: 7; First bus: 05:40")


def test_a_long_note_above_a_table_is_not_its_name() -> None:
    note = "All times are those of weekdays outside the school holidays, and a bus may be up to four minutes early."
    rows = [[note], ["Line", "First bus"], ["7", "05:40"], ["9", "06:10"]]
    *_, table = Passages("times.csv").of_parts(row_of(cells, {"line": n}) for n, cells in enumerate(rows, 1))
    assert table.title == "times.csv"
