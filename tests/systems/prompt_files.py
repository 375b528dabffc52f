"""Every prompt file that ships, by set: `coda/planner` in the folder of its system, `force` among the shared ones."""

from pathlib import Path

import subquest
from subquest.runtime.prompts import SHARED

SYSTEMS = Path(subquest.__file__).parent / "systems"


def prompt_files(name: str) -> dict[str, Path]:
    """The files of a set."""
    found = {path.stem: path for path in (SHARED / name).glob("*.md")}
    for path in SYSTEMS.rglob(f"prompts/**/{name}/*.md"):
        system = path.parents[1].name if path.parents[1].name != "prompts" else path.parents[2].name
        found[f"{system}/{path.stem}"] = path
    return dict(sorted(found.items()))


FULL, COMPACT = prompt_files("full"), prompt_files("compact")
