"""Settings for every command in a folder: `subquest.toml`, then the environment, then flags; the later one wins.

    model = "openai:qwen3@http://localhost:8000/v1"     # or a table: [model] with default, planner, executor, …
    system = "coda"
    index = "docs.sq"

    [search]
    k = 5

    [limits]
    seconds = 120

The file is looked for in the working directory and then in its parents; paths in it are relative to it. It is ignored,
with a warning, if somebody else can have written it (`untrusted`), unless it is named with `--config`. Each key also
has an environment variable (`search.k` is `SUBQUEST_SEARCH_K`). What is not set stays None, and the system or paper
decides. A key that does not exist is an error that suggests the one that was meant.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from .address import is_loopback
from .codec import Count, NonNegative, Positive, Record, checked
from .errors import ConfigError, closest, suggest
from .input_file import read_toml
from .limits import Limits
from .models import MODELS
from .record import Style
from .tools.tool_options import ToolOptions

FILE_NAME = "subquest.toml"
PREFIX = "SUBQUEST_"


class SearchConfig(Record):
    k: Positive | None = None
    """Documents per search."""
    mode: Literal["auto", "bm25", "dense", "hybrid", "linked"] | None = None
    tokens: Positive | None = None
    """What one search finds is cut to what the query needs of it, in so many tokens."""


class SamplingConfig(Record):
    """Values of `Sampling` in place of the system's own."""

    temperature: NonNegative | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Count | None = None
    max_tokens: Positive | None = None
    seed: int | None = None


class EngineConfig(Record):
    """How models are run or reached; each kind of engine uses the options that concern it."""

    concurrency: Positive = 32
    """Requests in flight at one endpoint."""
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    timeout: NonNegative = 600.0
    """Seconds one request may take."""
    retries: Count = 5
    context: Positive | None = None
    """Longest context in tokens, where the server does not say or a shorter one is wanted."""
    server: Literal["auto", "vllm", "sglang", "llama.cpp", "ollama", "openai"] = "auto"
    continuation: Literal["auto", "template", "prefill", "turns"] = "auto"
    tokenizer: str | None = None
    """Folder or name of a Hugging Face tokenizer: contexts are then sent as exact token ids."""
    adapter: str | None = None
    """LoRA in GGUF form for embedded, gguf and torch models (PEFT's folder too for torch); `none` runs the embedded
    model without the shipped one."""
    threads: Positive | None = None


class CacheConfig(Record):
    path: str | None = None
    """The cache file; default: in the user's cache folder."""
    enabled: bool | None = None
    """Whether model, search and page calls are cached on disk."""


class Config(Record):
    """All settings; None where nobody has set one."""

    model: str | None = None
    """As after `--model`; a table in the file becomes `DEFAULT,planner=…,executor=…`."""
    system: str | None = None
    index: str | None = None
    """As after `--index`: an index, a search server, the web."""
    prompts: str | None = None
    """A set of prompts, `full` or `compact`, or a folder whose files replace prompts of the same name."""
    protocol: Literal["tags", "tools"] | None = None
    style: Style | None = None
    """How `ask` writes answers; evaluation and training always use short ones."""
    calibration: str | None = None
    """File of `subquest runs calibrate`, by which `ask` says in words how likely an answer is right."""
    runs: str | None = None
    """Folder of the runs that `serve` and `mcp` show, and of the questions that the server is asked."""
    prices: str | None = None
    """TOML file of prices that override the built-in ones."""
    search: SearchConfig = SearchConfig()
    limits: Limits = Limits()
    sampling: SamplingConfig = SamplingConfig()
    engine: EngineConfig = EngineConfig()
    cache: CacheConfig = CacheConfig()
    tools: ToolOptions = ToolOptions()
    sources: Mapping[str, str] = {}
    """Where each setting came from, by dotted key; settings that nobody set are not in it."""


class _Given(NamedTuple):
    value: Any
    source: str


