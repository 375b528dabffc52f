"""The page in a real browser: asking, watching, looking back, adding documents, and text that tries to be script."""

import asyncio
from pathlib import Path
from typing import Any

from subquest.events import Event
from subquest.record import Document, Episode, Question
from subquest.runs import RunStore
from subquest.serve.episode_view import as_html
from subquest.serve.settings import Settings

from ..systems.fakes import DOCUMENTS
from .browsing import EVIL, ask, browser, expect, needs_browser, page
from .conftest import QUESTION, Gate, Start, reply

__all__ = ["browser", "page"]
pytestmark = needs_browser


def test_the_plan_fills_in_and_the_answer_quotes_its_sources(start: Start, gate: Gate, page: Any) -> None:
    with start(gate) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        page.locator(".node", has_text="Mila Torrun").wait_for()
        page.locator(".node.working").wait_for()
        expect(page.locator(".node")).to_have_count(2)
        expect(page.locator(".answer")).to_have_count(0)
        gate.open()
        page.locator(".answer .text", has_text="Kestel").wait_for()
        page.locator(".node").nth(2).wait_for()
        page.locator(".quote").nth(1).click()
        page.locator(".source mark", has_text="She was born in Kestel in 1889.").wait_for()
        expect(page.locator(".source")).to_have_text(DOCUMENTS[1].text)


def test_a_search_before_any_context_is_counted_and_told(start: Start, page: Any) -> None:
    with start(lambda context: "<answer>Mila Torrun</answer>", systems=["rag"]) as server:
        page.goto(server.url)
        ask(page, "Who designed the Orvane Bridge?")
        page.locator(".answer .text", has_text="Mila Torrun").wait_for()
        expect(page.locator(".facts .chip", has_text="searches")).to_contain_text("1")
        page.get_by_role("link", name="Open trace").click()
        expect(page.locator(".story .query")).to_have_text("Who designed the Orvane Bridge?")
        page.locator(".story .hits .chip.good", has_text="cited").wait_for()


def test_stop(start: Start, gate: Gate, page: Any) -> None:
    with start(gate) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        page.locator(".node").nth(1).wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("No answer (cancelled)").wait_for()


def test_a_stored_trace_by_keyboard_and_permalink(start: Start, page: Any) -> None:
    with start() as server, server.client() as client:
        identifier = client.post("/api/ask", json={"question": QUESTION}).json()["id"]
        client.get(f"/api/episodes/{identifier}/events")
        page.goto(f"{server.url}/#/runs/asked")
        page.get_by_role("link", name=QUESTION).click()
        page.locator(".branch").nth(2).wait_for()
        page.keyboard.press("j")
        page.locator(".branch.selected", has_text="1.1").wait_for()
        page.locator(".handover.sent p", has_text="Who designed the Orvane Bridge?").wait_for()
        page.locator(".handover.returned p", has_text="Mila Torrun").wait_for()
        page.locator(".hits .chip.good", has_text="cited").wait_for()
        page.keyboard.press("2")
        page.locator(".segment.env pre", has_text="MARKER-ONE").first.wait_for()
        page.keyboard.press("/")
        page.locator("input:focus").wait_for()
        page.keyboard.type("kestel answer")
        page.locator(".event", has_text="answer").last.click()
        page.wait_for_url(lambda url: "c=1.1" in url and "tab=events" in url)
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        page.locator(".data", has_text='"answer": "Kestel"').wait_for()


def test_a_long_episode_shows_only_the_rows_in_sight(start: Start, settings: Settings, page: Any) -> None:
    events = [Event(0, "start", 0.0, data={"question": "long", "system": "coda", "model": "m"})]
    events += [Event(i, "turn", i / 100, "1", {"text": f"turn {i}"}) for i in range(1, 2000)]
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        episode = Episode("long", Question("q", "long"), "coda", "m", events=tuple(events), stop_reason="answered")
        store.add_episode(episode).wait()
    with start() as server:
        page.goto(f"{server.url}/#/runs/old/long?tab=events&e=1999")
        page.locator(".event.selected", has_text="turn 1999").wait_for()
        assert 0 < page.locator(".event").count() < 80
        page.get_by_label("Search events").fill("1234")
        page.locator(".event", has_text="turn 1234").wait_for()
        expect(page.locator(".event")).to_have_count(1)
        page.goto(f"{server.url}/#/runs/old/long?c=1")
        page.locator(".card").nth(1998).wait_for(state="attached")
        laid_out = (
            "[...document.querySelectorAll('.card')].filter(e => e.checkVisibility({contentVisibilityAuto: true})"
            " && e.querySelector('pre').checkVisibility({contentVisibilityAuto: true})).length"
        )
        page.wait_for_function(f"0 < {laid_out} && {laid_out} < 200")


