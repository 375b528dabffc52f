"""JSON Schemas of what goes in and out, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from .bodies import MAX_SAFE

Schema = dict[str, Any]


def text(about: str = "", **more: Any) -> Schema:
    return {"type": "string", **({"description": about} if about else {}), **more}


def number(about: str = "", **more: Any) -> Schema:
    return {"type": "number", **({"description": about} if about else {}), **more}


def whole(about: str = "", least: int | None = None, most: int | None = None) -> Schema:
    limits = {"minimum": least, "maximum": most}
    kept = {key: value for key, value in limits.items() if value is not None}
    return {"type": "integer", **({"description": about} if about else {}), **kept}


def flag(about: str = "") -> Schema:
    return {"type": "boolean", **({"description": about} if about else {})}


def many(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, **({"maxItems": most} if most else {})}


def record(required: str = "", /, *, closed: bool = False, **properties: Schema) -> Schema:
    """An object; `required` names fields, apart by spaces, all others may be null; a closed one has no others."""
    needed = required.split()
    shown = {name: schema if name in needed else _or_null(schema) for name, schema in properties.items()}
    out: Schema = {"type": "object", "properties": shown}
    if needed:
        out["required"] = needed
    if closed:
        out["additionalProperties"] = False
    return out


def _or_null(schema: Schema) -> Schema:
    out = {**schema, "type": [schema["type"], "null"]}
    return {**out, "enum": [*schema["enum"], None]} if "enum" in schema else out


ANY: Schema = {"type": "object"}
ERROR = record("error", error=record("message type code", message=text(), type=text(), code=text()))
JOB = record("id status", id=text("of the episode"), status=text(), events=text("address of its event stream"))
ASK = record(
    "question",
    closed=True,
    question=text("what to answer", minLength=1, maxLength=32_768),
    system=text("one of the server's systems; its default where empty"),
    model=text("one of the server's models"),
    index=text("one of the server's indexes"),
    seed=whole("for sampling", -MAX_SAFE, MAX_SAFE),
    follows=text("id of the episode that this question follows up"),
)
CHAT = record(
    "model messages",
    model=text("`subquest-SYSTEM` or `subquest-SYSTEM@MODEL`, as GET /v1/models lists them"),
    messages=many(record("role content", role=text(), content=text()), 64),
    stream=flag(),
    seed=whole("for sampling", -MAX_SAFE, MAX_SAFE),
    index=text("one of the server's indexes"),
)
RETRIEVE = record(
    "queries",
    queries=many(text(), 2048),
    topk=whole("documents a query", 1, 1000),
    return_scores=flag(),
    index=text(),
)
RERANK = record(
    "queries documents",
    queries=many(text(), 64),
    documents=many(many(record("contents", id=text(), contents=text()), 200), 64),
    rerank_topk=whole("documents kept", 1, 1000),
    return_scores=flag(),
)
SEARCH = record("query", query=text(), top_n=whole("", 1, 1000), return_score=flag(), index=text())
BATCH = record("query", query=many(text(), 2048), top_n=whole("", 1, 1000), return_score=flag(), index=text())
RESULT = record("result", result=many(many(ANY)))
INDEX_SEARCH = record(
    "query",
    closed=True,
    query=text(),
    k=whole("", 1, 1000),
    mode=text(enum=["", "auto", "bm25", "dense", "hybrid", "linked"]),
)
HIT = record(
    "id title text score",
    id=text(),
    title=text(),
    text=text(),
    score=number(),
    highlight=record("start end", start=whole(), end=whole()),
    meta=ANY,
)
DOCUMENTS = record(
    closed=True,
    documents=many(record("id text", id={"type": ["string", "integer"]}, title=text(), text=text()), 100_000),
    files=many(record("name", name=text(), text=text(), data=text("in base64")), 10_000),
)
SIBLINGS = record("siblings", siblings=many(ANY))
PAGE = record("total episodes", total=whole(), episodes=many(ANY), interrupted=many(ANY))
