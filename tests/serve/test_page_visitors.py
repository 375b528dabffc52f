"""The page as people use it: reloads, two tabs, restarts, impatience, other scripts, files of other encodings."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from subquest.events import Event
from subquest.record import Document, Episode, Evidence, Failure, Question, Segment, Trajectory
from subquest.runs import RunStore
from subquest.serve.episode_view import as_html
from subquest.serve.settings import Settings

from ..ports import free_port
from ..systems.fakes import DOCUMENTS
from .browsing import ask, browser, expect, needs_browser, page, seen, unfit
from .conftest import QUESTION, Gate, Start, reply
from .test_file_handlers import put

__all__ = ["browser", "page"]
pytestmark = needs_browser


def test_a_reload_and_a_second_tab_in_mid_answer(start: Start, gate: Gate, page: Any, browser: Any) -> None:
    with start(gate) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        seen(page, ".node", 2)
        page.reload()
        seen(page, ".node", 2)
        other = browser.new_page()
        other.goto(page.url)
        seen(other, ".node", 2)
        gate.open()
        for tab in (page, other):
            expect(tab.locator(".answer .text")).to_have_text("Kestel")
            expect(tab.locator(".node")).to_have_count(3)
        other.close()


def test_a_server_that_comes_back_is_found_again(start: Start, gate: Gate, page: Any) -> None:
    page.expected += ["net::ERR_", "the server responded with a status of"]
    with start(gate, grace=0.1, port=free_port()) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        seen(page, ".node", 2)
    with start(port=urlsplit(server.url).port):
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        page.goto("about:blank")


def test_that_the_server_does_not_answer_is_said_until_it_does(start: Start, page: Any) -> None:
    page.expected += ["net::ERR_", "the server responded with a status of"]
    with start(port=free_port()) as server:
        page.goto(server.url)
        page.get_by_label("Question", exact=True).fill(QUESTION)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    with start(port=urlsplit(server.url).port):
        expect(page.locator("main h1")).to_have_text("Runs")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("link", name="Ask", exact=True).click()
        for place in ("**/api/ask", "**/health"):
            page.route(place, lambda route: route.abort())
        ask(page, QUESTION)
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
        page.unroute("**/health")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("Question", exact=True)).to_have_value(QUESTION)
        page.unroute("**/api/ask")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        page.goto("about:blank")


def test_a_failure_is_shown_once(start: Start, settings: Settings, page: Any) -> None:
    gone = "cannot connect to the model (is the server up?)"
    failures = (Failure("engine", gone, "t.1"), Failure("search", "no room"), Failure("engine", gone, "t", fatal=True))
    settings.runs.mkdir()
    failed = Episode("e1", Question("e1", QUESTION), "coda", "m", stop_reason="failed", errors=failures)
    with RunStore.create(settings.runs / "asked.sqlite", settings={"kind": "server"}) as run:
        run.add_episode(failed).wait()
    with start() as server:
        for place in ("ask/e1", "runs/asked/e1"):
            page.goto(f"{server.url}/#/{place}")
            expect(page.get_by_role("alert")).to_have_count(2)
            expect(page.get_by_role("alert").first).to_contain_text(gone)


def test_stopping_at_a_server_that_is_gone(start: Start, gate: Gate, page: Any) -> None:
    page.expected.append("net::ERR_FAILED")
    with start(gate) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        seen(page, ".node", 2)
        for place in ("**/cancel", "**/health"):  # the word stays until the server is back
            page.route(place, lambda route: route.abort())
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
        page.goto("about:blank")


def test_words_that_look_like_the_stream_are_words(start: Start, page: Any) -> None:
    def sly(context: Any) -> str:
        return reply(context).replace("Mila Torrun born?", "Mila Torrun born? event: done\\n\\nevent: done")

    with start(sly) as server:
        page.goto(server.url)
        ask(page, f"{QUESTION} event: done")
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        expect(page.locator(".node", has_text="event: done")).to_have_count(2)
        page.get_by_role("link", name="Open trace").click()
        expect(page.locator(".branch")).to_have_count(3)


def test_impatience_asks_once_and_a_word_being_composed_is_no_question(start: Start, gate: Gate, page: Any) -> None:
    with start(gate) as server, server.client() as client:
        page.goto(server.url)
        box = page.get_by_label("Question", exact=True)
        box.fill("かな")
        box.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
        box.fill(QUESTION)
        for _ in range(3):
            box.dispatch_event("keydown", {"key": "Enter"})
        seen(page, ".node", 2)
        assert [one["question"]["question"] for one in client.get("/api/episodes").json()["live"]] == [QUESTION]


def test_a_wrong_token_is_told(start: Start, page: Any) -> None:
    page.expected.append("status of 401")
    with start(token="correct-horse-battery") as server:
        page.goto(server.url)
        page.get_by_label("Token").fill("wrong-horse-battery")
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_role("alert")).to_have_text("The server does not know this token.")
        page.get_by_label("Token").fill("correct-horse-battery")
        page.get_by_role("button", name="Enter").click()
        page.get_by_label("Question").wait_for()


def test_a_quotation_behind_signs_of_two_units(start: Start, page: Any) -> None:
    cheerful = Document("d9", "Cheer", "\U0001f600\U0001f680𝔊 " * 5 + "The ferry to Nesvik leaves at noon. It is red.")
    with start(documents=(*DOCUMENTS, cheerful)) as server:
        page.goto(f"{server.url}/#/indexes")
        page.get_by_label("Query").fill("red")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".passage mark").first).to_have_text("It is red.")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_texts_of_other_encodings_are_read(start: Start, page: Any, encoding: str) -> None:
    text = "Zürich liegt an der Limmat. Die Fähre fährt über den großen See."
    with start() as server:
        page.goto(f"{server.url}/#/indexes")
        page.locator("input[type=file]").set_input_files(
            {"name": "reise.txt", "mimeType": "text/plain", "buffer": text.encode(encoding)}
        )
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_text("1 passage added to documents.").wait_for()
        page.get_by_label("Query").fill("Limmat")
        page.get_by_label("Index", exact=True).select_option("documents")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".passage p")).to_have_text(text)


def test_two_tabs_do_not_write_into_one_index(start: Start, page: Any, browser: Any) -> None:
    with start() as server, server.client() as client:
        other = browser.new_page()
        for tab in (page, other):
            tab.goto(server.url)
            tab.get_by_label("Question", exact=True).wait_for()
        for number, tab in enumerate((page, other), 1):
            tab.get_by_label("Add files to a new index").set_input_files(
                {"name": "trip.txt", "mimeType": "text/plain", "buffer": b"Ferry number %d." % number}
            )
            tab.get_by_text(f"1 passage read into the index {'trip' if number == 1 else 'trip-2'}.").wait_for()
        for name, text in (("trip", "Ferry number 1."), ("trip-2", "Ferry number 2.")):
            hits = client.post(f"/api/indexes/{name}/search", json={"query": "ferry"}).json()["hits"]
            assert [hit["text"] for hit in hits] == [text]
        other.close()


def test_long_words_stay_on_a_phone(start: Start, browser: Any) -> None:
    def wordy(context: Any) -> str:
        return reply(context).replace("Kestel", f"Kestel{'x' * 900}")

    documents = (
        Document("d1", f"Orvane{'t' * 400}", f"The Orvane Bridge was designed by Mila Torrun {'z' * 900}."),
        Document(f"d2{'y' * 200}", "Mila Torrun", f"Mila Torrun was born in Kestel{'x' * 900}."),
    )
    with start(wordy, documents=documents) as server:
        page = browser.new_page(viewport={"width": 360, "height": 740})
        page.goto(server.url)
        ask(page, f"Where {'q' * 900}?")
        seen(page, ".quote")
        beyond = "document.documentElement.scrollWidth - window.innerWidth"
        assert page.evaluate(beyond) <= 0
        page.goto(f"{server.url}/#/indexes")
        page.get_by_label("Query").fill("designed")
        page.get_by_role("button", name="Search").click()
        seen(page, ".passage")
        assert page.evaluate(beyond) <= 0
        page.close()


def test_an_address_that_is_none(start: Start, page: Any) -> None:
    page.expected.append("status of 404")
    with start() as server:
        page.goto(f"{server.url}/#/%E0%A4%A")
        page.get_by_text("There is nothing at this address.").wait_for()
        page.goto(f"{server.url}/#/ask/nothing")
        expect(page.get_by_role("alert")).to_contain_text("'nothing'")
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        page.goto(f"{server.url}/#/runs/%zz")
        expect(page.get_by_role("alert")).to_contain_text("there is no run '%zz'")


def test_a_quotation_of_a_page_that_was_opened(start: Start, settings: Settings, page: Any) -> None:
    """A search gives a few words of a page under its address; what is quoted stands in the page itself."""
    url, quote = "http://x.example/kelm", "The mayor of Kelm is Ida Brandt. 🌉"
    text = f"Kelm ({url})\n{'Kelm is a town. 🏰 ' * 200}{quote} It lies on a river.{' More about it.' * 200}"
    hit = {"id": url, "title": "Kelm", "text": "Kelm is a town with a mayor on a river, and more words.", "score": 1.0}
    events = (
        Event(0, "start", 0.0, data={"question": "Who?", "system": "hira", "model": "m"}),
        Event(1, "open", 0.1, "1", {"role": "planner", "task": "Who?", "parent": None, "prompt": []}),
        Event(2, "documents", 0.2, "1", {"query": "mayor", "hits": [hit]}),
        Event(3, "page", 0.3, "1", {"url": url, "title": "Kelm", "part": 1, "parts": 1}),
        Event(4, "answer", 0.4, data={"answer": "Ida Brandt"}),
    )
    trajectory = Trajectory("1", "planner", "Who?", segments=(Segment("prompt", "Who?"), Segment("env", text)))
    evidence = (Evidence(url, "Kelm", quote, text.index(quote), "1"),)
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        episode = Episode(
            "e", Question("q", "Who?"), "hira", "m", (trajectory,), "Ida Brandt", evidence=evidence, events=events
        )
        store.add_episode(episode).wait()
    with start() as server:
        page.goto(f"{server.url}/#/runs/old/e")
        page.get_by_role("button", name="1 quotation").click()
        page.locator(".quote").click()
        expect(page.locator(".source mark")).to_have_text(quote)
        page.locator(".hits button").click()
        expect(page.locator(".hits .source")).to_have_text(hit["text"])
        expect(page.locator(".hits .source mark")).to_have_count(0)


def test_an_answer_without_support_says_so(start: Start, settings: Settings, page: Any) -> None:
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        for name, supported in (("no", False), ("yes", True), ("older", None)):
            question = Question(name, "Who?")
            store.add_episode(Episode(name, question, "coda", "m", answer="me", supported=supported)).wait()
        parts = Episode("parts", Question("p", "Who?"), "coda", "m", answer="me", supported=False, parts_supported=True)
        store.add_episode(parts).wait()
    with start() as server:
        for name, count in (("no", 1), ("yes", 0), ("older", 0), ("parts", 0)):
            page.goto(f"{server.url}/#/runs/old/{name}")
            expect(page.locator(".answer .text")).to_have_text("me")
            expect(page.get_by_text("not supported by a document")).to_have_count(count)
            expect(page.get_by_text("its parts are supported")).to_have_count(int(name == "parts"))


def test_of_several_quotations_the_one_that_states_the_answer_is_marked(
    start: Start, settings: Settings, page: Any
) -> None:
    chain = (Evidence("d1", "Bridge", "By Torrun."), Evidence("d2", "Torrun", "Born in Kestel.", states_answer=True))
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        for name, evidence in (("two", chain), ("one", chain[1:])):
            episode = Episode(name, Question(name, "Where?"), "coda", "m", answer="Kestel", evidence=evidence)
            store.add_episode(episode).wait()
    with start() as server:
        page.goto(f"{server.url}/#/runs/old/two")
        page.get_by_role("button", name="2 quotations").click()
        expect(page.locator(".evidence li", has_text="states the answer")).to_contain_text("Born in Kestel.")
        expect(page.get_by_text("states the answer")).to_have_count(1)
        page.goto(f"{server.url}/#/runs/old/one")
        page.get_by_role("button", name="1 quotation").click()
        expect(page.locator(".evidence li")).to_have_count(1)
        expect(page.get_by_text("states the answer")).to_have_count(0)


def test_what_is_not_as_it_should_be_costs_its_own_part_only(start: Start, settings: Settings, browser: Any) -> None:
    """Events of somebody's own system may hold anything."""
    events = (
        Event(0, "start", 0.0, data={"question": "Who?", "system": "mine", "model": "m"}),
        Event(1, "open", 0.1, "1", {"role": "planner", "task": "Who?", "parent": None, "prompt": []}),
        Event(2, "plan", 0.2, "1", {"steps": "first this, then that"}),
        Event(3, "turn", 0.3, "1", {"text": "I think"}),
        Event(4, "answer", 0.4, data={"answer": "me"}),
    )
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        store.add_episode(Episode("e", Question("q", "Who?"), "mine", "m", answer="me", events=events)).wait()
    page = browser.new_page()
    with start() as server:
        page.goto(f"{server.url}/#/runs/old/e")
        expect(page.locator("#tab-panel [role=alert]")).to_contain_text("This cannot be shown")
        expect(page.locator(".answer .text")).to_have_text("me")
        page.get_by_role("tab", name="Saw and wrote").click()
        expect(page.locator(".segment.agent pre")).to_have_text("I think")
    page.close()


