"""Scanned pages in a real browser: that they hold no text is said where the file was added, with the offer of OCR."""

import io
from typing import Any

import pytest

from subquest.readers import images
from subquest.serve import episode_handlers, kept_files

from .browsing import browser, expect, needs_browser, page, unfit
from .conftest import Start
from .test_page_documents import file, refusals_only

__all__ = ["browser", "page"]
pytestmark = [needs_browser, pytest.mark.slow]


def scan(words: str = "The gate is 412 feet long", kind: str = "PDF") -> bytes:
    """A PDF of one page that is a picture of words, or the picture."""
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra `media`")
    from PIL import ImageDraw, ImageFont

    picture = image.new("RGB", (900, 300), "white")
    ImageDraw.Draw(picture).text((40, 100), words, fill="black", font=ImageFont.load_default(48))
    made = io.BytesIO()
    picture.save(made, kind)
    return made.getvalue()


def test_a_scan_is_read_with_ocr_where_it_was_added(start: Start, browser: Any, page: Any) -> None:
    if not images.can_recognise():
        pytest.skip("OCR needs the extra `media`")
    with start() as server:
        page.goto(server.url)
        page.get_by_label("Add files to a new index").set_input_files([file("gate.pdf", scan())])
        page.get_by_role("alert").get_by_text("a scan; read it with OCR").wait_for()
        page.set_viewport_size({"width": 390, "height": 800})
        assert unfit(page, "scan") == {}
        page.get_by_role("button", name="Read gate.pdf with OCR").click()
        page.get_by_text("1 passage read into the index gate.").wait_for()
        expect(page.get_by_role("button", name="Read gate.pdf with OCR")).to_have_count(0)
        expect(page.get_by_label("Index", exact=True)).to_have_value("gate")
        page.goto(f"{server.url}/#/indexes/gate")
        page.get_by_label("Add files").set_input_files([file("door.pdf", scan("The door is 7 feet wide"))])
        row = page.locator(".uploads li").filter(has_text="door.pdf")
        expect(row.get_by_role("alert")).to_contain_text("a scan; read it with OCR")
        assert unfit(page, "files") == {}
        row.get_by_role("button", name="Read it with OCR").click()
        expect(page.locator(".files tbody th")).to_have_text(["door.pdf", "gate.pdf"])
        with server.client() as client:
            found = client.post("/api/indexes/gate/search", json={"query": "gate feet long"}).json()
        assert "412" in str(found)
    refusals_only(page)


def test_a_picture_is_read_with_ocr_too(start: Start, browser: Any, page: Any) -> None:
    if not images.can_recognise():
        pytest.skip("OCR needs the extra `media`")
    with start() as server:
        page.goto(server.url)
        page.get_by_label("Add files to a new index").set_input_files([file("gate.png", scan(kind="PNG"))])
        page.get_by_role("alert").get_by_text("gate/gate.png: an image, perhaps a scan; read it with OCR").wait_for()
        page.get_by_role("button", name="Read gate.png with OCR").click()
        page.get_by_text("1 passage read into the index gate.").wait_for()
        with server.client() as client:
            found = client.post("/api/indexes/gate/search", json={"query": "gate feet long"}).json()
        assert "412" in str(found)
    refusals_only(page)


def test_without_ocr_a_scan_says_what_is_missing(start: Start, page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept_files, episode_handlers):
        monkeypatch.setattr(module, "can_recognise", lambda: False)
    with start() as server:
        page.goto(server.url)
        page.get_by_label("Add files to a new index").set_input_files([file("gate.pdf", scan())])
        page.get_by_role("alert").get_by_text("OCR is not installed on this server (subquest[media])").wait_for()
        expect(page.get_by_role("button", name="Read gate.pdf with OCR")).to_have_count(0)
    refusals_only(page)
