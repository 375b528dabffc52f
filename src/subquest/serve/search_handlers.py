"""Handlers for search: our own format, Search-R1's (`/retrieve`, `/rerank`), ReCall's (`/search`, `/batch_search`)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..citation import place_in
from ..english import counted
from ..errors import DataError
from ..record import Document, Hit
from ..retrieval.corpus import from_object
from ..retrieval.highlight import highlight
from ..retrieval.ingest import Report
from ..retrieval.rerank import Pointwise
from ..retrieval.search import Search
from ..retrieval.writer import Changes
from .batching import BatchedIndex
from .indexes import Indexes
from .kept_files import advice
from .replies import Json, Problem
from .requests import AddDocuments, BatchSearch, DocumentId, File, IndexSearch, Rerank, Retrieve, read_body, read_query
from .requests import Search as SearchRequest
from .search_worker import contents, hits_json
from .state import State, state_of

MAX_HITS = 100_000
"""Documents in one reply."""


async def retrieve(request: Request) -> Response:
    """Search-R1's format; `return_scores` decides between documents and documents with scores."""
    state = state_of(request)
    body = await read_body(request, Retrieve, state.settings.max_body)
    queries, k = body.queries, body.topk
    search = _checked_search(state, body.index, queries, k)
    if not body.return_scores:
        found = await search.retrieve(queries, k) if queries else []
        return Json({"result": [[contents(hit.document) for hit in hits] for hits in found]})
    if isinstance(search, BatchedIndex):
        parts = await search.search_json(queries, k) if queries else []
    else:
        parts = [hits_json(hits) for hits in await search.retrieve(queries, k)] if queries else []
    return Response(b'{"result":[%b]}' % b",".join(parts), media_type="application/json")


async def rerank(request: Request) -> Response:
    """Search-R1's format: each query with its own documents, which the server's model puts in order."""
    state = state_of(request)
    body = await read_body(request, Rerank, state.settings.max_body)
    queries, most = body.queries, body.rerank_topk
    if len(body.documents) != len(queries):
        raise Problem(400, "`documents` must be a list with one list of documents per query")
    hits = [[Hit(_document(item, place), 0.0) for place, item in enumerate(items)] for items in body.documents]
    reranker = Pointwise(state.agents.default_engine, trust=1.0)  # these documents have no search scores
    ordered = await asyncio.gather(*(reranker.rerank(q, found) for q, found in zip(queries, hits, strict=True)))
    if body.return_scores:
        result: Any = [[{"document": contents(h.document), "score": h.score} for h in o[:most]] for o in ordered]
    else:
        result = [[contents(h.document) for h in o[:most]] for o in ordered]
    return Json({"result": result})


async def search(request: Request) -> Response:
    """ReCall's format for one query: a list of documents; with `return_score`, a pair of documents and scores."""
    state = state_of(request)
    body = await read_body(request, SearchRequest, state.settings.max_body)
    (hits,) = await _search(state, body.index, [body.query], body.top_n)
    documents = [contents(hit.document) for hit in hits]
    return Json([documents, [hit.score for hit in hits]] if body.return_score else documents)


async def batch_search(request: Request) -> Response:
    """ReCall's format for many queries."""
    state = state_of(request)
    body = await read_body(request, BatchSearch, state.settings.max_body)
    found = await _search(state, body.index, body.query, body.top_n)
    documents = [[contents(hit.document) for hit in hits] for hits in found]
    return Json([documents, [[h.score for h in hits] for hits in found]] if body.return_score else documents)


async def indexes(request: Request) -> Response:
    """The indexes and what they contain."""
    known = state_of(request).agents.indexes
    known.refresh()
    return Json({"indexes": await asyncio.gather(*(_described(known, name) for name in known.names))})


async def search_index(request: Request) -> Response:
    """Our own format: one query, one mode, with the best sentence of each hit marked."""
    state = state_of(request)
    name = request.path_params["index"]
    body = await read_body(request, IndexSearch, state.settings.max_body)
    query = body.query
    batched = state.agents.indexes.local(name)
    (hits,) = await batched.search([query], body.k, None if body.mode == "auto" else body.mode or None)
    state.counters.add("subquest_queries_total", index=name)
    analysis = batched.index.analysis
    return Json({"hits": [_marked(hit, highlight(hit.document.text, query, analysis)) for hit in hits]})


