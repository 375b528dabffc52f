"""`subquest bench NAME`: the benchmarks behind the speed claims, with ours and the peers in the same run."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="which benchmark; without it, the list")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the benchmark itself")


def run(args: argparse.Namespace) -> int:
    found = benchmarks()
    if not args.name:
        print("\n".join(sorted(found)))
        return 0
    if args.name not in found:
        raise UsageError(f"there is no benchmark {args.name!r}; there are {', '.join(sorted(found))}")
    options = [o for o in args.options if o != "--json"]
    result = _load(found[args.name]).main(options)
    if args.json or "--json" in args.options:
        print(json.dumps(result))
    else:
        for name, ratio in result["ratios"].items():
            print(f"{name}: {ratio:.3g}")
    return 0


def benchmarks() -> dict[str, Path]:
    """Benchmark files by name: from the source tree if there is one, else from the installed package."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "benchmarks", package / "_benchmarks"):
        if folder.is_dir():
            files = (f for f in folder.glob("*.py") if not f.name.startswith("_"))
            return {f.stem.replace("_", "-"): f for f in files}
    return {}


def _load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"subquest_benchmark_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
