"""What a server may do, and for whom."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import UsageError
from ..metrics.confidence import Calibrations

STATIC = Path(__file__).parent / "static"
"""The page, as `make web` builds it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is run. The defaults are safe: only this machine can reach it."""

    runs: Path
    """Folder of stored runs; questions asked here go into its `asked.sqlite`."""
    indexes: Path
    """Folder of indexes; each index in it is offered, and new ones are created there."""
    host: str = "127.0.0.1"
    port: int = 8420
    token: str = ""
    """What a client must send (`Authorization: Bearer …`); required unless `host` is a loopback address."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names of the server, in addition to the loopback ones and `host`."""
    admin_token: str = ""
    """Who sends it as the token may also set the model."""
    model_form: bool = True
    """Whether the model may be set on the page at all; see `who_sets_model`."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies. Only they can say who the client is (X-Forwarded-For)."""
    running: int = 4
    """Episodes that run at the same time."""
    queued: int = 32
    """Questions that may wait; more are refused with status 429."""
    asks_per_minute: int = 60
    """Questions per minute from one client address."""
    max_body: int = 1_000_000
    """Bytes of a request."""
    max_upload: int = 50_000_000
    """Bytes of a request that adds documents."""
    max_file: int = 500_000_000
    """Bytes of a file that is sent by itself; it goes straight to the disk."""
    calibrations: Calibrations | None = None
    """By which answers say in words how likely they are right."""
    grace: float = 10.0
    """Seconds that running episodes have to finish when the server is told to stop."""
    stall: float = 10.0
    """Seconds without progress after which the event loop counts as stuck, and all stacks are logged; 0: never."""
    keep_days: float | None = None
    """Days after its last answer that a conversation is kept; older ones are removed at the start. None: all stay."""
    asks: bool = True
    """Whether questions are accepted; a viewer of stored runs accepts none and writes nothing."""
    read_only: bool = False
    """Whether documents are refused."""

    def __post_init__(self) -> None:
        for name in self.allowed_hosts:
            if not _NAME.fullmatch(name):
                raise UsageError(f"--allow-host {name!r}: write a host name alone, without a scheme, a path or a port")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise UsageError(
                    f"--proxy {proxy!r}: write an address or a network, as 10.0.0.7 or 10.0.0.0/24"
                ) from None
        if not is_loopback(self.host) and not self.token:
            raise UsageError(
                f"{self.host} can be reached from other machines: give a token (--token-file, or the variable "
                "SUBQUEST_TOKEN), or serve on 127.0.0.1"
            )
        for what, token in (("token", self.token), ("admin token", self.admin_token)):
            if token and len(token) < 16:
                raise UsageError(f"the {what} is too short to be a secret: use 16 characters or more")
            if not all("!" <= sign <= "~" for sign in token):
                raise UsageError(
                    f"the {what} is sent in a header: use ASCII letters, digits and punctuation, and no spaces"
                )

    @property
    def who_sets_model(self) -> Literal["anyone", "admin", "nobody"]:
        """Who may set the model on the page. Whoever does decides where questions and documents are sent, so without an
        admin token it is only possible where one person on this machine has the server to themselves."""
        if not self.asks or not self.model_form:
            return "nobody"
        if self.admin_token:
            return "admin"
        shared = self.token or self.allowed_hosts or self.proxies or not is_loopback(self.host)
        return "nobody" if shared else "anyone"

    @property
    def hosts(self) -> frozenset[str]:
        """Host names that requests may have; empty for any, which only a token makes safe."""
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
