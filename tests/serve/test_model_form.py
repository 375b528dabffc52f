"""The model that is set on the page: who may, what is kept, where keys go, what is said when it does not work."""

import asyncio
import json
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subquest import AgentSpec
from subquest.engine.openai import OpenAIEngine
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.serve.agents import open_agents
from subquest.serve.model_settings import FILE, ModelSettings, checked_settings, load, save
from subquest.serve.replies import Problem
from subquest.serve.settings import Settings

from ..engine.loopback import Answer, Handler, Loopback, Request, chat
from .conftest import QUESTION, Start
from .test_episode_handlers import until

KEY = "sk-planted-9f3ac1d27b"
ADMIN = "admin-horse-battery"


class Endpoint:
    """An endpoint on loopback, in a thread of its own."""

    def __init__(self, answer: Handler | None = None, models: Sequence[str] = ("big", "small")) -> None:
        self.server: Loopback
        self._models = models
        self._answer: Handler = answer or (lambda request: Answer(chat(reply_to(request))))
        self._ready, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    async def _main(self) -> None:
        async with Loopback(self._answer, models=[{"id": name} for name in self._models]) as self.server:
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)

    def __enter__(self) -> "Endpoint":
        self._thread.start()
        self._ready.wait(60)
        self.url = self.server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    @property
    def keys(self) -> set[str]:
        return {request.headers.get("authorization", "") for request in self.server.requests}


def reply_to(request: Request) -> str:
    asked = request.body["messages"][-1]["content"] if "messages" in request.body else ""
    return "blue" if "sky" in asked else "1, 2, 3, 4," if "Count" in asked else "<answer>Kestel</answer>"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as found:
        yield found


def answer(client: Any, **more: Any) -> dict[str, Any]:
    identifier = client.post("/api/ask", json={"question": QUESTION, "system": "direct", **more}).json()["id"]
    with client.stream("GET", f"/api/episodes/{identifier}/events") as stream:
        list(stream.iter_lines())
    found: dict[str, Any] = client.get(f"/api/episodes/{identifier}").json()
    return found


def test_a_model_is_set_used_kept_and_forgotten(start: Start, settings: Settings, endpoint: Endpoint) -> None:
    with start(lambda _: "<answer>own</answer>") as server, server.client() as client:
        before = client.get("/api/model").json()
        assert (before["may_set"], before["set"]) == (True, None)
        assert [one["model"] for one in before["models"]] == ["scripted"]
        body = {"address": f"{endpoint.url}/", "model": "small", "key": KEY, "protocol": "tags", "prompts": "compact"}
        shown = client.put("/api/model", json=body)
        assert shown.status_code == 200
        assert KEY not in shown.text + client.get("/api/model").text + client.get("/api/about").text
        assert shown.json()["set"] == body | {"address": endpoint.url, "key": True}
        assert [(one["name"], one["model"], one["address"]) for one in shown.json()["models"]] == [
            ("page", "small", endpoint.url),
            ("default", "scripted", ""),
        ]
        found = answer(client)
        assert (found["answer"], found["model"]) == ("Kestel", "small")
        assert found["settings"]["prompts"] == "compact"
        assert endpoint.keys == {f"Bearer {KEY}"}
        assert KEY not in json.dumps(found)
        assert answer(client, model="default")["answer"] == "own"  # the server's own stays
    file = settings.runs / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load(settings.runs) == ModelSettings(endpoint.url, "small", KEY, "tags", "compact")
    with start(lambda _: "<answer>own</answer>") as server, server.client() as client:
        client.put("/api/model", json={"address": endpoint.url, "model": "small", "key": KEY})
        again = client.put("/api/model", json={"address": endpoint.url, "model": "big"})  # no key: the stored one
        assert again.json()["set"]["key"] is True
        assert client.delete("/api/model").json()["set"] is None
        assert not file.exists()
        assert answer(client)["answer"] == "own"


