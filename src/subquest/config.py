"""Settings that hold for every command in a folder: `subquest.toml`, below the environment, below flags.

    model = "openai:qwen3@http://localhost:8000/v1"     # or a table: [model] with default, planner, executor, …
    system = "coda"
    index = "docs.sq"

    [search]
    k = 5

    [limits]
    seconds = 120

The file is looked for in the working directory and then in its parents; paths in it are relative to it. Each key also
has an environment variable (`search.k` is `SUBQUEST_SEARCH_K`). What is not set stays None, and the system or paper
decides. A key that does not exist is an error that suggests the one that was meant.
"""

from __future__ import annotations

import os
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from .engine.interface import Sampling
from .errors import ConfigError, closest, suggest
from .limits import Limits

FILE_NAME = "subquest.toml"
PREFIX = "SUBQUEST_"


@dataclass(frozen=True, slots=True)
class SearchConfig:
    k: int | None = None
    """Documents a search."""
    mode: Literal["auto", "bm25", "dense", "hybrid", "linked"] | None = None


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def over(self, base: Sampling) -> Sampling:
        """The system's own sampling, with what is set here laid over it."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(base, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How models are run or reached; the fields are those of `engine.resolve.EngineOptions`, explained there."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout: float | None = None
    retries: int | None = None
    context: int | None = None
    server: Literal["auto", "vllm", "sglang", "llama.cpp", "ollama", "openai"] | None = None
    continuation: Literal["auto", "template", "prefill", "turns"] | None = None
    tokenizer: str | None = None
    adapter: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    path: str | None = None
    """The cache file; default: in the user's cache folder."""
    enabled: bool | None = None
    """Whether model, search and page calls are cached on disk."""


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """What systems with tools may reach and use; explained in `tools.options` and docs/tools.md."""

    web: str | None = None
    """searxng:URL, serper, tavily, brave or none; default: the one that the environment names."""
    record: str | None = None
    """File in which answers of the web search are kept, or, without one, from which they are taken."""
    allow_hosts: tuple[str, ...] | None = None
    """Hosts and networks of your own that pages may be fetched from."""
    ca: str | None = None
    """PEM file with certificates to trust beside the public ones."""
    egress: Literal["private", "public", "adaptive"] | None = None
    robots: bool | None = None
    """Whether robots.txt is respected."""
    page_mb: int | None = None
    page_seconds: float | None = None
    page_delay: float | None = None
    """Seconds between two requests to one public host."""
    sandbox_url: str | None = None
    """A remote /execute server in the place of the local sandbox."""
    code_seconds: float | None = None
    code_memory_mb: int | None = None
    code_disk_mb: int | None = None
    code_processes: int | None = None
    code_fetches: int | None = None
    """Pages and files that code of one question may fetch."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; None where nobody has set one."""

    model: str | None = None
    """As after `--model`; a table in the file becomes `DEFAULT,planner=…,executor=…`."""
    system: str | None = None
    index: str | None = None
    """Path of an index, or the URL of a search server."""
    prompts: str | None = None
    """Folder whose files replace prompts of the same name."""
    protocol: Literal["tags", "tools"] | None = None
    runs: str | None = None
    """Folder of the runs that `serve` and `mcp` show, and of what is asked of the server."""
    prices: str | None = None
    """TOML file of prices that override the built-in ones."""
    search: SearchConfig = field(default_factory=SearchConfig)
    limits: Limits = field(default_factory=Limits)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each setting came from, by dotted key; settings that nobody set are not in it."""


def load_config(
    path: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The settings in force. `flags` has dotted keys (`search.k`); a flag that is None was not given."""
    file = Path(path) if path is not None else find_file()
    layers = [
        _from_file(file) if file is not None else {},
        _from_environment(os.environ if env is None else env),
        {key: _Given(value, "a flag") for key, value in (flags or {}).items() if value is not None},
    ]
    given: dict[str, _Given] = {}
    for layer in layers:
        for key, entry in layer.items():
            if key not in KEYS:
                raise ConfigError(_unknown(key, entry.source))
            given[key] = _Given(_checked(key, entry), entry.source)
    sections: dict[str, dict[str, Any]] = {}
    for key, entry in given.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = entry.value
    top = sections.pop("", {})
    kinds = {
        "search": SearchConfig,
        "limits": Limits,
        "sampling": SamplingConfig,
        "engine": EngineConfig,
        "cache": CacheConfig,
        "tools": ToolsConfig,
    }
    built = {name: kinds[name](**values) for name, values in sections.items()}
    return Config(**top, **built, sources={key: entry.source for key, entry in given.items()})


