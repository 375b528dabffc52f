"""A server that speaks vLLM's protocol on loopback, on a real engine: completions with token ids, adapters by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from subquest.engine import Sampling
from subquest.engine.interface import Generation
from subquest.engine.torch.engine import TorchEngine
from subquest.engine.torch.loader import Source, load_adapter
from subquest.engine.torch.session import TorchSession
from subquest.errors import SubquestError
from subquest.record import Segment

from .. import http_server

BASE = "base-model"


class VllmServer:
    """What the server holds; `failures` are answered instead, one a request to load an adapter."""

    def __init__(self, source: Source, *, lora: bool = True) -> None:
        self.engine = TorchEngine(source, device="cpu", cache_tokens=65_536)
        self.lora = lora
        self.adapters: list[str] = []
        self.loads: list[tuple[str, Path]] = []
        self.asked: list[dict[str, Any]] = []
        self.failures: list[int] = []
        self.url = ""

    def get(self, path: str) -> tuple[int, Any]:
        if path != "/v1/models":
            return 404, {"detail": "Not Found"}
        entry = {"object": "model", "owned_by": "vllm", "max_model_len": 2048}
        listed = [{"id": BASE, "parent": None, **entry}]
        return 200, {"object": "list", "data": listed + [{"id": a, "parent": BASE, **entry} for a in self.adapters]}

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/completions":
            return self.complete(body)
        if path == "/v1/load_lora_adapter" and self.lora:
            return self.load(body["lora_name"], Path(body["lora_path"]))
        if path == "/v1/unload_lora_adapter" and self.lora:
            if body["lora_name"] not in self.adapters:
                return 404, _error(f"The lora adapter '{body['lora_name']}' cannot be found.", 404)
            self.adapters.remove(body["lora_name"])
            return 200, f"Success: LoRA adapter '{body['lora_name']}' removed successfully."
        return 404, {"detail": "Not Found"}

    def load(self, name: str, path: Path) -> tuple[int, Any]:
        if self.failures:
            return self.failures.pop(0), "busy"
        if name in self.adapters:
            return 400, _error(f"The lora adapter '{name}' has already been loaded.", 400)
        try:
            self.engine.refresh(adapter=load_adapter(path))
        except SubquestError as error:
            return 400, _error(str(error), 400)
        self.adapters.append(name)
        self.loads.append((name, path))
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(body)
        if body["model"] not in (BASE, *self.adapters):
            return 404, _error(f"The model `{body['model']}` does not exist.", 404)
        assert body["model"] in (BASE, self.adapters[-1]), "the engine here has the newest adapter only"
        assert body["return_token_ids"]
        prompt = tuple(body["prompt"])
        assert all(isinstance(i, int) for i in prompt), "the prompt is token ids"
        sampling = Sampling(
            max_tokens=body["max_tokens"],
            temperature=body["temperature"],
            seed=body.get("seed"),
            stop=tuple(body.get("stop", ())),
            logprobs=True,
        )
        turn = asyncio.run(self._turn(prompt, sampling, bare=body["model"] == BASE))
        choice = {
            "index": 0,
            "text": turn.text,
            "token_ids": turn.token_ids,
            "prompt_token_ids": prompt,
            "logprobs": {"token_logprobs": turn.logprobs, "tokens": [str(i) for i in turn.token_ids]},
            "finish_reason": "length" if turn.finish == "length" else "stop",
            "stop_reason": turn.stop or None,
        }
        counts = {"prompt_tokens": len(prompt), "completion_tokens": len(turn.token_ids)}
        return 200, {"object": "text_completion", "model": body["model"], "choices": [choice], "usage": counts}

    async def _turn(self, prompt: tuple[int, ...], sampling: Sampling, *, bare: bool) -> Generation:
        session = TorchSession(self.engine, [Segment("prompt", "", prompt)], "chat", bare=bare)
        turn = await session.generate(sampling)
        await session.close()
        return turn


def _error(message: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": code}}


@contextmanager
def serving(held: VllmServer) -> Iterator[VllmServer]:
    class Handler(http_server.QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(*held.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*held.post(self.path, body))

        def _answer(self, status: int, body: Any) -> None:
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send(content, status, "text/plain" if isinstance(body, str) else "application/json")

    try:
        with http_server.serving(Handler) as url:
            held.url = f"{url}/v1"
            yield held
    finally:
        asyncio.run(held.engine.close())