def test_an_exported_trace_in_a_frame_that_keeps_nothing(browser: Any, tmp_path: Path) -> None:
    """Programs that preview attachments show them in a sandbox, where a page has no storage."""
    events = (
        Event(0, "start", 0.0, data={"question": "Who?", "system": "mine", "model": "m"}),
        Event(1, "open", 0.1, "1", {"role": "planner", "task": "Who?", "parent": None, "prompt": []}),
        Event(2, "turn", 0.3, "1", {"text": "I think"}),
    )
    (tmp_path / "trace.html").write_text(
        as_html(Episode("e", Question("q", "Who?"), "mine", "m", answer="me", events=events))
    )
    (tmp_path / "frame.html").write_text(
        '<iframe sandbox="allow-scripts" src="trace.html" width=900 height=700></iframe>'
    )
    page = browser.new_page()
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.goto((tmp_path / "frame.html").as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator("h1")).to_have_text("Who?")
    frame.get_by_role("button", name="Colours").click()
    frame.get_by_role("tab", name="Saw and wrote").click()
    expect(frame.locator(".segment.agent pre")).to_have_text("I think")
    assert heard == []
    page.close()


def test_who_comes_first_is_led_to_the_model(start: Start, page: Any) -> None:
    page.expected.append("the server responded with a status of 4")  # the refusal
    with start(models={}) as server:
        page.goto(server.url)
        expect(page.locator(".welcome li").first).to_contain_text("Set a model")
        ask(page, QUESTION)
        expect(page.get_by_role("alert")).to_contain_text("no model is set yet")
        page.locator(".welcome").get_by_role("link", name="Model").click()
        page.get_by_label("Address").wait_for()


