"""Requests read with suspicion, replies written with speed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Literal, overload

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ..errors import MissingDependency, OutsideError, UsageError

MAX_SAFE = 2**53 - 1
"""The largest number up to which JSON readers agree on every whole number."""


_WHOLE = re.compile(r"-?[0-9]{1,18}")


_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class Problem(Exception):
    """A request that cannot be served, with the HTTP status and words for it."""

    def __init__(self, status: int, message: str, *, code: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or _CODES.get(status, "error")
        self.headers = headers or {}


def json_bytes(content: Any) -> bytes:
    """JSON as fast as can be; slower where stored runs hold what the fast way refuses: half signs, huge numbers."""
    try:
        return orjson.dumps(content)
    except TypeError:
        return json.dumps(_finite(content)).encode()


def _finite(value: Any) -> Any:
    """The value without numbers that JSON has not."""
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
    """What an exception means to a client."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, MissingDependency):
        return Problem(501, str(error), code="not_installed")
    if isinstance(error, UsageError):
        return Problem(400, str(error))
    if isinstance(error, OutsideError):
        return Problem(502, str(error), code="outside")
    return Problem(500, "a defect of the server; its log says more", code="defect")


def problem_reply(problem: Problem) -> Json:
    """Errors in OpenAI's form, which clients of that protocol show to people."""
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    error = {"message": str(problem), "type": kind, "code": problem.code, "param": None}
    return Json({"error": error}, problem.status, problem.headers)


async def read_body(request: Request, limit: int) -> Body:
    """The JSON object a request carries; refuses one that is too large before it is all there."""
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > limit:
        raise Problem(413, f"the request has {int(said):,} bytes, at most {limit:,} are accepted")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise Problem(413, f"the request has more than {limit:,} bytes")
        parts.append(part)
    return parsed(b"".join(parts))


def parsed(raw: bytes) -> Body:
    """The JSON object in the bytes of a request."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the request is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Problem(400, f"the request must be a JSON object, not {_kind(data)}")
    return Body(data)


class Body:
    """The fields of a request; each is taken out with the type it must have."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def only(self, *names: str) -> None:
        """Refuse fields that nobody would read."""
        for name in self.data:
            if name not in names:
                raise Problem(400, f"there is no field {name!r}; fields are {', '.join(names)}")

    @overload
    def text(self, name: str) -> str: ...
    @overload
    def text(self, name: str, default: str) -> str: ...
    def text(self, name: str, default: str | None = None) -> str:
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise Problem(400, f"`{name}` must be a text, not {_kind(value)}")
        return value

    def texts(self, name: str, most: int) -> list[str]:
        value = self.data.get(name)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise Problem(400, f"`{name}` must be a list of texts")
        if len(value) > most:
            raise Problem(400, f"`{name}` has {len(value):,} entries, at most {most:,} are accepted")
        return value

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        value = self.data.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():  # JSON knows one kind of number
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise Problem(400, f"`{name}` must be a whole number from {least:,} to {most:,}")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self.data.get(name) is None else self.integer(name, 0, -MAX_SAFE, MAX_SAFE)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.data.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise Problem(400, f"`{name}` must be true or false, not {_kind(value)}")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise Problem(400, f"`{name}` must be one of {', '.join(choices)}")
        return value

    def objects(self, name: str, most: int) -> list[dict[str, Any]]:
        value = self.data.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise Problem(400, f"`{name}` must be a list of objects")
        if len(value) > most:
            raise Problem(400, f"`{name}` has {len(value):,} entries, at most {most:,} are accepted")
        return value


def query_integer(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query string."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise Problem(400, f"`{name}` must be a whole number from {least:,} to {most:,}")
    return int(text)


def _kind(value: Any) -> Literal["nothing", "a text", "a number", "true or false", "a list", "an object"]:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else "an object"
