"""A web of linked pages with a search endpoint, and one oracle that answers questions about it in any seat.

The oracle is a single function of the visible context: it reads from the instructions which calls it can make, from the
text which facts are known and which pages have been seen, and takes the next step. Every system is driven by it, so
that they differ by what they show their roles and by nothing else. Half of the relations stand in the search results,
the other half only on the pages: whoever picks an expert knows which, as a coordinator that judges complexity would.
"""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from _chain_oracle import RELATIONS

from subquest.engine.scripted import Context
from subquest.record import Document

DEEP = frozenset(RELATIONS[1::2])
"""Relations that no search result shows."""
_FACT = re.compile(r"\b[Tt]he (\w+) of (\w+) is (\w+)")
_QUESTION = re.compile(r"What is (the (?:\w+ of the )*\w+) of (\w+)\?")
_RESULT = re.compile(r"\[(\d+)\] (\w+) \((http://\S+/wiki/(\w+))\)")


@contextmanager
def serve(documents: list[Document]) -> Iterator[str]:
    """The pages on loopback, with SearXNG's JSON search."""
    pages = {d.id: d for d in documents}

    def respond(path: str) -> tuple[str, bytes]:
        parts = urlsplit(path)
        if parts.path == "/search":
            words = set(parse_qs(parts.query)["q"][0].split())
            ranked = sorted(pages.values(), key=lambda d: (d.id not in words, -len(words & set(d.text.split())), d.id))
            found = [{"url": f"/wiki/{d.id}", "title": d.id, "content": _snippet(d)} for d in ranked[:10]]
            return "application/json", json.dumps({"results": found}).encode()
        page = pages.get(parts.path.rpartition("/")[2])
        if page is None:
            return "text/plain", b""
        text = html.escape(page.text)
        text = text.replace(page.meta["next"], f"<a href='/wiki/{page.meta['next']}'>{page.meta['next']}</a>")
        return "text/html", f"<title>{page.id}</title><main><p>{text}</p></main>".encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = respond(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=lambda: server.serve_forever(0.05), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _snippet(page: Document) -> str:
    match = _FACT.search(page.text)
    words = page.text.split()
    return match[0] if match and match[1] not in DEEP else " ".join(words[:20])


def oracle(context: Context) -> str:
    """The next step of whoever sees this context."""
    rules, asked = context.messages[0].content, context.messages[1].content
    if context.role == "intent":
        return f"The search is to find the {asked.partition('Query: ')[2]}."
    if context.role == "reader":
        return " ".join(f"{m[0]}." for m in _FACT.finditer(asked.partition("Page:")[2])) or "It says nothing about it."
    found = list(_QUESTION.finditer(asked.partition("Expert's reasoning:")[0])) or list(_QUESTION.finditer(asked))
    text = context.text
    facts = {(m[1], m[2]): m[3] for m in _FACT.finditer(text.replace(" [1]", ""))}
    if "search_query" in rules and "Final Information" in rules:
        return _explore(text, asked, facts)
    if not found:
        return "\\boxed{unknown}"
    relations = [r for r in found[-1][1].split() if r not in ("the", "of")][::-1]
    entity, missing = found[-1][2], ""
    for relation in relations:
        if (relation, entity) not in facts:
            missing = relation
            break
        entity = facts[relation, entity]
    known = " ".join(f"The {r} of {e} is {v}." for (r, e), v in facts.items() if e in asked or v == entity)
    task = f"What is the {missing} of {entity}?"
    if "selected_agent_name" in rules:
        name = "deep" if relations[0] in DEEP else "search"
        return json.dumps({"reason": "the cheapest that can reach it", "selected_agent_name": name})
    if "choose from a memory" in rules:
        lines = [line for line in asked.splitlines() if line.startswith("Memory Fact") and found[-1][2] in line]
        return "\n".join(lines[:5]) or "none"
    if "final_conclusion" in rules:
        conclusion = f"The {relations[0]} of {found[-1][2]} is {entity}." if not missing else "It was not found."
        page = re.search(rf"http://\S+/wiki/{found[-1][2]}\b", text)
        memory = [f"{conclusion} [Source: {page[0]}]"] if page and not missing else []
        summary = {"reasoning_process": "Searched and read.", "final_conclusion": conclusion}
        return json.dumps({"conclusion": summary, "memory": {"fact_memory": memory, "resource_memory": {}}})
    if "query_plan" in rules:
        if context.turn == 0:
            return json.dumps({"query_plan": [f"{missing} of {entity}"] if missing else []})
        return f"{known} \\boxed{{{entity if not missing else 'unknown'}}}"
    if not missing:
        return f"{known} So the answer is \\boxed{{{entity}}}"
    if "call_subtask" in rules:
        return f"{known} Next: <|begin_call_subtask|>{task}<|end_call_subtask|>"
    if "click_link" in rules and (link := _unread(text, entity)):
        return f"{known} I open it. <|begin_click_link|>{link}<|end_click_link|>"
    return f"{known} Next: <|begin_search_query|>{missing} of {entity}<|end_search_query|>"


def _explore(text: str, asked: str, facts: dict[tuple[str, str], str]) -> str:
    relation, _, entity = asked.split("Query: ")[1].split("\n")[0].partition(" of ")
    if (relation, entity) in facts:
        return f"Final Information: The {relation} of {entity} is {facts[relation, entity]}."
    link = _unread(text, entity)
    return f"<|begin_click_link|>{link}<|end_click_link|>" if link else "Final Information: it was not found."


def _unread(text: str, entity: str) -> str:
    """The address of an entity's page that is among the results and has not been opened."""
    urls = [m[3] for m in _RESULT.finditer(text) if m[4] == entity]
    return urls[0] if urls and f"<|begin_click_link|>{urls[0]}" not in text else ""
