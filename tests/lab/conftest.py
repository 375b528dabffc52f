"""The scripts of `recipes/claims/lab` import each other as they do when they are run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "claims" / "lab"))
