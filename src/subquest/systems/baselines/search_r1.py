"""Search-R1: a model trained by reinforcement to search within its own reasoning (baseline of seeds 000, 002 to 004).

agent  {question, everything it thought, every document}  →  <search>, reads <information>, <answer>
"""

from __future__ import annotations

from typing import ClassVar

from .agent import SearchAgent
from .dialect import SEARCH_R1, Dialect


class SearchR1(SearchAgent):
    name: ClassVar[str] = "search-r1"
    own_dialect: ClassVar[Dialect] = SEARCH_R1
