"""Search over HTTP: our own form, Search-R1's (`/retrieve`, `/rerank`) and ReCall's (`/search`, `/batch_search`)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..errors import DataError
from ..record import Document, Hit
from ..retrieval.corpus import from_object
from ..retrieval.highlight import highlight
from ..retrieval.ingest import Report
from ..retrieval.rerankers import Pointwise
from ..retrieval.writer import Changes
from .bodies import Body, Json, Problem, read_body
from .indexes import Batched, Indexes, checked_mode
from .state import State, state_of
from .worker import contents, rendered

MAX_QUERIES = 2048
MAX_K = 1000
MAX_HITS = 100_000
"""Documents of one reply."""
MAX_RERANKED = 200
"""Documents a query that a model may be asked to judge."""
MAX_FILES = 10_000


async def retrieve(request: Request) -> Response:
    """Search-R1's form; `return_scores` decides between documents and documents with scores."""
    state = state_of(request)
    body = await read_body(request, state.settings.max_body)
    scored = scored_search(state, body)
    if scored is not None:
        return Response(result(await scored), media_type="application/json")
    found = await _search(state, body, body.texts("queries", MAX_QUERIES), body.integer("topk", 3, 1, MAX_K))
    if body.flag("return_scores"):
        return Response(result([rendered(hits) for hits in found]), media_type="application/json")
    return Json({"result": [[contents(hit.document) for hit in hits] for hits in found]})


def scored_search(state: State, body: Body) -> asyncio.Future[list[bytes]] | None:
    """The search that a request in Search-R1's form asks for, where it wants scores from an index of this server."""
    queries, k = body.texts("queries", MAX_QUERIES), body.integer("topk", 3, 1, MAX_K)
    scored, name = body.flag("return_scores"), body.text("index", "")
    _check_size(queries, k)
    search = state.agents.indexes.get(name)
    if not scored or not queries or not isinstance(search, Batched):
        return None
    state.metrics.add("subquest_queries_total", len(queries), index=name)
    return search.searcher.search(queries, k)


def result(found: Sequence[bytes]) -> bytes:
    """The reply in Search-R1's form; each part is the JSON text of one query's hits."""
    return b'{"result":[%b]}' % b",".join(found)


async def rerank(request: Request) -> Response:
    """Search-R1's form: each query with documents of its own, put in order by the server's model."""
    state = state_of(request)
    body = await read_body(request, state.settings.max_body)
    queries = body.texts("queries", 64)
    lists = body.data.get("documents")
    if not isinstance(lists, list) or len(lists) != len(queries) or not all(isinstance(x, list) for x in lists):
        raise Problem(400, "`documents` must be a list with one list of documents a query")
    if any(len(documents) > MAX_RERANKED for documents in lists):
        raise Problem(400, f"at most {MAX_RERANKED} documents a query are accepted")
    most = body.integer("rerank_topk", 3, 1, MAX_K)
    hits = [[Hit(_document(item, place), 0.0) for place, item in enumerate(items)] for items in lists]
    reranker = Pointwise(state.agents.default_engine, trust=1.0)  # the documents come without a search
    ordered = await asyncio.gather(*(reranker.rerank(q, found) for q, found in zip(queries, hits, strict=True)))
    if body.flag("return_scores"):
        result: Any = [[{"document": contents(h.document), "score": h.score} for h in o[:most]] for o in ordered]
    else:
        result = [[contents(h.document) for h in o[:most]] for o in ordered]
    return Json({"result": result})


async def search(request: Request) -> Response:
    """ReCall's form for one query: a bare list; with `return_score` a pair of documents and scores."""
    state = state_of(request)
    body = await read_body(request, state.settings.max_body)
    (hits,) = await _search(state, body, [body.text("query")], body.integer("top_n", 10, 1, MAX_K))
    documents = [contents(hit.document) for hit in hits]
    return Json([documents, [hit.score for hit in hits]] if body.flag("return_score") else documents)


async def batch_search(request: Request) -> Response:
    """ReCall's form for many."""
    state = state_of(request)
    body = await read_body(request, state.settings.max_body)
    queries = body.texts("query", MAX_QUERIES)
    found = await _search(state, body, queries, body.integer("top_n", 10, 1, MAX_K))
    documents = [[contents(hit.document) for hit in hits] for hits in found]
    return Json([documents, [[h.score for h in hits] for hits in found]] if body.flag("return_score") else documents)