def find_file(start: Path | None = None) -> Path | None:
    """The nearest `subquest.toml`, from a folder (default: the working directory) upwards."""
    here = (start or Path.cwd()).resolve()
    return next((folder / FILE_NAME for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


@dataclass(frozen=True, slots=True)
class _Given:
    value: Any
    source: str
    text: bool = False
    """It came as text and is yet to be read as what the key needs."""


def _keys(cls: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(cls)
    for f in fields(cls):
        if is_dataclass(hints[f.name]):
            yield from _keys(hints[f.name], f"{f.name}.")
        elif f.name != "sources":
            yield prefix + f.name, hints[f.name]


KEYS: Mapping[str, Any] = dict(_keys(Config))
"""Every setting by its dotted key, with the type of its value."""
PATHS = ("index", "prompts", "runs", "prices", "engine.adapter", "cache.path", "tools.record", "tools.ca")
SHORTER = {"SUBQUEST_ALLOW_HOSTS": "tools.allow_hosts", "SUBQUEST_SANDBOX_URL": "tools.sandbox_url"}
"""Second names of variables."""
_FROM_ONE = (
    *("search.k", "sampling.max_tokens", "limits.turns", "limits.calls", "limits.tokens", "engine.concurrency"),
    *("engine.requests_per_minute", "engine.tokens_per_minute", "engine.context", "engine.threads"),
    *("tools.page_mb", "tools.code_memory_mb", "tools.code_disk_mb", "tools.code_processes"),
)
_LEAST = dict.fromkeys(_FROM_ONE, 1)


def _from_file(file: Path) -> dict[str, _Given]:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    out: dict[str, _Given] = {}
    for key, value in data.items():
        if key == "model" and isinstance(value, dict):
            out["model"] = _Given(_models(value, str(file)), str(file))
        elif isinstance(value, dict):
            if not any(known.startswith(f"{key}.") for known in KEYS):
                raise ConfigError(_unknown(key, str(file), what="section"))
            out |= {f"{key}.{name}": _Given(inner, str(file)) for name, inner in value.items()}
        else:
            out[key] = _Given(value, str(file))
    for key in PATHS:
        place = out[key].value if key in out else None
        if isinstance(place, str) and not _names_no_file(key, place):
            start = "lance:" if key == "index" and place.startswith("lance:") else ""
            out[key] = _Given(start + str(file.parent / Path(place[len(start) :]).expanduser()), str(file))
    tokenizer = out["engine.tokenizer"].value if "engine.tokenizer" in out else None
    if isinstance(tokenizer, str) and (folder := file.parent / Path(tokenizer).expanduser()).is_dir():
        out["engine.tokenizer"] = _Given(str(folder), str(file))  # any other names one of the Hugging Face hub
    if file.parent.resolve() != Path.cwd():  # there, a model's file and a system's are where they say
        for key, located in (("model", _models_located), ("system", _system_located)):
            if key in out and isinstance(out[key].value, str):
                out[key] = _Given(located(out[key].value, file.parent), str(file))
    return out


_NAMES = {("engine.adapter", "none"), ("prompts", "full"), ("prompts", "compact")}


def _names_no_file(key: str, place: str) -> bool:
    """Whether a setting that is usually a path names something else: a URL, a model that writes documents, nothing."""
    return "://" in place or place.startswith("simulated:") or (key, place) in _NAMES


def _models_located(models: str, folder: Path) -> str:
    """`gguf:PATH`, `torch:PATH` and `scripted:FILE`, alone or for a role, with their paths from a folder."""

    def located(found: re.Match[str]) -> str:
        start, path = found.groups()
        known = path.strip() == "smollm2" and start.endswith("torch:")
        return found[0] if known else start + str(folder / Path(path.strip()).expanduser())

    parts = re.split(r",(?=[A-Za-z_][\w-]*=)", models)
    return ",".join(
        re.sub(r"^(\s*(?:[A-Za-z_][\w-]*=)?\s*(?:gguf|torch|scripted):)(.+)$", located, part) for part in parts
    )


def _system_located(systems: str, folder: Path) -> str:
    """`path.py:Class`, alone or among others, with its path from a folder."""
    return ",".join(
        str(folder / Path(name.strip()).expanduser()) if ".py:" in name else name for name in systems.split(",")
    )


def _from_environment(env: Mapping[str, str]) -> dict[str, _Given]:
    """Variables of settings. Other `SUBQUEST_…` variables belong to other parts, unless they look like a slip."""
    names = {PREFIX + key.replace(".", "_").upper(): key for key in KEYS}
    out = {key: _Given(env[name], name, text=True) for name, key in SHORTER.items() if env.get(name)}
    for name, value in env.items():
        if name in names:
            if value:
                out[names[name]] = _Given(value, name, text=True)
        elif name.startswith(PREFIX) and (near := closest(name, names, cutoff=0.9)):
            raise ConfigError(f"the environment variable {name} is unknown; did you mean {near}?")
    return out


def _models(table: Mapping[str, Any], source: str) -> str:
    for role, name in table.items():
        if not isinstance(name, str):
            raise ConfigError(f"{source}: model.{role} must be a string, not {name!r}")
    default = [table["default"]] if "default" in table else []
    return ",".join([*default, *(f"{role}={name}" for role, name in table.items() if role != "default")])


def checked(key: str, value: Any, source: str) -> Any:
    """The value of one setting, as it is taken; a ConfigError that names the source where it cannot be."""
    return _checked(key, _Given(value, source))


def _checked(key: str, given: _Given) -> Any:
    hint = KEYS[key]
    choices: tuple[Any, ...] = ()
    kind: Any = str
    for option in typing.get_args(hint):  # every setting may be None, so every hint is a union
        if typing.get_origin(option) is Literal:
            choices = typing.get_args(option)
        elif option is not type(None):
            kind = option
    if typing.get_origin(kind) is tuple:
        return _texts(key, given)
    value = _read(given.value, kind) if given.text else given.value
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        needed = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise ConfigError(f"{given.source}: {key} must be {needed}, not {given.value!r}")
    if choices and value not in choices:
        raise ConfigError(f"{given.source}: {key} must be one of {', '.join(choices)}, not {value!r}")
    if kind in (int, float) and not value >= _LEAST.get(key, 0) and key != "sampling.seed":  # NaN is not either
        raise ConfigError(f"{given.source}: {key} must be at least {_LEAST.get(key, 0)}, not {value}")
    if key == "sampling.top_p" and not 0 < value <= 1:
        raise ConfigError(f"{given.source}: {key} must be above 0 and at most 1, not {value}")
    return value


def _texts(key: str, given: _Given) -> tuple[str, ...]:
    """A list of texts; in a variable they are separated by commas."""
    values = given.value.split(",") if isinstance(given.value, str) else given.value
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{given.source}: {key} must be a list of strings, not {given.value!r}")
    return tuple(value.strip() for value in values if value.strip())


def _read(text: str, kind: Any) -> Any:
    """The text of a variable as the kind of value its key needs; the text itself where it is not one."""
    if kind is bool:
        return {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }.get(text.strip().lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _unknown(key: str, source: str, *, what: str = "setting") -> str:
    sections = [k.split(".")[0] for k in KEYS if "." in k]
    if key in sections:
        return f"{source}: {key!r} is a section: write [{key}], and its settings below"
    elsewhere = next((k for k in KEYS if k.rpartition(".")[2] == key.rpartition(".")[2]), "")
    otherwise = f"did you mean {elsewhere!r}?" if elsewhere else f"settings are: {', '.join(KEYS)}"
    hint = suggest(key, [*KEYS, *sections], otherwise)
    return f"{source}: there is no {what} {key!r}; {hint}"
