"""Python for agents: a real sandbox on this machine, or a remote one; never the host itself."""

from .interface import CodeResult, Fetch, Fetched, Interpreter, SandboxLimits, SandboxUnavailable
from .local import Sandbox
from .remote import RemoteSandbox
from .work_folder import WorkFile

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
