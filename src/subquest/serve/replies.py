"""What the server replies: JSON, errors in OpenAI's format, and the types that the OpenAPI document shows."""

from __future__ import annotations

import errno
import json
import math
import sqlite3
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta
from starlette.responses import Response

from ..errors import MissingDependency, OutsideError, UsageError
from ..masking import public

Object = dict[str, Any]
_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class Problem(Exception):
    """A request that cannot be served, with its HTTP status."""

    def __init__(self, status: int, message: str, *, code: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(public(message))
        self.status = status
        self.code = code or _CODES.get(status, "error")
        self.headers = headers or {}


def json_bytes(content: Any) -> bytes:
    """The value as JSON. Python's own encoder takes what orjson refuses: lone surrogates and huge numbers."""
    try:
        return orjson.dumps(content)
    except TypeError:
        return json.dumps(_finite(content)).encode()


def _finite(value: Any) -> Any:
    """The value with null for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Json(Response):
    """A JSON reply."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def as_problem(error: Exception) -> Problem:
    """The problem that a client is told about."""
    if isinstance(error, Problem):
        return error
    if is_disk_full(error):
        message = str(error) if isinstance(error, OutsideError) else f"the disk of the server is full: {error}"
        return Problem(507, message, code="storage")
    if isinstance(error, MissingDependency):
        return Problem(501, str(error), code="not_installed")
    if isinstance(error, UsageError):
        return Problem(400, str(error))
    if isinstance(error, OutsideError):
        return Problem(502, str(error), code="outside")
    return Problem(500, "internal server error; see the server's log", code="defect")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or the one behind it, says that there is no room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__
    return False


def problem_reply(problem: Problem) -> Json:
    """The error in OpenAI's format, which clients of that protocol show to people."""
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    error = {"message": str(problem), "type": kind, "code": problem.code, "param": None}
    return Json({"error": error}, problem.status, problem.headers)


class ErrorDetail(msgspec.Struct):
    message: str
    type: str
    code: str


class Error(msgspec.Struct):
    error: ErrorDetail


class Health(msgspec.Struct):
    status: Annotated[str, Meta(description="ok, or storage: the disk is full or fails")]
    version: str
    storage: Annotated[str, Meta(description="why questions cannot be stored; empty while they can")]
    unstored: Annotated[int, Meta(description="answers in memory that could not be written yet")]
    stalls: Annotated[int, Meta(description="how often the event loop stood still since the start")]
    longest_stall: Annotated[float, Meta(description="seconds of the longest stall")]


class ModelList(msgspec.Struct):
    data: list[Object]


class Accepted(msgspec.Struct):
    id: Annotated[str, Meta(description="of the episode")]
    status: str
    events: Annotated[str, Meta(description="address of its event stream")] | None = None


class EpisodePage(msgspec.Struct):
    total: int
    episodes: list[Object]
    interrupted: list[Object] | None = None


class Thread(msgspec.Struct):
    turns: Annotated[list[Object], Meta(description="first to last, each with its question and its episodes")]


class Siblings(msgspec.Struct):
    siblings: list[Object]


class RunList(msgspec.Struct):
    runs: list[Object]


class Matrix(msgspec.Struct):
    systems: list[str]
    datasets: list[str]
    total: int
    counts: Annotated[Object, Meta(description="how many questions there are, by what `only` can be")]
    rows: list[Object]


class IndexList(msgspec.Struct):
    indexes: list[Object]


class Span(msgspec.Struct):
    start: int
    end: int


class IndexHit(msgspec.Struct):
    id: str
    title: str
    text: str
    score: float
    highlight: Span
    meta: Object
    place: Annotated[Object, Meta(description="where the highlight is: file, page, line, ... as far as known")]


class IndexHits(msgspec.Struct):
    hits: list[IndexHit]


class StoredDocument(msgspec.Struct):
    id: str
    title: str
    text: str
    meta: Object


class DocumentInFile(StoredDocument):
    place: Annotated[Object, Meta(description="where the quote is: file, page, line, ... as far as known")]
    before: Annotated[list[StoredDocument], Meta(description="passages of the same file before it")] = []
    after: list[StoredDocument] = []
    more_before: Annotated[bool, Meta(description="whether there are more before those")] = False
    more_after: bool = False


class IndexOf(msgspec.Struct):
    index: Annotated[str, Meta(description="name of the index; empty if none has the document")]


class FilePage(msgspec.Struct):
    total: int
    files: list[Object]
    reading: Annotated[Object, Meta(description="the file that is being read")] | None = None


class FileAdded(msgspec.Struct):
    index: str
    added: int
    updated: int
    problems: list[str]
    notes: list[str]
    file: Annotated[Object, Meta(description="as the index lists it")] | None = None


class Result(msgspec.Struct):
    result: list[list[Object]]
