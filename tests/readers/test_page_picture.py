"""Pages of a PDF as they look, and where a quote stands on them."""

import base64
import io
from pathlib import Path

import pytest

from subquest.errors import DataError
from subquest.readers.page_picture import page_picture

from .made import pdf, pdf_of_objects, stream_of

QUOTE = "She was born in Kestel, a town on the river Ane."
PAGES = (
    "A title page.",
    "Mila Torrun was an engineer.\nShe was born in Kes-\ntel, a town on the river Ane.\nShe died in 1960.",
)


def kept(folder: Path, content: bytes) -> Path:
    path = folder / "made.pdf"
    path.write_bytes(content)
    return path


def dark(picture: object, box: tuple[float, float, float, float]) -> int:
    """Dark pixels in a part of the picture."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture.png))).convert("L")  # type: ignore[attr-defined]
    left, top, width, height = box
    shares = (left, top, left + width, top + height)
    part = image.crop(tuple(round(share * side) for share, side in zip(shares, image.size * 2, strict=True)))
    return sum(part.histogram()[:128])


def test_a_quote_is_marked_line_by_line_where_its_ink_is(tmp_path: Path) -> None:
    with kept(tmp_path, pdf(*PAGES)).open("rb") as file:
        found = page_picture(file, 2, QUOTE)
        assert (found.page, found.pages) == (2, 2)
        assert len(found.marks) == 2  # the quote takes two lines, with a word divided between them
        for mark in found.marks:
            assert dark(found, mark) > 100
        above = (0.0, 0.0, 1.0, found.marks[0][1])
        assert 0 < dark(found, above) < dark(found, (0.0, 0.0, 1.0, 1.0))
        assert page_picture(file, 1, QUOTE).marks == ()
        assert page_picture(file, 2, "…").marks == ()


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_marks_of_turned_and_cropped_pages(tmp_path: Path, turned: int) -> None:
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /CropBox [30 300 500 780] /Rotate {turned} "
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    drawn = b"BT /F1 11 Tf 60 500 Td (The ferry leaves at noon.) Tj 0 -40 Td (It is red.) Tj ET"
    content = pdf_of_objects(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        font,
        f"{page} /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>".encode(),
        stream_of(drawn),
    )
    with kept(tmp_path, content).open("rb") as file:
        found = page_picture(file, 1, "it is red")
    (mark,) = found.marks
    assert dark(found, mark) > 50
    whole = dark(found, (0.0, 0.0, 1.0, 1.0))
    assert dark(found, mark) < whole / 2  # the other line is longer


@pytest.mark.parametrize(
    ("content", "number", "reason"),
    [
        (pdf("One."), 2, "no page 2: the file has 1"),
        (b"%PDF-1.4 nothing", 1, "cannot be drawn"),
        (pdf("x", encrypted=True), 1, "cannot be drawn"),
    ],
)
def test_what_cannot_be_drawn_is_told(tmp_path: Path, content: bytes, number: int, reason: str) -> None:
    with kept(tmp_path, content).open("rb") as file, pytest.raises(DataError, match=reason):
        page_picture(file, number)
