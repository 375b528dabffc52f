"""How much memory is free for a model."""

from __future__ import annotations

import re
from pathlib import Path

from ..download.sizes import megabytes
from ..errors import UsageError
from .catalog import MODELS


def available_memory() -> int | None:
    """Bytes that this process can still get, by the machine and by its container; None where neither says it."""
    found = [limit for limit in (_of_machine(), _of_container()) if limit is not None]
    return min(found, default=None)


def check_memory(name: str, needed: int, context: int) -> None:
    """Refuse a model that cannot fit; `needed` is what its weights and the cache of its context take at least."""
    free = available_memory()
    if free is None or needed <= free:
        return
    smaller = [model for model in MODELS.values() if model.context and model.size < min(free, needed) / 2]
    ways = [f"choose a smaller model (--model {max(smaller, key=lambda m: m.size).name})"] if smaller else []
    if context > 2048:
        ways.append("a shorter context (SUBQUEST_ENGINE_CONTEXT=2048)")
    raise UsageError(
        f"{name} needs {megabytes(needed)} of memory with a context of {context:,} tokens, and {megabytes(free)} are "
        f"free: {' or '.join([*ways, 'end other programs'])}"
    )


def _of_machine() -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _of_container() -> int | None:
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if not limit.isdigit() or not used.isdigit():
        return None
    cached = re.search(r"^file (\d+)", _text("/sys/fs/cgroup/memory.stat"), re.MULTILINE)
    return int(limit) - int(used) + (int(cached[1]) if cached else 0)  # cached files make way for programs


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