def test_documents_are_added_and_found(start: Start, page: Any) -> None:
    with start() as server:
        page.goto(f"{server.url}/#/indexes")
        page.locator("input[type=file]").set_input_files(
            {"name": "trip.md", "mimeType": "text/markdown", "buffer": b"The ferry to Nesvik leaves at noon."}
        )
        page.get_by_label("Name of the index").fill("trip")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_text("1 passage added to trip.").wait_for()
        page.locator(".tiles li", has_text="trip").wait_for()
        page.get_by_label("Query").fill("ferry")
        page.get_by_label("Index", exact=True).select_option("trip")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".passage mark")).to_have_text("The ferry to Nesvik leaves at noon.")


def test_script_in_documents_questions_and_model_output_is_text(start: Start, page: Any) -> None:
    documents = (Document(f"d1{EVIL}", f"Orvane {EVIL}", f"The Orvane Bridge {EVIL} was designed by Mila Torrun."),)

    def evil(context: Any) -> str:
        return reply(context).replace("Mila Torrun", f"Mila Torrun {EVIL}").replace("Kestel", f"Kestel {EVIL}")

    with start(evil, documents=documents) as server:
        page.goto(server.url)
        ask(page, f"Who {EVIL}?")
        page.locator(".answer").wait_for()
        expect(page.locator(".answer .text")).to_have_text(f"Kestel {EVIL}")
        for place in ("", "&tab=context", "&tab=events&e=4"):
            page.goto(f"{server.url}/#/ask")
            page.locator(".list a").first.click()
            page.get_by_role("link", name="Open trace").click()
            page.locator(".branch").nth(1).wait_for()
            page.goto(f"{page.url}?c=1.1{place}")
            page.locator(".pane").wait_for()
            expect(page.locator(".pane")).to_contain_text("onerror")
        page.goto(f"{server.url}/#/indexes")
        page.get_by_label("Query").fill("Orvane")
        page.get_by_role("button", name="Search").click()
        page.locator(".passage").wait_for()
        expect(page.locator(".passage p")).to_contain_text(EVIL)


def test_a_token_is_asked_for(start: Start, page: Any) -> None:
    page.expected.append("status of 401")
    with start(token="correct-horse-battery") as server:
        page.goto(server.url)
        page.get_by_label("Token").fill("correct-horse-battery")
        page.get_by_role("button", name="Enter").click()
        page.get_by_label("Question").wait_for()


def test_an_exported_trace_needs_no_server(browser: Any, tmp_path: Path) -> None:
    from subquest.engine.scripted import ScriptedEngine
    from subquest.systems.coda import CoDA

    from ..systems.fakes import FakeSearch

    def solve() -> Episode:
        return asyncio.run(CoDA(ScriptedEngine(reply), FakeSearch()).solve(f"{QUESTION}</script>{EVIL}"))

    import threading

    found: list[Episode] = []
    thread = threading.Thread(target=lambda: found.append(solve()))  # the browser's loop runs in this one
    thread.start()
    thread.join()
    (tmp_path / "trace.html").write_text(as_html(found[0]))
    page = browser.new_page()
    page.set_default_timeout(240_000)
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((tmp_path / "trace.html").as_uri())
    page.locator(".branch").nth(2).click()
    expect(page.locator(".handover.returned p")).to_have_text("Kestel")
    expect(page.locator("h1")).to_have_text(f"{QUESTION}</script>{EVIL}")
    assert (heard, page.evaluate("window.evil")) == ([], None)
    page.close()
