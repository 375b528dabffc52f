"""Training stands on torch and transformers alone: no other trainer, adapter library or inference server."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import subquest

ROOT = Path(subquest.__file__).parent
TESTS = Path(__file__).parents[1]
PEERS = {"trl", "verl", "peft", "vllm", "accelerate", "deepspeed"}
ADAPTER = ROOT / "train" / "verl"
"""What verl itself loads; nothing else imports it."""
ON_A_GPU = [
    "conftest.py",
    "train/conftest.py",
    "train/test_cuda.py",
    "train/test_kernels.py",
    "train/test_lora_products.py",
    "engine_torch/*.py",
]
"""Tests to run on a machine with a GPU, which may have torch and transformers and little else."""
ENOUGH = {"torch", "numpy", "transformers", "tokenizers", "safetensors", "msgspec", "pytest", "hypothesis", "triton"}


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


def loaded(*files: Path) -> tuple[set[Path], set[str]]:
    """What importing files loads at once: files of ours, and the names of other packages."""
    ours: set[Path] = set()
    others: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file in ours or not file.is_file():
            continue
        ours.add(file)
        for name in loaded_names(ast.parse(file.read_text(encoding="utf-8")).body, file):
            top, *rest = name.split(".")
            if top not in ("subquest", "tests"):
                others.add(top)
                continue
            place = ROOT if top == "subquest" else TESTS
            waiting.append(place / "__init__.py")
            for part in rest:
                place = place / part
                waiting += [place / "__init__.py", place.with_suffix(".py")]
    return ours, others - sys.stdlib_module_names


def loaded_names(statements: Iterable[ast.stmt], file: Path) -> Iterator[str]:
    """Dotted names of the modules, or names in them, that statements import when they run, but not in functions."""
    top, base = ("subquest", ROOT) if file.is_relative_to(ROOT) else ("tests", TESTS)
    package = [top, *file.parent.relative_to(base).parts]
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = f"{start}.{node.module or ''}".strip(".")
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ClassDef | ast.With) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test)
        ):
            yield from loaded_names(node.body, file)


def test_tests_on_a_gpu_need_no_other_packages() -> None:
    ours, others = loaded(*(file for pattern in ON_A_GPU for file in TESTS.glob(pattern)))
    assert others <= ENOUGH
    assert {TESTS / "train" / "test_policy.py", ROOT / "runtime" / "run.py"} < ours, "imports are followed"
    assert "orjson" in loaded(TESTS / "runtime" / "test_window.py")[1]
