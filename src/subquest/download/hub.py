"""The Hugging Face hub: addresses of files at a revision, mirrors, and the user's key for gated repositories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ..errors import UsageError


def hub_address(
    repository: str, revision: str, file: str, *, kind: Literal["model", "dataset"] = "model", mirror: str = ""
) -> str:
    """Where a file of a repository is: at `mirror`, at `$HF_ENDPOINT`, or on the hub itself."""
    check_mirror(mirror)
    base = mirror or os.environ.get("HF_ENDPOINT", "") or "https://huggingface.co"
    folder = "datasets/" if kind == "dataset" else ""
    return f"{base.rstrip('/')}/{folder}{repository}/resolve/{revision}/{quote(file)}"


def hub_key() -> dict[str, str]:
    """The header with the user's key, from `$HF_TOKEN` or `hf auth login`; empty without one."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    token = os.environ.get("HF_TOKEN", "")
    if not token:
        try:
            token = Path(os.environ.get("HF_TOKEN_PATH") or home / "token").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}
    return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


def check_mirror(mirror: str) -> None:
    if mirror and not mirror.startswith(("https://", "http://")):
        raise UsageError(f"--mirror {mirror}: give an address that begins with https://")


def offline() -> bool:
    """Whether the user wants nothing from the hub, by `$HF_HUB_OFFLINE`."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
