"""The options of tools that a configuration gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..config import ToolsConfig
    from ..tools.options import ToolOptions


def tool_options(given: ToolsConfig) -> ToolOptions:
    """What `[tools]` says, over the environment and the defaults."""
    from ..tools.options import ToolOptions

    options = ToolOptions.from_environment()
    if given.ca and not Path(given.ca).is_file():
        raise UsageError(f"tools.ca: there is no file {given.ca}")
    pages = {
        "bytes": given.page_mb and given.page_mb << 20,
        "seconds": given.page_seconds,
        "delay": given.page_delay,
    }
    code = {
        "memory": given.code_memory_mb and given.code_memory_mb << 20,
        "disk": given.code_disk_mb and given.code_disk_mb << 20,
        "processes": given.code_processes,
        "fetches": given.code_fetches,
    }
    return replace(
        options,
        web=given.web or "",
        record=given.record or "",
        ca=given.ca or "",
        allow_hosts=options.allow_hosts if given.allow_hosts is None else given.allow_hosts,
        sandbox_url=given.sandbox_url or options.sandbox_url,
        pages=replace(options.pages, **{k: v for k, v in pages.items() if v is not None}),  # type: ignore[arg-type]
        code=replace(options.code, **{k: v for k, v in code.items() if v is not None}),
    )
