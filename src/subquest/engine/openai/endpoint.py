"""One HTTP endpoint: pooled connections, limits, retries and time-outs, shared by all engines that talk to it."""

from __future__ import annotations

import asyncio
import json
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...address import checked_address, checked_key, is_loopback
from ...errors import EngineError, EngineRefused, EngineUnavailable
from ...masking import MaskedStream, mask, masked, remember
from ..interface import FinishReason, OnRetry, Retry
from .failures import failure, retry_after
from .rate_limits import Gate, Limits
from .reply import MALFORMED, Assembler

if TYPE_CHECKING:
    import httpx2

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds: see `backoff`."""


Watch = Callable[[str, bool], FinishReason | None]
"""Called with each new piece of a stream, and whether it is reasoning rather than text; a reason ends the stream."""


class Endpoint:
    """An OpenAI-compatible base URL. It may be used from several event loops, one after the other or in threads."""

    streams = True

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        connect_timeout: float = 10.0,
        retries: int = 5,
        limits: Limits | None = None,
    ) -> None:
        """`timeout` bounds one request from sending it to its last byte; `retries` come on top of the first try."""
        address = checked_address(base_url, "a base URL")
        self.base_url = address.url
        self.identity = address.identity
        """The address as caches know it."""
        self.query = address.query
        self.limits = limits or Limits()
        self.retries = retries
        self.timeout = timeout
        self._connect_timeout = connect_timeout
        self.headers = {"User-Agent": "subquest", **(headers or {})}
        for value in (headers or {}).values():
            remember(value.rpartition(" ")[2])
        if key := checked_key(api_key, "the endpoint's key"):
            azure = _is_azure_key(key, self.base_url)
            self.headers["api-key" if azure else "Authorization"] = key if azure else f"Bearer {key}"
        self.headers |= address.headers
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, Gate]]
        self._loops = weakref.WeakKeyDictionary()

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        tokens: int = 0,
        watch: Watch | None = None,
        on_retry: OnRetry | None = None,
    ) -> dict[str, Any]:
        """The JSON answer to a request of about `tokens` tokens; with `watch` it is streamed.

        Retried after failures that may be temporary: lost connection, overload, broken answer. A stream that breaks off
        is restarted. A request that took all its time is repeated once: a slow model would only take it again.
        """
        client, gate = self._here()
        timed_out = 0
        for attempt in range(1, self.retries + 2):
            asked_wait: float | None = None
            try:
                async with gate.enter(tokens) as booking, asyncio.timeout(self.timeout):
                    data = await self._attempt(client, path, body, watch)
                    booking.amount = _total_tokens(data) or tokens
                    return data
            except TimeoutError:
                timed_out += 1
                error: EngineError = EngineUnavailable(
                    f"{self.base_url}{path} did not finish within {self.timeout:g} s; a slow model needs more: set "
                    "`timeout` under [engine] in subquest.toml"
                )
            except _Failed as failed:
                error, asked_wait = failed.error, failed.wait
                if not error.retryable:
                    raise error from None
            if attempt > self.retries or timed_out > 1:
                raise type(error)(f"{error} (tried {attempt} times)" if attempt > 1 else str(error))
            if asked_wait is not None and asked_wait > self.timeout:
                asked = f"the server asks to wait {asked_wait:.0f} s, longer than `timeout` under [engine], which is"
                raise EngineUnavailable(f"{error} ({asked} {self.timeout:g} s)")
            wait = backoff(attempt)
            if asked_wait is not None:
                wait = asked_wait + random.uniform(0.0, 0.1 * FIRST_WAIT)
                gate.pause(asked_wait)
            if on_retry is not None:
                on_retry(Retry("engine", attempt, wait, str(error)))
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def models(self) -> list[dict[str, Any]]:
        """The models served there. Raises an EngineError with the reason if the endpoint does not list them."""
        import httpx2

        client, _ = self._here()
        url = f"{self.base_url}/models"
        try:
            async with asyncio.timeout(self._connect_timeout):
                response = await client.get(url, headers=self.headers, params=self.query)
            text = mask(response.text)
            if response.is_redirect:
                raise _moved(response, url, "/models")
            if response.status_code != 200:
                raise failure(response.status_code, text, url=url, model="")
            return [entry for entry in masked(json.loads(text))["data"] if isinstance(entry, dict)]
        except (TimeoutError, httpx2.TimeoutException):
            raise EngineUnavailable(f"{url} did not answer in {self._connect_timeout:g} s") from None
        except httpx2.HTTPError as error:
            reason = error or type(error).__name__
            raise EngineUnavailable(f"cannot connect to {url}: {reason} (is the server up?)") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise EngineRefused(f"{url} answered with no list of models: {text[:100]!r}") from None

    async def prompt_end(self, model: str, template: Mapping[str, Any]) -> str:
        """The last tokens of a prompt as vLLM's chat template makes it; empty if the server does not tell."""
        import httpx2

        client, _ = self._here()
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        body["return_token_strs"] = True
        body |= {"chat_template_kwargs": template} if template else {}
        url = f"{self.base_url.removesuffix('/v1')}/tokenize"
        try:
            async with asyncio.timeout(self._connect_timeout):
                response = await client.post(url, json=body, headers=self.headers, params=self.query)
            return "".join(response.json()["token_strs"][-3:])
        except (TimeoutError, httpx2.HTTPError, *MALFORMED, RecursionError):
            return ""

    @property
    def gate(self) -> Gate:
        """The limits as they stand in the running loop."""
        return self._here()[1]

    async def close(self) -> None:
        held = self._loops.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[0].aclose()

    def _here(self) -> tuple[httpx2.AsyncClient, Gate]:
        """Connections and limits of the running loop: neither can be shared between loops."""
        import httpx2

        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            most = self.limits.concurrency
            client = httpx2.AsyncClient(
                timeout=httpx2.Timeout(None, connect=self._connect_timeout),
                limits=httpx2.Limits(max_connections=most + 1, max_keepalive_connections=most),
                trust_env=not is_loopback(self.base_url),
            )
            self._loops[loop] = client, Gate(self.limits)
        return self._loops[loop]

    async def _attempt(
        self, client: httpx2.AsyncClient, path: str, body: Mapping[str, Any], watch: Watch | None
    ) -> dict[str, Any]:
        import httpx2

        url = self.base_url + path
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")  # documents may hold lone surrogates
        headers = {**self.headers, "Content-Type": "application/json"}
        try:
            async with client.stream("POST", url, content=content, headers=headers, params=self.query) as response:
                if response.status_code == 200:
                    return await self._read(response, url, body, watch)
                if response.is_redirect:
                    raise _Failed(_moved(response, url, path))
                text = mask((await response.aread()).decode("utf-8", "replace"))
                raise _Failed(
                    failure(response.status_code, text, url=url, model=_model(body), sent=body),
                    retry_after(response.headers),
                )
        except httpx2.ConnectError as error:
            raise _Failed(
                EngineUnavailable(f"cannot connect to {url}: {error or 'refused'} (is the server up?)")
            ) from None
        except httpx2.TimeoutException:
            raise _Failed(EngineUnavailable(f"cannot connect to {url} in {self._connect_timeout:g} s")) from None
        except httpx2.HTTPError as error:
            lost = f"{url}: connection lost: {error or type(error).__name__} ({_SHORTER})"
            raise _Failed(EngineUnavailable(lost)) from None

    async def _read(
        self, response: httpx2.Response, url: str, body: Mapping[str, Any], watch: Watch | None
    ) -> dict[str, Any]:
        """The answer, whole or streamed. Its first line decides, because gateways rewrite or drop the content type."""
        async with aclosing(_lines(response)) as lines:
            first = ""
            async for first in lines:
                if first.strip():
                    break
            if first.startswith(_EVENT_FIELDS):
                return await self._read_stream(first, lines, url, body, watch)
            text = mask("\n".join([first, *[line async for line in lines]]))
        data = _checked(_parse(text, url), url, body)
        if not data.get("choices"):
            raise _Failed(EngineUnavailable(f"{url}: {_NO_COMPLETION}: {text[:200]!r}"))
        return data

    async def _read_stream(
        self, first: str, more: AsyncIterator[str], url: str, body: Mapping[str, Any], watch: Watch | None
    ) -> dict[str, Any]:
        assembler, shown, thoughts = Assembler(), MaskedStream(), MaskedStream()
        line: str | None = first
        while line is not None:
            if line.startswith("data:"):
                payload = mask(line[5:].strip())
                if payload == "[DONE]":
                    break
                if not payload:  # keeps the connection alive
                    line = await anext(more, None)
                    continue
                chunk = _checked(_parse(payload, url), url, body)
                try:
                    new = assembler.add(chunk)
                except MALFORMED as error:
                    raise _Failed(EngineUnavailable(f"{url}: a malformed chunk ({error!r}): {payload[:200]}")) from None
                for piece, part, thought in ((assembler.thought, thoughts, True), (new, shown, False)):
                    if watch is not None and piece and (piece := part.add(piece)) and (finish := watch(piece, thought)):
                        return assembler.whole(finish)
            line = await anext(more, None)
        if line is None and not assembler.complete:
            raise _Failed(EngineUnavailable(_broke_off(url, assembler)))
        if not assembler.chosen:
            raise _Failed(EngineUnavailable(f"{url}: {_NO_COMPLETION}"))
        if watch is not None and (rest := shown.rest()):
            watch(rest, False)
        return assembler.whole()


