"""Looking back in a real browser: tabs of a trace, episodes and runs side by side, training groups, live curves."""

import re
from pathlib import Path
from typing import Any

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.events import Event
from subquest.record import Episode, Question, Segment, Trajectory
from subquest.runs import RunStore
from subquest.serve.settings import Settings

from .browsing import EVIL, ask, browser, expect, needs_browser, page, seen, unfit
from .conftest import QUESTION, Gate, Start, reply
from .test_episode_handlers import until
from .test_resume import engine
from .test_run_library import evaluated

__all__ = ["browser", "page"]
pytestmark = needs_browser

SETTINGS = {"recipe": "peco", "kind": "rl"}


def training(folder: Path, *, word: str = "col") -> None:
    """A group of three rollouts as the trainer keeps them."""
    with RunStore.create(folder / "train.sqlite", settings=SETTINGS) as store:
        for step in range(1, 4):
            store.add_metrics(step, {"reward": 0.1 * step, "kl": 0.01}).wait()
        for member, reward in enumerate((1.0, 0.0, 0.5)):
            segments = (
                Segment("prompt", "Who?", (1, 2)),
                Segment("agent", word, (3, 4, 5), (-0.01, -1.25, -4.0), policy=2),
            )
            trajectory = Trajectory("1", "planner", "Who?", segments=segments, result=word)
            told = (
                ("start", "", {"question": "Who?", "system": "coda", "model": "tiny"}),
                ("open", "1", {"role": "planner", "task": "Who?", "parent": None, "prompt": []}),
                ("turn", "1", {"text": word, "finish": "length", "usage": {"seconds": 0.1}}),
                ("task", "1", {"task": f"step {member}"}),
                ("answer", "", {"answer": f"{word}{member}"}),
            )
            events = tuple(Event(i, kind, i / 10, place, data) for i, (kind, place, data) in enumerate(told))
            rewards = {"total": reward, "answer": reward, "advantage/1": (reward - 0.5) * 2}
            question = Question("q", f"Who? {word}", ("me",), dataset="world")
            episode = Episode(
                f"step-1-{member}", question, "coda", "tiny", (trajectory,), f"{word}{member}",
                stop_reason="answered", events=events, rewards=rewards,
            )  # fmt: skip
            store.add_episode(episode, attempt=1).wait()


@pytest.mark.slow
def test_every_tab_of_a_trace(start: Start, page: Any) -> None:
    with start() as server:
        page.goto(server.url)
        ask(page, QUESTION)
        page.get_by_role("link", name="Open trace").click()
        seen(page, ".branch", 3).nth(1).click()
        expect(page.locator(".hits .chip.busy")).to_have_text("read")
        page.get_by_role("tab", name="Tokens").click()
        page.get_by_text("is not at hand").wait_for()
        seen(page, ".token", 11)
        page.get_by_role("tab", name="Timeline").click()
        expect(seen(page, ".bar-of", 3)).to_have_count(3)
        expect(page.locator(".bar-of circle.search")).to_have_count(2)
        page.locator(".bar-of").nth(2).click()
        seen(page, ".branch.selected", 1)
        page.get_by_role("tab", name="Costs").click()
        expect(page.locator("tbody tr").first).to_contain_text("in all")
        page.keyboard.press("ArrowRight")
        seen(page, "[role=tab][aria-selected=true]")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as a file").click()
        assert QUESTION in Path(download.value.path()).read_text()