async def indexes(request: Request) -> Response:
    """What is in the indexes."""
    known = state_of(request).agents.indexes
    known.refresh()
    return Json({"indexes": await asyncio.gather(*(_described(known, name) for name in known.names))})


async def search_index(request: Request) -> Response:
    """Our own form: one query, one mode, with the sentence that answers best marked in each hit."""
    state = state_of(request)
    name = request.path_params["index"]
    body = await read_body(request, state.settings.max_body)
    body.only("query", "k", "mode")
    query, k = body.text("query"), body.integer("k", 10, 1, MAX_K)
    batched = state.agents.indexes.local(name)
    (hits,) = await batched.search([query], k, checked_mode(body.text("mode", "")))
    state.metrics.add("subquest_queries_total", index=name)
    analysis = batched.index.analysis
    return Json({"hits": [_marked(hit, highlight(hit.document.text, query, analysis)) for hit in hits]})


async def document(request: Request) -> Response:
    """A document by its id, which may hold any character."""
    state = state_of(request)
    identifier = request.query_params.get("id")
    if identifier is None:
        raise Problem(400, "give the document's `id` in the query string")
    index = state.agents.indexes.local(request.path_params["index"]).index
    found = await asyncio.to_thread(index.get, identifier)
    if found is None:
        raise Problem(404, f"there is no document {identifier!r}")
    return Json({"id": found.id, "title": found.title, "text": found.text, "meta": dict(found.meta)})


async def add_documents(request: Request) -> Response:
    """Documents as records, and files: `text` as it is, or `data` in base64, of any kind that can be read."""
    state = state_of(request)
    name = request.path_params["index"]
    body = await read_body(request, state.settings.max_upload)
    body.only("documents", "files")
    records = body.objects("documents", 100_000)
    documents = [_record(record, f"document {i}") for i, record in enumerate(records, 1)]
    files = [_content(Body(file)) for file in body.objects("files", MAX_FILES)]
    if not documents and not files:
        raise Problem(400, "there is no text in what was sent: give `documents` or `files`")
    indexes = state.agents.indexes
    changes = await indexes.add(name, documents) if documents else Changes()
    report = await indexes.add_files(name, files) if files else Report()
    problems = [str(problem) for problem in report.problems]
    problems += [f"files of kind {suffix} are not read" for suffix in report.passed_over]
    added, updated = changes.added + report.added, changes.updated + report.updated
    if problems and not added + updated + report.unchanged:
        raise Problem(400, "; ".join(problems[:5]))
    notes = [str(note) for note in report.notes]
    return Json({"index": name, "added": added, "updated": updated, "problems": problems, "notes": notes}, 201)


def _content(file: Body) -> tuple[str, bytes]:
    name = file.text("name")
    if "data" not in file.data:
        return name, file.text("text").encode()
    try:
        return name, base64.b64decode(file.text("data"), validate=True)
    except binascii.Error:
        raise Problem(400, f"`data` of {name!r} is not base64") from None


def _record(record: Any, where: str) -> Document:
    if isinstance(record, dict) and not isinstance(record.get("title", ""), str | None):
        raise Problem(400, f"{where}: the title must be a text")
    if isinstance(record, dict) and isinstance(record.get("id"), bool):
        raise Problem(400, f"{where}: the id must be a text or a number")
    try:
        return from_object(record, where)
    except DataError as error:
        raise Problem(400, str(error)) from None


async def _search(state: State, body: Body, queries: Sequence[str], k: int) -> list[list[Hit]]:
    name = body.text("index", "")
    _check_size(queries, k)
    search = state.agents.indexes.get(name)
    if search is None:
        raise Problem(404, "this server has no index; start it with --index PATH")
    state.metrics.add("subquest_queries_total", len(queries), index=name)
    return await search.retrieve(queries, k) if queries else []


def _check_size(queries: Sequence[str], k: int) -> None:
    if len(queries) * k > MAX_HITS:
        asked = f"{len(queries):,} queries with {k:,} documents each"
        raise Problem(413, f"{asked} are more than the {MAX_HITS:,} documents of one reply; ask in parts")


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
        "bytes": info.bytes_store + info.bytes_lexical + info.bytes_dense,
        "language": info.analysis.get("language", ""),
        "encoder": (info.encoder or {}).get("name", ""),
        "modes": ["bm25", "dense", "hybrid"] if info.vectors else ["bm25"],
    }