def _moved(response: httpx2.Response, url: str, path: str) -> EngineRefused:
    """A redirection is not followed: it would take the key to another place."""
    place = str(response.headers.get("location", "")).partition("?")[0].removesuffix(path)
    return EngineRefused(f"{url} answered {response.status_code}: it has moved to {place}: give that as the base URL")


def _is_azure_key(key: str, url: str) -> bool:
    """Whether the key belongs into Azure's own header; a token of Microsoft Entra, which is a JWT, does not."""
    azure = (urlsplit(url).hostname or "").endswith(".azure.com") or "/openai/deployments/" in url
    return azure and not key.startswith("eyJ")


_NO_COMPLETION = (
    "the answer holds no completion (a filter of the endpoint may withhold answers: choose another `model`)"
)
_SHORTER = "a server or proxy may cut long answers: raise its time-out, or lower `max_tokens`"


def _broke_off(url: str, assembler: Assembler) -> str:
    return f"{url}: the stream broke off after {assembler.characters} characters ({_SHORTER})"


_EVENT_FIELDS = ("data:", "event:", "id:", "retry:", ":")
"""What a line of an event stream can begin with; no JSON does."""


async def _lines(response: httpx2.Response) -> AsyncGenerator[str]:
    """The lines of an answer, split at line feeds only: JSON strings may contain U+2028 and similar characters."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace").removesuffix("\r")
    yield rest.decode("utf-8", "replace")


def backoff(attempt: int) -> float:
    """Seconds to wait after attempt n (from 1) failed, drawn at random so that clients do not return all at once."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)


