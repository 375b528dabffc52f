"""Compiles the search kernel into the wheel.

With a C compiler on the machine (or, failing that, the package `ziglang`, which pip then fetches for the build) the
wheel holds `subquest/retrieval/_kernel.so` and is tagged for its platform. Where compiling fails the wheel is a plain
Python one: it gives the same search results, slower. Editable installs compile into the user's cache on first use.
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    _scratch: Path | None = None

    def dependencies(self) -> list[str]:
        return [] if self._compiler().compilers() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        self._scratch = Path(tempfile.mkdtemp())
        library = self._scratch / "_kernel.so"
        reason = self._compiler().compile_to(library, native=False)
        if reason:
            self.app.display_warning(f"the search kernel was not compiled, searches will be slower: {reason}")
            return
        build_data["force_include"][str(library)] = "subquest/retrieval/_kernel.so"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _compiler(self) -> ModuleType:
        path = Path(self.root) / "src" / "subquest" / "retrieval" / "kernel_build.py"
        spec = importlib.util.spec_from_file_location("kernel_build", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
