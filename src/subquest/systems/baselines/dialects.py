"""The single-context agents of other projects, so that their published checkpoints can be served and compared.

search-r1           <search>, reads <information>, <answer> (baseline of CoDA, DECOR and APEX-Searcher)
autorefine          the same with <refine> after each search: CoDA without its hierarchy (CoDA 4.3.1)
research, recall    results in <result>; searches by JSON tool calls
r1-searcher, simpledeepsearcher    tokens like <|begin_of_query|>
stepsearch          Search-R1's dialect with more turns
"""

from __future__ import annotations

from typing import ClassVar

from .dialect import AUTOREFINE, R1_SEARCHER, RECALL, RESEARCH, SEARCH_R1, SIMPLE_DEEP_SEARCHER, STEPSEARCH, Dialect
from .search_agent import SearchAgent


class SearchR1(SearchAgent):
    name: ClassVar[str] = "search-r1"
    own_dialect: ClassVar[Dialect] = SEARCH_R1


class AutoRefine(SearchAgent):
    name: ClassVar[str] = "autorefine"
    own_dialect: ClassVar[Dialect] = AUTOREFINE


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
