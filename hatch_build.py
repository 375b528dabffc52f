"""Compiles the C code into the wheel (search kernel, the embedded model's for each kind of CPU) and adds the recipes.

With a C compiler on the machine (or, failing that, the package `ziglang`, which pip then fetches for the build) the
wheel holds the shared libraries of `subquest/c_libraries.py` and is tagged for its platform. What does not compile is
left out: it gives the same search results and answers, slower. Editable installs compile into the user's cache on first
use.
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
        included = build_data["force_include"]
        included |= {str(path): f"subquest/_recipes/{path.name}" for path in Path(self.root, "recipes").glob("*.toml")}
        self._scratch = Path(tempfile.mkdtemp())
        for library in self._compiler().for_this_architecture():
            target = self._scratch / library.shipped.name
            if reason := library.compile(target):
                self.app.display_warning(f"{library.source} was not compiled ({library.name}): {reason}")
            else:
                included[str(target)] = f"subquest/{Path(library.source).parent}/{target.name}"
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _compiler(self) -> ModuleType:
        path = Path(self.root) / "src" / "subquest" / "c_libraries.py"
        spec = importlib.util.spec_from_file_location("c_libraries", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
