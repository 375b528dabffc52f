"""Python for agents: a real sandbox on this machine, or a remote one; never the host itself."""

from .base import CodeResult, Fetch, Fetched, Interpreter, SandboxLimits, SandboxUnavailable
from .folder import WorkFile
from .remote import RemoteSandbox
from .session import Sandbox

__all__ = [
    "CodeResult",
    "Fetch",
    "Fetched",
    "Interpreter",
    "RemoteSandbox",
    "Sandbox",
    "SandboxLimits",
    "SandboxUnavailable",
    "WorkFile",
]