def load_config(
    path: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The settings in force. `flags` has dotted keys (`search.k`); a flag that is None was not given."""
    layers = [
        _from_file(Path(path)) if path is not None else _from_nearest_file(),
        _from_environment(os.environ if env is None else env),
        {key: _Given(value, "a flag") for key, value in (flags or {}).items() if value is not None},
    ]
    tree: dict[str, Any] = {"sources": {}}
    for layer in layers:
        for key, given in layer.items():
            section, _, name = key.rpartition(".")
            place = tree.setdefault(section, {}) if section else tree
            place[name] = check_setting(key, given.value, given.source)
            tree["sources"][key] = given.source
    return msgspec.convert(tree, Config)


def check_setting(key: str, value: Any, source: str) -> Any:
    """The value of one setting as its key needs it; a ConfigError that names the source where it does not fit."""
    if key not in KEYS:
        raise ConfigError(_unknown(key, source))
    if isinstance(value, str) and tuple[str, ...] in typing.get_args(KEYS[key]):
        value = [part.strip() for part in value.split(",") if part.strip()]
    section, _, name = key.rpartition(".")
    found: Any = checked(Config, {section: {name: value}} if section else {name: value}, source, error=ConfigError)
    return getattr(getattr(found, section) if section else found, name)


def _from_nearest_file() -> dict[str, _Given]:
    """The settings of the file that is found, if it is ours to obey; one that is not is named in a warning."""
    file = find_file()
    if file is None:
        return {}
    if reason := untrusted(file):
        logging.getLogger("subquest").warning("%s is ignored: %s; name it with --config to use it", file, reason)
        return {}
    found = _from_file(file)
    if file.parent != Path.cwd().resolve():
        _refuse_reach(file, found)
    return found


def untrusted(file: Path) -> str:
    """Why a settings file may have been written by somebody else; empty if only the user or root can have.

    Its owner and who can write it and its folder count. A folder such as /tmp, in which nobody can replace the files
    of others, does not have to be the user's own.
    """
    if not hasattr(os, "geteuid"):
        return ""
    for place in (file, file.resolve()) if file.is_symlink() else (file,):
        found, folder = place.lstat(), place.parent.stat()
        if found.st_uid not in (0, os.geteuid()):
            return f"it belongs to {_user_name(found.st_uid)}"
        if not stat.S_ISLNK(found.st_mode) and _others_write(found):
            return "others can write it (chmod go-w)"
        if _others_write(folder) and not folder.st_mode & stat.S_ISVTX:
            return "others can write its folder (chmod go-w)"
        if folder.st_uid not in (0, os.geteuid()) and not folder.st_mode & stat.S_ISVTX:
            return f"its folder belongs to {_user_name(folder.st_uid)}"
    return ""


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private_group(found.st_gid)


def _is_private_group(group: int) -> bool:
    """Whether a group is the user's own, as many systems make one for each user, or root's."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    return group in (0, user.pw_gid) and members <= {user.pw_name, "root"}


def _user_name(number: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"the user {number}"


def _refuse_reach(file: Path, found: Mapping[str, _Given]) -> None:
    """A file above the working directory is easily overlooked: it may not load code, or say where keys are sent."""
    system, model = (str(found[key].value) if key in found else "" for key in ("system", "model"))
    fix = f"use --config {file} if you trust it"
    if "tools.use" in found:
        raise ConfigError(f"{file}: tools.use starts programs, which a file in a parent folder may not name; {fix}")
    if ".py:" in system:
        raise ConfigError(f"{file}: system = {system!r} runs code, which a file in a parent folder may not name; {fix}")
    for address in re.findall(r"https?://[^\s,#]+", model):
        if not is_loopback(address):
            raise ConfigError(f"{file}: model = {model!r} says where your key is sent, which a file in a parent folder "
                              f"may not; {fix}")  # fmt: skip


def find_file(start: Path | None = None) -> Path | None:
    """The nearest `subquest.toml`, from a folder (default: the working directory) upwards."""
    here = (start or Path.cwd()).resolve()
    return next((folder / FILE_NAME for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


def split_models(models: str) -> dict[str, str]:
    """`embedded,planner=openai:big` as {"": "embedded", "planner": "openai:big"}."""
    names: dict[str, str] = {}
    for part in re.split(r",(?=[A-Za-z_][\w-]*=)", models.strip()):
        found = re.match(r"([A-Za-z_][\w-]*)=(.*)", part)
        role, name = (found[1], found[2].strip()) if found else ("", part.strip())
        if role in names:
            raise ConfigError(f"the role {role!r} is given two models in {models!r}")
        names[role] = name
    return names


def join_models(models: Mapping[str, str]) -> str:
    """The inverse of `split_models`."""
    ordered = sorted(models.items(), key=lambda item: item[0] != "")
    return ",".join(f"{role}={name}" if role else name for role, name in ordered)


def _keys(cls: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    for f in fields(cls):
        if is_dataclass(hints[f.name]):
            yield from _keys(hints[f.name], f"{f.name}.")
        elif f.name != "sources":
            yield prefix + f.name, hints[f.name]


KEYS: Mapping[str, Any] = dict(_keys(Config))
"""Every setting by its dotted key, with the type of its value."""
PATHS = (
    "index",
    "prompts",
    "calibration",
    "runs",
    "prices",
    "engine.adapter",
    "cache.path",
    "tools.record",
    "tools.ca",
)
SHORTER = {"SUBQUEST_ALLOW_HOSTS": "tools.allow_hosts", "SUBQUEST_SANDBOX_URL": "tools.sandbox_url"}
"""Second names of variables."""


def _from_file(file: Path) -> dict[str, _Given]:
    data = read_toml(file, "the settings in", error=ConfigError)
    found: dict[str, Any] = {}
    for key, value in data.items():
        if key == "model" and isinstance(value, dict):
            for role, name in value.items():
                if not isinstance(name, str):
                    raise ConfigError(f"{file}: model.{role} must be text, not {name!r}")
            found["model"] = join_models({"" if role == "default" else role: name for role, name in value.items()})
        elif isinstance(value, dict):
            if not any(known.startswith(f"{key}.") for known in KEYS):
                raise ConfigError(_unknown(key, str(file), what="section"))
            found |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            found[key] = value
    relative = {key: _located(key, value, file.parent) for key, value in found.items() if isinstance(value, str)}
    return {key: _Given(value, str(file)) for key, value in {**found, **relative}.items()}


_NAMES = {("engine.adapter", "none"), ("prompts", "full"), ("prompts", "compact")}


def _located(key: str, value: str, folder: Path) -> str:
    """A setting of a file in `folder`: if it names a file, with the path from there."""

    def path(place: str) -> str:
        return str(folder / Path(place.strip()).expanduser())

    if key in PATHS:
        if key == "index" and value.startswith("lance:") and "://" not in value:
            return f"lance:{path(value.removeprefix('lance:'))}"
        elsewhere = "://" in value or value.startswith("simulated:") or (key, value) in _NAMES
        return value if elsewhere else path(value)
    if key == "engine.tokenizer":  # a folder here, or a name of the Hugging Face hub
        return path(value) if Path(path(value)).is_dir() else value
    if folder.resolve() == Path.cwd():  # files of models and systems are where they say
        return value
    if key == "system":
        return ",".join(path(name) if ".py:" in name else name for name in value.split(","))
    if key == "model":
        models = split_models(value)
        for role, model in models.items():
            kind, _, place = model.partition(":")
            if kind in ("gguf", "torch", "scripted") and place not in MODELS:
                models[role] = f"{kind}:{path(place)}"
        return join_models(models)
    return value


def _from_environment(env: Mapping[str, str]) -> dict[str, _Given]:
    """Variables of settings. Other `SUBQUEST_…` variables belong to other parts, unless they look like a typo."""
    names = {**SHORTER, **{PREFIX + key.replace(".", "_").upper(): key for key in KEYS}}
    out: dict[str, _Given] = {}
    for name, key in names.items():
        if value := env.get(name):
            out[key] = _Given(parse_setting(key, value, name), name)
    for name in env:
        if name.startswith(PREFIX) and name not in names and (near := closest(name, names, cutoff=0.9)):
            raise ConfigError(f"the environment variable {name} is unknown; did you mean {near}?")
    return out


def parse_setting(key: str, text: str, source: str) -> Any:
    """The value of one setting from text, as a variable or an option gives it; see `check_setting`."""
    return check_setting(key, _from_text(text, KEYS[key]), source)


_YES_NO = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)


def _from_text(text: str, kind: Any) -> Any:
    """The text of a variable as its key needs it; the text itself where it does not fit."""
    kinds = [getattr(part, "__origin__", part) for part in (kind, *typing.get_args(kind))]
    if bool in kinds:
        return _YES_NO.get(text.strip().lower(), text)
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                return text
    return text


def _unknown(key: str, source: str, *, what: str = "setting") -> str:
    sections = [k.split(".")[0] for k in KEYS if "." in k]
    if key in sections:
        return f"{source}: {key!r} is a section: write [{key}], and its settings below"
    elsewhere = next((k for k in KEYS if k.rpartition(".")[2] == key.rpartition(".")[2]), "")
    otherwise = f"did you mean {elsewhere!r}?" if elsewhere else f"settings are: {', '.join(KEYS)}"
    return f"{source}: there is no {what} {key!r}; {suggest(key, [*KEYS, *sections], otherwise)}"
