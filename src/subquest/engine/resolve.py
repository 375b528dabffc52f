"""Engines from the strings that users write after `--model`.

embedded                          the model that ships with Subquest
gguf:PATH                         any GGUF file, in this process
torch:PATH                        a folder with safetensors or a GGUF file (or smollm2), in batches on a GPU or the CPU
openai:NAME                       at OPENAI_BASE_URL, or at OpenAI
openai:NAME@BASE_URL              an OpenAI-compatible endpoint; NAME may be empty where only one model is served
http://HOST:PORT/v1#NAME          the same, written as a URL (also https)
litellm:NAME                      through LiteLLM, for APIs of other kinds
scripted:FILE.jsonl               replies from a file, for tests
planner=…,executor=…              a model a role; a part without a role is for all others
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency, UsageError, closest
from .interface import Engine

if TYPE_CHECKING:
    from .openai import Endpoint, Limits

FORMS = {
    "embedded": "embedded",
    "gguf": "gguf:PATH",
    "torch": "torch:PATH",
    "openai": "openai:NAME[@BASE_URL]",
    "http": "http://HOST:PORT/v1#NAME",
    "https": "https://HOST/v1#NAME",
    "litellm": "litellm:NAME",
    "scripted": "scripted:FILE.jsonl",
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of engines; each kind of engine takes those that concern it."""

    api_key: str | None = None
    """Default: OPENAI_API_KEY."""
    timeout: float = 600.0
    """Seconds one request may take."""
    retries: int = 5
    concurrency: int = 32
    """Requests in flight at one endpoint."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    protocol: str = "tags"
    """`tags`, or `tools` for native tool calling."""
    server: str = "auto"
    continuation: str = "auto"
    tokenizer: str | None = None
    """Folder or name of a Hugging Face tokenizer: contexts are then sent as exact token ids."""
    context: int | None = None
    """Longest context in tokens, where the server does not say or a shorter one is wanted."""
    stream: bool = False
    prices: str | None = None
    """TOML file with prices that override the built-in ones."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Added to every request body of an endpoint."""
    adapter: str | None = None
    """LoRA in GGUF form for embedded, gguf and torch models (PEFT's folder too for torch); `none` runs the embedded
    model without the one that ships."""
    threads: int | None = None


def resolve(spec: str, options: EngineOptions | None = None) -> Engine | dict[str, Engine]:
    """The engine that `spec` names; for `role=…,role=…` a mapping from role to engine, with `""` for all others.

    Roles with the same string share one engine, and engines at the same base URL share connections and limits.
    """
    resolver = _Resolver(options or EngineOptions())
    parts = re.split(r",(?=[A-Za-z_][\w-]*=)", spec.strip())
    engines: dict[str, Engine] = {}
    for part in parts:
        found = re.match(r"([A-Za-z_][\w-]*)=(.*)", part)
        role, name = (found[1], found[2].strip()) if found else ("", part.strip())
        if role in engines:
            raise UsageError(f"the role {role!r} is given two models in {spec!r}")
        engines[role] = resolver.engine(name)
    return engines[""] if set(engines) == {""} else engines


_HOST = r"(?:localhost|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}|\[[\da-f:]+\])"
_ADDRESS = re.compile(rf"(?<=.)@({_HOST}(?:[:/].*)?|[\w-]+(?::\d+|/).*)$", re.IGNORECASE)
"""A host behind a model's name, without `http://`; not a version, as in `claude@20240229`."""


