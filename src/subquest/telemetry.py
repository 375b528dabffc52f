"""OpenTelemetry spans of episodes, by the GenAI semantic conventions, created from the event stream alone.

    invoke_workflow coda            an episode
      invoke_agent planner          a context
        chat MODEL                  a turn of its model
        retrieval INDEX             a search
        execute_tool python         code, pages and files

Nothing is imported or measured unless an endpoint is configured in OpenTelemetry's own variables
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, ...). Questions, prompts and answers are exported only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is true.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import events
from ._version import __version__
from .errors import MissingDependency
from .events import Event, Listener

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
_PROBLEMS = ("error", "retry", "limit")


def configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether an endpoint for spans is configured."""
    return environment.get("OTEL_SDK_DISABLED", "").lower() != "true" and any(map(environment.get, ENDPOINTS))


@contextmanager
def exporting() -> Iterator[None]:
    """Export spans of all episodes of this process while the block runs, if an endpoint is configured."""
    if events.FOLLOWERS or not configured():  # a server opens engines for each of its models, but exports once
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingDependency(f"OpenTelemetry ({error.name}), which {ENDPOINTS[0]} asks for", "otel") from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "subquest"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        with recording(provider):
            yield
    finally:
        provider.shutdown()


@contextmanager
def recording(provider: Any) -> Iterator[None]:
    """Record spans of all episodes of this process with the given tracer provider."""
    tracer: Tracer = provider.get_tracer("subquest", __version__, schema_url=SCHEMA)
    content = os.environ.get(CONTENT, "").lower() in ("true", "1", "span_only", "span_and_event")
    follow: Callable[[str], Listener] = lambda identifier: Spans(tracer, identifier, content).add  # noqa: E731
    events.FOLLOWERS.append(follow)
    try:
        yield
    finally:
        events.FOLLOWERS.remove(follow)


