"""Reports over HTTP and on the page: sections stream, the record has them, documents can be downloaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from subquest.assemble import AgentSpec
from subquest.engine.scripted import ScriptedEngine
from subquest.serve.agents import Agents
from subquest.serve.indexes import Indexes
from subquest.serve.replies import Problem

from .browsing import browser, expect, needs_browser, page, unfit
from .conftest import QUESTION, Start, reply
from .test_episode_handlers import ask, frames

__all__ = ["browser", "page"]
OUTLINE = "Design: Who designed the Orvane Bridge?\nToll: What was the toll in Varn?"


def script(context: Any) -> str:
    if context.role == "outliner":
        return OUTLINE
    if context.role == "reporter":
        return "The Orvane Bridge was designed by Mila Torrun [1]. It cost 9 crowns."
    if context.role == "planner" and "toll" in context.text:
        return "<answer>unknown</answer>"
    return reply(context)


def test_a_report_streams_is_stored_and_is_downloaded(start: Start) -> None:
    with start(script) as server, server.client() as client:
        identifier = ask(client, style="report")
        with client.stream("GET", f"/api/episodes/{identifier}/events") as stream:
            events = [json.loads(f["data"]) for f in list(frames(stream.iter_lines()))[:-1]]
        sections = [event["data"] for event in events if event["kind"] == "section"]
        assert [section["title"] for section in sections] == ["Design", "Toll", "Also in the documents"]
        found = client.get(f"/api/episodes/{identifier}").json()
        assert found["settings"]["style"] == found["report"]["style"] == "report"
        assert found["report"]["dropped"] == 1
        for form, begins in (("md", b"# Where"), ("html", b"<!doctype"), ("docx", b"PK"), ("pdf", b"%PDF")):
            file = client.get(f"/api/episodes/{identifier}/report", params={"format": form})
            assert file.content.startswith(begins)
            assert f"report.{form}" in file.headers["content-disposition"]
        assert client.get(f"/api/episodes/{identifier}/report", params={"format": "exe"}).status_code == 400
        assert client.get("/api/episodes/none/report").status_code == 404
        again = client.post(f"/api/episodes/{identifier}/again").json()["id"]
        with client.stream("GET", f"/api/episodes/{again}/events") as stream:
            assert any('"section"' in f["data"] for f in frames(stream.iter_lines()))
        refused = client.post("/api/ask", json={"question": QUESTION, "style": "essay"})
        assert refused.status_code == 400
        assert "style" in refused.text


def test_long_answers_leave_room_for_follow_ups(start: Start) -> None:
    long = f"<answer>{('bridge' * 12 + ' ') * 400}</answer>"
    with start(lambda context: long) as server, server.client() as client:
        follows = ""
        for number in range(3):
            follows = ask(client, question=f"What about {number}?", system="direct", follows=follows)
            with client.stream("GET", f"/api/episodes/{follows}/events") as stream:
                assert list(frames(stream.iter_lines()))[-1]["event"] == "done"


def test_a_server_without_an_index_refuses_what_must_search(tmp_path: Path) -> None:
    agents = Agents(
        AgentSpec(), ["coda", "direct"], {"default": {"": ScriptedEngine([])}}, Indexes({}, tmp_path, read_only=False)
    )
    with pytest.raises(Problem, match="coda searches, and there is no index here") as refused:
        agents.get("coda")
    assert refused.value.status == 400
    assert agents.get("direct").name == "direct"


def test_an_adapter_is_left_out_where_its_model_is_asked_by_a_system_that_it_was_not_trained_for(
    tmp_path: Path,
) -> None:
    class Adapted(ScriptedEngine):
        has_adapter = True

        def without_adapter(self) -> ScriptedEngine:
            return published

    published, adapted = ScriptedEngine([]), Adapted([])
    models = {"default": {"": adapted}, "mine": {"": adapted}}
    spec, indexes = AgentSpec(model="gguf:own.gguf"), Indexes({}, tmp_path, read_only=False)
    agents = Agents(spec, ["hira", "direct"], models, indexes, places={"mine": "qwen-1.5b"})
    assert agents.get("hira", "default").engines[""] is adapted
    assert agents.get("hira", "mine").engines[""] is published
    assert agents.get("direct", "mine").engines[""] is adapted


@needs_browser
def test_the_page_asks_for_a_report_and_shows_it(start: Start, page: Any) -> None:
    with start(script) as server:
        page.goto(server.url)
        page.get_by_label("Answer", exact=True).select_option("report")
        page.locator("#question").fill(QUESTION)
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".written h3", has_text="Toll").wait_for()
        written = page.locator(".written")
        expect(written).to_contain_text("The Orvane Bridge was designed by Mila Torrun. [1]", use_inner_text=True)
        expect(written).to_contain_text("Not found in the documents.", use_inner_text=True)
        page.get_by_text("1 unsupported dropped").wait_for()
        assert unfit(page, "report") == {}
        with page.expect_download() as download:
            page.get_by_role("button", name="MD", exact=True).click()
        assert download.value.suggested_filename == "report.md"
