"""Clients search a large index while another one asks an agent that runs code: the server goes on and on.

In this shape a fork of the server's threads would close SQLite's connections in the child and wait there forever.
"""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from subquest import Index
from subquest.record import Document
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap

from .test_serve_command import process

DOCUMENTS = 10_000
ASKS = 12
CLIENTS = 3


@pytest.mark.slow
def test_code_runs_while_clients_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvloop")
    try:
        bubblewrap.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    texts = (f"word{n} word{n % 97} shared text of a passage" for n in range(DOCUMENTS))
    Index.build("docs.sq", [Document(f"d{n}", f"Title {n}", text) for n, text in enumerate(texts)]).close()
    replies = ["<|begin_code_call|>print(6 * 7)<|end_code_call|>", "It is \\boxed{42}"] * ASKS
    Path("code.jsonl").write_text("\n".join(json.dumps({"role": "agent", "reply": reply}) for reply in replies))
    stopping = False

    def search(url: str) -> int:
        done = 0
        with httpx2.Client(base_url=url, timeout=120) as client:
            while not stopping:
                queries = [f"word{done} shared", f"word{done % 97} passage"]
                client.post("/retrieve", json={"queries": queries, "topk": 10}).raise_for_status()
                done += 1
        return done

    serve = ["serve", "--port", "0", "--model", "scripted:code.jsonl", "--index", "docs.sq", "--system", "react-tools"]
    with process(*serve) as (server, url), ThreadPoolExecutor(CLIENTS) as pool:
        searches = [pool.submit(search, url) for _ in range(CLIENTS)]
        try:
            message = {"model": "subquest-react-tools", "messages": [{"role": "user", "content": "What is 6 * 7?"}]}
            for _ in range(ASKS):
                reply = httpx2.post(f"{url}/v1/chat/completions", json=message, timeout=120)
                assert reply.status_code == 200, reply.text
                assert reply.json()["choices"][0]["message"]["content"] == "42"
            episode = httpx2.get(f"{url}/api/episodes/{reply.json()['subquest']['episode']}", timeout=120).json()
            assert any(event["kind"] == "code" for event in episode["events"]), [e["kind"] for e in episode["events"]]
        finally:
            stopping = True
        assert all(search.result() > 0 for search in searches)
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