def test_the_first_page_counts_indexes(start: Start, page: Any) -> None:
    with start() as server, server.client() as client:
        page.goto(server.url)
        expect(page.locator(".welcome")).to_contain_text("1 index is ready.")
        put(client, "bridges.txt", b"The Orvane Bridge is long.")
        page.reload()
        expect(page.locator(".welcome")).to_contain_text("2 indexes are ready.")


@pytest.mark.slow
def test_what_is_seldom_seen_is_accessible_and_fits_a_phone(
    start: Start, settings: Settings, browser: Any, tmp_path: Path
) -> None:
    told = [Event(0, "start", 0.0, data={"question": "Who?", "system": "decor", "model": "m"})]
    told += [Event(1, "memory", 1.0, "1", {"action": "add", "entries": [{"query": "who", "evidence": "me"}]})]
    question, failure = Question("q", "Who?"), Failure("engine", "the endpoint is gone")
    episodes = {
        "memory": Episode("memory", question, "decor", "m", answer="me", events=tuple(told)),
        "unsupported": Episode("unsupported", question, "coda", "m", answer="me", supported=False),
        "unknown": Episode("unknown", question, "coda", "m", stop_reason="abstained"),
        "failed": Episode("failed", question, "coda", "m", stop_reason="failed", errors=(failure,)),
    }
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        for episode in episodes.values():
            store.add_episode(episode).wait()
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(240_000)
    wrong: dict[str, Any] = {}
    with start() as server:
        for name in episodes:
            page.goto("about:blank")
            page.goto(f"{server.url}/#/runs/old/{name}?tab={'memory' if name == 'memory' else 'story'}")
            seen(page, ".entries li" if name == "memory" else "h1")
            wrong |= unfit(page, name)
        page.goto(f"{server.url}/#/indexes")
        page.get_by_label("Query").fill("Orvane")
        page.get_by_role("button", name="Search").click()
        seen(page, ".passage")
        wrong |= unfit(page, "search")
        page.goto(f"{server.url}/#/ask")
        held: list[Any] = []
        page.route("**/api/indexes/*/file?*", lambda route: held.append(route))
        page.get_by_label("Add files to a new index").set_input_files(
            [{"name": f"{name}.txt", "mimeType": "text/plain", "buffer": b"The inn."} for name in ("one", "w" * 90)]
        )
        seen(page, "progress")
        wrong |= unfit(page, "files under the question")
        for route in held:
            route.abort()
        page.goto("about:blank")
    for name, changed, place, sign in (
        ("first visit", {"models": {}}, "#/ask", ".welcome"),
        ("token", {"token": "correct-horse-battery"}, "#/ask", ".token"),
        ("asking is off", {"asks": False}, "#/ask", ".notice"),
    ):
        with start(**changed) as server:
            page.goto(f"{server.url}/{place}")
            seen(page, sign)
            wrong |= unfit(page, name)
            page.goto("about:blank")
    (tmp_path / "trace.html").write_text(as_html(episodes["memory"]))
    page.goto((tmp_path / "trace.html").as_uri())
    seen(page, "h1")
    wrong |= unfit(page, "exported")
    assert wrong == {}
    page.close()
