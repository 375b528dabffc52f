"""The tools of one run: search, pages, code, files and media, under one egress scope, with every call on the trace.

A system that acts by tools opens one toolkit a run and closes it at the end. Failures of a tool come back as text for
the model and are recorded as errors of the episode; nothing is lost and nothing raises but defects.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ..errors import MissingDependency, SearchError, SearchRefused, ToolError, UsageError
from ..record import PUBLIC_FILES, Document, Hit, Usage
from ..retrieval.search import Search
from ..tools import files as file_tools
from ..tools import media
from ..tools.egress import Egress, EgressRefused, outside, urls_in
from ..tools.pages import Page, PageReader
from ..tools.sandbox import CodeResult, Fetched, Interpreter, RemoteSandbox, Sandbox
from ..tools.tool_options import ToolOptions
from ..tools.websearch import is_web
from . import table_queries
from .code_session import CodeSession, plain_name
from .context import Context
from .rendering import interleave, render_results
from .run import Run
from .table_queries import not_a_file, tables_of

if TYPE_CHECKING:
    from ..cache import Cache
    from ..retrieval.tables import Tables

T = TypeVar("T")

QUOTES = " \t\n<>[]\"'`"
"""What models put around the name of a file."""
LINKS = 40
"""Links that are listed after one part of a page."""


class Opened(NamedTuple):
    """A page as a model reads it."""

    text: str
    """Title, address and one part of the text, or why it did not open."""
    links: str = ""
    """The links of this part, numbered as in the text."""
    failed: bool = False

    @property
    def whole(self) -> str:
        return f"{self.text}\nLinks:\n{self.links}" if self.links else self.text


class Toolkit:
    """What the roles of one run act with."""

    def __init__(
        self,
        run: Run,
        *,
        index: Search | None,
        web: Search | None,
        options: ToolOptions | None = None,
        cache: Cache | None = None,
        scope: str = "adaptive",
        files: Sequence[str] = (),
        robots: bool = True,
        code_seconds: float | None = None,
    ) -> None:
        self._options = options or ToolOptions()
        self.run = run
        self.files: dict[str, Path] = {}
        """Files of the run by name: attached ones, and those that code has written."""
        self._attach(files)
        private = index is not None or bool(self.files)
        for place in run.question.files:
            try:
                self._attach([place])
            except UsageError as error:  # one question among many: recorded, not raised
                run.fail("file", error)
        private = private or (bool(self.files) and not run.question.meta.get(PUBLIC_FILES))
        meta = run.question.meta
        asked = f"{meta['asked']} {meta.get('links', '')}" if meta.get("asked") else run.question.question
        self.egress = Egress(scope, asked, private_documents=private)
        self.failed_urls: set[str] = set()
        self._index = index
        self._web = web
        self._fetcher = self._options.fetcher(robots=robots, cache=cache)
        self._reader = PageReader(self._fetcher)
        self._limits = self._options.code_limits
        if code_seconds is not None:
            self._limits = replace(self._limits, seconds=code_seconds)
        self._folder = Path(tempfile.mkdtemp(prefix="subquest-files-"))
        self._python = CodeSession(self._new_sandbox, self.files, self._folder, self._limits.disk)
        self._shown: dict[str, dict[int, str]] = {}
        """URLs by the number under which a context last saw them."""

    def _attach(self, places: Sequence[str]) -> None:
        """Files by name; if two have the same name, the folder is added to the second."""
        for place in places:
            path = Path(place).expanduser()
            try:
                there = path.is_file()
            except OSError:  # no file can have this name
                there = False
            if not there:
                raise UsageError(f"the attached file {place:.200} does not exist")
            if not place.isprintable():
                raise UsageError(f"the attached file {place!r} has a name that cannot be shown: rename it")
            plain = name = path.name
            count = 1
            while name in self.files and not self.files[name].samefile(path):
                name = f"{path.absolute().parent.name}_{plain}" if count == 1 else f"{count}_{plain}"
                count += 1
            self.files[name] = path

    # ---- search and pages

    async def search(self, context: Context, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Search the index and the web, as far as they are configured and allowed. Raises SearchError."""
        found: list[list[Hit]] = [[] for _ in queries]
        if self._index is not None:
            self._check_reach(self._index, context)
            found = await self.run.search(context, queries, k)
        if self._web is not None and not (self._index is not None and self.egress.closed):
            self._check_reach(self._web, context)
            try:
                fresh = await self.run.search(context, queries, k, using=self._web)
            except SearchError:  # recorded by the runtime; the hits of the index are kept
                if not any(found):
                    raise
                fresh = [[] for _ in queries]
            self.egress.offer(hit.document.id for hits in fresh for hit in hits)
            found = [interleave(both)[:k] for both in zip(found, fresh, strict=True)]
        elif self._index is None:
            missing = (
                "no search is configured: pass --index PATH, or set SEARXNG_URL, SERPER_API_KEY, TAVILY_API_KEY or "
                "BRAVE_API_KEY"
            )
            self.run.fail("search", missing, context)
            raise SearchError(missing)
        for hits in found:
            context.read(hits)
        return found

    def guarded(self, search: Search) -> Search:
        """The search of a system that works inside this run, under the same egress scope."""
        return _Guarded(search, self)

    def check_reach(self, search: Search) -> None:
        """Raise EgressRefused if a search would send something outside against the scope."""
        if is_web(search):
            self.egress.check_search()
        elif self.egress.scope == "private" and (place := outside(search)):
            raise EgressRefused(f"{place} is not on this machine, and the run's egress scope is private")

    def _check_reach(self, search: Search, context: Context) -> None:
        try:
            self.check_reach(search)
        except EgressRefused as error:
            self.run.fail("search", error, context)
            raise SearchError(str(error)) from None

    async def find(self, context: Context, query: str, k: int) -> str:
        """A search for a model: its results as a numbered list, or why it failed."""
        try:
            return self.listing(context, (await self.search(context, [query], k))[0])
        except SearchError as error:
            return f"The search failed: {error}"

    def listing(self, context: Context, hits: Sequence[Hit]) -> str:
        """Search results as a numbered list; the context can click the numbers."""
        self.announce(context.id, hits)
        return render_results(hits)

    def announce(self, context_id: str, hits: Sequence[Hit]) -> None:
        """Record which documents the numbers of a result list stand for in a context."""
        self._shown[context_id] = {n: hit.document.id for n, hit in enumerate(hits, 1)}

    async def open(self, context: Context, reference: str) -> str:
        """A page by URL or by the number of a link, as text for the model; `URL part 2` opens a later part."""
        return (await self.page(context, reference)).whole

    async def page(self, context: Context, reference: str) -> Opened:
        """The same with text and links separate, for a role that reports on the page."""
        reference, part = with_part(reference)
        url = self._resolve(context, reference)
        document = self.run.documents.get(url)
        if document is not None and not self._may_leave_for(url):
            return Opened(f"{document.title}\n{document.text}")
        try:
            self.egress.check_url(url)
            page = await _in_time(context, self._reader.read(url))
        except (ToolError, MissingDependency) as error:
            self.failed_urls.add(url)
            return self._unopened(context, error)
        self.failed_urls.discard(url)
        try:
            text = page.part(part)
        except ToolError as error:
            return self._unopened(context, error)
        self._note(context, page, text, part)
        return self._opened(page, text, part)

    def _unopened(self, context: Context, error: Exception) -> Opened:
        self.run.fail("page", error, context)
        return Opened(f"The page could not be opened: {error}", failed=True)

    def _may_leave_for(self, url: str) -> bool:
        """Whether a result is a page that may be fetched; documents of an index may also have URLs as ids."""
        try:
            self.egress.check_url(url)
        except EgressRefused:
            return False
        return url.startswith(("http://", "https://"))

    def _resolve(self, context: Context, reference: str) -> str:
        reference = reference.strip(f"{QUOTES}()")
        if reference.isdecimal() and len(reference) < 7:
            return self._shown.get(context.id, {}).get(int(reference), f"link number {reference}")
        return reference

    def _note(self, context: Context, page: Page, text: str, part: int) -> None:
        context.usage += Usage(tool_calls=1)
        document = Document(page.url, page.title, text, {"url": page.url, "part": part})
        self.run.note(document, f"{page.url}#{part}")
        context.read([Hit(document, 1.0)])
        self.egress.offer([*page.links.values(), *urls_in(text)])
        self._shown[context.id] = dict(page.links)
        self.run.events.emit("page", context.id, url=page.url, title=page.title, part=part, parts=page.parts)

    def _opened(self, page: Page, text: str, part: int) -> Opened:
        here = [n for n in page.links if f"[{n}]" in text][:LINKS]
        links = "\n".join(f"[{n}] {page.links[n]}" for n in here)
        head = (
            f"{page.title} ({page.url}), part {part} of {page.parts}"
            if page.parts > 1
            else f"{page.title} ({page.url})"
        )
        return Opened(f"{head}\n{text}", links)

    # ---- tables and code

    @property
    def index(self) -> Search | None:
        """The search whose tables can be queried."""
        return self._index

    async def sql(self, context: Context, query: str) -> str:
        """What a query over the tables of the index gives, as text for the model."""
        return await table_queries.query(context, self._index, query)

    async def code(self, context: Context, source: str) -> CodeResult:
        """Run Python for a context; variables and files stay for the whole run."""
        context.usage += Usage(tool_calls=1)
        try:
            remote = self._options.remote_sandbox
            if remote and self.egress.closed:
                raise EgressRefused(f"code cannot be sent to {remote} in this run: its egress scope is closed")
            result = await _in_time(context, self._python.run(source))
        except ToolError as error:
            self.run.fail("code", error, context)
            result = CodeResult("", str(error))
        if "FileNotFoundError" in result.error:
            result = replace(result, error=result.error + not_a_file(result.error, self._index))
        self.run.events.emit("code", context.id, source=source, output=result.output, error=result.error)
        if lost := self._python.collect():
            self.run.events.emit("limit", context.id, what="files of code", message=f"{lost} was not kept")
        return result

    def _new_sandbox(self) -> Interpreter:
        remote = self._options.remote_sandbox
        return RemoteSandbox(remote, self._limits) if remote else Sandbox(self._limits, self._fetch)

    async def _fetch(self, url: str) -> Fetched:
        """What code in the sandbox fetches goes through the same scope and guard as pages."""
        answer = await self._guarded_fetch(url)
        self.run.events.emit("page", "", url=answer.url, title="", status=answer.status)
        return answer

    async def _guarded_fetch(self, url: str) -> Fetched:
        """Fetch a URL within the scope; one that does not open is remembered."""
        self.failed_urls.add(url)
        self.egress.check_url(url)
        answer = await self._fetcher.fetch(url)
        if answer.status < 400:
            self.failed_urls.discard(url)
        return answer

    # ---- files and media

    async def look(self, context: Context, reference: str, question: str) -> str:
        """What an image, sound or video says about a question; a file of the run or a URL."""
        context.usage += Usage(tool_calls=1)
        try:
            path = await _in_time(context, self._medium(context, reference.strip(QUOTES)))
            answer = await _in_time(context, media.look(path, question))
        except (ToolError, MissingDependency, OSError) as error:
            self.run.fail("media", error, context)
            return f"The medium could not be read: {error}"
        self.run.events.emit("page", context.id, path=path.name, title=answer.how)
        return f"{answer.text}\n(read by {answer.how})"

    async def _medium(self, context: Context, reference: str) -> Path:
        if reference.startswith(("http://", "https://")):
            answer = await self._guarded_fetch(reference)
            if answer.status >= 400:
                raise ToolError(f"{reference} answers with status {answer.status}")
            path = self._folder / f"download-{len(self.files)}-{plain_name(urlsplit(answer.url).path) or 'file'}"
            path.write_bytes(answer.content)
            return path
        return self.file(reference)

    def file(self, name: str) -> Path:
        """A file of the run by name; no other file of the machine can be read."""
        path = self.files.get(Path(name).name) or self.files.get(Path(name.strip(QUOTES)).name)
        if path is None:
            known = ", ".join(self.files) or "none"
            aside = not_a_file(name, self._index)
            raise ToolError(f"there is no file {name!r} in this run; its files are: {known}{aside}")
        return path

    async def read(self, context: Context, reference: str) -> str:
        """A file of the run as text, in parts."""
        name, part = with_part(reference)
        context.usage += Usage(tool_calls=1)
        try:
            path = self.file(name)
            name = next(known for known, place in self.files.items() if place is path)
            with path.open("rb") as file:
                kind = file_tools.sniff(file.read(4096), name)
            if kind in file_tools.MEDIA:
                answer = await _in_time(context, media.look(path, "What is this?"))
                return f"{answer.text}\n(read by {answer.how})"
            content = await _in_time(context, asyncio.to_thread(file_tools.read_file, path))
            page = Page(name, name, content.text, kind=kind)
            text = page.part(part)
        except (ToolError, MissingDependency, OSError) as error:
            self.run.fail("file", error, context)
            return f"The file could not be read: {error}"
        document = Document(name, name, text, {"file": name, "part": part})
        self.run.note(document, f"{name}#{part}")
        context.read([Hit(document, 1.0)])
        self.run.events.emit("page", context.id, path=name, title=name, part=part, parts=page.parts)
        return f"{name}, part {part} of {page.parts}\n{text}"

    def inventory(self) -> str:
        """The files of the run as text, for prompts."""
        return ", ".join(f"{name} ({path.stat().st_size:,} bytes)" for name, path in self.files.items()) or "none"

    async def close(self) -> None:
        await self._python.close()
        await self._fetcher.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def with_part(reference: str) -> tuple[str, int]:
    """`http://… part 2` as the reference and the number of the part."""
    head, word, number = reference.strip().rpartition(" part ")
    counts = bool(word) and number.strip().isdecimal() and len(number.strip()) < 7
    return (head.strip().rstrip(","), int(number)) if counts else (reference.strip(), 1)


async def _in_time(context: Context, work: Awaitable[T]) -> T:
    """The result of a tool within the time limits of the context; raises ToolError when they run out."""
    clock = asyncio.timeout(context.budget.seconds_left())
    try:
        async with clock:
            return await work
    except TimeoutError:
        if not clock.expired():
            raise
        raise ToolError("the time limit ran out before it was done") from None


class _Guarded:
    """A search under the egress scope of a run."""

    def __init__(self, inner: Search, kit: Toolkit) -> None:
        self.name = inner.name
        self._inner = inner
        self._kit = kit

    @property
    def tables(self) -> Tables | None:
        return tables_of(self._inner)

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        try:
            self._kit.check_reach(self._inner)
        except EgressRefused as error:
            raise SearchRefused(str(error)) from None
        found = await self._inner.retrieve(queries, k)
        if is_web(self._inner):
            self._kit.egress.offer(hit.document.id for hits in found for hit in hits)
        return found
