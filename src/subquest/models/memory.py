"""How much memory is free for a model, and which models it is enough for."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from ..download.sizes import megabytes
from ..errors import UsageError
from . import default_adapter
from .catalog import MODELS, KnownModel, cache_folder

_CONTAINER = "/sys/fs/cgroup"


def available_memory() -> int | None:
    """Bytes that this process can still get, by the machine and by its container; None where neither says it."""
    found = [limit for limit in (_of_machine("MemAvailable"), _of_container()) if limit is not None]
    return min(found, default=None)


def total_memory() -> int | None:
    """Bytes that the machine has, or its container may use; None where neither says it."""
    found = [limit for limit in (_of_machine("MemTotal"), _number("memory.max")) if limit is not None]
    return min(found, default=None)


def fits(size: int) -> bool:
    """Whether so many bytes of memory are free, as far as that is known."""
    free = available_memory()
    return free is None or size <= free


def check_memory(name: str, weights: int, cache: int = 0, context: int = 0) -> None:
    """Refuse a model that cannot fit: its weights and the cache of its context take at least so many bytes."""
    free, needed = available_memory(), weights + cache
    if free is None or needed <= free:
        return
    smaller = [model for model in MODELS.values() if model.context and model.size < min(free, needed) / 2]
    ways = [f"choose a smaller model (--model {max(smaller, key=lambda m: m.size).name})"] if smaller else []
    if context > 2048 and weights < free:
        ways.append("a shorter context (SUBQUEST_ENGINE_CONTEXT=2048)")
    with_context = f" with a context of {context:,} tokens" if context else ""
    raise UsageError(
        f"{name} needs {megabytes(needed)} of memory{with_context}, and {megabytes(free)} are free: "
        + " or ".join([*ways, "end other programs"])
    )


def larger_model() -> KnownModel | None:
    """The largest known language model besides the embedded one that this machine has room for: twice its size in
    memory and, where it is not here yet, a quarter more than its size on the disk."""
    folder = next(place for place in (cache_folder(), *cache_folder().parents) if place.exists())
    disk = shutil.disk_usage(folder).free
    known = [model for model in MODELS.values() if model.context and model.name != "smollm2"]
    able = [model for model in known if fits(2 * model.size) and (model.present or 1.25 * model.size <= disk)]
    return max(able, key=lambda model: model.size, default=None)


def default_model() -> str:
    """What runs where no model is named: the largest known model that was fetched, ships with an adapter and takes no
    more than half of this machine's memory; else, or where `$SUBQUEST_SMOLLM2` names a file, the embedded one.

    It does not depend on how much memory is free right now: a run that is resumed has the same model.
    """
    total = total_memory()
    known = [model for model in MODELS.values() if model.context and model.name != "smollm2" and model.present]
    able = [m for m in known if default_adapter(m.name) and (total is None or 2 * m.size <= total)]
    if not able or os.environ.get("SUBQUEST_SMOLLM2"):
        return "embedded"
    return max(able, key=lambda model: model.size).name


def _of_machine(what: str) -> int | None:
    found = re.search(rf"^{what}:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _of_container() -> int | None:
    limit, used = _number("memory.max"), _number("memory.current")
    if limit is None or used is None:
        return None
    cached = re.search(r"^file (\d+)", _text(f"{_CONTAINER}/memory.stat"), re.MULTILINE)
    return limit - used + (int(cached[1]) if cached else 0)  # cached files make way for programs


def _number(name: str) -> int | None:
    text = _text(f"{_CONTAINER}/{name}").strip()
    return int(text) if text.isdigit() else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
