"""What a server may do, and for whom."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError

STATIC = Path(__file__).parent / "static"
"""The page, as `make web` builds it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is run. Safe as it stands: only this machine can reach it."""

    runs: Path
    """Folder of stored runs; what is asked here goes into `asked.sqlite` in it."""
    indexes: Path
    """Folder of indexes; each index in it is offered, and new ones are made there."""
    host: str = "127.0.0.1"
    port: int = 8420
    token: str = ""
    """What a client must show (`Authorization: Bearer …`); needed for every address but a loopback one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the server is reached, beside the loopback ones and `host`."""
    running: int = 4
    """Episodes at a time."""
    queued: int = 32
    """Questions that may wait; more are refused with status 429."""
    asks_per_minute: int = 60
    """Questions of one client address in a minute."""
    max_body: int = 1_000_000
    """Bytes of a request."""
    max_upload: int = 50_000_000
    """Bytes of a request that brings documents."""
    grace: float = 10.0
    """Seconds that running episodes have to finish when the server is told to stop."""
    asks: bool = True
    """Questions are taken; a viewer of stored runs takes none and writes nothing."""
    read_only: bool = False
    """No documents are taken in."""

    def __post_init__(self) -> None:
        for name in self.allowed_hosts:
            if not _NAME.fullmatch(name):
                raise UsageError(f"--allow-host {name!r}: write a host name alone, without a scheme, a path or a port")
        if not is_loopback(self.host) and not self.token:
            raise UsageError(
                f"{self.host} can be reached from other machines: give a token (--token-file, or the variable "
                "SUBQUEST_TOKEN), or serve on 127.0.0.1"
            )
        if self.token and len(self.token) < 16:
            raise UsageError("the token is too short to be a secret: use 16 characters or more")
        if not all("!" <= sign <= "~" for sign in self.token):
            raise UsageError("the token goes into a header: use letters, digits and signs of ASCII, and no spaces")

    @property
    def hosts(self) -> frozenset[str]:
        """Host names that requests may carry; empty for any, which only a token makes safe."""
        own = {self.host.lower()} - {"0.0.0.0", "::"}
        if self.allowed_hosts:
            return frozenset({*map(str.lower, self.allowed_hosts), *own, *_LOOPBACK})
        return frozenset({*own, *_LOOPBACK}) if is_loopback(self.host) else frozenset()


_NAME = re.compile(r"[^\s/:@\[\]]+|[0-9A-Fa-f:.]+")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
