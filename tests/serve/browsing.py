"""A real browser for tests of the page, and a page that must come through clean."""

import shutil
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
SCREENS = {"screen": 1200, "phone": 390}
"""Widths in pixels; the phone comes last, and a view is left at its width."""
EVIL = '<img src=x onerror="window.evil=1"><script>window.evil=1</script><svg onload="window.evil=1">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # a container may have little of it
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=240_000)
        yield found
        found.close()


def worth_hearing(message: Any) -> bool:
    """Errors and warnings, but not that nobody answers: a test's server ends before its page does."""
    gone = ("REFUSED", "RESET", "CLOSED", "ABORTED")
    codes = ("ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED", *(f"ERR_CONNECTION_{how}" for how in gone))
    return message.type in ("error", "warning") and not any(code in message.text for code in codes)


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that must come through without a word on its console and without a request to anybody else. Words that a
    test calls for stand in `expected`: when they come to the console is not said."""
    found = browser.new_page(viewport={"width": 1200, "height": 800})
    found.set_default_timeout(240_000)
    heard: list[str] = []
    found.on("console", lambda message: heard.append(message.text) if worth_hearing(message) else None)
    found.on("pageerror", lambda error: heard.append(str(error)))
    found.on("request", lambda request: heard.append(request.url) if not ours(request.url) else None)
    found.expected = []
    yield found
    assert found.evaluate("window.evil") is None
    assert [said for said in heard if not any(words in said for words in found.expected)] == []
    found.close()


def ours(url: str) -> bool:
    return "//127.0.0.1:" in url or url.startswith("blob:http://127.0.0.1:")


def ask(page: Any, question: str) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def seen(page: Any, selector: str, count: int = 1) -> Any:
    """The elements, once there are so many."""
    page.locator(selector).nth(count - 1).wait_for()
    return page.locator(selector)


def expect(locator: Any) -> Any:
    """Playwright's assertions, which look again until they hold.

    Reading a text at once (`inner_text()`) finds nothing in what is off the screen and not laid out yet.
    """
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=120_000)
    return playwright_expect(locator)


def unfit(page: Any, name: str) -> dict[str, Any]:
    """What is wrong with a view on a screen and on a phone: axe's findings, light and dark, and what is too wide.

    The dark theme changes colours alone, so only axe's rules about colours are run again.
    """
    everything: dict[str, Any] = {"rules": {"region": {"enabled": False}}}
    colours: dict[str, Any] = {"runOnly": ["color-contrast", "link-in-text-block"]}
    page.evaluate(pytest.importorskip("axe_playwright_python.sync_playwright").Axe().axe_script)
    wrong: dict[str, Any] = {}
    for (device, size), (theme, options) in product(SCREENS.items(), (("light", everything), ("dark", colours))):
        page.set_viewport_size({"width": size, "height": 800})
        page.emulate_media(color_scheme=theme)
        found = page.evaluate(
            "options => axe.run(options).then(found => found.violations)", {"resultTypes": ["violations"], **options}
        )
        if told := [(v["id"], [node["html"][:160] for node in v["nodes"][:3]]) for v in found]:
            wrong[f"{name}, {device}, {theme}"] = told
        if (width := page.evaluate("document.documentElement.scrollWidth")) > size:
            wrong[f"width of {name}, {device}, {theme}"] = width
    return wrong