class _Resolver:
    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._engines: dict[str, Engine] = {}
        self._endpoints: dict[str, Endpoint] = {}

    def engine(self, spec: str) -> Engine:
        if spec not in self._engines:
            self._engines[spec] = self._make(spec)
        return self._engines[spec]

    def _make(self, spec: str) -> Engine:
        kind, colon, rest = spec.partition(":")
        if self.options.protocol == "tools" and kind in ("embedded", "gguf", "torch", "scripted"):
            raise UsageError(f"tool calls need an endpoint that has them; {spec} acts by tags (leave `protocol` out)")
        if spec == "embedded":
            return self._gguf(None)
        if kind not in FORMS or not colon or (not rest and kind != "openai"):
            raise _unknown(spec)
        if kind == "gguf":
            return self._gguf(rest)
        if kind == "torch":
            return self._torch(rest)
        if kind == "openai":
            name, url = re.fullmatch(r"(.*?)(?:@(https?://.+))?", rest).groups()  # type: ignore[union-attr]
            if not url and (place := _ADDRESS.search(name)):  # the question and the key would go somewhere else
                raise UsageError(
                    f"{spec}: write the whole address, as in openai:{name[: place.start()]}@http://{place[1]}"
                )
            return self._openai(name, url or os.environ.get("OPENAI_BASE_URL") or "")
        if kind in ("http", "https"):
            url, _, name = spec.partition("#")
            return self._openai(name, url)
        if kind == "litellm":
            return self._litellm(rest)
        if kind == "scripted":
            from .scripted import ScriptedEngine

            return ScriptedEngine.from_file(Path(rest).expanduser())
        raise _unknown(spec)

    def _gguf(self, path: str | None) -> Engine:
        options = self.options
        path = path and str(Path(path).expanduser())  # no shell has done it behind `gguf:`
        if path is not None and not Path(path).is_file():
            raise UsageError(f"no such model file: {path}")
        from .embedded import EmbeddedEngine

        adapter = options.adapter or ("default" if path is None else "none")
        return EmbeddedEngine(
            path,
            adapter=None if adapter == "none" else adapter,
            threads=options.threads,
            context=options.context or 8192,
        )

    def _torch(self, name: str) -> Engine:
        try:
            from .torch.named import EMBEDDED, named_engine
        except ImportError as error:
            raise MissingDependency(f"{error.name}, which torch: models need,", "train") from None
        adapter = self.options.adapter or ("default" if name == EMBEDDED else "none")
        return named_engine(name, adapter=None if adapter == "none" else adapter, window=self.options.context)

    def _openai(self, name: str, url: str) -> Engine:
        from .openai import HuggingFaceTokenizer, OpenAIEngine, load_prices
        from .openai.engine import OPENAI

        options = self.options
        url = (url or OPENAI).rstrip("/")
        if url == OPENAI and not name:
            raise UsageError("name the model: openai:NAME, or openai:NAME@BASE_URL")
        return OpenAIEngine(
            name,
            endpoint=self._endpoint(url),
            server=options.server,  # type: ignore[arg-type]
            continuation=options.continuation,  # type: ignore[arg-type]
            protocol=options.protocol,  # type: ignore[arg-type]
            tokenizer=HuggingFaceTokenizer(options.tokenizer) if options.tokenizer else None,
            context_window=options.context,
            stream=options.stream,
            prices=load_prices(options.prices),
            extra=options.extra,
        )

    def _litellm(self, name: str) -> Engine:
        from .litellm import LiteLLMEngine
        from .openai import load_prices

        options = self.options
        return LiteLLMEngine(
            name,
            timeout=options.timeout,
            retries=options.retries,
            limits=self._limits(),
            protocol=options.protocol,
            context_window=options.context,
            prices=load_prices(options.prices),
            extra=options.extra,
        )

    def _endpoint(self, url: str) -> Endpoint:
        from .openai import Endpoint

        options = self.options
        if url not in self._endpoints:
            key = os.environ.get("OPENAI_API_KEY", "") if options.api_key is None else options.api_key
            self._endpoints[url] = Endpoint(
                url, api_key=key, timeout=options.timeout, retries=options.retries, limits=self._limits()
            )
        return self._endpoints[url]

    def _limits(self) -> Limits:
        from .openai import Limits

        options = self.options
        return Limits(options.concurrency, options.requests_per_minute, options.tokens_per_minute)


def _unknown(spec: str) -> UsageError:
    kind = spec.partition(":")[0]
    if spec.endswith(".gguf"):
        hint = f"did you mean gguf:{spec.rpartition(':')[2]}?"
    elif near := closest(kind, [*FORMS, "embedded"]):
        hint = f"did you mean {FORMS[near]}?"
    elif spec and ":" not in spec:
        hint = f"a model at an endpoint is written openai:{spec} or openai:{spec}@BASE_URL."
    else:
        hint = ""
    return UsageError(f"unknown model {spec!r}: {hint + ' ' if hint else ''}Known forms: {', '.join(FORMS.values())}")
