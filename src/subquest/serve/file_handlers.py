"""Handlers for what an index was made from: files added, listed, read again and removed, and shown at a place."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..citation import place_in
from ..codec import to_dict
from ..readers.page_picture import page_picture
from ..record import Document
from ..retrieval import Index
from ..retrieval.ingest import Report, State
from .indexes import Indexes, file_name_in, plain_name
from .kept_files import Upload, described, opened
from .replies import Json, Problem
from .requests import Cited, DocumentAround, FileList, FileName, NewFile, PageOfFile, read_query
from .search_handlers import problems_of
from .state import state_of


async def document(request: Request) -> Response:
    """A document by its id, which may contain any character; with its neighbours, if it is a passage of a file."""
    query = read_query(request, DocumentAround)
    index = state_of(request).agents.indexes.local(request.path_params["index"]).index
    return Json(await asyncio.to_thread(_with_neighbours, index, query))


def _with_neighbours(index: Index, query: DocumentAround) -> dict[str, Any]:
    found, around = _passage(index, query.id), query.around
    start = max(0, found.text.find(query.quote))
    end = start + len(query.quote) if query.quote in found.text else start
    shown = {**_shown(found), "place": place_in(found.meta, found.text, start, end)}
    prefix, _, number = found.id.rpartition("#")
    file = str(found.meta.get("file") or "")
    if not around or not number.isdecimal() or not file or not prefix.startswith(file):
        return shown

    def neighbours(numbers: range) -> list[Document]:
        passages = (index.get(f"{prefix}#{n}") for n in numbers)
        return [passage for passage in takewhile(lambda one: one is not None, passages) if passage is not None]

    here = int(number)
    before = neighbours(range(here - 1, max(0, here - around - 2), -1))  # one more than asked for, to see if there is
    after = neighbours(range(here + 1, here + around + 2))
    return {
        **shown,
        "before": [_shown(one) for one in before[:around][::-1]],
        "after": [_shown(one) for one in after[:around]],
        "more_before": len(before) > around,
        "more_after": len(after) > around,
    }


def _passage(index: Index, identifier: str) -> Document:
    found = index.get(identifier)
    if found is None:
        raise Problem(404, f"there is no document {identifier!r}")
    return found


def _shown(document: Document) -> dict[str, Any]:
    return {"id": document.id, "title": document.title, "text": document.text, "meta": dict(document.meta)}


async def cited(request: Request) -> Response:
    """The index that has a cited document: stored answers do not always say from where they cite."""
    query, indexes = read_query(request, Cited), state_of(request).agents.indexes
    return Json({"index": await asyncio.to_thread(_index_of, indexes, query)})


def _index_of(indexes: Indexes, query: Cited) -> str:
    holds = ""
    for name in sorted(indexes.names, key=lambda name: name != query.index):
        try:
            found = indexes.local(name).index.get(query.id)
        except Problem:  # it is on another server
            continue
        if found is not None and query.quote in found.text:
            return name
        holds = holds or (name if found is not None else "")
    return holds


async def page(request: Request) -> Response:
    """A page of the PDF from which a passage comes, as it looks, with the place of a quote."""
    query = read_query(request, PageOfFile)
    index = state_of(request).agents.indexes.local(request.path_params["index"]).index
    return Json(await asyncio.to_thread(_picture, index, query))


def _picture(index: Index, query: PageOfFile) -> dict[str, Any]:
    passage = _passage(index, query.id)
    name, number = str(passage.meta.get("file") or ""), query.page or passage.meta.get("page")
    file = index.files.get(name)
    if file is None or "member" in passage.meta or not name.lower().endswith(".pdf") or not isinstance(number, int):
        raise Problem(404, f"{query.id!r} does not come from a page of a PDF that is at hand", code="no_page")
    with opened(file) as content:
        return {"file": name, **to_dict(page_picture(content, number, query.quote))}


async def listed(request: Request) -> Response:
    """The files of an index, by name, and how far the reading of another one is."""
    query = read_query(request, FileList)
    indexes, name = state_of(request).agents.indexes, request.path_params["index"]
    state = indexes.reading(name)
    reading = _reading(state) if state else None
    if state and name not in indexes.names:  # its first file is being read
        return Json({"total": 0, "files": [], "reading": reading})
    files = indexes.local(name).index.files
    total = await asyncio.to_thread(files.count, query.text)
    rows = await asyncio.to_thread(files.listed, query.text, offset=query.offset, limit=query.limit)
    found = await asyncio.to_thread(lambda: [described(file) for file in rows])
    return Json({"total": total, "files": found, "reading": reading})


def _reading(state: State) -> dict[str, Any]:
    share = state.bytes / state.bytes_total if state.bytes_total else 0.0
    return {"name": state.name, "passages": state.passages, "rows": state.rows, "share": round(share, 3)}


async def add(request: Request) -> Response:
    """A file as it is, straight to the disk; then it is read."""
    state, query = state_of(request), read_query(request, NewFile)
    name, plain = request.path_params["index"], plain_name(query.name)
    indexes = state.agents.indexes
    indexes.has(name)
    with indexes.scratch() as scratch:
        path = scratch / plain
        await _receive(request, path, plain, state.settings.max_file)
        report = await indexes.add_uploads(name, [Upload(plain, path)], ocr=query.ocr)
    if not report.added + report.updated + report.unchanged and (problems := problems_of(report)):
        raise Problem(400, "; ".join(problems))
    return Json(_reply(name, report, await _listed_as(indexes.local(name).index, file_name_in(name, plain))), 201)


async def _receive(request: Request, path: Path, name: str, limit: int) -> None:
    """Write the body of a request to a file; one that is too large is refused before all of it has arrived."""
    refusal = (
        f"{name} is larger than the {limit:,} bytes that this server accepts: divide it, or add it on the server with: "
        "subquest index add INDEX FILE"
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise Problem(413, refusal)
    size = 0
    with path.open("wb") as file:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise Problem(413, refusal)
            file.write(part)
    if not size:
        raise Problem(400, f"{name} is empty")


async def _listed_as(index: Index, name: str) -> dict[str, Any] | None:
    file = await asyncio.to_thread(index.files.get, name)
    return described(file) if file else None


def _reply(name: str, report: Report, file: dict[str, Any] | None) -> dict[str, Any]:
    notes = [str(note) for note in report.notes]
    counts = {"added": report.added, "updated": report.updated}
    return {"index": name, **counts, "problems": problems_of(report), "notes": notes, "file": file}


async def read_again(request: Request) -> Response:
    """Read a file of an index again."""
    indexes, name = state_of(request).agents.indexes, request.path_params["index"]
    query = read_query(request, FileName)
    file, report = await indexes.read_again(name, query.name, ocr=query.ocr)
    return Json(_reply(name, report, await _listed_as(indexes.local(name).index, file)))


async def remove(request: Request) -> Response:
    """Remove a file with its passages."""
    indexes, name = state_of(request).agents.indexes, request.path_params["index"]
    file, removed = await indexes.remove_file(name, read_query(request, FileName).name)
    return Json({"index": name, "file": file, "removed": removed})
