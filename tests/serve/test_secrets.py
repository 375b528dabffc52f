"""Keys that a model's endpoint sends back are in no reply, event, page, log or file of the server."""

import logging

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.openai import OpenAIEngine

from ..echo import BASIC, INFO, KEY, PARAMETER, QUERY, SEEN, echoing, leaks, stored
from .conftest import Start

TOKEN = "token-of-the-server-5e1f"


@pytest.mark.parametrize("mode", ["completion", "error", "broken"])
def test_keys_are_in_nothing_that_clients_see(start: Start, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """A completion is streamed five characters at a time, so that no event holds a whole key."""
    caplog.set_level(logging.INFO)
    with echoing() as echo:
        echo.mode = mode
        engines = {
            name: OpenAIEngine("m", base_url=url, api_key=KEY, stream=True)
            for name, url in (("default", echo.url("/v1", query=QUERY)), ("other", echo.url("/v1", INFO)))
        }
        for engine in engines.values():
            engine.endpoint.retries = 0
        with start(models=engines, token=TOKEN) as server, server.client() as client:
            client.headers["Authorization"] = f"Bearer {TOKEN}"
            seen = []
            for model in engines:
                asked = client.post("/api/ask", json={"question": "Where?", "system": "direct", "model": model})
                place = f"/api/episodes/{asked.json()['id']}"
                seen += [client.get(place + part).text for part in ("/events", "", "/html", "/siblings", "/tokens")]
                body = {"model": "subquest-direct", "messages": [{"role": "user", "content": "Where?"}]}
                seen += [client.post("/v1/chat/completions", json=body | {"stream": how}).text for how in (True, False)]
            paths = ["/", "/health", "/metrics", "/openapi.json", "/v1/models", "/api/about", "/api/runs"]
            paths += ["/api/runs/asked", "/api/episodes", "/api/indexes"]
            seen += [client.get(path).text for path in paths]
            seen.append(client.post("/api/ask", json={"question": "?", "model": f"http://{INFO}@host"}).text)
        sent = " ".join(echo.received)
    kept = stored(server.state.settings.runs.parent)
    assert all(key in sent for key in (KEY, PARAMETER, BASIC))
    assert SEEN in seen[0]
    assert SEEN in seen[1]
    for text in (*seen, kept, caplog.text):
        assert leaks(text) == [], text[:2000]
        assert TOKEN not in text


async def test_text_that_is_shown_while_it_is_written_is_masked() -> None:
    shown: list[str] = []
    with echoing() as echo:
        engine = OpenAIEngine("m", base_url=echo.url("/v1"), api_key=KEY, on_text=shown.append)
        session = await engine.open([Message("user", "Where?")])
        turn = await session.generate(Sampling(max_tokens=64))
        await engine.close()
    assert len(shown) > 3
    assert SEEN in "".join(shown)
    assert "".join(shown) == turn.text
    assert leaks(turn.text) == []