async def remove_document(request: Request) -> Response:
    """Remove a document by its id."""
    indexes, name = state_of(request).agents.indexes, request.path_params["index"]
    identifier = read_query(request, DocumentId).id
    if not await indexes.remove(name, identifier):
        raise Problem(404, f"there is no document {identifier!r}")
    return Json({"index": name, "removed": 1})


async def add_documents(request: Request) -> Response:
    """Add documents as records, or as files of any readable kind: `text` as it is, or `data` in base64."""
    state = state_of(request)
    name = request.path_params["index"]
    body = await read_body(request, AddDocuments, state.settings.max_upload)
    documents = [_record(record, f"document {i}") for i, record in enumerate(body.documents, 1)]
    files = [_content(file) for file in body.files]
    if not documents and not files:
        raise Problem(400, "the request contains nothing to add: give `documents` or `files`")
    indexes = state.agents.indexes
    changes = await indexes.add(name, documents) if documents else Changes()
    report = await indexes.add_files(name, files) if files else Report()
    problems = problems_of(report)
    added, updated = changes.added + report.added, changes.updated + report.updated
    if problems and not added + updated + report.unchanged:
        raise Problem(400, "; ".join(problems[:5]))
    notes = [str(note) for note in report.notes]
    return Json({"index": name, "added": added, "updated": updated, "problems": problems, "notes": notes}, 201)


def problems_of(report: Report) -> list[str]:
    """What could not be read, a line each."""
    problems = [advice(str(problem)) for problem in report.problems]
    return [*problems, *(f"files of kind {suffix} are not read" for suffix in report.passed_over)]


def _content(file: File) -> tuple[str, bytes]:
    if file.data is None:
        if file.text is None:
            raise Problem(400, f"the file {file.name!r} needs `text` or `data`")
        return file.name, file.text.encode()
    try:
        return file.name, base64.b64decode(file.data, validate=True)
    except binascii.Error:
        raise Problem(400, f"`data` of {file.name!r} is not base64") from None


def _record(record: Any, where: str) -> Document:
    if isinstance(record, dict) and not isinstance(record.get("title", ""), str | None):
        raise Problem(400, f"{where}: the title must be a text")
    if isinstance(record, dict) and isinstance(record.get("id"), bool):
        raise Problem(400, f"{where}: the id must be a text or a number")
    try:
        return from_object(record, where)
    except DataError as error:
        raise Problem(400, str(error)) from None


async def _search(state: State, index: str, queries: Sequence[str], k: int) -> list[list[Hit]]:
    search = _checked_search(state, index, queries, k)
    return await search.retrieve(queries, k) if queries else []


def _checked_search(state: State, name: str, queries: Sequence[str], k: int) -> Search:
    """The search that a request names; its queries are counted."""
    if len(queries) * k > MAX_HITS:
        asked = f"{counted(len(queries), 'query')} with {counted(k, 'document')} each"
        raise Problem(413, f"{asked} are more than the {MAX_HITS:,} documents of one reply; send several requests")
    search = state.agents.indexes.get(name)
    if search is None:
        raise Problem(404, "this server has no index; start it with --index PATH")
    state.counters.add("subquest_queries_total", len(queries), index=name)
    return search


def _document(item: Any, place: int) -> Document:
    inner = item.get("document", item) if isinstance(item, dict) else item
    if isinstance(inner, str):
        inner = {"contents": inner}
    if not isinstance(inner, dict):
        raise Problem(400, "a document must be an object with `contents`")
    return _record({"id": str(place), **inner}, f"document {place + 1}")


def _marked(hit: Hit, span: tuple[int, int]) -> dict[str, Any]:
    found = hit.document
    return {
        "id": found.id,
        "title": found.title,
        "text": found.text,
        "score": hit.score,
        "highlight": {"start": span[0], "end": span[1]},
        "place": place_in(found.meta, found.text, *span),
        "meta": dict(found.meta),
    }


async def _described(known: Indexes, name: str) -> dict[str, Any]:
    try:
        index = known.local(name).index
    except Problem:
        return {"name": name, "remote": True}
    info = await asyncio.to_thread(index.info)
    return {
        "name": name,
        "documents": info.documents,
        "vectors": info.vectors,
        "bytes": info.bytes,
        "language": info.analysis.get("language", ""),
        "encoder": (info.encoder or {}).get("name", ""),
        "modes": ["bm25", "dense", "hybrid"] if info.vectors else ["bm25"],
    }
