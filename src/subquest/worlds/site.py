"""A world as a web site: linked pages, CSV tables, facts in pictures and in speech, and a search endpoint.

    /                        all articles by kind, and the tables
    /wiki/ID                 an article; names of other articles are links, an alias redirects
    /tables/NAME.csv         figures of all articles of one kind
    /media/ID.png, .wav      a sentence that is found nowhere else: its page has the picture or the sound instead
    /search?q=…&format=json  SearXNG's answer (also HTML without the format, `pageno` for more)

`Site.get` answers a path without a network; `serve` puts the site on a loopback port.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ..errors import SubquestError, UsageError
from ..record import Document, Question, Step
from ..retrieval import Index
from .entity import number
from .relations import RELATIONS
from .synthetic_media import can_draw, can_speak, draw, speak
from .world import World
from .world_folder import ArticleRow, FactsRow, StatedFact, article_row, facts_row, read_articles_with_facts

PAGE = 10
MEDIA_EVERY = 12
"""One article in so many has one of its sentences in a picture or in speech only."""
TABLES = {
    "city": ("population", "founded", "elevation"), "river": ("length",), "mountain": ("height", "first_ascent"),
    "stadium": ("capacity", "opened"), "ship": ("length", "launched"), "company": ("founded", "employees"),
}  # fmt: skip
ASKED = {
    "population": "How many inhabitants does {} have?", "founded": "In what year was {} founded?",
    "length": "How long is {}?",
    "height": "How high is {}?", "capacity": "What is the capacity of {}?", "opened": "In what year was {} opened?",
    "launched": "In what year was {} launched?", "employees": "How many employees does {} have?",
    "running_time": "What is the running time of {}?", "pages": "How many pages does {} have?",
    "published": "In what year was {} published?", "tracks": "How many tracks does {} have?",
}  # fmt: skip


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    type: str
    body: bytes
    location: str = ""


class Hidden(NamedTuple):
    """A sentence that its page has as a picture or as speech only."""

    start: int
    end: int
    relation: str
    value: int
    form: str
    """png or wav."""


@dataclass(slots=True)
class Page:
    id: str
    title: str
    kind: str
    text: str
    facts: list[StatedFact]
    hidden: Hidden | None = None

    def visible(self) -> str:
        """The text without the hidden sentence."""
        h = self.hidden
        return self.text if h is None else (self.text[: h.start] + self.text[h.end :]).strip()


@dataclass(slots=True)
class Site:
    pages: dict[str, Page]
    aliases: dict[str, str] = field(default_factory=dict)
    _index: Index | None = None
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, folder: Path) -> Site:
        """The site of a world's folder."""
        return cls.build(read_articles_with_facts(folder))

    @classmethod
    def of(cls, world: World) -> Site:
        """The site of a world in memory."""
        return cls.build((article_row(a), facts_row(a)) for a in world.articles)

    @classmethod
    def build(cls, rows: Iterable[tuple[ArticleRow, FactsRow]]) -> Site:
        pages, aliases = {}, {}
        for n, (article, facts) in enumerate(rows):
            page = Page(article.id, article.title, facts.kind, article.text, facts.facts)
            if n % MEDIA_EVERY == 0:
                page.hidden = _hideable(page, "png" if n % (2 * MEDIA_EVERY) else "wav")
            pages[page.id] = page
            aliases.update(dict.fromkeys((*facts.aliases, page.title), page.id))
        return cls(pages, aliases)

    def get(self, target: str, base: str = "") -> Answer:
        """The response to a GET request for this path and query; `base` goes before the paths of search results."""
        try:
            parts = urlsplit(target)
        except ValueError:
            return Answer(400, "text/plain; charset=utf-8", b"malformed address")
        path, query = unquote(parts.path), {k: v[0] for k, v in parse_qs(parts.query).items()}
        if path == "/":
            return _page("Contents", self._contents())
        if path == "/search":
            return self._search(query, base)
        folder, _, name = path.lstrip("/").partition("/")
        if folder == "wiki":
            if name in self.pages:
                return _page(self.pages[name].title, self._article(self.pages[name]))
            if name.replace("_", " ") in self.aliases:
                return Answer(301, "text/plain", b"", f"/wiki/{self.aliases[name.replace('_', ' ')]}")
        if folder == "tables" and name.removesuffix(".csv") in TABLES:
            return Answer(200, "text/csv; charset=utf-8", self._table(name.removesuffix(".csv")))
        if folder == "media":
            page = self.pages.get(name.rpartition(".")[0])
            if page is not None and page.hidden is not None and name.endswith(page.hidden.form):
                sentence = page.text[page.hidden.start : page.hidden.end]
                if page.hidden.form == "png":
                    return Answer(200, "image/png", draw(sentence))
                return Answer(200, "audio/wav", speak(sentence))
        return Answer(404, "text/plain; charset=utf-8", b"not found")

    def paths(self) -> Iterator[str]:
        """Every path that `get` answers, except searches."""
        yield "/"
        for kind in TABLES:
            yield f"/tables/{kind}.csv"
        for page in self.pages.values():
            yield f"/wiki/{page.id}"
            if page.hidden is not None:
                yield f"/media/{page.id}.{page.hidden.form}"

    def write(self, folder: Path) -> int:
        """Writes every path as a file (pages as ID.html); returns how many."""
        count = 0
        for path in self.paths():
            name = "index.html" if path == "/" else path[1:] + (".html" if path.startswith("/wiki/") else "")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.get(path).body)
            count += 1
        return count

    def media_questions(self) -> list[Question]:
        """Questions whose answer is found only in a picture or in speech."""
        out = []
        for page in self.pages.values():
            h = page.hidden
            if h is None:
                continue
            text = ASKED[h.relation].format(page.title)
            plain = str(h.value) if RELATIONS[h.relation].value == "year" else number(h.value)
            step = Step(text, plain, page.title)
            out.append(
                Question(
                    f"media-{page.id}", text, tuple(dict.fromkeys((plain, str(h.value)))), "world-site", hops=1,
                    type="picture" if h.form == "png" else "speech", supporting_titles=(page.title,),
                    supporting_ids=(page.id,), decomposition=(step,), files=(f"/media/{page.id}.{h.form}",),
                )
            )  # fmt: skip
        return out

    def _contents(self) -> str:
        by_kind: dict[str, list[Page]] = {}
        for page in self.pages.values():
            by_kind.setdefault(page.kind, []).append(page)
        out = [
            "<h1>Contents</h1><form action='/search'><input name='q'><button>Search</button></form><h2>Tables</h2><ul>"
        ]
        out += [f"<li><a href='/tables/{kind}.csv' download>{kind}.csv</a></li>" for kind in TABLES]
        out.append("</ul>")
        for kind, pages in sorted(by_kind.items()):
            links = "".join(f"<li>{_link(p.id, p.title)}</li>" for p in sorted(pages, key=lambda p: p.title))
            out.append(f"<h2>{kind}</h2><ul>{links}</ul>")
        return "\n".join(out)

    def _article(self, page: Page) -> str:
        marks: dict[int, tuple[int, str]] = {}
        for subject, _, value, start, end in page.facts:
            other = str(value) if str(value) in self.pages and value != page.id else subject
            if other in self.pages and other != page.id and self.pages[other].title.startswith(page.text[start:end]):
                marks[start] = (end, other)
        out, at, h = [], 0, page.hidden
        for start, (end, other) in sorted(marks.items()):
            if start < at or (h is not None and start < h.end and end > h.start):
                continue
            out.append(self._plain(page, at, start))
            out.append(_link(other, page.text[start:end]))
            at = end
        out.append(self._plain(page, at, len(page.text)))
        body = "".join(out).replace("\n", "<br>\n")
        table = (
            f"<p>Figures: <a href='/tables/{page.kind}.csv' download>{page.kind}.csv</a></p>"
            if page.kind in TABLES
            else ""
        )
        return f"<h1>{html.escape(page.title)}</h1>\n<p>{body}</p>\n{table}"

    def _plain(self, page: Page, start: int, end: int) -> str:
        """A stretch of text as HTML, the hidden sentence as its picture or sound."""
        h = page.hidden
        if h is None or not (start <= h.start < end):
            return html.escape(page.text[start:end])
        media = f"/media/{page.id}.{h.form}"
        show = (
            f"<img src='{media}' alt='inscription'>" if h.form == "png" else f"<audio controls src='{media}'></audio>"
        )
        return html.escape(page.text[start : h.start]) + show + html.escape(page.text[h.end : end])

    def _table(self, kind: str) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["title", *TABLES[kind]])
        for page in self.pages.values():
            if page.kind == kind:
                hidden = page.hidden.relation if page.hidden is not None else ""
                own = {r: o for s, r, o, _, _ in page.facts if s == page.id and r != hidden}
                writer.writerow([page.title, *(own.get(r, "") for r in TABLES[kind])])
        return out.getvalue().encode()

    def _searchable(self) -> Index:
        """The index of the pages, built in a temporary folder on the first search."""
        with self._lock:
            if self._index is None:
                self._folder = tempfile.TemporaryDirectory(prefix="subquest-site-")
                documents = (Document(p.id, p.title, p.visible()) for p in self.pages.values())
                self._index = Index.build(Path(self._folder.name) / "site.sq", documents)
            return self._index

    def _search(self, query: dict[str, str], base: str) -> Answer:
        q = query.get("q", "")
        if not q.strip():
            return Answer(400, "text/plain; charset=utf-8", b"the query q is empty")
        first = (max(1, int(query["pageno"])) - 1) * PAGE if query.get("pageno", "").isdecimal() else 0
        hits = self._searchable().search(q, first + PAGE)[first:]
        found = [(hit.document.id, hit.score) for hit in hits]
        if query.get("format") != "json":
            items = "".join(
                f"<li>{_link(i, self.pages[i].title)}<br>{html.escape(_snippet(self.pages[i], q))}</li>"
                for i, _ in found
            )
            return _page(q, f"<h1>{html.escape(q)}</h1><ol>{items}</ol>")
        results = [
            {
                "url": f"{base}/wiki/{quote(i)}", "title": self.pages[i].title, "content": _snippet(self.pages[i], q),
                "engine": "world",
                "engines": ["world"], "category": "general", "score": round(score, 4), "positions": [first + n],
            }
            for n, (i, score) in enumerate(found, 1)
        ]  # fmt: skip
        answer = {
            "query": q, "number_of_results": len(self.pages), "results": results, "answers": [], "corrections": [],
            "infoboxes": [], "suggestions": [], "unresponsive_engines": [],
        }  # fmt: skip
        return Answer(200, "application/json", json.dumps(answer, ensure_ascii=False).encode())


