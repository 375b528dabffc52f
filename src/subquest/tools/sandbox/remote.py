"""A sandbox on another machine, by the `/execute` protocol of ReCall and HiRA: `{"env", "call", "timeout"}`.

The protocol has no sessions: earlier code is sent along as `env` and run again, its output dropped.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ...address import checked_address
from ...codec import utf8
from ...errors import ToolError
from ...masking import mask, masked
from .interface import CodeResult, SandboxLimits

ANSWER = 16 << 20
"""Most bytes of an answer."""
GRACE = 10.0
"""Seconds that an answer may take beyond the time limit of the code."""


class RemoteSandbox:
    """Python for one question on a remote `/execute` server."""

    def __init__(self, url: str, limits: SandboxLimits | None = None) -> None:
        self._address = checked_address(url, "the sandbox's address")
        self.url = f"{self._address.url.removesuffix('/execute')}/execute"
        self._limits = limits or SandboxLimits()
        self._before: list[str] = []

    async def run(self, code: str) -> CodeResult:
        import httpx2

        body = {"env": "\n\n".join(self._before), "call": code, "timeout": self._limits.seconds}
        seconds = self._limits.seconds + GRACE
        try:
            async with asyncio.timeout(seconds):
                status, content = await self._post(body)
            if status != 200:
                said = mask(content.decode("utf-8", "replace"))[:200]
                raise ToolError(f"the sandbox {self.url} answered with status {status}: {said}")
            answer = masked(json.loads(content))
            output, result, error = (answer.get(name) for name in ("output", "result", "error"))
        except TimeoutError:
            raise ToolError(f"the sandbox {self.url} took longer than {seconds:g} seconds") from None
        except (httpx2.HTTPError, ValueError, AttributeError, RecursionError) as failure:
            raise ToolError(f"the sandbox {self.url} failed: {str(failure) or type(failure).__name__}") from None
        text = "\n".join(str(part).rstrip() for part in (output, result) if part not in (None, ""))
        if not error:
            self._before.append(code)
        return CodeResult(utf8(text[: self._limits.output]), utf8(str(error or "")[: self._limits.output]))

    async def _post(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and content of the answer, which is only read as far as an answer may be long."""
        import httpx2

        content = bytearray()
        async with (
            httpx2.AsyncClient(timeout=self._limits.seconds + GRACE, trust_env=False) as client,
            client.stream(
                "POST", self.url, json=body, params=self._address.query, headers=self._address.headers
            ) as reply,
        ):
            async for part in reply.aiter_bytes():
                content += part
                if len(content) > ANSWER:
                    raise ToolError(f"the sandbox {self.url} answered with more than {ANSWER:,} bytes")
        return reply.status_code, bytes(content)

    def add_file(self, path: Path, name: str = "") -> str:
        raise ToolError(f"the remote sandbox {self.url} does not take files; {name or path.name} was not sent")

    async def close(self) -> None:
        """Nothing is held."""