def test_a_server_starts_with_the_model_that_was_set_before(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def models(settings: Settings) -> list[str]:
        spec = AgentSpec(model=f"scripted:{tmp_path / 'script.jsonl'}")
        async with open_agents(spec, {}, {}, settings) as agents:
            return agents.models

    (tmp_path / "script.jsonl").write_text('"<answer>own</answer>"')
    settings.runs.mkdir()
    save(settings.runs, ModelSettings("http://127.0.0.1:9/v1", "m", KEY))
    assert asyncio.run(models(settings)) == ["page", "default"]
    assert asyncio.run(models(replace(settings, model_form=False))) == ["default"]
    (settings.runs / FILE).chmod(0o644)
    assert asyncio.run(models(settings)) == ["default"]
    assert "others could read or write it" in caplog.text


def test_a_server_starts_without_a_model_if_one_can_be_set_on_the_page(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "nothing here"))

    async def models(settings: Settings, *, chosen: bool = False) -> list[str]:
        async with open_agents(AgentSpec(), {}, {}, settings, model_optional=not chosen) as agents:
            if not agents.models:
                for asked in (lambda: agents.get("direct"), lambda: agents.default_engine):
                    with pytest.raises(Problem, match="no model is set yet"):
                        asked()
                assert agents.names() == []
                agents.set_model(ModelSettings("http://127.0.0.1:9/v1", "m", KEY))
                assert agents.get("direct").model_name == "m"
                agents.set_model(None)
            return agents.models

    assert asyncio.run(models(settings)) == []
    assert "set your endpoint on the page" in caplog.text
    for shared, chosen in ((settings, True), (replace(settings, model_form=False), False)):
        with pytest.raises(UsageError, match="subquest model get smollm2"):
            asyncio.run(models(shared, chosen=chosen))
    settings.runs.mkdir()
    save(settings.runs, ModelSettings("http://127.0.0.1:9/v1", "m", KEY))
    caplog.clear()
    assert asyncio.run(models(settings)) == ["page"]
    assert "no model yet" not in caplog.text


def test_a_key_is_sent_to_the_address_it_was_entered_for_alone(
    start: Start, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator-1234")
    with start() as server, server.client() as client, Endpoint() as other:
        client.put("/api/model", json={"address": endpoint.url, "model": "small", "key": KEY})
        for path in ("/api/model/try", "/api/model"):
            method = "POST" if path.endswith("try") else "PUT"
            assert client.request(method, path, json={"address": other.url, "model": "small"}).status_code == 200
        answer(client)
        assert other.keys == {""}  # neither the key of the first address nor that of the environment


def test_trying_says_what_works_and_stores_nothing(start: Start, settings: Settings, endpoint: Endpoint) -> None:
    with start() as server, server.client() as client:
        found = client.post("/api/model/try", json={"address": endpoint.url, "model": "small", "key": KEY}).json()
        assert (found["works"], found["served"]) == (True, ["big", "small"])
        told = {check["name"]: check["detail"] for check in found["checks"]}
        assert told["chat"] == "answered 'blue'"
        assert told["usage"] == "11 + 7 tokens"
        assert not (settings.runs / FILE).exists()
        assert client.get("/api/model").json()["set"] is None


def test_trying_says_what_does_not_work(start: Start, endpoint: Endpoint) -> None:
    def refuse(request: Request) -> Answer:
        return Answer({"error": {"message": f"no such key: {KEY}"}}, 401)

    with start() as server, server.client() as client, Endpoint(refuse) as refusing:
        for address, words in ((refusing.url, "401"), ("http://127.0.0.1:9/v1", "is the server up?")):
            reply = client.post("/api/model/try", json={"address": address, "model": "m", "key": KEY})
            assert reply.json()["works"] is False
            assert words in reply.json()["checks"][0]["detail"]
            assert KEY not in reply.text
        unnamed = client.post("/api/model/try", json={"address": endpoint.url}).json()
        assert "it serves big, small" in unnamed["checks"][0]["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"address": "ftp://host/v1"}, "begins with http"),
        ({"address": "file:///etc/passwd"}, "begins with http"),
        ({"address": "http://ann:secret-pw-1@host/v1"}, "field for the key"),
        ({"address": "http://host/v1?api_key=abcdefgh1"}, "field for the key"),
        ({"address": "http://host/v1#model"}, "its own field"),
        ({"address": "http://host/v1", "key": "schlüssel-123456"}, "copy it again"),
        ({"address": "http://host/v1", "model": "a\nb"}, "copy it again"),
        ({"address": "http://host/v1", "protocol": "smoke"}, "protocol"),
        ({"model": "m"}, "address"),
    ],
)
def test_what_cannot_be_right_is_refused(start: Start, body: dict[str, str], words: str) -> None:
    with start() as server, server.client() as client:
        for method, path in (("PUT", "/api/model"), ("POST", "/api/model/try")):
            reply = client.request(method, path, json=body)
            assert reply.status_code == 400
            assert words in reply.json()["error"]["message"]
            assert "secret-pw-1" not in reply.text
        assert client.get("/api/model").json()["set"] is None


