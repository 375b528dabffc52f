"""Keys planted in every place that a user can write them, sent to a server that repeats them in every place it can.

Afterwards, whatever was printed, stored, cached, logged and exported is searched for them. The server says a word of
its own beside each key, and that word must be found: otherwise the search would have looked in the wrong place.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.encoder import EncoderSpec
from subquest.retrieval.settings import Settings
from subquest.tools.sandbox.remote import RemoteSandbox
from subquest.tools.websearch import Brave, Serper, Tavily

from ..echo import BASIC, INFO, KEY, PARAMETER, QUERY, SEEN, Echo, echoing, leaks, stored
from ..retrieval.embeddings import embeddings_server


@pytest.fixture
def echo() -> Iterator[Echo]:
    with echoing() as server:
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SUBQUEST_ENGINE_RETRIES", "0")
    caplog.set_level(logging.DEBUG, "httpx2")
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "Where?", "answers": ["Kestel"]}\n')
    return tmp_path


WRITTEN = {
    "environment": lambda echo: echo.url("/v1") + "#m",
    "user info": lambda echo: echo.url("/v1", INFO) + "#m",
    "query": lambda echo: f"openai:m@{echo.url('/v1', query=QUERY)}",
    "both": lambda echo: f"openai:m@{echo.url('/v1/', INFO, QUERY)}",
}


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        *((way, "completion") for way in WRITTEN),
        *(("query", m) for m in ("error", "busy", "page", "broken", "escaped")),
    ],
)
def test_a_models_keys_are_in_nothing_that_is_kept_or_shown(
    here: Path, echo: Echo, way: str, mode: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    echo.mode = mode
    (here / "subquest.toml").write_text(
        f'model = "{WRITTEN[way](echo)}"\nsystem = "direct"\n[cache]\nenabled = true\npath = "calls.sqlite"\n'
    )
    shown = []
    for command in (
        ["ask", "Where?", "--json"],
        ["ask", "Where?", "--events", "--no-cache"],
        ["eval", "q.jsonl", "--out", "run", "--judge", WRITTEN[way](echo)],
        ["runs", "export", "run", "--out", "exported.jsonl"],
        ["report", "run", "--out", "report.html"],
        ["doctor", "--model", WRITTEN[way](echo), "--json"],
    ):
        main(command)
        shown += capsys.readouterr()
    kept = stored(here)
    if mode in ("completion", "escaped"):
        assert SEEN in kept
    if mode != "page":
        assert SEEN in "".join(shown)
    for text in (*shown, kept, caplog.text):
        assert leaks(text) == [], text[:2000]
    sent = " ".join(echo.received)
    assert (KEY in sent) == (way in ("environment", "query"))
    assert (BASIC in sent) == (way in ("user info", "both"))
    assert (PARAMETER in sent and "version=7" in sent) == (way in ("query", "both"))


def test_a_search_servers_keys(here: Path, echo: Echo, capsys: pytest.CaptureFixture[str]) -> None:
    place = echo.url("/", INFO, QUERY)
    (here / "s.jsonl").write_text(json.dumps({"reply": "<answer>Kestel</answer>"}))
    (here / "subquest.toml").write_text(f'index = "{place}"\nmodel = "scripted:s.jsonl"\n[cache]\nenabled = true\n')
    shown = []
    for command in (
        ["search", "Orvane", "--json"],
        ["eval", "q.jsonl", "--system", "rag", "--out", "run"],
        ["runs", "export", "run", "--out", "exported.jsonl"],
        ["doctor", "--json"],
        ["index", "info", place],
    ):
        main(command)
        shown += capsys.readouterr()
    assert SEEN in shown[0]
    assert SEEN in (here / "exported.jsonl").read_text()
    for text in (*shown, stored(here)):
        assert leaks(text) == [], text[:2000]
    assert BASIC in echo.received[0]
    assert PARAMETER in echo.received[0]


def test_an_encoders_keys(
    here: Path, echo: Echo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUBQUEST_EMBEDDINGS_KEY", KEY)
    (here / "d.jsonl").write_text('{"id": "1", "text": "The Orvane bridge."}\n')
    for number, address in enumerate((echo.url("/v1"), echo.url("/v1", query=QUERY), echo.url("/v1", INFO))):
        assert main(["index", "build", "d.jsonl", "--out", f"{number}.sq", "--encoder", f"m@{address}"]) == 1
        out, err = capsys.readouterr()
        assert SEEN in err
        assert leaks(out + err) == []
    assert leaks(stored(here)) == []
    assert KEY in echo.received[0]
    assert KEY in echo.received[1]
    assert PARAMETER in echo.received[1]
    assert BASIC in echo.received[-1]


async def test_the_keys_of_web_searches_and_of_a_sandbox(echo: Echo) -> None:
    for kind in (Serper, Tavily, Brave):
        search = kind(echo.url("", query=QUERY), KEY)
        (hits,) = await search.retrieve(["Orvane"], 1) if kind is Tavily else [[]]
        if kind is Tavily:
            assert SEEN in hits[0].document.text
        assert leaks(str(hits) + str(search.identity) + search.url) == []
    result = await RemoteSandbox(echo.url("/execute", INFO, QUERY)).run("1")
    assert SEEN in result.output
    assert leaks(result.output) == []
    assert BASIC in echo.received[-1]
    assert PARAMETER in echo.received[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "Where?", "--model", f"htp://{INFO}@host/v1#m"],
        ["ask", "Where?", "--model", f"openai:m@host:1/v1?{QUERY}&x=://"],
        ["ask", "Where?", "--index", f"ftp://{INFO}@host/x"],
        ["ask", "Where?", "--index", f"postgres://{INFO}@127.0.0.1:1/db?{QUERY}"],
        ["ask", "Where?", "--index", f"qdrant+http://{INFO}@127.0.0.1:1/a b?{QUERY}"],
        ["ask", "Where?", f"http://{INFO}@host/v1"],
        ["index", "build", "nothing", "--out", f"opensearch+http://{INFO}@127.0.0.1:1/X?{QUERY}"],
        ["doctor", "--json", f"--moddel=http://{INFO}@host/v1"],
    ],
)
def test_mistakes_are_reported_without_the_keys_in_them(
    here: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) != 0
    out, err = capsys.readouterr()
    assert err
    assert leaks(out + err) == []


def test_a_settings_file_with_keys_is_shown_without_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://{INFO}@127.0.0.1:1/v1")
    (here / "subquest.toml").write_text(
        f'index = "postgres://{INFO}@127.0.0.1:1/db"\n[tools]\nweb = "searxng:http://{INFO}@127.0.0.1:1?{QUERY}"\n'
    )
    for text in ("", f'model = "http://{INFO}@127.0.0.1:1/v1?{QUERY}#m"\n'):
        toml = here / "subquest.toml"
        toml.write_text(text + toml.read_text())
        main(["doctor"])
        out, err = capsys.readouterr()
        assert "http://127.0.0.1:1/v1" in out
        assert leaks(out + err) == []


def test_an_index_may_not_say_where_the_embeddings_key_is_sent(
    here: Path, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setenv("SUBQUEST_EMBEDDINGS_KEY", KEY)
    with embeddings_server(keys=keys) as (url, _):
        Index.build(here / "docs.sq", [Document("a", "", "fine")], encoder=f"m@{url}").close()
        assert keys == [f"Bearer {KEY}"]  # the user has named this address
        for named, sent in (("", ""), ("http://127.0.0.1:1/v1", ""), (f"{url}/more", ""), (f"{url}/", f"Bearer {KEY}")):
            monkeypatch.setenv("SUBQUEST_EMBEDDINGS_URL", named)
            with Index.open(here / "docs.sq") as index:
                index.search("fine", mode="dense")
            assert keys[-1] == sent, named


def test_private_egress_keeps_queries_from_a_remote_encoder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Index.create(here / "docs.sq", Settings(encoder=EncoderSpec("endpoint", "m", url="http://10.0.0.9/v1"))).close()
    (here / "s.jsonl").write_text(json.dumps({"reply": "<answer>Kestel</answer>"}))
    ask = ["ask", "Where?", "--model", "scripted:s.jsonl", "--index", "docs.sq", "--egress", "private"]
    assert main([*ask, "--system", "rag"]) == 2
    assert "egress is private" in capsys.readouterr().err
    assert main([*ask, "--system", "rag", "--mode", "bm25"]) == 0
