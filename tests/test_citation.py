"""Places as people cite them."""

import pytest

from subquest.citation import cite, place_of


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"file": "a.pdf", "page": 3, "section": "x", "start": 9}, "a.pdf, page 3"),
        ({"file": "a.zip", "member": "b/c.pdf", "page": 1}, "a.zip/b/c.pdf, page 1"),
        ({"file": "a.pptx", "slide": 2, "section": "Two"}, "a.pptx, slide 2"),
        ({"file": "a.xlsx", "sheet": "S", "row": 2, "row_end": 9}, "a.xlsx, sheet S, rows 2 to 9"),
        ({"file": "a.docx", "section": "A > B", "row": 2}, "a.docx, section A > B, row 2"),
        ({"file": "a.csv", "line": 5, "line_end": 7}, "a.csv, lines 5 to 7"),
        ({"file": "a.md", "line": 5, "section": "A"}, "a.md, line 5"),
        ({"file": "a.html", "section": "A"}, "a.html, section A"),
        ({"file": "a.docx", "section": "A", "paragraph": 4}, "a.docx, section A, paragraph 4"),
        ({"file": "a.eml", "paragraph": 0}, "a.eml"),
        ({"url": "https://x.example/y", "year": 1999}, "https://x.example/y"),
        ({"year": 1999, "page": 3}, ""),
        ({}, ""),
    ],
)
def test_cited(meta: dict[str, object], words: str) -> None:
    assert cite(place_of(meta)) == words