@pytest.mark.slow
def test_memory_over_time(start: Start, settings: Settings, page: Any) -> None:
    changes = [
        {"action": "add", "entries": [{"query": "who", "evidence": f"Mila {EVIL}"}], "tokens": 5},
        {"action": "compress", "entries": [{"query": "", "evidence": "facts"}], "tokens": 2},
    ]
    events = [Event(0, "start", 0.0, data={"question": "q", "system": "decor", "model": "m"})]
    events += [Event(i, "memory", float(i), "1", data) for i, data in enumerate(changes, 1)]
    events += [Event(3, "code", 3.0, "1", {"source": f"print('{EVIL}')", "output": "1", "error": f"Error {EVIL}"})]
    events += [Event(4, "retry", 3.5, "1", {"where": "engine", "message": EVIL, "attempt": 1, "wait": 2.0})]
    events += [Event(5, "limit", 3.6, "1", {"what": "turns", "message": "a final answer is forced"})]
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "old.sqlite") as store:
        store.add_episode(Episode("m", Question("q", "q"), "decor", "m", events=tuple(events))).wait()
    with start() as server:
        page.goto(f"{server.url}/#/runs/old/m?tab=memory")
        entries = seen(page, ".entries li", 2)
        expect(entries.nth(0)).to_contain_text("facts")
        expect(entries.nth(1)).to_contain_text(f"who → Mila {EVIL}")
        page.locator(".changes button").first.click()
        expect(page.locator(".entries li")).to_have_count(1)
        page.keyboard.press("1")
        expect(page.locator(".card .code")).to_have_text(f"print('{EVIL}')")
        expect(page.locator(".output.failed")).to_have_text(f"Error {EVIL}")
        expect(page.locator(".trouble .chip")).to_have_text(["retry 1", "limit"])


def test_two_episodes_side_by_side(start: Start, page: Any) -> None:
    towns = ["Kestel"]

    def script(context: Any) -> str:
        return reply(context).replace("Kestel", towns[-1])

    with start(script) as server, server.client() as client:
        for town in ("Kestel", f"Nesvik {EVIL}"):
            towns.append(town)
            identifier = client.post("/api/ask", json={"question": QUESTION}).json()["id"]
            client.get(f"/api/episodes/{identifier}/events")
        page.goto(f"{server.url}/#/runs/asked")
        for tick in seen(page, ".tick-box input", 2).all():
            tick.check()
        page.get_by_role("link", name="Compare 2 episodes").click()
        columns = seen(page, ".facing-steps ol", 2)
        expect(columns.locator(".step.answer p")).to_have_count(2)
        for answer in ("Kestel", f"Nesvik {EVIL}"):
            expect(columns.locator(".step.answer p").get_by_text(answer, exact=True)).to_have_count(1)
        page.get_by_text("the first 11 steps are the same").wait_for()  # up to the second executor's result
        expect(page.locator(".step")).to_have_count(4)
        page.get_by_role("button", name="Show them").click()
        expect(page.locator(".step.same")).to_have_count(22)
        expect(page.locator(".step")).to_have_count(26)


@pytest.mark.slow
def test_the_rollouts_of_a_training_group(start: Start, settings: Settings, page: Any) -> None:
    settings.runs.mkdir()
    training(settings.runs, word=f"col{EVIL}")
    with start() as server:
        page.goto(f"{server.url}/#/runs/train/step-1-0?tab=tokens&c=1")
        tokens = seen(page, ".segment.agent .token", 3)
        expect(tokens).to_have_class([re.compile(rf"\btoken {shade}\b") for shade in ("p0", "p2", "p4")])
        expect(page.locator(".segment.prompt .token.masked")).to_have_count(2)
        tokens.nth(2).click()
        expect(page.locator(".segment.agent .facts")).to_contain_text("log-prob")
        expect(page.locator(".tokens > .facts .chip.good")).to_contain_text("+1")
        expect(seen(page, ".siblings .chip", 3)).to_have_count(3)
        page.get_by_role("link", name="Side by side").click()
        expect(seen(page, ".facing-steps ol", 3)).to_have_count(3)
        expect(page.locator(".facing")).to_contain_text("advantage")


