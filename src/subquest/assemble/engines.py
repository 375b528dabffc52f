"""Engines by the names that users write after `--model`.

embedded                          the model that ships with Subquest
qwen-0.5b, qwen-1.5b              a known model, in this process (`subquest model list`)
gguf:PATH                         any GGUF file, in this process
torch:PATH                        a folder with safetensors, a GGUF file or a known model, in batches
openai:NAME                       at OPENAI_BASE_URL, or at OpenAI
openai:NAME@BASE_URL              an OpenAI-compatible endpoint; NAME may be empty where only one model is served
http://HOST:PORT/v1#NAME          the same, written as a URL (also https)
litellm:NAME                      through LiteLLM, for other kinds of APIs
scripted:FILE.jsonl               replies from a file, for tests
planner=…,executor=…              a model per role; a part without a role is for all other roles
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..config import EngineConfig, split_models
from ..engine.interface import Engine
from ..errors import ConfigError, MissingDependency, UsageError, closest
from ..models import MODELS, is_language_model

if TYPE_CHECKING:
    from ..engine.openai import Endpoint, Limits

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


_NAMES = [name for name in MODELS if is_language_model(name)]


class EngineOptions(EngineConfig):
    """The options of `[engine]` in the settings, and those that only a program or another setting gives."""

    api_key: str | None = None
    """Default: OPENAI_API_KEY."""
    protocol: str = "tags"
    """`tags`, or `tools` for native tool calling."""
    stream: bool = False
    prices: str | None = None
    """TOML file with prices that override the built-in ones."""
    extra: Mapping[str, Any] = {}
    """Added to every request body of an endpoint."""


def open_engines(models: str | Mapping[str, str], options: EngineOptions | None = None) -> dict[str, Engine]:
    """The engine of each role, with `""` for all other roles. `models` is a name, `role=…,role=…`, or a mapping.

    Roles with the same name share one engine, and engines at the same base URL share connections and limits.
    """
    opener = _Opener(options or EngineOptions())
    names = split_models(models) if isinstance(models, str) else models
    return {role: opener.engine(name) for role, name in names.items()}


def open_engine(model: str, options: EngineOptions | None = None, *, part: str = "model") -> Engine:
    """The engine of one model. `part` is what it is wanted for (a judge, a teacher), also for the error message.

    As anything but the model of a system's roles, a known model runs as published, because its adapter has learnt the
    prompts of these roles and no others. Only SmolLM2, which follows no prompt without its adapter, keeps it.
    """
    names = split_models(model)
    if set(names) != {""}:
        raise ConfigError(f"a {part} is one model, and {model!r} names a model for each role")
    options = options or EngineOptions()
    known = names[""].removeprefix("torch:")
    if part != "model" and options.adapter is None and is_language_model(known) and known != "smollm2":
        options = replace(options, adapter="none")
    return _Opener(options).engine(names[""])


_HOST = r"(?:localhost|\d+(?:\.\d+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}|\[[\da-f:]+\])"
_ADDRESS = re.compile(rf"(?<=.)@({_HOST}(?:[:/].*)?|[\w-]+(?::\d+|/).*)$", re.IGNORECASE)
"""A host after a model's name, without `http://`; not a version, as in `claude@20240229`."""


