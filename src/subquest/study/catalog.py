"""Which studies there are: those that come with the package, and the papers' claims in a checkout."""

from __future__ import annotations

from pathlib import Path

from ..errors import UsageError, suggest
from .design import Study
from .recipe import read_study

CLAIMS_BY_SIZE = {
    "claims-1.5b": "All claims of the papers on Qwen2.5-Coder-1.5B (docs/claims.md)",
    "claims-0.5b": "The first of them on Qwen2.5-Coder-0.5B",
    "claims": "All claims of the papers on the embedded model (docs/claims/135m.md)",
}
"""The studies of the papers' claims; their recipes are folders of the checkout."""


def studies() -> dict[str, Path]:
    """The studies that come with the package, by name."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "recipes" / "studies", package / "_studies"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {}


def claims_folder(name: str) -> Path:
    """The recipes of the papers' claims, in the checkout."""
    folder = Path(__file__).resolve().parents[3] / "recipes" / name
    if not folder.is_dir():
        raise UsageError(
            f"the recipes of {name} are not part of an installed package: run it in a clone of the repository"
        )
    return folder


def find_study(name: str) -> Study:
    """A study by name, or the recipe in a file."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    known = studies()
    if name in CLAIMS_BY_SIZE:
        return read_study(claims_folder(name))
    if name not in known:
        raise UsageError(f"there is no study {name!r}; {suggest(name, [*known, *CLAIMS_BY_SIZE])}")
    return read_study(known[name])