class Spans:
    """The spans of one episode, opened and ended by its events."""

    def __init__(self, tracer: Tracer, identifier: str, content: bool = False) -> None:
        self._tracer, self._identifier, self._content = tracer, identifier, content
        self._began = time.time_ns()
        self._workflow: Span | None = None
        self._agents: dict[str, Span] = {}
        self._models: dict[str, str] = {}
        self._prompts: dict[str, list[dict[str, str]]] = {}
        self._last: dict[str, float] = {}
        """Time of each context's last event, which is when a tool began at the latest."""
        self._searches: dict[tuple[str, str], Span] = {}

    def add(self, event: Event) -> None:
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(event)
        if event.kind in _PROBLEMS:
            self._add_problem(event)
        self._last[event.trajectory] = event.time

    def _on_start(self, event: Event) -> None:
        name = str(event.data.get("system", ""))
        self._workflow = self._open(
            f"invoke_workflow {name}",
            event.time,
            None,
            {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name},
        )
        self._say(self._workflow, "gen_ai.input.messages", [_message("user", str(event.data.get("question", "")))])

    def _on_open(self, event: Event) -> None:
        data, place = event.data, event.trajectory
        role, model = str(data.get("role", "")), str(data.get("model", ""))
        self._models[place] = model
        self._prompts[place] = list(data.get("prompt", ()))
        span = self._open(
            f"invoke_agent {role}",
            event.time,
            self._agents.get(str(data.get("parent") or "")) or self._workflow,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": role,
                "gen_ai.agent.id": f"{self._identifier}/{place}",
                "gen_ai.request.model": model,
                "gen_ai.provider.name": provider_of(model),
            },
        )
        self._agents[place] = span
        self._say(span, "gen_ai.input.messages", [_message("user", str(data.get("task", "")))])

    def _on_turn(self, event: Event) -> None:
        data, place = event.data, event.trajectory
        usage: Mapping[str, Any] = data.get("usage", {})
        model = self._models.get(place, "")
        span = self._open(
            f"chat {model}".rstrip(),
            max(0.0, event.time - float(usage.get("seconds", 0.0))),
            self._agents.get(place) or self._workflow,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": model,
                "gen_ai.response.model": model,
                "gen_ai.provider.name": provider_of(model),
                "gen_ai.response.finish_reasons": [str(data.get("finish", ""))],
                "gen_ai.usage.input_tokens": int(usage.get("prompt_tokens", 0)),
                "gen_ai.usage.output_tokens": int(usage.get("completion_tokens", 0)),
                "gen_ai.usage.cache_read.input_tokens": int(usage.get("cached_tokens", 0)),
            },
            client=True,
        )
        prompt = [_message(m.get("role", ""), m.get("content", "")) for m in self._prompts.get(place, ())]
        self._say(span, "gen_ai.input.messages", prompt)
        said = {**_message("assistant", str(data.get("text", ""))), "finish_reason": str(data.get("finish", ""))}
        self._say(span, "gen_ai.output.messages", [said])
        span.end(self._at(event.time))

    def _on_search(self, event: Event) -> None:
        for query in event.data.get("queries", ()):
            self._searches[event.trajectory, query] = span = self._open(
                "retrieval",
                event.time,
                self._agents.get(event.trajectory) or self._workflow,
                {"gen_ai.operation.name": "retrieval", "gen_ai.request.top_k": int(event.data.get("k", 0))},
                client=True,
            )
            if self._content:
                span.set_attribute("gen_ai.retrieval.query.text", query)

    def _on_documents(self, event: Event) -> None:
        span = self._searches.pop((event.trajectory, str(event.data.get("query", ""))), None)
        if span is not None:
            found = [{"id": hit.get("id"), "score": hit.get("score")} for hit in event.data.get("hits", ())]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
            span.end(self._at(event.time))

    def _on_code(self, event: Event) -> None:
        data = event.data
        span = self._tool("python", event)
        self._say(span, "gen_ai.tool.call.arguments", {"source": data.get("source", "")})
        self._say(span, "gen_ai.tool.call.result", data.get("output", ""))
        if data.get("error"):
            _failed(span, "code", str(data["error"]) if self._content else "")
        span.end(self._at(event.time))

    def _on_page(self, event: Event) -> None:
        data = event.data
        span = self._tool("read_file" if data.get("path") else "read_page", event)
        self._say(span, "gen_ai.tool.call.arguments", {k: data[k] for k in ("url", "path", "part") if k in data})
        span.end(self._at(event.time))

    def _on_close(self, event: Event) -> None:
        span = self._agents.get(event.trajectory)
        if span is not None:
            _count(span, event.data.get("usage", {}))
            span.set_attribute("subquest.stop_reason", str(event.data.get("stop_reason", "")))
            span.end(self._at(event.time))

    def _on_answer(self, event: Event) -> None:
        if self._workflow is not None:
            answer = _message("assistant", str(event.data.get("answer", "")))
            self._say(self._workflow, "gen_ai.output.messages", [answer])
            self._workflow.set_attribute("subquest.forced", bool(event.data.get("forced")))

    def _on_end(self, event: Event) -> None:
        for unanswered in self._searches.values():
            unanswered.end(self._at(event.time))
        self._searches.clear()
        if self._workflow is None:
            return
        reason = str(event.data.get("stop_reason", ""))
        _count(self._workflow, event.data.get("usage", {}))
        self._workflow.set_attribute("subquest.stop_reason", reason)
        if reason in ("failed", "crashed", "cancelled"):
            _failed(self._workflow, reason)
        self._workflow.end(self._at(event.time))

    def _add_problem(self, event: Event) -> None:
        """Errors, retries and limits become events of the context's span; a failed search ends with its error."""
        data, place = event.data, event.trajectory
        where = str(data.get("where") or data.get("what") or event.kind)
        if event.kind == "error" and where == "search":
            for key in [key for key in self._searches if key[0] == place]:
                span = self._searches.pop(key)
                _failed(span, where)
                span.end(self._at(event.time))
        owner = self._agents.get(place) or self._workflow
        if owner is not None:
            message = {"message": str(data.get("message", ""))} if self._content else {}
            owner.add_event(f"subquest.{event.kind}", {"where": where, **message}, self._at(event.time))

    def _tool(self, name: str, event: Event) -> Span:
        return self._open(
            f"execute_tool {name}",
            self._last.get(event.trajectory, event.time),
            self._agents.get(event.trajectory) or self._workflow,
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function"},
        )

    def _open(
        self, name: str, at: float, parent: Span | None, attributes: dict[str, Any], *, client: bool = False
    ) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        return self._tracer.start_span(
            name,
            context=set_span_in_context(parent) if parent is not None else None,
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            attributes={**attributes, "gen_ai.conversation.id": self._identifier},
            start_time=self._at(at),
        )

    def _say(self, span: Span, name: str, value: Any) -> None:
        if self._content:
            span.set_attribute(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def _at(self, seconds: float) -> int:
        return self._began + int(seconds * 1e9)


def provider_of(model: str) -> str:
    """The provider in an engine's name: the part before the colon, if there is one."""
    return model.partition(":")[0] if ":" in model else "subquest"


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _count(span: Span, usage: Mapping[str, Any]) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", int(usage.get("prompt_tokens", 0)))
    span.set_attribute("gen_ai.usage.output_tokens", int(usage.get("completion_tokens", 0)))


def _failed(span: Span, kind: str, message: str = "") -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, message or None))
