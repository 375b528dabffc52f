"""AutoRefine: Search-R1 that distils documents before it goes on; CoDA without its hierarchy (seed 000, 4.3.1).

agent  {question, everything it thought, every document}  →  <search>, reads <documents>, <refine>, <answer>
"""

from __future__ import annotations

from typing import ClassVar

from .agent import SearchAgent
from .dialect import AUTOREFINE, Dialect


class AutoRefine(SearchAgent):
    name: ClassVar[str] = "autorefine"
    own_dialect: ClassVar[Dialect] = AUTOREFINE
