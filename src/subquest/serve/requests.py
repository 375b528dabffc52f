"""What the server is sent, declared once: requests are checked against these types, and the OpenAPI document is
generated from them.

A field that has a default may also be null, which means the same as leaving it out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
import orjson
from msgspec import Meta
from starlette.requests import Request

from ..codec import checked
from .replies import Problem

T = TypeVar("T", bound=msgspec.Struct)

MAX_SAFE = 2**53 - 1
"""The largest number up to which all JSON readers agree on whole numbers."""
MAX_K = 1000
MAX_RERANKED = 200
"""Documents per query that a model may be asked to judge."""

Seed = Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE, description="for sampling")]
Limit = Annotated[int, Meta(ge=1, le=MAX_K, description="documents per query")]
Queries = Annotated[list[str], Meta(max_length=2048)]
IndexName = Annotated[str, Meta(description="one of the server's indexes")]
Whole = Annotated[int, Meta(ge=-1, le=10**9)]


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[
        str, Meta(description="what to answer", extra_json_schema={"minLength": 1, "maxLength": 32_768})
    ]
    system: Annotated[str, Meta(description="one of the server's systems; its default if empty")] = ""
    model: Annotated[str, Meta(description="one of the server's models")] = ""
    index: IndexName = ""
    seed: Seed | None = None
    style: Annotated[
        Literal["", "short", "sentence", "report"],
        Meta(description="how the answer is written; the server's default if empty"),
    ] = ""
    follows: Annotated[str, Meta(description="id of the episode that this question follows up")] = ""
    beside: Annotated[
        str, Meta(description="id of the first episode of several that answer this question side by side")
    ] = ""


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    address: Annotated[
        str, Meta(description="base URL of an endpoint with OpenAI's API", extra_json_schema={"minLength": 8})
    ]
    model: Annotated[str, Meta(max_length=500, description="its name; may be empty where only one is served")] = ""
    key: (
        Annotated[str, Meta(max_length=10_000, description="without one, the key that is stored for this address")]
        | None
    ) = None
    protocol: Annotated[Literal["tags", "tools"], Meta(description="how the model acts")] = "tags"
    prompts: Annotated[Literal["", "full", "compact"], Meta(description="a set of prompts; its own if empty")] = ""


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]] | None = None


class Chat(msgspec.Struct, frozen=True):
    """OpenAI's chat completions; fields that an agent has no use for are ignored."""

    model: Annotated[str, Meta(description="`subquest-SYSTEM` or `subquest-SYSTEM@MODEL`, see GET /v1/models")]
    messages: Annotated[list[Message], Meta(max_length=64)]
    stream: bool = False
    stream_options: Any = None
    seed: Seed | None = None
    index: IndexName = ""
    n: Annotated[int, Meta(ge=1, le=128)] = 1
    tools: Any = None


class Retrieve(msgspec.Struct, frozen=True):
    queries: Queries
    topk: Limit = 3
    return_scores: bool = False
    index: IndexName = ""


class Rerank(msgspec.Struct, frozen=True):
    queries: Annotated[list[str], Meta(max_length=64)]
    documents: Annotated[
        list[Annotated[list[dict[str, Any] | str], Meta(max_length=MAX_RERANKED)]],
        Meta(max_length=64, description="one list of documents per query, each a text or an object with `contents`"),
    ]
    rerank_topk: Limit = 3
    return_scores: bool = False


class Search(msgspec.Struct, frozen=True):
    query: str
    top_n: Limit = 10
    return_score: bool = False
    index: IndexName = ""


class BatchSearch(msgspec.Struct, frozen=True):
    query: Queries
    top_n: Limit = 10
    return_score: bool = False
    index: IndexName = ""


class IndexSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    k: Limit = 10
    mode: Literal["", "auto", "bm25", "dense", "hybrid", "linked"] = ""


class File(msgspec.Struct, frozen=True):
    name: str
    text: str | None = None
    data: Annotated[str, Meta(description="in base64")] | None = None


