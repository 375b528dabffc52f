"""Runs in a real browser: a table to sort, an evaluation question by question, training, and a full disk."""

from pathlib import Path
from typing import Any

import pytest

from subquest.runs import RunStore
from subquest.serve import jobs
from subquest.serve.settings import Settings

from .browsing import browser, expect, needs_browser, page, seen, unfit
from .conftest import Gate, Start
from .test_run_overview import compared, long_ago
from .test_storage import full_disk, long_question

__all__ = ["browser", "page"]
pytestmark = needs_browser


def trained(folder: Path, name: str = "trained", **more: float) -> None:
    (folder / name).mkdir(parents=True)
    with RunStore.create(folder / name / "run.sqlite", settings={"recipe": "peco", "kind": "rl"}) as store:
        for step in range(1, 5):
            figures = {"kl": 0.01 * step, "entropy": 1 / step, "reward": 0.1 * step, "dev_em": 0.2 * step, **more}
            store.add_metrics(step, figures).wait()


def names(page: Any) -> Any:
    return expect(page.locator(".runs tbody th a"))


def test_runs_are_a_table_that_sorts(start: Start, settings: Settings, page: Any) -> None:
    compared(settings.runs, "both")
    compared(settings.runs, "alone", systems=("decor",))
    compared(settings.runs, "half", last=3)
    long_ago(settings.runs / "half.sqlite")
    with start() as server:
        page.goto(f"{server.url}/#/runs")
        seen(page, ".runs tbody tr", 4)
        names(page).to_have_text(["asked", "half", "alone", "both"])  # the newest first
        both = page.locator(".runs tbody tr", has_text="both")
        expect(both).to_contain_text("evaluation")
        expect(both).to_contain_text("even, odd")
        expect(both).to_contain_text("smollm2")
        expect(both.locator(".score")).to_contain_text("0.625 em of coda")
        expect(both.locator(".score small")).to_have_text("0.250 to 0.875")
        expect(page.locator(".runs tbody tr", has_text="half")).to_contain_text("5 answers missing")
        page.get_by_role("button", name="Score").click()
        names(page).to_have_text(["half", "both", "alone", "asked"])
        header = page.get_by_role("columnheader", name="Score")
        expect(header).to_have_attribute("aria-sort", "descending")
        page.get_by_role("button", name="Score").press("Enter")
        names(page).to_have_text(["alone", "both", "half", "asked"])  # what has no score stays last
        expect(header).to_have_attribute("aria-sort", "ascending")
        page.get_by_role("button", name="Run", exact=True).click()
        names(page).to_have_text(["alone", "asked", "both", "half"])
        page.get_by_label("Kind").select_option("evaluation")
        names(page).to_have_text(["alone", "both", "half"])


def test_an_evaluation_question_by_question(start: Start, settings: Settings, page: Any) -> None:
    compared(settings.runs)
    with start() as server:
        page.goto(f"{server.url}/#/runs/both")
        rows = seen(page, ".matrix tbody tr", 8)
        first = rows.filter(has_text="Question 0?").locator("td")
        expect(first.first.locator(".chip")).to_have_text(["✓ right", "unsupported"])
        expect(first.last.locator(".chip")).to_have_text(["✓ right"])
        expect(rows.filter(has_text="Question 7?").locator("td").last).to_contain_text("failed")
        page.get_by_role("button", name="Wrong 6").click()
        expect(rows).to_have_count(6)
        page.get_by_role("button", name="Systems differ 4").click()
        expect(rows).to_have_count(4)
        page.get_by_label("Data").select_option("odd")
        expect(rows.locator("th")).to_contain_text(["Question 3?", "Question 5?"])
        page.get_by_label("Search questions", exact=True).fill("nothing like this")
        page.get_by_text("No question matches.").wait_for()
        page.get_by_label("Search questions", exact=True).fill("")
        rows.filter(has_text="Question 5?").locator("td").last.locator("a").click()
        page.wait_for_url(lambda url: url.endswith("#/runs/both/both-decor-5"))
        page.get_by_role("heading", name="Question 5?").wait_for()


def test_training_shows_reward_and_dev_score_first(start: Start, settings: Settings, page: Any) -> None:
    trained(settings.runs, dev_em_2hop=0.5, seconds_rollout=1.0)
    with start() as server:
        page.goto(f"{server.url}/#/runs/trained")
        seen(page, ".curve", 4)
        expect(page.locator("section h2").first).to_have_text("Reward and dev score")
        captions = page.locator(".curve figcaption")
        expect(captions).to_contain_text(["reward", "dev_em", "entropy", "kl"], use_inner_text=True)
        assert {caption.split("\n")[0] for caption in captions.all_inner_texts()[2:]} == {"kl", "entropy"}
        page.goto(f"{server.url}/#/runs")
        expect(page.locator(".runs tbody tr", has_text="trained")).to_contain_text("0.800 dev em")


def test_no_runs_say_what_to_do(browser: Any, start: Start, page: Any) -> None:
    with start(asks=False) as server:
        page.goto(f"{server.url}/#/runs")
        expect(page.locator(".notice")).to_contain_text("subquest eval")


def test_answers_that_wait_for_room_are_told(start: Start, gate: Gate, page: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(jobs, "RETRY", 0.05)
    with start(gate) as server, server.client() as client:
        identifier = client.post("/api/ask", json={"question": long_question(1)}).json()["id"]
        page.goto(f"{server.url}/#/ask/{identifier}")
        seen(page, ".node", 2)
        with full_disk(server):
            gate.open()
            page.locator(".answer .text", has_text="Kestel").wait_for()
            page.get_by_text("This answer is not stored yet").wait_for()
            page.reload()
            banner = page.locator(".storage")
            expect(banner).to_contain_text("The server's disk is full or fails.")
            expect(banner).to_contain_text(
                "1 answer waits in memory and will be stored then: do not restart the server."
            )
            page.get_by_role("link", name="Open trace").click()
            page.get_by_text("This answer is not stored yet").wait_for()
        while server.state.jobs.storage_problem:
            page.wait_for_timeout(50)
        page.reload()
        page.locator(".answer .text", has_text="Kestel").wait_for()
        expect(page.locator(".storage")).to_have_count(0)
        expect(page.get_by_text("This answer is not stored yet")).to_have_count(0)


@pytest.mark.slow
def test_views_of_runs_are_accessible_and_fit_a_phone(start: Start, settings: Settings, browser: Any) -> None:
    compared(settings.runs, "both")
    compared(settings.runs, "a-run-with-a-long-name-that-has-no-room-on-a-phone", last=3)
    trained(settings.runs)
    (settings.runs / "torn.sqlite").write_bytes(b"SQLite format 3\0" + bytes(200))
    page = browser.new_page(viewport={"width": 390, "height": 800}, reduced_motion="reduce")
    page.set_default_timeout(240_000)
    wrong: dict[str, Any] = {}
    with start() as server:
        for place in ("#/runs", "#/runs/both", "#/runs/trained"):
            page.goto("about:blank")
            page.goto(f"{server.url}/{place}")
            seen(page, ".stacked tbody tr, .curve", 2)
            wrong |= unfit(page, place)
    assert wrong == {}
    page.close()
