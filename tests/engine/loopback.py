"""A real HTTP server on loopback that answers as told, faults included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any


@dataclass
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    pieces: Iterable[bytes] | None = None
    """Sent one by one with `gap` seconds between, instead of `body`; a generator may take its time."""
    gap: float = 0.0
    drop: bool = False
    """Cut the connection instead of ending the answer properly."""


Handler = Callable[[Request], Answer | Awaitable[Answer]]


def chat(text: str | None, finish: str = "stop", usage: bool = True, **choice: Any) -> dict[str, Any]:
    """A whole chat completion; `message` fields can be given by `message={...}`."""
    message = {"role": "assistant", "content": text} | choice.pop("message", {})
    data: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}]}
    if usage:
        data["usage"] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return data


def events(*chunks: Any, done: bool = True) -> list[bytes]:
    """Server-sent events."""
    lines = [f"data: {json.dumps(c)}\n\n".encode() for c in chunks]
    return [*lines, b"data: [DONE]\n\n"] if done else lines


def delta(content: str | None = None, finish: str | None = None, **choice: Any) -> dict[str, Any]:
    body = {"content": content} if content is not None else {}
    return {"choices": [{"index": 0, "delta": body | choice.pop("delta", {}), "finish_reason": finish, **choice}]}


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that happens on the other side of a connection."""
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within 120 s")


class Loopback:
    """Use as `async with Loopback(answer, answer, …)`: each request takes the next answer, the last one stays.

    `models` is what `/models` lists, or its whole `Answer`; `prompt_end` are the tokens that vLLM's `/tokenize` tells.
    """

    def __init__(
        self, *answers: Answer | dict[str, Any] | Handler, models: Any = None, prompt_end: Sequence[str] = ()
    ) -> None:
        self.answers = list(answers)
        self.models = models
        self.prompt_end = list(prompt_end)
        self.requests: list[Request] = []
        self.peak = 0
        self.connections = 0
        self.disconnects = 0
        """Clients that went away before their answer was complete."""
        self._busy = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def posts(self) -> list[Any]:
        return [r.body for r in self.requests if r.method == "POST" and r.path != "/tokenize"]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                self._busy += request.method == "POST"
                self.peak = max(self.peak, self._busy)
                try:
                    if not await self._answer(request, reader, writer):
                        break
                finally:
                    self._busy -= request.method == "POST"
        except (ConnectionError, asyncio.IncompleteReadError):
            self.disconnects += 1
        finally:
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if request.path.endswith("/models"):
            listed = self.models if isinstance(self.models, Answer) else Answer({"data": self.models})
            answer: Any = listed if self.models is not None else Answer({}, 404)
        elif request.path == "/tokenize":
            answer = Answer({"token_strs": self.prompt_end}) if self.prompt_end else Answer({}, 404)
        else:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if isinstance(answer, dict):
            answer = Answer(answer)
        if answer.delay:
            gone = asyncio.ensure_future(reader.read(1))
            done, _ = await asyncio.wait({gone}, timeout=answer.delay)
            if done:
                raise ConnectionError
            gone.cancel()
            await asyncio.wait({gone})
        headers = dict(answer.headers)
        if answer.pieces is None:
            payload = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            headers |= {"Content-Length": str(len(payload)), "Content-Type": "application/json"}
            pieces: Iterable[bytes] = [payload]
        else:
            headers |= {
                "Transfer-Encoding": "chunked",
                "Content-Type": headers.get("Content-Type", "text/event-stream"),
            }
            chunks = (f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in answer.pieces)
            pieces = chain(chunks, [] if answer.drop else [b"0\r\n\r\n"])
        head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode())
        for piece in pieces:
            writer.write(piece[: len(piece) // 2] if answer.drop and answer.pieces is None else piece)
            await writer.drain()
            if answer.gap:
                await asyncio.sleep(answer.gap)
            if reader.at_eof():
                raise ConnectionError
        return not answer.drop


async def _read(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    method, path, _ = line.decode().split(" ", 2)
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, json.loads(raw) if raw else None)
