"""`subquest examples`: the sample documents and recipes of the tutorials, for those who have no clone."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ..errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where they go (default: this folder)")


def run(args: argparse.Namespace) -> int:
    files = {
        args.folder / name / path.relative_to(folder): path
        for name, pattern in {"examples": "*/*", "recipes": "*.toml"}.items()
        for folder in [shipped(name)]
        for path in sorted(folder.glob(pattern))
    }
    missing = {target: path for target, path in files.items() if not _is_there(target, path)}
    for target, path in missing.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    print(f"{len(missing)} of {len(files)} files written: {args.folder / 'examples'}, {args.folder / 'recipes'}")
    return 0


def shipped(name: str) -> Path:
    """A folder of the installed package, or of the source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parents[1] / name


def _is_there(target: Path, path: Path) -> bool:
    if not target.exists():
        return False
    if target.is_file() and target.read_bytes() == path.read_bytes():
        return True
    raise UsageError(
        f"{target} is there already and says something else; name another folder: subquest examples FOLDER"
    )