@pytest.mark.slow
def test_runs_side_by_side(start: Start, settings: Settings, page: Any) -> None:
    settings.runs.mkdir()
    evaluated(settings.runs, "old", [0, 1, 2])
    evaluated(settings.runs, "new", [0, 1, 2, 3, 4, 5, 6, 7, 8])
    with start() as server:
        page.goto(f"{server.url}/#/runs")
        for name in ("old", "new"):
            page.get_by_label(f"Compare {name}").check()
        page.get_by_role("link", name="Compare 2 runs").click()
        tests = expect(page.get_by_role("region", name="Paired tests"))
        tests.to_contain_text("+0.500")
        tests.to_contain_text("0.031")  # McNemar on six questions, all won by one side: 2 / 2**6
        tests.to_contain_text("better")
        page.locator(".list a").first.click()
        expect(seen(page, ".facing-steps ol", 2)).to_have_count(2)


@pytest.mark.slow
def test_curves_grow_while_they_are_watched(start: Start, settings: Settings, page: Any) -> None:
    settings.runs.mkdir()
    training(settings.runs)
    with RunStore.resume(settings.runs / "train.sqlite", settings=SETTINGS) as store, start() as server:
        page.goto(f"{server.url}/#/runs/train")
        expect(seen(page, ".curve")).to_have_count(1)
        expect(page.locator(".still .chip")).to_have_text(re.compile(r"^kl\s*0\.010$"))
        store.add_metrics(4, {"reward": 0.875, "kl": 0.02}).wait()
        page.get_by_text("0.875", exact=True).wait_for()
        expect(seen(page, ".curve", 2)).to_have_count(2)
        page.get_by_text("live").wait_for()


def test_follow_up_and_go_on(start: Start, gate: Gate, page: Any) -> None:
    page.expected.append("net::ERR_")  # the stream breaks when the first server stops
    _, models = engine(gate)
    with start(grace=0.1, **models) as server:
        page.goto(server.url)
        ask(page, QUESTION)
        seen(page, ".node", 2)
        until(lambda: gate.waiting)
    page.goto("about:blank")
    inner, models = engine(reply)
    with start(**models) as server:
        page.goto(server.url)
        page.get_by_role("link", name=QUESTION).click()
        page.get_by_role("button", name="Go on").click()
        page.locator(".answer .text", has_text="Kestel").wait_for()
        assert inner.calls == 4
        ask(page, "And when?")
        page.get_by_role("heading", name="And when?").wait_for()
        expect(page.locator(".answer .text")).to_have_text(["Kestel", "Kestel"])
        page.get_by_role("heading", name=QUESTION).wait_for()
        page.goto("about:blank")  # no stream is open when the server stops


def test_files_become_an_index_of_their_own(start: Start, page: Any) -> None:
    from ..readers.made import pdf

    with start() as server:
        page.goto(server.url)
        content = pdf("A title page.", "The Orvane Bridge was designed by Mila Torrun. She was born in Kestel.")
        page.get_by_label("Add files to a new index").set_input_files(
            {"name": "bridges.pdf", "mimeType": "application/pdf", "buffer": content}
        )
        page.get_by_text("2 passages read into the index bridges.").wait_for()
        ask(page, QUESTION)
        page.locator(".answer").wait_for()
        expect(page.locator(".quote cite").first).to_contain_text("bridges.pdf, page 2")


def test_a_large_file_under_the_question_says_how_far_it_is(start: Start, page: Any) -> None:
    line = b"The Orvane Bridge was designed by Mila Torrun. She was born in Kestel.\n"
    files = [
        {"name": "long.txt", "mimeType": "text/plain", "buffer": line * 60_000},
        {"name": "short.txt", "mimeType": "text/plain", "buffer": line},
    ]
    with start() as server:
        page.goto(server.url)
        page.get_by_label("Question", exact=True).fill(QUESTION)
        network = page.context.new_cdp_session(page)
        speed = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 2_000_000}
        network.send("Network.emulateNetworkConditions", speed)
        page.get_by_label("Add files to a new index").set_input_files(files)
        expect(page.locator(".composer .told")).to_contain_text("long.txt, 1 of 2 Sending…")
        expect(page.locator(".composer .told")).to_contain_text(re.compile(r"Sending… [1-9]\d?%"))
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
        expect(page.get_by_label("Add files to a new index")).to_have_count(0)
        expect(page.get_by_role("progressbar", name="Reading long.txt")).to_have_count(1)
        page.get_by_text("read into the index long-and-1-more.").wait_for()
        expect(page.get_by_role("progressbar")).to_have_count(0)
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".quote cite").first).to_contain_text("txt, line 1")


