"""Asking in a real browser: text as it is written, conversations, several systems at once, the model and its form."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.engine.openai import OpenAIEngine
from subquest.engine.scripted import ScriptedEngine
from subquest.metrics.confidence import Calibrations, Curve, SystemCalibration
from subquest.record import Episode, Question
from subquest.runs import RunStore
from subquest.serve.settings import Settings

from .browsing import ask, browser, expect, needs_browser, page, seen, unfit
from .conftest import QUESTION, Gate, Start, reply
from .test_live_text import SlowEndpoint, endpoint
from .test_model_form import ADMIN, KEY, Endpoint

__all__ = ["browser", "endpoint", "page"]
pytestmark = needs_browser
TOOLS = Path(__file__).resolve().parents[1] / "tools"


BOXES = "found => found.map(one => one.getBoundingClientRect().toJSON())"
"""All at once: the page may scroll between two looks."""


def script(context: Any) -> str:
    return reply(context) if context.role in ("planner", "executor") else "<answer>Kestel</answer>"


@pytest.fixture
def other() -> Iterator[Endpoint]:
    with Endpoint() as found:
        yield found


def test_text_streams_and_the_clock_ticks(start: Start, endpoint: SlowEndpoint, page: Any) -> None:
    models = {"default": OpenAIEngine("m", base_url=endpoint.url, api_key="")}
    with start(models=models, systems=["direct"]) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        written = page.get_by_role("region", name="Being written")
        expect(written).to_contain_text("The bridge is old.")
        expect(page.locator(".answer")).to_have_count(0)
        clock = page.locator(".facts .chip", has_text="time")
        expect(clock).not_to_have_text(clock.inner_text())  # nothing happens, and time passes
        page.reload()
        expect(written).to_contain_text("The bridge is old.")
        endpoint.gate.set()
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        expect(written).to_have_count(0)


def test_notes_appear_while_it_works(start: Start, gate: Gate, page: Any) -> None:
    with start(gate) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        notes = page.get_by_role("region", name="Notes")
        expect(notes.locator(".finding .text")).to_have_text("Mila Torrun")
        expect(page.locator(".answer")).to_have_count(0)
        gate.open()
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        page.get_by_text("4 notes").click()
        expect(page.locator(".notes .finding .text")).to_have_text(["Mila Torrun", "Kestel"])


def test_a_conversation_in_one_box(start: Start, gate: Gate, page: Any) -> None:
    def answers(context: Any) -> Any:
        return "<answer>In 1889</answer>" if "And when?" in context.text else gate(context)

    with start(answers) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        seen(page, ".node", 2)
        box = page.get_by_label("Question", exact=True)
        expect(box).to_have_count(1)
        box.fill("And when?")
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()  # there is no answer to follow yet
        gate.open()
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.get_by_role("heading", name="And when?")).to_be_visible()
        expect(page.locator(".answer .text")).to_have_text(["Kestel", "In 1889"])
        expect(page.locator(".exchange").last.locator(".node .task").first).to_have_text("And when?")
        address = page.url
        page.get_by_role("link", name=QUESTION).click()  # every turn has an address of its own
        page.wait_for_url(lambda url: url != address)
        expect(page.locator(".answer .text")).to_have_text(["Kestel", "In 1889"])
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator(".answer .text")).to_have_text(["Kestel", "In 1889"])
        page.get_by_role("link", name="New question").click()
        expect(page.locator(".exchange")).to_have_count(0)


def test_several_systems_side_by_side(start: Start, page: Any) -> None:
    with start(script) as server, server.client() as client:
        page.goto(server.url)
        page.locator(".chooser summary").click()
        page.get_by_label("Ask direct too").check()
        page.keyboard.press("Escape")
        expect(page.locator(".chooser .panel")).to_be_hidden()
        ask(page, QUESTION)
        expect(page.locator(".watch.narrow .who")).to_have_text(["coda", "direct"])
        expect(page.locator(".answer .text")).to_have_text(["Kestel", "Kestel"])
        for column, searches in ((page.locator(".watch").nth(0), "2"), (page.locator(".watch").nth(1), "0")):
            expect(column.locator(".chip", has_text="searches")).to_contain_text(searches)
            expect(column.locator(".chip", has_text="tokens")).to_be_visible()
        left, right, *_ = page.locator(".watch").evaluate_all(BOXES)
        assert left["right"] <= right["left"]
        ask(page, "And why?")  # each system goes on from its own answer
        expect(page.locator(".watch.narrow .who")).to_have_text(["coda", "direct"] * 2)
        expect(page.locator(".answer .text")).to_have_count(4)
        turns = client.get(f"/api/episodes/{page.url.rpartition('/')[2]}/thread").json()["turns"]
        first, second = ([one["id"] for one in turn["episodes"]] for turn in turns)
        followed = [client.get(f"/api/episodes/{one}").json()["question"]["meta"]["follows"] for one in second]
        assert followed == first
        page.set_viewport_size({"width": 390, "height": 800})
        upper, lower, *_ = page.locator(".watch").evaluate_all(BOXES)
        assert (upper["left"], upper["top"] < lower["top"]) == (lower["left"], True)
        page.get_by_role("link", name="Compare step by step").first.click()
        expect(seen(page, ".facing-steps ol", 2)).to_have_count(2)


def test_systems_that_do_not_suit_say_why(start: Start, page: Any) -> None:
    models = {"default": ScriptedEngine(script, name="embedded+default")}
    with start(models=models, systems=["coda", "hira"]) as server:
        page.goto(server.url)
        page.locator(".chooser summary").click()
        expect(page.locator(".chooser li").first).to_contain_text("A planner breaks the question")
        expect(page.locator(".chooser .group")).to_have_text("Do not suit this model")
        expect(page.locator(".chooser li").last.locator(".unsuited")).to_contain_text("too small")
        page.locator(".chooser li button").last.click()
        expect(page.locator(".chooser summary")).to_contain_text("hira")


def test_a_model_is_tried_and_set(start: Start, other: Endpoint, page: Any) -> None:
    with start(script) as server:
        page.goto(server.url)
        expect(page.locator(".answered-by")).to_contain_text("Answered by scripted")
        page.get_by_role("link", name="Change model").click()
        page.get_by_label("Address").fill(other.url)
        page.get_by_label("Key", exact=True).fill(KEY)
        page.get_by_role("button", name="Try it").click()
        expect(page.locator(".tried h3")).to_have_text("It does not answer.")
        expect(page.locator(".tried")).to_contain_text("it serves big, small")
        page.get_by_label("Model", exact=True).fill("small")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator(".tried h3")).to_have_text("small answers.")
        expect(page.locator(".tried li.works", has_text="Answers questions")).to_contain_text("blue")
        page.get_by_role("button", name="Use this model").click()
        expect(page.locator(".composer.settings [role=status]")).to_contain_text("Saved.")
        expect(page.locator(".in-use li").first).to_contain_text("small at 127.0.0.1")
        expect(page.get_by_label("Key", exact=True)).to_have_value("")
        assert KEY not in page.content()
        page.get_by_role("link", name="Ask a question").click()
        expect(page.locator(".answered-by")).to_contain_text("Answered by small at 127.0.0.1")
        page.locator(".chooser summary").click()
        page.locator(".chooser li button", has_text="direct").click()
        ask(page, QUESTION)
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        assert f"Bearer {KEY}" in other.keys
        page.get_by_role("link", name="Change model").click()
        page.get_by_role("button", name="Use the server's own model").click()
        expect(page.locator(".in-use li")).to_have_count(1)


def test_models_are_chosen_by_their_names(start: Start, page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.serve.agents.NAME_WAIT", 60.0)

    def unnamed(url: str) -> OpenAIEngine:
        return OpenAIEngine(base_url=url, api_key="")

    with (
        Endpoint(models=["tall"]) as one,
        Endpoint() as several,
        start(models={"default": unnamed(one.url), "other": unnamed(several.url)}, systems=["direct"]) as server,
    ):
        page.goto(server.url)
        first, second = (url.removeprefix("http://").removesuffix("/v1") for url in (one.url, several.url))
        expect(page.get_by_label("Model").locator("option")).to_have_text([f"tall at {first}", second])
        expect(page.locator(".answered-by")).to_contain_text(f"Answered by tall at {first}")


def test_an_endpoint_that_goes_away_leads_to_the_form(start: Start, page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.engine.openai.endpoint.FIRST_WAIT", 0.01)
    with start(script, systems=["direct"]) as server, server.client() as client:
        with Endpoint() as gone:
            client.put("/api/model", json={"address": gone.url, "model": "small"})
        page.goto(server.url)
        ask(page, QUESTION)
        expect(page.get_by_role("alert").first).to_contain_text("is the server up?")
        expect(page.get_by_role("heading", name=QUESTION)).to_be_visible()
        with Endpoint() as back:
            page.get_by_role("link", name="Change the model").first.click()
            page.get_by_label("Address").fill(back.url)
            page.get_by_role("button", name="Use this model").click()
            expect(page.locator(".composer.settings [role=status]")).to_contain_text("Saved.")
            page.go_back()
            page.get_by_role("button", name="Ask again").click()
            expect(page.locator(".answer .text").last).to_have_text("Kestel")


def test_only_an_admin_sees_the_form(start: Start, page: Any) -> None:
    with start(admin_token=ADMIN) as server:
        page.goto(f"{server.url}/#/model")
        expect(page.get_by_label("Address")).to_have_count(0)
        page.get_by_label("Admin token").fill("not-the-admin-token")
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_role("alert")).to_contain_text("not the admin token")
        page.get_by_label("Admin token").fill(ADMIN)
        page.get_by_role("button", name="Enter").click()
        page.get_by_label("Address").wait_for()
    with start(model_form=False) as server:
        page.goto(f"{server.url}/#/model")
        expect(page.get_by_role("status")).to_contain_text("can be set by who runs it")


def test_the_page_names_a_larger_model_that_fits(
    start: Start, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("subquest.models.memory.available_memory", lambda: 1_500_000_000)
    with start(models={"default": ScriptedEngine([], name="embedded+default")}) as server:
        page.goto(f"{server.url}/#/model")
        expect(page.locator(".in-use .larger")).to_contain_text(
            "subquest model get qwen-0.5b (491 MB), then start the server with --model qwen-0.5b"
        )


def test_how_sure_it_is_is_said_in_words(start: Start, settings: Settings, page: Any) -> None:
    known = SystemCalibration("coda", "m", (Curve(True, 50, 0.93), Curve(False, 50, 0.2)))
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "asked.sqlite", settings={"kind": "server"}) as store:
        for name, more in (
            ("sure", {"answer": "Kestel", "supported": True, "confidence": 0.5}),
            ("unsure", {"answer": "Kestel", "supported": False}),
            ("unknown", {"stop_reason": "abstained"}),
        ):
            question = Question(name, f"Is it {name}?", dataset="asked")
            store.add_questions([question]).wait()
            store.add_episode(Episode(name, question, "coda", "m", **more)).wait()
    with start(calibrations=Calibrations((known,))) as server:
        page.goto(f"{server.url}/#/ask/sure")
        expect(page.locator(".likely")).to_have_text(
            "very likely right: 93% of answers like this one were right on dev questions"
        )
        expect(page.get_by_text("not supported by a document")).to_have_count(0)
        page.goto(f"{server.url}/#/ask/unsure")
        expect(page.locator(".likely")).to_contain_text("probably wrong: 20%")
        expect(page.get_by_text("not supported by a document")).to_have_count(1)
        page.goto(f"{server.url}/#/ask/unknown")
        expect(page.locator(".answer .text")).to_have_text("Unknown")
        expect(page.locator(".answer .calm")).to_have_text("The documents that were read do not say.")
        expect(page.locator(".chip.warn, .chip.bad, .notice.error")).to_have_count(0)


def test_the_keys_are_shown(start: Start, page: Any) -> None:
    with start() as server:
        page.goto(f"{server.url}/#/runs")
        page.get_by_role("heading", name="Runs").first.wait_for()
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("show these keys")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.keyboard.press("n")
        page.get_by_label("Question", exact=True).wait_for()
        page.keyboard.type("What?")  # a question mark in a question is one
        expect(page.get_by_label("Question", exact=True)).to_have_value("What?")
        expect(dialog).to_be_hidden()


@pytest.mark.slow
def test_a_tool_that_hangs_is_told_and_the_answer_is_kept(start: Start, page: Any) -> None:
    pytest.importorskip("mcp")

    def stubborn(context: Any) -> str:
        said = reply(context)
        return '<call>{"name": "hang", "arguments": {}}</call>' if "<search>Orvane" in said else said

    with start(stubborn, tools=[f"mcp[hang]:{sys.executable} {TOOLS / 'mcp_example.py'}"]) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        expect(page.locator(".answer .text")).to_have_text("Kestel")
        page.get_by_role("link", name="Open trace").click()
        page.locator(".branch").nth(1).click()
        call = page.locator(".story .card", has_text="Called hang")
        expect(call.locator(".chip.bad")).to_have_text("failed")
        expect(call).to_contain_text("the server did not answer within 0.5 seconds")


@pytest.mark.slow
def test_asking_is_accessible_and_fits_a_phone(start: Start, gate: Gate, browser: Any, other: Endpoint) -> None:
    def answers(context: Any) -> Any:
        return gate(context) if "slowly" in context.text else script(context)

    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="light", reduced_motion="reduce")
    page.set_default_timeout(240_000)
    models = {"default": ScriptedEngine(answers, name="embedded+default")}
    with start(models=models, systems=["coda", "direct", "hira"]) as server, server.client() as client:

        def asked(**body: str) -> str:
            identifier: str = client.post("/api/ask", json={"question": QUESTION, **body}).json()["id"]
            if "slowly" not in body.get("question", ""):
                client.get(f"/api/episodes/{identifier}/events")
            return identifier

        first = asked()
        asked(system="direct", beside=first)
        second = asked(question="And when?", follows=first)
        slow = asked(question=f"{QUESTION} slowly")

        def choose() -> None:
            page.locator(".chooser summary").click()

        def attempt() -> None:
            page.get_by_label("Address").fill(other.url)
            page.get_by_label("Model", exact=True).fill("small")
            page.get_by_role("button", name="Try it").click()
            page.locator(".tried").wait_for()

        def keys() -> None:
            page.evaluate("document.activeElement.blur()")
            page.keyboard.press("?")

        views = {
            "chooser": ("#/ask", choose),
            "conversation": (f"#/ask/{second}", lambda: page.locator(".answer .text").nth(2).wait_for()),
            "working": (f"#/ask/{slow}", lambda: page.locator(".notes").wait_for()),
            "model": ("#/model", attempt),
            "keys": ("#/ask", keys),
        }
        wrong: dict[str, Any] = {}
        for name, (place, act) in views.items():
            page.goto("about:blank")
            page.goto(f"{server.url}/{place}")
            seen(page, "h1")
            act()
            wrong |= unfit(page, name)
        assert wrong == {}
        gate.open()
    page.close()