def _hideable(page: Page, form: str) -> Hidden | None:
    """A sentence with one figure of the page and nothing else that questions use, if it can be drawn or spoken."""
    if not (can_draw() if form == "png" else can_speak()):
        return None
    for match in re.finditer(r"(?<=[.!?] )[A-Z][^.!?\n]*[.!?]", page.text):
        inside = [f for f in page.facts if f[3] < match.end() and f[4] > match.start()]
        if len(inside) == 1 and inside[0][0] == page.id and inside[0][1] in ASKED and isinstance(inside[0][2], int):
            stated = [f for f in page.facts if f[:2] == inside[0][:2]]
            if len(stated) == 1:
                return Hidden(match.start(), match.end(), inside[0][1], inside[0][2], form)
    return None


def _link(id_: str, text: str) -> str:
    return f"<a href='/wiki/{quote(id_)}'>{html.escape(text)}</a>"


def _page(title: str, body: str) -> Answer:
    head = f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title></head>"
    return Answer(200, "text/html; charset=utf-8", f"{head}\n<body>\n{body}\n</body></html>\n".encode())


def _snippet(page: Page, query: str, length: int = 220) -> str:
    """The part of the text around the first word of the query that occurs in it."""
    text = page.visible()
    wanted = {w for w in re.findall(r"\w+", query.lower()) if len(w) > 3}
    hits = [m.start() for m in re.finditer(r"\w+", text) if m.group().lower() in wanted]
    start = max(0, min(hits) - 60) if hits else 0
    return text[start : start + length].strip()


@contextmanager
def serve(site: Site, port: int = 0) -> Iterator[str]:
    """Serves the site on 127.0.0.1 while the context lasts and gives its URL; port 0 takes any free one."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(site))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                host = self.headers.get("Host") or f"127.0.0.1:{self.connection.getsockname()[1]}"
                answer = site.get(self.path, f"http://{host}")
            except SubquestError as error:
                answer = Answer(503, "text/plain; charset=utf-8", str(error).encode())
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.type)
            self.send_header("Content-Length", str(len(answer.body)))
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged: a site serves tests and demos."""

    return Handler
