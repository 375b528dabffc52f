"""The package root: what it exports, and that it stays light."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import subquest


def test_every_public_name_resolves() -> None:
    for name in subquest.__all__:
        assert getattr(subquest, name) is not None
    assert {*subquest._MODULES, *subquest._EARLIER} < set(subquest.__all__)


def test_import_pulls_in_nothing_heavy() -> None:
    code = "import sys, subquest, subquest.cli; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "subquest" in loaded
    assert not {"numpy", "torch", "httpx", "transformers", "xllamacpp", "asyncio"} & set(loaded)


def test_records_and_systems_need_no_third_party_package() -> None:
    code = (
        "import sys; sys.modules.update({m: None for m in ('httpx', 'httpx2', 'rich', 'numpy', 'torch', 'jinja2')});"
        "import subquest.record, subquest.events, subquest.limits, subquest.protocol, subquest.systems.coda,"
        "subquest.engine.scripted, subquest.engine.chat_format"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_docstring_stands_under_what_it_describes() -> None:
    def is_text(node: ast.stmt) -> bool:
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

    misplaced = [
        f"{path.name}:{second.lineno}"
        for path in Path(subquest.__file__).parent.rglob("*.py")
        for holder in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(holder, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for first, second in itertools.pairwise(holder.body)
        if is_text(first) and is_text(second)
    ]
    assert misplaced == []
