"""Who may come in: addresses, names, origins, tokens, sizes, paths."""

import json
from pathlib import Path

import pytest

from subquest.errors import UsageError
from subquest.serve.access import Rate
from subquest.serve.settings import Settings

from .conftest import Running, Start

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(UsageError, match="give a token"):
        Settings(runs=Path("r"), indexes=Path("i"), host=host)
    assert Settings(runs=Path("r"), indexes=Path("i"), host=host, token=TOKEN).hosts == frozenset()
    with pytest.raises(UsageError, match="too short"):
        Settings(runs=Path("r"), indexes=Path("i"), host=host, token="abc")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_addresses_need_none(host: str) -> None:
    assert host in Settings(runs=Path("r"), indexes=Path("i"), host=host).hosts


def test_the_address_served_on_is_a_name_of_the_server() -> None:
    def hosts(host: str) -> frozenset[str]:
        return Settings(Path("r"), Path("i"), host=host, token=TOKEN, allowed_hosts=("wiki.intern",)).hosts

    assert hosts("192.168.7.5") >= {"192.168.7.5", "wiki.intern", "localhost"}
    assert "0.0.0.0" not in hosts("0.0.0.0")


def test_host(server: Running) -> None:
    with server.client() as client:
        for host, status in (
            ("localhost:1", 200),
            ("127.0.0.1", 200),
            ("[::1]:80", 200),
            ("evil.example", 421),
            ("", 421),
            ("127.0.0.1.evil.example", 421),
            ("LocalHost:1", 200),
            ("127.0.0.1:1@evil.example", 421),
            ("evil.example:127.0.0.1", 421),
            ("[::1", 421),
        ):
            assert client.get("/health", headers={"Host": host}).status_code == status, host


def test_origin(server: Running) -> None:
    with server.client() as client:
        assert client.get("/health", headers={"Origin": server.url}).status_code == 200
        for origin in ("http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "http://[", ""):
            assert client.get("/health", headers={"Origin": origin}).status_code == 403, origin


def test_token(start: Start) -> None:
    with start(token=TOKEN) as server, server.client() as client:
        assert client.get("/health").status_code == 200
        for path in ("/api/about", "/metrics", "/v1/models", "/openapi.json", "/api/runs", "/nowhere"):
            refused = client.get(path)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer"), path
        for shown in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer", TOKEN, "Bearer é".encode()):
            assert client.get("/api/about", headers={"Authorization": shown}).status_code == 401
        assert client.get("/api/about", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_size(start: Start) -> None:
    with start(max_body=1000) as server, server.client() as client:
        large = json.dumps({"question": "x" * 1000})
        assert client.post("/api/ask", content=large).status_code == 413
        assert client.post("/api/ask", content=(part.encode() for part in large)).status_code == 413
        assert client.post("/api/ask", content=b"{").status_code == 400
        assert client.post("/api/ask", content=b"[1]").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/..%2fapp.py",
        "/assets/%2e%2e/app.py",
        "/assets//etc/passwd",
        "/api/runs/..%2f..%2fetc",
        "/api/runs/../../etc/episodes",
        "/api/runs/%2e%2e/episodes/x",
        "/api/indexes/..%2fdocs.sq/document?id=d1",
        "/api/episodes/..%2f..%2fx",
    ],
)
def test_no_path_leads_out(server: Running, path: str) -> None:
    import http.client

    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("GET", path)  # as it stands: other clients tidy paths up before they send them
    reply = connection.getresponse()
    assert reply.status in (404, 405), reply.read()
    connection.close()


def test_what_a_request_cannot_bring(server: Running) -> None:
    with server.client() as client:
        for field, value in (("system", "evil.py:System"), ("model", "gguf:/etc/passwd"), ("index", "/tmp/docs.sq")):
            reply = client.post("/api/ask", json={"question": "q", field: value})
            assert reply.status_code in (400, 404)
        unknown = client.post("/api/ask", json={"question": "q", "prompts": "/etc"})
        assert "unknown key 'prompts'" in unknown.json()["error"]["message"]


def test_pages_may_load_nothing_from_elsewhere(server: Running) -> None:
    with server.client() as client:
        headers = client.get("/health").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_rate_refills(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    rate = Rate(60)
    assert [rate.take("a") for _ in range(60)] == [0.0] * 60
    assert rate.take("a") == 1.0
    assert rate.take("b") == 0.0
    now = 2.0
    assert [rate.take("a") for _ in range(3)] == [0.0, 0.0, 1.0]


def test_a_name_that_is_allowed_may_be_written_in_any_case(start: Start) -> None:
    with start(allowed_hosts=("Wiki.Intern",)) as server, server.client() as client:
        for host, status in (("wiki.intern", 200), ("WIKI.intern:80", 200), ("wiki.intern.evil.example", 421)):
            assert client.get("/health", headers={"Host": host}).status_code == status, host


@pytest.mark.parametrize("number", ["--5", "-", "+1", "0" * 5000, "9" * 5000, "٣", " 1", ""])
def test_a_number_in_an_address_that_is_none(server: Running, number: str) -> None:
    with server.client() as client:
        refused = client.get("/api/runs/asked/curves", params={"after": number})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_request")


def test_asking_again_counts_as_asking(start: Start) -> None:
    with start(asks_per_minute=2) as server, server.client() as client:
        first = client.post("/api/ask", json={"question": "Where?", "system": "direct"}).json()["id"]
        assert client.post(f"/api/episodes/{first}/again").status_code == 202
        for way in ("again", "resume"):
            assert client.post(f"/api/episodes/{first}/{way}").status_code == 429


def test_a_wrong_request_is_no_question_unless_there_are_too_many(start: Start) -> None:
    asked = {"question": "Where?", "system": "direct"}
    with start(asks_per_minute=2) as server, server.client() as client:
        wrong = [client.post("/api/ask", json={"question": ""}).status_code for _ in range(4)]
        wrong.append(client.post("/api/episodes/nowhere/again").status_code)
        assert wrong == [400] * 4 + [404]
        assert [client.post("/api/ask", json=asked).status_code for _ in range(3)] == [202, 202, 429]
    with start(asks_per_minute=1) as server, server.client() as client:
        wrong = [client.post("/api/ask", json={"question": ""}).status_code for _ in range(7)]
        assert wrong == [400] * 6 + [429]


def test_a_wrong_address_or_method_is_told_the_right_one(server: Running) -> None:
    with server.client() as client:
        missing = client.get("/nowhere")
        assert missing.status_code == 404
        assert "/nowhere; GET /openapi.json" in missing.json()["error"]["message"]
        wrong = client.delete("/api/ask")
        assert wrong.status_code == 405
        assert wrong.json()["error"]["message"] == "/api/ask does not support DELETE, only POST"
        assert wrong.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(("proxies", "counted"), [((), False), (("127.0.0.1",), True)])
def test_who_the_client_is_only_a_named_proxy_says(start: Start, proxies: tuple[str, ...], counted: bool) -> None:
    with start(asks_per_minute=1, proxies=proxies) as server, server.client() as client:
        asked = [
            client.post(
                "/api/ask",
                json={"question": "Where?", "system": "direct"},
                headers={"X-Forwarded-For": f"203.0.113.{n}"},
            ).status_code
            for n in range(2)
        ]
    assert asked == [202, 202 if counted else 429]


def test_a_proxy_is_an_address() -> None:
    with pytest.raises(UsageError, match="write an address or a network"):
        Settings(Path("runs"), Path("indexes"), proxies=("proxy.example",))
