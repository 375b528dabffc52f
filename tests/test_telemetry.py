"""Spans of episodes: names, attributes, parents and times, and silence where nobody listens."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from subquest import events, telemetry
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import SearchError
from subquest.events import Event
from subquest.systems.coda import CoDA

from .cli.conftest import SCRIPT
from .systems.fakes import DOCUMENTS, FakeSearch

sdk = pytest.importorskip("opentelemetry.sdk.trace")
QUESTION = "Where was the designer of the Orvane Bridge born?"


def reply(context: Any) -> str:
    if context.role == "planner":
        return "<task>Who designed the Orvane Bridge?</task>" if context.turn == 0 else "<answer>Kestel</answer>"
    return "<search>Orvane Bridge</search>" if context.turn == 0 else "<result>Mila Torrun</result>"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Any:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    monkeypatch.delenv(telemetry.CONTENT, raising=False)
    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter.get_finished_spans


async def test_an_episode_is_a_tree_of_spans_with_the_conventions_names(recorded: Any) -> None:
    provider, finished = recorded
    with telemetry.recording(provider):
        episode = await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION)
    spans = finished()
    by_id = {span.context.span_id: span for span in spans}
    tree = sorted((span.name, by_id[span.parent.span_id].name if span.parent else "") for span in spans)
    assert tree == sorted(
        [
            ("invoke_workflow coda", ""),
            ("invoke_agent planner", "invoke_workflow coda"),
            ("chat scripted", "invoke_agent planner"),
            ("chat scripted", "invoke_agent planner"),
            ("invoke_agent executor", "invoke_agent planner"),
            ("chat scripted", "invoke_agent executor"),
            ("retrieval", "invoke_agent executor"),
            ("chat scripted", "invoke_agent executor"),
        ]
    )
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {episode.id}
    workflow = next(span for span in spans if span.parent is None)
    assert workflow.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert workflow.attributes["gen_ai.workflow.name"] == "coda"
    assert workflow.attributes["gen_ai.usage.output_tokens"] == episode.usage.completion_tokens
    search = next(span for span in spans if span.name == "retrieval")
    assert [hit["id"] for hit in json.loads(search.attributes["gen_ai.retrieval.documents"])] == ["d1"]
    chats = [span for span in spans if span.attributes["gen_ai.operation.name"] == "chat"]
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in chats) == episode.usage.prompt_tokens
    for span in spans:
        if span.parent:
            parent = by_id[span.parent.span_id]
            assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time


async def test_attribute_names_are_those_of_the_published_conventions(recorded: Any) -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions

    known = {getattr(conventions, name) for name in dir(conventions) if name.startswith("GEN_AI_")}
    operations = {value.value for value in conventions.GenAiOperationNameValues}
    provider, finished = recorded
    with telemetry.recording(provider):
        await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION)
    for span in finished():
        assert {name for name in span.attributes if name.startswith("gen_ai.")} <= known
        assert span.attributes["gen_ai.operation.name"] in operations


async def test_contents_leave_only_when_asked_for(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, finished = recorded
    with telemetry.recording(provider):
        await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION)
    assert "Orvane" not in str([dict(span.attributes) for span in finished()])
    monkeypatch.setenv(telemetry.CONTENT, "true")
    with telemetry.recording(provider):
        await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION)
    workflow = [span for span in finished() if span.parent is None][1]
    (message,) = json.loads(workflow.attributes["gen_ai.input.messages"])
    assert message == {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    assert "Kestel" in workflow.attributes["gen_ai.output.messages"]


async def test_a_failed_search_ends_its_span_with_the_error(recorded: Any) -> None:
    class Broken(FakeSearch):
        async def retrieve(self, queries: Any, k: int) -> Any:
            raise SearchError("the disk is gone")

    provider, finished = recorded
    with telemetry.recording(provider):
        await CoDA(ScriptedEngine(reply), Broken()).solve(QUESTION)
    failed = [span for span in finished() if span.name == "retrieval"]
    assert failed
    assert {(span.attributes["error.type"], span.status.status_code.name) for span in failed} == {("search", "ERROR")}
    moments = [moment.name for span in finished() for moment in span.events]
    assert "subquest.error" in moments


def test_tools_are_spans_too(recorded: Any) -> None:
    provider, finished = recorded
    spans = telemetry.Spans(provider.get_tracer("t"), "e")
    told: list[tuple[Any, float, str, dict[str, Any]]] = [
        ("start", 0.0, "", {"system": "hira"}),
        ("open", 1.0, "1", {"role": "expert", "model": "openai:gpt"}),
        ("turn", 2.0, "1", {"text": "", "finish": "stop", "usage": {"seconds": 0.5}}),
        ("code", 5.0, "1", {"source": "1/0", "output": "", "error": "ZeroDivisionError"}),
        ("page", 6.0, "1", {"url": "https://a"}),
        ("close", 7.0, "1", {}),
        ("end", 8.0, "", {"stop_reason": "failed"}),
    ]
    for seq, (kind, at, place, data) in enumerate(told):
        spans.add(Event(seq, kind, at, place, data))
    found = {span.name: span for span in finished()}
    code = found["execute_tool python"]
    assert (code.end_time - code.start_time) / 1e9 == pytest.approx(3.0)
    assert code.attributes["error.type"] == "code"
    assert found["execute_tool read_page"].attributes["gen_ai.tool.name"] == "read_page"
    chat = found["chat openai:gpt"]
    assert (chat.end_time - chat.start_time) / 1e9 == pytest.approx(0.5)
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert found["invoke_workflow hira"].attributes["error.type"] == "failed"


def test_nothing_is_imported_and_nobody_follows_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in telemetry.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    with telemetry.exporting():
        assert events.FOLLOWERS == []
    code = "import sys, subquest.telemetry as t\nwith t.exporting(): pass\nprint('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
    assert not telemetry.configured({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})


def test_a_process_exports_once_however_many_engines_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telemetry.ENDPOINTS[0], "http://127.0.0.1:9")
    with telemetry.exporting(), telemetry.exporting():
        assert len(events.FOLLOWERS) == 1
    assert events.FOLLOWERS == []


def test_ask_sends_to_the_address_of_the_environment(tmp_path: Path) -> None:
    from subquest import Index

    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    lines = [json.dumps({"role": role, "reply": said}) for role, said in SCRIPT]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "subquest",
                "ask",
                QUESTION,
                "--model",
                "scripted:script.jsonl",
                "--index",
                "docs.sq",
            ],
            cwd=tmp_path,
            env={
                "PATH": "",
                "HOME": str(tmp_path),
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            },
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        collector.shutdown()
        collector.server_close()
    assert done.returncode == 0, done.stderr
    sent = b"".join(received)
    for name in (b"invoke_workflow coda", b"invoke_agent executor", b"gen_ai.retrieval.documents", b"subquest"):
        assert name in sent
    assert b"Orvane" not in sent
