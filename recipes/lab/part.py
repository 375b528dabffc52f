"""A part of a recipe, so that the traces of either can be prepared where it is best.

python recipes/lab/part.py recipes/qwen-1.5b/sft.toml asked

`asked` keeps the sources of questions that the model wrote (`runs/asked…`), `rest` all others. Without a source of
the part it fails.
"""

from __future__ import annotations

import sys
from pathlib import Path


def part(recipe: str, which: str) -> str:
    """The recipe, with only the sources of a part."""
    blocks = recipe.split("\n\n")
    kept = [b for b in blocks if "[[data]]" not in b or ("runs/asked" in b) == (which == "asked")]
    return "\n\n".join(kept) if any("[[data]]" in block for block in kept) else ""


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("asked", "rest"):
        sys.exit(__doc__)
    sys.stdout.write(found := part(Path(sys.argv[1]).read_text(), sys.argv[2]))
    sys.exit(not found)