def test_a_folder_becomes_an_index_of_its_own(start: Start, page: Any, tmp_path: Path) -> None:
    texts = {"a.txt": "The inn is open.", "deeper/a.txt": "The bar is open.", ".hidden.txt": "x", "app.exe": "x"}
    for folder, files in (("My papers", texts), ("nothing", {"app.exe": "x"})):
        for name, text in files.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    with start() as server:
        page.goto(server.url)
        chooser = page.get_by_label("Add a folder as a new index")
        chooser.set_input_files(tmp_path / "nothing")
        page.get_by_text("No file in this folder can be read.").wait_for()
        chooser.set_input_files(tmp_path / "My papers")
        page.get_by_text("2 passages read into the index My-papers.").wait_for()
        page.goto(f"{server.url}/#/indexes/My-papers")
        expect(page.get_by_text("a (2).txt")).to_have_count(1)


def test_what_does_not_fit_is_found(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_content(
        '<body style="background: #fff"><p style="color: #eee">pale</p><div style="width: 900px">wide</div>'
    )
    found = unfit(page, "it")
    page.close()
    for device in ("screen", "phone"):
        assert {"html-has-lang", "color-contrast"} <= {rule for rule, _ in found[f"it, {device}, light"]}
        assert [rule for rule, _ in found[f"it, {device}, dark"]] == ["color-contrast"]
    assert found["width of it, phone, light"] > 900
    assert "width of it, screen, light" not in found


VIEWS = {
    "ask": "#/ask",
    "asked": "#/ask/{id}",
    "trace": "#/runs/asked/{id}?c=1.1",
    "context": "#/runs/asked/{id}?c=1.1&tab=context",
    "tokens": "#/runs/train/step-1-0?tab=tokens&c=1",
    "timeline": "#/runs/asked/{id}?tab=time",
    "costs": "#/runs/asked/{id}?tab=costs",
    "events": "#/runs/asked/{id}?tab=events&e=3",
    "runs": "#/runs",
    "run": "#/runs/asked",
    "training": "#/runs/train",
    "compare": "#/compare?e=train/step-1-0,train/step-1-1",
    "compare runs": "#/compare?runs=train,asked",
    "indexes": "#/indexes",
    "nothing": "#/nowhere",
}


@pytest.mark.slow
def test_every_view_is_accessible_and_fits_a_phone(start: Start, settings: Settings, browser: Any) -> None:
    settings.runs.mkdir()
    training(settings.runs)
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="light", reduced_motion="reduce")
    page.set_default_timeout(240_000)
    with start(models={"default": ScriptedEngine(reply)}) as server, server.client() as client:
        identifier = client.post("/api/ask", json={"question": QUESTION}).json()["id"]
        client.get(f"/api/episodes/{identifier}/events")
        wrong: dict[str, Any] = {}
        grounds = set()
        for name, place in VIEWS.items():
            page.goto("about:blank")
            page.goto(f"{server.url}/{place.format(id=identifier)}")
            seen(page, "h1, main .notice, .composer")
            page.wait_for_load_state("networkidle")
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                grounds.add((theme, page.evaluate("getComputedStyle(document.body).backgroundColor")))
            wrong |= unfit(page, name)
        assert wrong == {}
        assert len(grounds) == len(dict(grounds)) == 2  # each theme has a colour of its own
    page.close()
