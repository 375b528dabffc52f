"""Documents in a real browser: files added with progress, listed, read again and removed; citations at their place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from subquest.serve.settings import Settings

from ..readers.made import pdf
from .browsing import EVIL, ask, browser, expect, needs_browser, page, seen, unfit
from .conftest import QUESTION, Running, Start
from .test_file_handlers import put

__all__ = ["browser", "page"]
pytestmark = needs_browser

FILLING = "\n".join(f"Line {n} tells of the ferry, the inn and the mountain." for n in range(30))
CITED = "The Orvane Bridge was designed by Mila Torrun."
PAGES = ("A title page.", f"{FILLING}\n{CITED}\nIt is long.", "Mila Torrun was born in Kestel.", "An index.")


def file(name: str, content: bytes) -> Any:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def refusals_only(page: Any) -> None:
    """Nothing is logged but that requests were refused, as they had to be."""
    page.expected.append("the server responded with a status of 4")


def expect_in_view(page: Any, selector: str) -> None:
    """It is scrolled to once it is drawn."""
    inside = "one => one.getBoundingClientRect().top >= 0 && one.getBoundingClientRect().bottom <= innerHeight"
    page.wait_for_function(f"[...document.querySelectorAll({selector!r})].slice(0, 1).some({inside})")


@pytest.fixture
def library(start: Start) -> Iterator[Running]:
    """A server with an index of a PDF of four pages and a long text."""
    with start() as server, server.client() as client:
        put(client, "bridges.pdf", pdf(*PAGES))
        text = " ".join(
            f"Sentence number {n} tells of the ferry, the inn, the road and the mountain." for n in range(500)
        )
        put(client, "long.txt", text.encode())
        yield server


def test_a_citation_opens_its_page_as_it_looks(library: Running, page: Any) -> None:
    page.goto(library.url)
    page.get_by_label("Index", exact=True).select_option("trip")
    ask(page, QUESTION)
    page.locator(".answer .text", has_text="Kestel").wait_for()
    page.get_by_role("link", name="Open document of quotation 1").click()
    page.get_by_role("heading", name="bridges.pdf").wait_for()
    expect(page.get_by_text("Page 2 of 4")).to_be_visible()
    expect(page.locator(".paper .marked")).to_have_count(1)
    page.wait_for_function("document.querySelector('.paper img').complete")
    expect_in_view(page, ".paper .marked")  # it stands at the foot of the page
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Page 3 of 4")).to_be_visible()
    expect(page.locator(".paper .marked")).to_have_count(0)
    page.get_by_role("button", name="Back to page 2").click()
    expect(page.locator(".paper .marked")).to_have_count(1)
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator(".running mark")).to_have_text(CITED)
    expect_in_view(page, ".running mark")
    expect(page.locator(".running h2").last).to_contain_text("page 4")
    page.go_back()
    page.locator(".answer .text", has_text="Kestel").wait_for()


def test_a_page_that_cannot_be_drawn_is_shown_as_text(library: Running, settings: Settings, page: Any) -> None:
    (settings.indexes / "trip.sq/files/trip/bridges.pdf").unlink()
    page.goto(f"{library.url}/#/document?id={quote('trip/bridges.pdf#2')}&quote={quote('Line 3 tells of the ferry')}")
    page.get_by_text("Shown as text: trip/bridges.pdf is no longer where it was read.").wait_for()
    expect(page.locator(".running mark")).to_have_text("Line 3 tells of the ferry")
    refusals_only(page)


def test_a_long_document_opens_in_the_middle_and_goes_on(library: Running, page: Any) -> None:
    page.goto(f"{library.url}/#/document?id={quote('trip/long.txt#40')}")
    expect(seen(page, ".running section.here")).to_have_count(1)
    expect_in_view(page, ".running section.here")
    expect(page.locator(".running section")).to_have_count(41)
    page.get_by_role("button", name="Earlier in the document").click()
    expect(page.locator(".running section").first).to_contain_text("Sentence number 0 ")
    expect(page.get_by_role("button", name="Earlier in the document")).to_have_count(0)
    page.goto(f"{library.url}/#/document?id={quote('trip/long.txt#1')}")
    expect(page.locator(".running section")).to_have_count(21)  # not those around the passage before
    page.goto(f"{library.url}/#/document?id=nobody")
    page.get_by_text("is in no index of this server any more").wait_for()


def test_the_line_of_a_quote_is_shown(library: Running, page: Any) -> None:
    words = "Line 23 tells of the ferry, the inn and the mountain."
    with library.client() as client:
        put(client, "lines.md", f"# Lines\n\n{FILLING}\n".encode())
        put(client, "staff.csv", b"Name,Office\n" + b"".join(b"Person %d,Quay %d\n" % (n, n) for n in range(2, 12)))
    page.goto(f"{library.url}/#/document?id={quote('trip/lines.md#3')}&quote={quote(words)}")
    expect(page.locator(".running mark")).to_have_text(words)
    expect(page.locator(".document .facts")).to_contain_text("line 26")
    page.goto(
        f"{library.url}/#/document?id={quote('trip/staff.csv#1')}&quote={quote('Name: Person 7; Office: Quay 7')}"
    )
    expect(page.locator(".document .facts")).to_have_text("line 7")
    page.goto(f"{library.url}/#/document?id={quote('trip/staff.csv#1')}")
    expect(page.locator(".document .facts")).to_have_text("lines 2 to 11")


def test_files_are_added_with_progress_and_bad_ones_are_told_apart(library: Running, page: Any) -> None:
    page.goto(f"{library.url}/#/indexes/trip")
    expect(page.locator(".files tbody th")).to_have_text(["bridges.pdf", "long.txt"])
    arriving = page.locator(".uploads li")
    bad = {
        "locked.pdf": (pdf("secret", encrypted=True), "is encrypted; it can be read after its password is removed"),
        "scan.pdf": (pdf("", ""), "No text on any of its 2 pages: a scan"),
        "tool.exe": (b"MZ\0\0", "Files of kind .exe are not read."),
    }
    with page.expect_response("**/file?*") as first:
        page.get_by_label("Add files").set_input_files(
            [file("locked.pdf", bad["locked.pdf"][0]), file("good.md", b"The museum opens at ten."),
             *(file(name, bad[name][0]) for name in ("scan.pdf", "tool.exe"))]
        )  # fmt: skip
    assert first.value.request.method == "PUT"
    expect(page.locator(".uploads li.failed")).to_have_count(3)
    for name, (_, reason) in bad.items():
        expect(arriving.filter(has_text=name).get_by_role("alert")).to_contain_text(reason)
    expect(arriving.filter(has_text="good.md").get_by_role("status")).to_have_text("1 passage added to trip.")
    expect(page.locator(".files tbody th")).to_have_text(["bridges.pdf", "good.md", "long.txt"])
    page.get_by_role("button", name="Dismiss locked.pdf").click()
    expect(arriving).to_have_count(3)
    refusals_only(page)


def test_a_file_of_two_gigabytes_is_not_even_sent(library: Running, page: Any) -> None:
    """The browser knows its size; a file of that size is not made for the test."""
    page.goto(f"{library.url}/#/indexes/trip")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "PUT" else None)
    page.locator(".drop").evaluate(
        """(drop) => {
            const book = new File(["%PDF-1.4"], "book.pdf");
            Object.defineProperty(book, "size", { value: 2_000_000_000 });
            const carried = { files: [book], types: ["Files"] };
            const event = new Event("drop", { bubbles: true, cancelable: true });
            Object.defineProperty(event, "dataTransfer", { value: carried });
            drop.dispatchEvent(event);
        }"""
    )
    told = page.locator(".uploads").get_by_role("alert")
    expect(told).to_contain_text("Book.pdf has 2.0 GB; this server accepts files of up to 500.0 MB")
    assert sent == []


def test_progress_is_shown_while_a_file_is_sent_and_read(library: Running, page: Any) -> None:
    page.goto(f"{library.url}/#/indexes/trip")
    page.locator(".files").wait_for()
    held: list[Any] = []
    page.route("**/api/indexes/trip/file?*", lambda route: held.append(route))
    page.get_by_label("Add files").set_input_files([file("a.txt", b"The inn is open."), file("b.txt", b"The bar too.")])
    expect(page.get_by_role("progressbar")).to_have_count(1)
    expect(page.locator(".uploads li").nth(1)).to_contain_text("Waiting…")
    while held or page.locator(".uploads .done").count() < 2:
        if held:
            held.pop().continue_()
        page.wait_for_timeout(20)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.locator(".files tbody th")).to_have_count(4)


def test_a_file_is_read_again_and_removed_by_keyboard(library: Running, settings: Settings, page: Any) -> None:
    kept = settings.indexes / "trip.sq/files/trip"
    page.goto(f"{library.url}/#/indexes/trip")
    page.locator(".files").wait_for()
    (kept / "bridges.pdf").write_bytes(pdf(*PAGES, "A page more."))
    page.get_by_role("button", name="Read bridges.pdf again").press("Enter")
    page.get_by_text("Read again: 1 passage added, 0 updated.").wait_for()
    expect(page.locator(".files tbody tr").first.locator("td").nth(1)).to_have_text("5")
    page.get_by_role("button", name="Remove bridges.pdf").press("Enter")
    page.get_by_role("alert").filter(has_text="Remove bridges.pdf and its").wait_for()
    page.keyboard.press("Enter")  # the focus is on the button that removes
    expect(page.locator(".files tbody th")).to_have_text(["long.txt"])
    assert [path.name for path in kept.iterdir()] == ["long.txt"]


def test_names_and_texts_of_files_are_text(start: Start, page: Any) -> None:
    with start() as server, server.client() as client:
        put(client, f"{EVIL.replace('/', '')}.md", f"# {EVIL}\n\nThe ferry {EVIL} leaves.".encode())
        page.goto(f"{server.url}/#/indexes/trip")
        page.locator(".files tbody th a").click()
        expect(page.locator(".running p").first).to_contain_text("<script>window.evil=1</script>")
        expect(page.get_by_role("heading", level=1)).to_contain_text("onerror")


@pytest.mark.slow
def test_views_of_documents_are_accessible_and_fit_a_phone(library: Running, browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800}, reduced_motion="reduce")
    page.set_default_timeout(240_000)
    identifier = quote("trip/bridges.pdf#2")
    views = {
        "index": "#/indexes/trip",
        "records": "#/indexes/docs",
        "page": f"#/document?id={identifier}&quote={quote(CITED)}",
        "text": f"#/document?id={identifier}&quote={quote(CITED)}&view=text",
        "gone": "#/document?id=nobody",
    }
    wrong: dict[str, Any] = {}
    for name, place in views.items():
        page.goto("about:blank")
        page.goto(f"{library.url}/{place}")
        seen(page, ".page h1, main > .notice")
        page.wait_for_load_state("networkidle")
        if name == "index":
            page.get_by_label("Add files").set_input_files([file("locked.pdf", pdf("x", encrypted=True))])
            page.locator(".uploads .failed").wait_for()
            page.get_by_role("button", name="Remove long.txt").click()
        wrong |= unfit(page, name)
    assert wrong == {}
    page.close()