@pytest.mark.parametrize(
    ("changed", "who"),
    [
        ({}, "anyone"),
        ({"model_form": False}, "nobody"),
        ({"token": "correct-horse-battery"}, "nobody"),
        ({"allowed_hosts": ("ask.example",)}, "nobody"),
        ({"proxies": ("10.0.0.7",)}, "nobody"),
        ({"token": "correct-horse-battery", "admin_token": ADMIN}, "admin"),
        ({"admin_token": ADMIN}, "admin"),
        ({"admin_token": ADMIN, "model_form": False}, "nobody"),
    ],
)
def test_who_may_set_the_model(start: Start, endpoint: Endpoint, changed: dict[str, Any], who: str) -> None:
    body = {"address": endpoint.url, "model": "small"}
    with start(**changed) as server, server.client() as client:
        plain = {"Authorization": f"Bearer {changed['token']}"} if "token" in changed else {}
        admin = {"Authorization": f"Bearer {ADMIN}"}
        for headers, may in ((plain, who == "anyone"), (admin, who in ("anyone", "admin"))):
            if headers == admin and "token" in changed and who != "admin":
                continue
            shown = client.get("/api/model", headers=headers).json()
            assert (shown["who_sets"], shown["may_set"]) == (who, may)
            for method, path in (("POST", "/api/model/try"), ("PUT", "/api/model"), ("DELETE", "/api/model")):
                reply = client.request(method, path, json=body if method != "DELETE" else None, headers=headers)
                assert reply.status_code == (200 if may else 403)


