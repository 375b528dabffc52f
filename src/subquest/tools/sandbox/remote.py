"""A sandbox on another machine, by the `/execute` protocol of ReCall and HiRA: `{"env", "call", "timeout"}`.

The protocol has no sessions: earlier code is sent along as `env` and run again, its output dropped.
"""

from __future__ import annotations

from pathlib import Path

from ...address import checked_address
from ...errors import ToolError
from ...masking import mask, masked
from ...retrieval.store import utf8
from .interface import CodeResult, SandboxLimits


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
        try:
            async with httpx2.AsyncClient(timeout=self._limits.seconds + 10, trust_env=False) as client:
                reply = await client.post(
                    self.url, json=body, params=self._address.query, headers=self._address.headers
                )
            if reply.status_code != 200:
                raise ToolError(
                    f"the sandbox {self.url} answered with status {reply.status_code}: {mask(reply.text)[:200]}"
                )
            answer = masked(reply.json())
            output, result, error = (answer.get(name) for name in ("output", "result", "error"))
        except (httpx2.HTTPError, ValueError, AttributeError, RecursionError) as failure:
            raise ToolError(f"the sandbox {self.url} failed: {str(failure) or type(failure).__name__}") from None
        text = "\n".join(str(part).rstrip() for part in (output, result) if part not in (None, ""))
        if not error:
            self._before.append(code)
        return CodeResult(utf8(text[: self._limits.output]), utf8(str(error or "")))

    def add_file(self, path: Path, name: str = "") -> str:
        raise ToolError(f"the remote sandbox {self.url} does not take files; {name or path.name} was not sent")

    async def close(self) -> None:
        """Nothing is held."""
