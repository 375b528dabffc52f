"""Systems that act by tools: their common settings, and the toolkit of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..engine import Engine, Sampling
from ..retrieval.search import Search
from ..tools import websearch
from ..tools.tool_options import DAY
from .given_tools import TOKENS, Form
from .run import Answer, Run
from .system import System
from .toolkit import Toolkit

if TYPE_CHECKING:
    from ..cache import Cache


@dataclass(frozen=True, slots=True)
class ToolSettings:
    actions: int = 10
    """Tool calls of one role on one task (HiRA's published code)."""
    k: int = 10
    """Results of a search."""
    tool_tokens: int = 3000
    """A tool's result is cut to this before a role sees it."""
    egress: str = "adaptive"
    """private, public or adaptive: what may leave the machine."""
    files: str = ""
    """Attached files, separated by commas."""
    robots: bool = True
    """Respect robots.txt."""
    code_seconds: float | None = None
    """Wall-clock time of one code call; default: what `[tools]` says, where the other limits are set."""


T = TypeVar("T", bound=ToolSettings)


class ToolSystem(System[T]):
    """A system with tools. `search` is an index of private documents, `web` a web search (which `search` may also be).

    Without `web`, the web search is the one that the options or the environment name (`subquest.tools.tool_options`).
    """

    uses_tools: ClassVar[bool] = True
    tool_form: ClassVar[Form] = TOKENS

    Settings: ClassVar[type[Any]] = ToolSettings
    sampling: ClassVar[Sampling] = Sampling(max_tokens=2048, temperature=0.7, top_p=0.95, top_k=20)
    thought: ClassVar[int] = 80_000  # the published length of a reasoning chain (HiRA)

    def __init__(
        self,
        model: Engine | Mapping[str, Engine],
        search: Search | None = None,
        *,
        web: Search | None = None,
        cache: Cache | None = None,
        **options: Any,
    ) -> None:
        """`cache` keeps web pages and web searches."""
        if search is not None and websearch.is_web(search):
            web, search = web or search, None
        super().__init__(model, search, **options)
        self.cache = cache
        self.web = web or self.tool_options.search()
        if self.web is not None and cache is not None:
            from ..cache import CachedSearch

            self.web = CachedSearch(self.web, cache, max_age=DAY)

    async def answer(self, run: Run) -> Answer:
        settings: T = self.settings
        kit = Toolkit(
            run,
            index=self.search,
            web=self.web,
            options=self.tool_options,
            cache=self.cache,
            scope=settings.egress,
            files=[place.strip() for place in settings.files.split(",") if place.strip()],
            robots=settings.robots,
            code_seconds=settings.code_seconds,
        )
        if run.tools is not None:
            run.tools.egress = kit.egress
        try:
            return await self.work(run, kit)
        finally:
            await kit.close()

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        """Answer the run's question with its tools. What a subclass writes."""
        raise NotImplementedError(f"{type(self).__name__} does not define work()")
