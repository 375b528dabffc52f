"""The monolithic agents of other projects, so that their published checkpoints can be served and compared."""

from __future__ import annotations

from typing import ClassVar

from .agent import SearchAgent
from .dialect import R1_SEARCHER, RECALL, RESEARCH, SIMPLE_DEEP_SEARCHER, STEPSEARCH, Dialect


class ReSearch(SearchAgent):
    name: ClassVar[str] = "research"
    own_dialect: ClassVar[Dialect] = RESEARCH


class ReCall(SearchAgent):
    """Searches by JSON tool calls."""

    name: ClassVar[str] = "recall"
    own_dialect: ClassVar[Dialect] = RECALL


class R1Searcher(SearchAgent):
    name: ClassVar[str] = "r1-searcher"
    own_dialect: ClassVar[Dialect] = R1_SEARCHER


class SimpleDeepSearcher(SearchAgent):
    name: ClassVar[str] = "simpledeepsearcher"
    own_dialect: ClassVar[Dialect] = SIMPLE_DEEP_SEARCHER


class StepSearch(SearchAgent):
    name: ClassVar[str] = "stepsearch"
    own_dialect: ClassVar[Dialect] = STEPSEARCH
