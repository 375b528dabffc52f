"""Training stands on torch and transformers alone: no other trainer, adapter library or inference server."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import subquest

ROOT = Path(subquest.__file__).parent
PEERS = {"trl", "verl", "peft", "vllm", "accelerate", "deepspeed"}
ADAPTER = ROOT / "train" / "verl"
"""What verl itself loads; nothing else imports it."""


def imported(path: Path) -> set[str]:
    """Every module a file imports, at its top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.level:
            found |= {f".{node.module or ''}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", sorted(p.name for p in ROOT.iterdir() if (p / "__init__.py").is_file()))
def test_nothing_imports_a_peer(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        if ADAPTER in path.parents:
            continue
        names = imported(path)
        assert not {name.partition(".")[0] for name in names} & PEERS, path
        assert not any(".verl" in name for name in names), path


def test_one_process_does_not_load_what_sharding_needs() -> None:
    code = "import sys, subquest.train.launch; print([m for m in sys.modules if m.startswith('torch.distributed.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = done.stdout
    assert "torch.distributed.fsdp" not in loaded
    assert "torch.distributed.tensor" not in loaded


def test_the_adapter_imports_verl_where_it_says_so() -> None:
    users = {path.stem for path in ADAPTER.glob("*.py") if any(n.startswith("verl") for n in imported(path))}
    assert users == {"loop", "roles"}
