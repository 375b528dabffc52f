"""The whole thing as a user meets it: `subquest serve` with the embedded model, in a real browser."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest import Index
from subquest.models import smollm2_path
from subquest.worlds import make_world

from ..readers.made import pdf
from .browsing import ask, browser, expect, needs_browser, page, seen

__all__ = ["browser", "page"]
pytestmark = [needs_browser, pytest.mark.embedded, pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Its address, and a question about what is in its index."""
    if not smollm2_path().is_file():
        pytest.skip("needs the embedded model: subquest model get smollm2")
    world = make_world(seed=2026, articles=160, questions=2, split="test", hops=(2,))
    short = [replace(d, text=d.text.partition(". ")[0]) for d in world.documents]  # the model reads slowly
    Index.build(tmp_path / "docs.sq", short).close()
    (tmp_path / "subquest.toml").write_text("[engine]\nthreads = 1\n")  # other tests have the other cores
    command = ["serve", "--port", "0", "--index", "docs.sq", "--max-tokens", "32", "--max-calls", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "subquest", *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield found.group(), world.questions[0].question
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0
        process.stderr.close()


def test_ask_watch_compare_upload_and_search(server: tuple[str, str], page: Any) -> None:
    url, question = server
    page.set_default_timeout(240_000)
    page.goto(url)
    for _ in range(2):
        ask(page, question)
        counts = [seen(page, ".node").count()]
        while not page.locator(".answer").count():
            counts.append(page.locator(".node").count())
            page.wait_for_timeout(100)
        assert counts == sorted(counts)  # the graph only grows
        page.goto(f"{url}/#/ask")
    page.goto(f"{url}/#/runs/asked")
    for tick in seen(page, ".tick-box input", 2).all():
        tick.check()
    page.get_by_role("link", name="Compare 2 episodes").click()
    expect(seen(page, ".facing-steps ol", 2)).to_have_count(2)
    page.goto(f"{url}/#/runs/asked")
    seen(page, ".list.pick a").first.click()
    page.get_by_role("tab", name="Tokens").click()
    written = seen(page, ".segment.agent .token")
    assert "".join(token.text_content() for token in written.all()).strip()
    expect(page.get_by_text("is not at hand")).to_have_count(0)
    page.goto(f"{url}/#/indexes")
    content = pdf("Timetable", "The ferry to Nesvik leaves at noon.")
    page.locator("input[type=file]").set_input_files(
        {"name": "trip.pdf", "mimeType": "application/pdf", "buffer": content}
    )
    page.get_by_label("Name of the index").fill("trip")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("2 passages added to trip.").wait_for()
    page.get_by_label("Query").fill("ferry")
    page.get_by_label("Index", exact=True).select_option("trip")
    page.get_by_role("button", name="Search").click()
    expect(seen(page, ".passage").first).to_contain_text("The ferry to Nesvik leaves at noon.")
    expect(page.locator(".passage").first).to_contain_text("page 2")
