"""The model that is set on the page: an endpoint, kept in a file that only its owner can read.

The key is written and never given out: the page learns whether there is one. It is sent to the address that it was
entered for, and to no other. A key of the server's environment is never sent to an address that was set on the page.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson

from ..address import checked_address, checked_key
from ..assemble import EngineOptions
from ..codec import Record, checked, to_dict
from ..errors import UsageError
from ..input_file import read_json
from ..masking import is_key_like
from .replies import Problem

FILE = "model.json"
"""In the folder of the runs."""
_ABOUT_ENDPOINT = ("server", "continuation", "tokenizer", "context", "extra", "adapter")
"""Options that describe one endpoint."""


class ModelSettings(Record):
    """An endpoint with OpenAI's API, and how it is spoken to."""

    address: str
    """Base URL."""
    model: str = ""
    """May be empty where the endpoint serves only one."""
    key: str = ""
    protocol: Literal["tags", "tools"] = "tags"
    prompts: Literal["", "full", "compact"] = ""
    """A set of prompts; empty for the model's own."""

    def options(self, base: EngineOptions) -> EngineOptions:
        """The server's limits with this key and protocol; what it says about its own endpoint is not for another."""
        about = {name: getattr(EngineOptions(), name) for name in _ABOUT_ENDPOINT}
        return msgspec.structs.replace(base, api_key=self.key, protocol=self.protocol, **about)

    @property
    def name(self) -> str:
        """As after `--model`."""
        return f"{self.address}#{self.model}"

    def public(self) -> dict[str, Any]:
        """What the page may show."""
        return {**msgspec.structs.asdict(self), "key": bool(self.key)}


def checked_settings(
    address: str, model: str, key: str | None, protocol: Any, prompts: Any, before: ModelSettings | None
) -> ModelSettings:
    """Settings as somebody typed them. Without a key, the one before is kept if the address is the same server."""
    found = checked_address(address, "the address")
    if "#" in address:
        raise UsageError("the address must not contain a #: write the model's name into its own field")
    if found.headers or any(map(is_key_like, found.query)):
        raise UsageError("the address must not contain a key or a password: write it into the field for the key")
    if any(not sign.isprintable() for sign in model):
        raise UsageError("the model's name contains characters that no name has: copy it again")
    if key is None:
        same = before is not None and _server(before.address) == _server(found.identity)
        key = before.key if before is not None and same else ""
    return ModelSettings(found.identity, model.strip(), checked_key(key, "the key"), protocol, prompts)


def _server(address: str) -> tuple[str, str]:
    parts = address.split("/", 3)
    return parts[0].lower(), parts[2].lower()


class _Stored(Record):
    folder: str
    """Where it was written: a folder of runs that came from somebody else says nothing about where questions go."""
    settings: ModelSettings


def load(folder: Path) -> ModelSettings | None:
    """What was set before; None if nothing was. Raises UsageError if the file cannot be trusted or understood."""
    path = folder / FILE
    if not path.exists():
        return None
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise UsageError(f"{path}: others could read or write it, so it is not used; set the model again")
    stored = checked(_Stored, read_json(path, "the model's settings"), str(path))
    if stored.folder != str(folder.resolve()):
        raise UsageError(f"{path}: it was written in another folder, so it is not used; set the model again")
    return stored.settings


def save(folder: Path, settings: ModelSettings | None) -> None:
    """Keep the settings, or forget them; when this returns, that is on disk."""
    path, scratch = folder / FILE, folder / f".{FILE}.new"
    try:
        if settings is None:
            path.unlink(missing_ok=True)
        else:
            scratch.unlink(missing_ok=True)
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(orjson.dumps(to_dict(_Stored(str(folder.resolve()), settings))))
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise Problem(
            507, f"the model cannot be stored: {error.strerror}; nothing was changed", code="storage"
        ) from None