def test_a_disk_that_takes_nothing_changes_nothing(
    start: Start, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with start() as server, server.client() as client:
        client.put("/api/model", json={"address": endpoint.url, "model": "small"})
        monkeypatch.setattr("subquest.serve.model_settings.os.fsync", full)
        reply = client.put("/api/model", json={"address": endpoint.url, "model": "big"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage")
        assert client.get("/api/model").json()["set"]["model"] == "small"


def test_a_file_of_somebody_else_decides_nothing(settings: Settings) -> None:
    settings.runs.mkdir()
    chosen = ModelSettings("http://host/v1", "m", KEY)
    save(settings.runs, chosen)
    assert load(settings.runs) == chosen
    moved = settings.runs.with_name("other")
    settings.runs.rename(moved)
    with pytest.raises(UsageError, match="another folder"):
        load(moved)
    moved.rename(settings.runs)
    (settings.runs / FILE).chmod(0o644)
    with pytest.raises(UsageError, match="others could read"):
        load(settings.runs)
    (settings.runs / FILE).chmod(0o600)
    (settings.runs / FILE).write_text("{")
    with pytest.raises(UsageError, match=r"model\.json"):
        load(settings.runs)


def test_a_slow_endpoint_is_named_when_it_has_answered(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.serve.agents.NAME_WAIT", 0.0)
    with Endpoint(models=["tall"]) as slow:
        models = {"default": OpenAIEngine(base_url=slow.url, api_key="")}
        with start(models=models, systems=["direct"]) as server, server.client() as client:

            def name() -> str:
                return str(client.get("/api/about").json()["model_details"][0]["model"])

            assert name() == slow.url  # nobody waited for the answer
            until(lambda: name() == "tall")


def test_a_key_follows_its_server_whatever_the_path() -> None:
    before = ModelSettings("http://host:8000/v1", "m", KEY)
    for address, kept in (
        ("http://HOST:8000/v2", KEY),
        ("http://host:8000/v1?api-version=2", KEY),
        ("https://host:8000/v1", ""),
        ("http://host:8001/v1", ""),
        ("http://host.evil.example:8000/v1", ""),
    ):
        assert checked_settings(address, "m", None, "tags", "", before).key == kept
    assert checked_settings("http://host:8000/v1", "m", "", "tags", "", before).key == ""


def test_an_endpoint_that_goes_away_is_named_and_nothing_is_lost(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.engine.openai.endpoint.FIRST_WAIT", 0.01)
    with start() as server, server.client() as client:
        with Endpoint() as gone:
            client.put("/api/model", json={"address": gone.url, "model": "small"})
            assert answer(client)["answer"] == "Kestel"
        failed = answer(client)
        assert failed["status"] == "failed"
        assert [(error["where"], gone.url in error["message"]) for error in failed["errors"]][-1] == ("engine", True)
        with Endpoint() as back:
            client.put("/api/model", json={"address": back.url, "model": "small"})
            again = client.post(f"/api/episodes/{failed['id']}/again").json()["id"]
            with client.stream("GET", f"/api/episodes/{again}/events") as stream:
                list(stream.iter_lines())
            assert client.get(f"/api/episodes/{again}").json()["answer"] == "Kestel"


def test_a_larger_model_is_suggested_to_who_may_set_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    free = 8_000_000_000
    monkeypatch.setattr("subquest.models.memory.available_memory", lambda: free)
    monkeypatch.setattr("subquest.models.memory.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    small = {"default": ScriptedEngine([], name="embedded+default")}
    with start(models=small) as server, server.client() as client:
        large = {"name": "qwen-1.5b", "size": "1.1 GB", "here": False}
        assert client.get("/api/model").json()["larger"] == large
        free = 1_500_000_000
        assert client.get("/api/model").json()["larger"]["name"] == "qwen-0.5b"
        free = 500_000_000
        assert client.get("/api/model").json()["larger"] is None
        free = 8_000_000_000
    with start(models=small, model_form=False) as server, server.client() as client:
        assert client.get("/api/model").json()["larger"] is None, "nobody here can do it"
    with start() as server, server.client() as client:
        assert client.get("/api/model").json()["larger"] is None, "another model answers"


def test_systems_are_described_and_those_that_do_not_suit_are_marked(start: Start) -> None:
    engines = {"default": ScriptedEngine([], name="embedded+default"), "plain": _Instruct([], name="qwen")}
    engines["named"] = _Instruct([], name="qwen+mine")
    engines["trained"] = _Trained([], name="qwen")
    with start(models=engines, systems=["coda", "hira", "search-r1", "r1-searcher", "direct"]) as server:
        with server.client() as client:
            about = client.get("/api/about").json()
        described = {one["name"]: one for one in about["system_details"]}
        assert "sub-tasks" in described["coda"]["description"]
        assert (described["coda"]["searches"], described["direct"]["searches"]) == (True, False)
        unsuited = {one["name"]: one["unsuited"] for one in about["model_details"]}
        assert set(unsuited["default"]) == {"hira", "r1-searcher"}
        assert "too small" in unsuited["default"]["hira"]
        assert set(unsuited["plain"]) == set(unsuited["named"]) == {"search-r1", "r1-searcher"}
        assert not unsuited["trained"], "its adapter may have learnt them"


class _Instruct(ScriptedEngine):
    prompt_set = "full"


class _Trained(_Instruct):
    has_adapter = True

    def without_adapter(self) -> ScriptedEngine:
        return _Instruct([], name="qwen")


def test_every_system_has_a_line_of_description() -> None:
    from subquest.systems.registry import get, names

    for name in names():
        assert 20 <= len(get(name).description) <= 110, name
        assert get(name).description.endswith("."), name