class _Opener:
    """Opens engines with the same options; what they can share is opened once."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._engines: dict[str, Engine] = {}
        self._endpoints: dict[str, Endpoint] = {}

    def engine(self, model: str) -> Engine:
        if model not in self._engines:
            self._engines[model] = self._make(model)
        return self._engines[model]

    def _make(self, model: str) -> Engine:
        kind, colon, rest = model.partition(":")
        if self.options.protocol == "tools" and (kind in ("embedded", "gguf", "torch", "scripted") or kind in MODELS):
            raise UsageError(f"tool calls need an endpoint that has them; {model} acts by tags (leave `protocol` out)")
        if model in ("embedded", "smollm2"):
            return self._gguf(None)
        if is_language_model(model):
            return self._gguf(model)
        if kind not in FORMS or not colon or (not rest and kind != "openai"):
            raise _unknown(model)
        if kind == "gguf":
            return self._gguf(rest)
        if kind == "torch":
            return self._torch(rest)
        if kind == "openai":
            name, url = re.fullmatch(r"(.*?)(?:@(https?://.+))?", rest).groups()  # type: ignore[union-attr]
            if not url and (place := _ADDRESS.search(name)):  # otherwise the question and the key would go to OpenAI
                raise UsageError(
                    f"{model}: write the whole address, as in openai:{name[: place.start()]}@http://{place[1]}"
                )
            return self._openai(name, url or os.environ.get("OPENAI_BASE_URL") or "")
        if kind in ("http", "https"):
            url, _, name = model.partition("#")
            return self._openai(name, url)
        if kind == "litellm":
            return self._litellm(rest)
        if kind == "scripted":
            from ..engine.scripted import ScriptedEngine

            return ScriptedEngine.from_file(Path(rest).expanduser())
        raise _unknown(model)

    def _gguf(self, path: str | None) -> Engine:
        options = self.options
        if path is not None and not is_language_model(path):
            path = str(Path(path).expanduser())  # a shell does not expand `~` after `gguf:`
            if not Path(path).is_file():
                raise UsageError(f"no such model file: {path}")
        from ..engine.embedded import EmbeddedEngine

        adapter = options.adapter or "default"
        return EmbeddedEngine(
            path,
            adapter=None if adapter == "none" else adapter,
            threads=options.threads,
            context=options.context or 8192,
        )

    def _torch(self, name: str) -> Engine:
        try:
            from ..engine.torch.engine import TorchEngine
        except ImportError as error:
            raise MissingDependency(f"{error.name}, which torch: models need,", "train") from None
        adapter = self.options.adapter or "default"
        return TorchEngine.load(name, adapter=None if adapter == "none" else adapter, window=self.options.context)

    def _openai(self, name: str, url: str) -> Engine:
        from ..engine.openai import HuggingFaceTokenizer, OpenAIEngine, load_prices
        from ..engine.openai.engine import OPENAI

        options = self.options
        url = (url or OPENAI).rstrip("/")
        if url == OPENAI and not name:
            raise UsageError("name the model: openai:NAME, or openai:NAME@BASE_URL")
        return OpenAIEngine(
            name,
            endpoint=self._endpoint(url),
            server=options.server,
            continuation=options.continuation,
            protocol=options.protocol,  # type: ignore[arg-type]
            tokenizer=HuggingFaceTokenizer(options.tokenizer) if options.tokenizer else None,
            context_window=options.context,
            stream=options.stream,
            prices=load_prices(options.prices),
            extra=options.extra,
        )

    def _litellm(self, name: str) -> Engine:
        from ..engine.litellm import LiteLLMEngine
        from ..engine.openai import load_prices

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
        from ..engine.openai import Endpoint

        options = self.options
        if url not in self._endpoints:
            key = os.environ.get("OPENAI_API_KEY", "") if options.api_key is None else options.api_key
            self._endpoints[url] = Endpoint(
                url, api_key=key, timeout=options.timeout, retries=options.retries, limits=self._limits()
            )
        return self._endpoints[url]

    def _limits(self) -> Limits:
        from ..engine.openai import Limits

        options = self.options
        return Limits(options.concurrency, options.requests_per_minute, options.tokens_per_minute)


def _unknown(model: str) -> UsageError:
    kind = model.partition(":")[0]
    if model.endswith(".gguf"):
        hint = f"did you mean gguf:{model.rpartition(':')[2]}?"
    elif near := closest(kind, [*FORMS, *_NAMES]):
        hint = f"did you mean {FORMS.get(near, near)}?"
    elif model and ":" not in model:
        hint = f"a model at an endpoint is written openai:{model} or openai:{model}@BASE_URL."
    else:
        hint = ""
    return UsageError(
        f"unknown model {model!r}: {hint + ' ' if hint else ''}Known forms: {', '.join([*_NAMES, *FORMS.values()])}"
    )
