"""The map in docs/architecture.md against the imports of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "subquest"
MAP = ROOT / "docs" / "architecture.md"


@cache
def modules() -> dict[str, Path]:
    """Files by dotted name below `subquest`; a package by its own name, the root by an empty one."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str) -> Iterator[str]:
    """Modules of the package that a module imports, anywhere in its text and for type checkers alone, too."""
    path = modules()[name]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    here = name.split(".") if name else []
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = package[: len(package) - node.level + 1]
        elif node.module and node.module.split(".")[0] == "subquest":
            base = []
        else:
            continue
        named = (node.module or "").removeprefix("subquest" if not node.level else "").strip(".")
        target = ".".join(filter(None, [*base, *named.split(".")]))
        for alias in node.names:
            whole = ".".join(filter(None, (target, alias.name)))
            yield whole if whole in modules() else target


@cache
def graph() -> dict[str, set[str]]:
    return {name: {found for found in imports(name) if found not in (name, "")} for name in modules() if name}


def layers() -> dict[str, int]:
    """Packages and top-level modules to the height of their row; the lowest row is 0."""
    table = MAP.read_text(encoding="utf-8").partition("## Layers")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", line.rsplit("|", 2)[1]) for line in table.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row]
    return {name: height for height, row in enumerate(reversed(rows)) for name in row}


def package_of(module: str) -> str:
    first, *rest = module.split(".")
    return "train" if first == "systems" and rest and rest[-1] in ("reward", "teacher") else first


def test_the_map_names_every_package() -> None:
    packages = {name.split(".")[0] for name in modules()} - {"", "__main__"}
    assert set(layers()) == packages


def test_imports_go_downwards() -> None:
    height = layers()
    wrong = [
        f"{name} imports {target}"
        for name, targets in graph().items()
        for target in targets
        if name != "__main__" and package_of(name) != package_of(target)
        if height[package_of(name)] <= height[package_of(target)]
    ]
    assert wrong == []


def test_no_import_circles() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_files_on_the_map_exist() -> None:
    text = MAP.read_text(encoding="utf-8")
    named = set(re.findall(r"^ +((?:\w+/)+\w+\.py)", text, re.MULTILINE)) | set(
        re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    )
    assert named
    assert [name for name in sorted(named) if not (SOURCE / name).is_file()] == []


@cache
def module_maps() -> dict[str, list[str]]:
    """Packages whose docstring has a table of modules, with the names in it."""
    found = {}
    for name, path in modules().items():
        if path.name == "__init__.py":
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            rows = re.findall(r"^([a-z_*]+(?:, [a-z_*]+)*) {2,}\S", text, re.MULTILINE)
            if rows:
                found[name] = [module for row in rows for module in row.split(", ")]
    return found


@pytest.mark.parametrize("package", module_maps())
def test_the_table_of_a_package_names_its_modules(package: str) -> None:
    named = module_maps()[package]
    there = {name.removeprefix(f"{package}.") for name in modules() if name.startswith(f"{package}.")}
    there = {name for name in there if "." not in name}
    assert [name for name in sorted(there) if not any(fnmatch(name, pattern) for pattern in named)] == []
    assert [pattern for pattern in named if not any(fnmatch(name, pattern) for name in there)] == []
