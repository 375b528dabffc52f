"""Rollouts on a vLLM server: for models that do not fit beside the trainer, or that vLLM runs faster.

The server holds the base model; after each update it loads the trainer's adapter from a folder, under a new name, so
its prefix cache cannot mix versions. Prompts are sent as token ids and sampled ids come back (`return_token_ids`), so
the trainer learns from exactly what was sampled. The old log-probs are the trainer's own in any case; the server's are
the behaviour log-probs for `rollout.overlap` and `rollout.ahead`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..address import is_loopback
from ..engine.adapter import PEFT_PREFIX, UNSAID, write_peft_config
from ..engine.chat_format import ChatFormat, chat_format_of
from ..engine.interface import Generation, Sampling
from ..engine.openai.endpoint import Endpoint, backoff
from ..engine.openai.engine import OpenAIEngine
from ..engine.openai.rate_limits import Limits
from ..engine.openai.reply import Reply
from ..engine.openai.session import OpenAISession
from ..engine.torch.loader import Source
from ..engine.torch.vocabulary import Vocabulary
from ..engine.torch.weights import Adapter
from ..errors import EngineRefused, EngineUnavailable
from ..masking import mask
from .distributed import ALONE, Ranks

TRIES = 5
SECONDS = 120.0
"""The longest wait for one answer about adapters."""


class PolicyTokenizer:
    """The policy's own vocabulary, as the engine for OpenAI-compatible servers takes it."""

    def __init__(self, source: Source) -> None:
        self._vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
        self.form: ChatFormat = chat_format_of(source.tokenizer)

    def encode(self, text: str, control: bool, /) -> Sequence[int]:
        return self._vocabulary.encode(text, control)


class ServedPolicy(OpenAIEngine):
    """The policy on a vLLM server (`--enable-lora`, `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`) that reads this machine's
    `folder`."""

    def __init__(
        self,
        url: str,
        source: Source,
        folder: Path,
        *,
        concurrency: int,
        window: int | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        key = os.environ.get("VLLM_API_KEY", "")
        endpoint = Endpoint(url, api_key=key, limits=Limits(concurrency=concurrency))
        base = _served(endpoint)
        longest = [n for n in (window, base.get("max_model_len"), source.architecture.window) if n]
        super().__init__(
            str(base["id"]),
            endpoint=endpoint,
            server="vllm",
            tokenizer=PolicyTokenizer(source),
            context_window=min(longest),
        )
        self.base = self._found.model
        self.policy: int | None = None
        self._folder, self._ranks = folder.resolve(), ranks
        self._run = ranks.broadcast(secrets.token_hex(3))
        self._loaded: list[str] = []
        """Names of adapters on the server, the newest last."""

    def refresh(self, *, adapter: Adapter, policy: int) -> None:
        """Let the server load an adapter; later turns are written with it, running ones end with theirs."""
        name = f"subquest-{self._run}-{policy}"
        if self._ranks.first and name not in self._loaded:
            place = self._folder / name
            write_adapter(adapter, place, base=self.base)
            _ask(self.endpoint, "/load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        self._ranks.wait()
        self._found.model, self.policy = name, policy
        self._loaded = [*(other for other in self._loaded if other != name), name]
        while len(self._loaded) > 2:  # turns of the version before may be running
            self._unload(self._loaded.pop(0))

    async def complete(self, session: OpenAISession, sampling: Sampling) -> tuple[Generation, Reply]:
        policy = self.policy
        turn, reply = await super().complete(session, sampling)
        return replace(turn, policy=policy), reply

    @property
    def has_adapter(self) -> bool:
        return self.policy is not None

    def without_adapter(self) -> OpenAIEngine:
        """The base model on the same server; it closes with this engine."""
        return OpenAIEngine(
            self.base,
            endpoint=self.endpoint,
            server="vllm",
            tokenizer=self._tokenizer,
            context_window=self.context_window,
        )

    async def close(self) -> None:
        while self._loaded:
            self._unload(self._loaded.pop())
        await super().close()

    def _unload(self, name: str) -> None:
        if not self._ranks.first:
            return
        with contextlib.suppress(EngineRefused, EngineUnavailable):  # a server that has ended holds nothing
            _ask(self.endpoint, "/unload_lora_adapter", {"lora_name": name}, tries=1)
        shutil.rmtree(self._folder / name, ignore_errors=True)


def write_adapter(adapter: Adapter, folder: Path, *, base: str) -> None:
    """An adapter in PEFT's format, in the trainer's precision."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {
        f"{PEFT_PREFIX}{name}.lora_{part}.weight": tensor.detach().cpu().contiguous()
        for name, pair in adapter.pairs.items()
        for part, tensor in zip("AB", pair, strict=True)
    }
    save_file(state, folder / "adapter_model.safetensors")
    rank = next(iter(adapter.pairs.values()))[0].shape[0]
    targets = sorted({name.rpartition(".")[2] for name in adapter.pairs})
    write_peft_config(folder, rank=rank, alpha=adapter.scale * rank, targets=targets, base=base, prompts=UNSAID)


def _served(endpoint: Endpoint) -> dict[str, Any]:
    """The base model that the server lists: the one that is no adapter of another."""
    listed = json.loads(_ask(endpoint, "/models")).get("data", [])
    bases = [entry for entry in listed if isinstance(entry, dict) and not entry.get("parent") and entry.get("id")]
    if len(bases) != 1:
        names = ", ".join(str(entry["id"]) for entry in bases) or "none"
        raise EngineRefused(f"rollout.server {endpoint.base_url}: one base model must be served there, not {names}")
    return bases[0]


def _ask(endpoint: Endpoint, path: str, body: Mapping[str, Any] | None = None, *, tries: int = TRIES) -> str:
    """The text of an answer; tried again while the server is out of reach or overloaded."""
    import httpx2

    url = endpoint.base_url + path
    for attempt in range(1, tries + 1):
        try:
            kind = "GET" if body is None else "POST"
            answer = httpx2.request(
                kind,
                url,
                json=body,
                headers=endpoint.headers,
                params=endpoint.query,
                timeout=SECONDS,
                trust_env=not is_loopback(url),
            )
            text = mask(answer.text)
            if answer.status_code == 200:
                return text
            reason = f"{answer.status_code} {text[:300]}"
            if answer.status_code not in (408, 425, 429, 500, 502, 503, 504):
                hint = " (start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1)" * ("lora" in path)
                raise EngineRefused(f"rollout.server: {url} answered {reason}{hint}")
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
        if attempt < tries:
            time.sleep(backoff(attempt))
    raise EngineUnavailable(f"rollout.server: {url} cannot be used: {reason} (tried {tries} times; is the server up?)")