class _Failed(Exception):
    """A failed attempt, with the wait the server asked for."""

    def __init__(self, error: EngineError, wait: float | None = None) -> None:
        self.error = error
        self.wait = wait


def _total_tokens(data: Mapping[str, Any]) -> int | None:
    usage = data.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) else None


def _model(body: Mapping[str, Any]) -> str:
    return str(body.get("model", ""))


def _parse(text: str, url: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip().startswith("<"):
            page = f"{url} answered with a web page: {text.strip()[:100]!r}"
            raise _Failed(EngineRefused(f"{page} (is the base URL right? It usually ends in /v1)")) from None
        raise _Failed(EngineUnavailable(f"{url}: the answer is not JSON: {text[:200]!r}")) from None


def _checked(data: Any, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Some servers report errors with status 200 or inside a stream."""
    if not isinstance(data, dict):
        raise _Failed(EngineUnavailable(f"{url}: the answer is not a JSON object: {mask(str(data))[:200]}"))
    error, choices = data.get("error"), data.get("choices")
    if not choices and (data.get("object") == "error" or "detail" in data):  # vLLM's and FastAPI's own forms
        error = error or {key: value for key, value in data.items() if key != "error"}
    listed = choices if isinstance(choices, list) else []
    broken = [c for c in listed if isinstance(c, dict) and c.get("finish_reason") == "error"]
    if broken:  # OpenRouter: the text so far is not a turn
        error = error or broken[0].get("error") or "the model broke off"
    if error and (broken or not choices):
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise _Failed(failure(status, json.dumps({**data, "error": error}), url=url, model=_model(body), sent=body))
    return data
