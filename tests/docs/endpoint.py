"""A chat endpoint on loopback that stands for the model of whoever reads the documentation.

It takes the questions it knows apart by plan, and answers any other question at once, in the form its prompt asks for.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "32 pounds"
_MEALS = "How much does the trust pay for meals per day?"
_LEADER = "Who leads the towpath repair?"
_OFFICE = "In which office does Ruth Abernathy work?"
PLANS = {
    _MEALS: {_MEALS: ANSWER},
    _LEADER: {_LEADER: "Ruth Abernathy"},
    _OFFICE: {_OFFICE: "Fenwick Top"},
    "In which office does the person who leads the towpath repair work?": {
        _LEADER: "Ruth Abernathy",
        _OFFICE: "Fenwick Top",
    },
}
"""Questions, and the sub-questions with their answers that lead to the answer of each."""
SECTIONS = {"Leader": _LEADER, "Office": _OFFICE}


class Reader:
    """A model that follows its prompts and knows how `plans` take questions apart."""

    def __init__(self, plans: Mapping[str, Mapping[str, str]] = PLANS) -> None:
        self._plans = plans
        self._facts = {task: answer for plan in plans.values() for task, answer in plan.items()}

    def reply(self, messages: list[dict[str, Any]]) -> str:
        """What it writes next."""
        texts = [str(message["content"]) for message in messages]
        first, last = texts[0], texts[-1]
        if first.startswith("You are the planner. "):
            return self._plan(*_since(messages, "Question: "))
        if first.startswith("You are a helper. "):
            return self._execute(*_since(messages, "Task: "))
        if any("one word: yes or no" in text for text in texts):  # a judge
            return "yes"
        if any("boxed" in text for text in texts):
            return rf"\boxed{{{ANSWER}}}"
        if first.startswith("You are the planner of a team"):  # DECOR
            query = "None" if "Past queries: None" not in last else ANSWER
            return f"<think>What is missing?</think><search>{query}</search>"
        if "plan tag" in first:
            return f"<plan>\n1. {_MEALS}\n</plan>"
        if "<filter> block" in first:
            return f"<filter>Meals are paid up to {ANSWER} per day.</filter>"
        if "reply: retrieve" in last:
            return "answer"
        if first.startswith("You plan a short report."):
            return "\n".join(f"{section}: {question}" for section, question in SECTIONS.items())
        if "numbered quotes" in first:
            quotes = re.findall(r"^(\[\d+\]) [^:]*: (.*?)\.?$", last, re.MULTILINE)
            return " ".join(f"{quote} {number}." for number, quote in quotes)
        return f"<answer>{self._read(last)}</answer>"

    def _plan(self, question: str, written: list[str]) -> str:
        plan = self._plans.get(question, {})
        if len(written) < len(plan):
            return f"<task>{list(plan)[len(written)]}</task>"
        return f"<answer>{[ANSWER, *plan.values()][-1]}</answer>"

    def _execute(self, task: str, written: list[str]) -> str:
        if not written:
            return f"<search>{task}</search>"
        fact = self._facts.get(task, ANSWER)
        return f"<refine>The documents say {fact}.</refine><result>{fact}</result>"

    def _read(self, text: str) -> str:
        """The answer of a question in the text, if the text says it too."""
        for question, plan in self._plans.items():
            if question in text and (answer := [*plan.values()][-1]) in text.replace(question, ""):
                return answer
        return ANSWER


def _since(messages: list[dict[str, Any]], opening: str) -> tuple[str, list[str]]:
    """The question that the context is about, behind the examples, and what has been written for it so far."""
    start = max(n for n, message in enumerate(messages) if str(message["content"]).startswith(opening))
    asked = str(messages[start]["content"]).removeprefix(opening).splitlines()[0]
    return asked, [str(m["content"]) for m in messages[start + 1 :] if m["role"] == "assistant"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    reader: Reader

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "my-model", "object": "model", "max_model_len": 16_384}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = self.reader.reply(body["messages"]) if "messages" in body else ANSWER
        stops = [text.index(stop) for stop in body.get("stop") or [] if stop in text]
        message = {"role": "assistant", "content": text[: min(stops)] if stops else text}
        usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": len(text) // 4}
        choice = {"index": 0, "message": message, "text": message["content"], "finish_reason": "stop"}
        self._send({"choices": [choice], "usage": usage | {"total_tokens": sum(usage.values())}})

    def _send(self, data: dict[str, Any]) -> None:
        payload = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def endpoint(plans: Mapping[str, Mapping[str, str]] = PLANS) -> Iterator[str]:
    """The address of a running endpoint, up to `/v1`."""
    handler = type("Handler", (_Handler,), {"reader": Reader(plans)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
