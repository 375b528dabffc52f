"""Web search backends against a loopback server that speaks their protocols."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from subquest.errors import DataError, SearchError, UsageError
from subquest.tools.tool_options import ToolOptions
from subquest.tools.websearch import Brave, Recorded, SearchRefused, SearXNG, Serper, Tavily, from_environment


class Server:
    """Answers as the four services do, and remembers how it was asked."""

    def __init__(self):
        self.asked, self.failures = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                query = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
                self.reply(urlsplit(self.path).path, query)

            def do_POST(self):
                self.reply(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def reply(self, path, query):
                outer.asked.append((path, query, {k.lower(): v for k, v in self.headers.items()}))
                status, body = outer.failures.pop(0) if outer.failures else (200, outer.answer(path, query))
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, query):
        if path == "/res/v1/web/search":
            return {"web": {"results": [{"url": "http://b.example/", "title": "B", "description": "brave"}]}}
        if "num" in query:
            return {"organic": [{"link": "http://s.example/", "title": "S", "snippet": "serper"}]}
        if "max_results" in query:
            return {"results": [{"url": "http://t.example/", "title": "T", "content": "tavily"}]}
        page = int(query.get("pageno", 1))
        rows = [{"url": f"/wiki/{page}-{n}", "title": f"{page}-{n}", "content": query["q"]} for n in range(10)]
        return {"results": rows if page < 3 else []}


@pytest.fixture
def server():
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


async def test_searxng_pages_until_k_and_makes_urls_absolute(server):
    (hits,) = await SearXNG(server.url, per_second=1000).retrieve(["ostel"], 15)
    assert len(hits) == 15
    assert hits[0].document.id == f"{server.url}/wiki/1-0"
    assert hits[14].document.title == "2-4"
    assert [q["pageno"] for _, q, _ in server.asked] == ["1", "2"]
    assert hits[0].score > hits[1].score


@pytest.mark.parametrize(
    ("kind", "title", "header", "value"),
    [
        (Serper, "S", "x-api-key", "secret"),
        (Tavily, "T", "authorization", "Bearer secret"),
        (Brave, "B", "x-subscription-token", "secret"),
    ],
)
async def test_the_services_are_asked_in_their_way(server, kind, title, header, value):
    (hits,) = await kind(server.url, "secret", per_second=1000).retrieve(["q"], 5)
    assert [(h.document.title, h.document.text) for h in hits] == [(title, kind.name)]
    assert server.asked[0][2][header] == value


async def test_busy_is_asked_again_and_then_an_error_never_an_empty_page(server):
    search = SearXNG(server.url, per_second=1000)
    server.failures = [(429, b""), (429, b"")]
    assert len((await search.retrieve(["q"], 3))[0]) == 3
    server.failures = [(429, b"")] * 4
    with pytest.raises(SearchError, match="429"):
        await search.retrieve(["q"], 3)


async def test_refusals_are_not_retried(server):
    server.failures = [(403, b"bad key")]
    with pytest.raises(SearchRefused, match="bad key"):
        await SearXNG(server.url).retrieve(["q"], 3)
    assert len(server.asked) == 1
    server.failures = [(200, b"<html>")]
    with pytest.raises(SearchRefused, match="json format"):
        await SearXNG(server.url).retrieve(["q"], 3)
    server.failures = [(200, b"[" * 200_000)]
    with pytest.raises(SearchRefused, match="json format"):
        await SearXNG(server.url).retrieve(["q"], 3)
    server.failures = [(200, {"results": [{"title": "no url"}]})]
    with pytest.raises(SearchError, match="not answer with a list of results"):
        await SearXNG(server.url).retrieve(["q"], 3)


async def test_snippets_that_were_cut_in_the_midst_of_a_sign_are_text(server):
    """Half of an emoji is valid JSON, and no text that anything else can hold."""
    rows = [{"url": "/\ud83c", "title": "A bridge \ud83c", "content": "Built in 1931 \ud83c"}]
    server.failures = [(200, {"results": rows})]
    ((hit,),) = await SearXNG(server.url).retrieve(["q"], 1)
    for text in (hit.document.id, hit.document.title, hit.document.text):
        text.encode()
    assert hit.document.text == "Built in 1931 ?"


async def test_a_recorded_search_repeats_offline_and_keeps_no_failure(server, tmp_path):
    path = tmp_path / "searches.jsonl"
    first = Recorded(path, SearXNG(server.url, per_second=1000))
    server.failures = [(403, b"")]
    with pytest.raises(SearchError):
        await first.retrieve(["ostel"], 3)
    assert path.read_bytes() == b""
    hits = await first.retrieve(["ostel", "kelm"], 3)
    server.server.shutdown()
    offline = Recorded(path)
    assert await offline.retrieve(["kelm", "ostel"], 3) == hits[::-1]
    with pytest.raises(SearchRefused, match="holds no answer"):
        await offline.retrieve(["other"], 3)
    path.write_text("{}\n")
    with pytest.raises(DataError, match="jsonl:1"):
        Recorded(path)


async def test_a_recording_that_a_kill_has_cut_off_goes_on(server, tmp_path):
    path = tmp_path / "searches.jsonl"
    first = Recorded(path, SearXNG(server.url, per_second=1000))
    hits = await first.retrieve(["ostel", "kelm"], 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert await Recorded(path).retrieve(["ostel"], 3) == hits[:1]
    with pytest.raises(SearchRefused, match="holds no answer to 'kelm'"):
        await Recorded(path).retrieve(["kelm"], 3)
    await Recorded(path, SearXNG(server.url, per_second=1000)).retrieve(["kelm"], 3)
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-1])  # as editors leave it
    assert await Recorded(path).retrieve(["kelm"], 3) == hits[1:]
    await Recorded(path, SearXNG(server.url, per_second=1000)).retrieve(["other"], 3)
    assert path.read_bytes().startswith(whole)


def test_a_recording_that_cannot_be_made_is_told_at_once(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        Recorded(tmp_path / "nowhere" / "x.jsonl", SearXNG("http://s"))
    with pytest.raises(UsageError, match="cannot be used: Is a directory"):
        Recorded(tmp_path, SearXNG("http://s"))


def test_the_environment_chooses(tmp_path):
    assert from_environment({}) is None
    assert isinstance(from_environment({"SEARXNG_URL": "http://s", "BRAVE_API_KEY": "k"}), SearXNG)
    assert isinstance(from_environment({"BRAVE_API_KEY": "k"}), Brave)
    with pytest.raises(UsageError, match="no recording"):
        from_environment({"SUBQUEST_RECORD_SEARCH": str(tmp_path / "none.jsonl")})


async def test_the_variable_of_a_recording_counts_beside_a_search_of_the_settings(server, tmp_path):
    path = tmp_path / "searches.jsonl"
    env = {"SUBQUEST_RECORD_SEARCH": str(path)}
    asked = ToolOptions(web=f"searxng:{server.url}").search(env)
    assert asked is not None
    hits = await asked.retrieve(["ostel"], 3)
    server.server.shutdown()
    offline = ToolOptions(web="none").search(env)
    assert offline is not None
    assert await offline.retrieve(["ostel"], 3) == hits


@pytest.mark.parametrize("bad", [{"url": "http://[broken"}, {"title": "no address"}, None, 7, {"url": 7}])
async def test_one_result_that_is_none_does_not_cost_the_others(server, bad):
    server.failures = [(200, {"results": [bad, {"url": "http://t.example/", "title": "T", "content": "good"}]})]
    (hits,) = await SearXNG(server.url).retrieve(["ostel"], 5)
    assert [hit.document.id for hit in hits] == ["http://t.example/"]
    server.failures = [(200, {"results": [bad]})]
    with pytest.raises(SearchError, match="not answer with a list of results"):
        await SearXNG(server.url).retrieve(["ostel"], 5)


def test_a_web_search_serves_several_event_loops_one_after_the_other(server):
    search = SearXNG(server.url, per_second=1000)
    for _ in range(2):
        found = asyncio.run(search.retrieve(["a", "b", "c"], 3))
        assert [len(hits) for hits in found] == [3, 3, 3]