class AddDocuments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    documents: Annotated[
        list[dict[str, Any]], Meta(max_length=100_000, description="objects with `id`, `title` and `text`")
    ] = []
    files: Annotated[list[File], Meta(max_length=10_000)] = []


class ReportFormat(msgspec.Struct, frozen=True):
    format: Annotated[Literal["md", "html", "docx", "pdf"], Meta(description="of the file")] = "md"


class Paging(msgspec.Struct, frozen=True):
    """Which episodes of a list."""

    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    system: Annotated[str, Meta(description="only episodes of this system")] = ""
    ending: Annotated[str, Meta(description="only episodes with this stop reason")] = ""
    text: Annotated[str, Meta(description="only episodes with this text in question or answer")] = ""


class MatrixPage(msgspec.Struct, frozen=True):
    """Which questions of an evaluation."""

    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    only: Annotated[
        Literal["", "wrong", "differs"],
        Meta(description="those that a system got wrong, or that some systems got right and others wrong"),
    ] = ""
    text: Annotated[str, Meta(description="only those with this text in question or answers")] = ""
    dataset: Annotated[str, Meta(description="only those of this set")] = ""


class AfterEvent(msgspec.Struct, frozen=True):
    after: Annotated[Whole, Meta(description="only events after this one; Last-Event-ID takes precedence")] = -1
    text: Annotated[
        bool, Meta(description="also what is being written, as `event: text`: {trajectory, text, first}")
    ] = False


class AfterStep(msgspec.Struct, frozen=True):
    after: Annotated[Whole, Meta(description="only points after this step")] = -1


class RunNames(msgspec.Struct, frozen=True):
    runs: Annotated[str, Meta(description="names, separated by commas")] = ""


class DocumentId(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="of the document")]


class DocumentAround(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="of the document")]
    around: Annotated[int, Meta(ge=0, le=100, description="passages of the same file before and after it")] = 0
    quote: Annotated[str, Meta(max_length=1000, description="a part of it; `place` then says where the part is")] = ""


class Cited(msgspec.Struct, frozen=True):
    """A document that an answer cites."""

    id: Annotated[str, Meta(description="of the document")]
    quote: Annotated[str, Meta(max_length=10_000, description="what it must contain")] = ""
    index: Annotated[str, Meta(description="where to look first")] = ""


class PageOfFile(msgspec.Struct, frozen=True):
    """A page of the file from which a passage comes."""

    id: Annotated[str, Meta(description="of the passage")]
    page: Annotated[int, Meta(ge=0, le=10**6, description="from 1; that of the passage if 0")] = 0
    quote: Annotated[str, Meta(max_length=10_000, description="words to mark on the page")] = ""


class FileList(msgspec.Struct, frozen=True):
    """Which files of an index."""

    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    text: Annotated[str, Meta(description="only files with this text in their names")] = ""


class FileName(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(description="of the file, as the index lists it or as it was added")]
    ocr: Annotated[bool, Meta(description="read scanned pages and images too")] = False


class NewFile(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(description="of the file, with its suffix", min_length=1)]
    ocr: Annotated[bool, Meta(description="read scanned pages and images too")] = False


async def read_body(request: Request, kind: type[T], limit: int) -> T:
    """The JSON object in a request; a body that is too large is refused before all of it has arrived."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise Problem(413, f"the request has {int(length):,} bytes, at most {limit:,} are accepted")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise Problem(413, f"the request has more than {limit:,} bytes")
        parts.append(part)
    try:
        data = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the request is not JSON: {error}") from None
    if isinstance(data, dict):
        data = {name: _whole(value) for name, value in data.items() if value is not None}
    return checked(kind, data, "the request")


def read_query(request: Request, kind: type[T]) -> T:
    """The parameters in a request's query string."""
    given = request.query_params
    values = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return checked(kind, values, "the query string", text=True)


def _whole(value: Any) -> Any:
    """JSON has one kind of number, so 5.0 is 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
