"""The compact form of records: JSON values in which each repeated piece of content is stored once per run.

Prompts, documents and their token ids occur in episode after episode, and within one episode a document occurs in an
event, in the executor's context and as a quote. So long strings are cut where content tends to repeat (at line ends
and around tags), and token ids after ids that are multiples of 32 (content-defined chunks: the same sequence is cut the
same way wherever it occurs). A *piece* is such a cut of a few dozen bytes or more. It is stored once, under the hash of
its bytes, and the value refers to it by number:

    {"text": "Answer the question. … Who …?"}   ->   {"text": {"$": [17, 18, "Who …?"]}}
    {"token_ids": [504, 260, …]}                ->   {"token_ids": {"$n": [19, 20]}}
    {"logprobs": [-0.25, …]}                    ->   {"logprobs": {"$n": [21]}}

The rest is compressed. Loading returns an equal value, whatever it contains.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ..errors import DataError


class Intern(Protocol):
    """Stores a piece and returns its number: the same number for the same bytes, unless they are `unique`."""

    def __call__(self, data: bytes, *, unique: bool = False) -> int: ...


Known = dict[str, Any]
"""Texts and their packed forms, valid as long as the piece numbers are: prompts and documents repeat."""
Fetch = Callable[[Sequence[int]], Sequence[bytes]]
"""Returns the pieces with the given numbers."""

MIN_TEXT = 40
"""Strings with fewer characters take less space in place than as a piece."""
MIN_ARRAY = 16
"""The same for the numbers of a list."""

_MAX_KNOWN, _LONG = 4096, 4096
"""How many packed texts are remembered, and the longest of them in characters."""
_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_orjson: Any = None
with contextlib.suppress(ImportError):
    _orjson = importlib.import_module("orjson")
_HUGE = sys.float_info.max
_PLAIN: set[str] = set()
"""Keys known not to start with `$`."""
_RAW, _ZLIB, _CHECKED = b"\0", b"\1", b"\2"
"""How data are stored: as they are (by older versions), compressed, or after their crc32."""
_COMMON = (
    b'"answer":"forced":true,"confidence":null,"stop_reason":"forced"abstained"failed"cancelled"no answer"meta":{}'
    b'"fatal":true,"where":"search","message":"attempt":"wait":"entries":"action":"evidence":[{"quote":{"$":["start":'
    b'"seq":1,"kind":"retry"memory"code"page"limit"error","time":0.1,"trajectory":"1.2","data":{"what":"message":"'
    b'"supporting_titles":["decomposition":[{"question":"dataset":"split":"test","hops":2,"type":"settings":{}}},'
    b'"kind":"start","kind":"open","kind":"close","kind":"end","kind":"plan","data":{"steps":["task":{"$":["child":"1.1"'
    b'"role":"user","content":{"$":["parent":"1","model":"prompt":[{"role":"system","content":{"$":["kind":"refine",'
    b'"kind":"result","data":{"result":"kind":"documents","data":{"query":{"$":["hits":[{"id":"title":"text":{"$":["'
    b'score":1.0},{"kind":"search","data":{"queries":["k":3}},"data":{"text":{"$":["finish":"end","usage":{"'
    b'<think>","</think>\\n<task>","</task>"</think>\\n<search>"</search>"<refine>"</refine>\\n<result>"</result>"'
    b'<answer>"</answer>"<documents>Doc 1(Title: ) Doc 2(Title: ) Doc 3(Title: </documents>"format_errors":['
    b'{"id":"1.1","role":"executor","task":{"$":["parent":"1","segments":[{"kind":"prompt","text":{"$":["'
    b'token_ids":{"$n":["role":"system"},{"kind":"agent","text":{"$":["token_ids":{"$n":["logprobs":{"$n":["'
    b'role":"assistant"},{"kind":"env","text":{"$":["role":"user"}],"stop_reason":"answered","result":"'
    b'usage":{"prompt_tokens":1,"cached_tokens":1,"completion_tokens":1,"peak_context":1,"model_calls":1,'
    b'"searches":1,"tool_calls":1,"seconds":0.0,"cost":0.0}'
)
"""The compressor's dictionary: what records typically contain. Part of the file format."""
_PRIMED = zlib.compressobj(6, zdict=_COMMON)
"""A compressor that has read the dictionary; copies of it do the work."""


def dump(value: Any, intern: Intern, known: Known | None = None) -> bytes:
    """The value as compact bytes; its pieces are stored by `intern`."""
    return _compress(_to_json(_pack(value, intern, {} if known is None else known)))


class _NotFinite(float):
    """NaN or an infinity, which Python's JSON can express; orjson would write null."""


def _to_json(value: Any) -> bytes:
    """Uses orjson if installed, ten times as fast; Python's encoder takes what orjson refuses (lone surrogates, …)."""
    if _orjson is not None:
        with contextlib.suppress(TypeError):
            strict = _orjson.OPT_PASSTHROUGH_DATACLASS | _orjson.OPT_PASSTHROUGH_DATETIME
            return bytes(_orjson.dumps(value, option=strict | _orjson.OPT_PASSTHROUGH_SUBCLASS))
    return _encode(_json(value))


def load(data: bytes, fetch: Fetch) -> Any:
    """The inverse of `dump`; raises DataError if the bytes are damaged."""
    try:
        value = json.loads(_decode(_decompress(data)))
        numbers = sorted(set(_references(value)))
        return _unpack(value, dict(zip(numbers, fetch(numbers), strict=True)))
    except ValueError as error:
        raise DataError(f"a stored record is damaged: {error}") from None


def _compress(data: bytes) -> bytes:
    """Compress the data if that makes it smaller."""
    compressor = _PRIMED.copy()
    small = compressor.compress(data) + compressor.flush()
    return _ZLIB + small if len(small) < len(data) else _CHECKED + zlib.crc32(data).to_bytes(4, "big") + data


def _decompress(data: bytes) -> bytes:
    if not isinstance(data, bytes):  # a damaged row may contain anything
        raise DataError("a stored record is damaged: it contains no bytes")
    if data[:1] == _RAW:
        return data[1:]
    if data[:1] == _CHECKED and int.from_bytes(data[1:5], "big") == zlib.crc32(data[5:]):
        return data[5:]
    if data[:1] != _ZLIB:
        raise DataError("a stored record is damaged: its checksum does not fit")
    try:
        stream = zlib.decompressobj(zdict=_COMMON)
        found = stream.decompress(data[1:])
    except zlib.error as error:
        raise DataError(f"a stored record is damaged: {error}") from None
    if not stream.eof or stream.unused_data:
        raise DataError("a stored record is damaged: its size is wrong")
    return found


def dump_pieces(pieces: Sequence[bytes]) -> bytes:
    """Several pieces as one compressed block: together they compress far better than separately."""
    lengths = struct.pack(f"<{len(pieces) + 1}I", len(pieces), *map(len, pieces))
    return _compress(lengths + b"".join(pieces))


def load_pieces(data: bytes) -> list[bytes]:
    """The inverse of `dump_pieces`; raises DataError if the block is damaged."""
    data = _decompress(data)
    try:
        (count,) = struct.unpack_from("<I", data)
        lengths = struct.unpack_from(f"<{count}I", data, 4)
    except struct.error as error:
        raise DataError(f"a stored block is damaged: {error}") from None
    at = 4 + 4 * count
    if at + sum(lengths) != len(data):
        raise DataError("a stored block is damaged: its size is wrong")
    out = []
    for length in lengths:
        out.append(data[at : at + length])
        at += length
    return out


def _pack(value: Any, intern: Intern, known: Known) -> Any:
    kind = type(value)
    if kind is dict:
        out = value
        for key, inner in value.items():
            t = type(inner)
            if t is str:
                if len(inner) < MIN_TEXT:
                    continue
                packed = known.get(inner) or _pack_text(inner, intern, known)
            elif t is int or t is bool or inner is None or (t is float and -_HUGE < inner < _HUGE):
                continue
            else:
                packed = _pack(inner, intern, known)
                if packed is inner:
                    continue
            if out is value:
                out = value.copy()
            out[key] = packed
        return out if _PLAIN.issuperset(out) else _escaped(out)
    if kind is list or kind is tuple:
        if len(value) >= MIN_ARRAY:
            types = set(map(type, value))
            if types == {int} and min(value) >= 0 and max(value) < 2**32:
                return {"$n": [intern(chunk) for chunk in _chunks(value)]}
            if types == {float}:
                return {"$n": [intern(_floats(value), unique=True)]}
        return [_pack(v, intern, known) for v in value]
    if kind is str and len(value) >= MIN_TEXT:
        return known.get(value) or _pack_text(value, intern, known)
    if kind is float and not math.isfinite(value):
        return _NotFinite(value)
    return value


def _escaped(packed: dict[str, Any]) -> dict[str, Any]:
    """Prefix keys that start with `$` with another `$`; remember keys that need no prefix."""
    if any(key[:1] == "$" for key in packed):
        return {("$" + key if key[:1] == "$" else key): inner for key, inner in packed.items()}
    if len(_PLAIN) < _MAX_KNOWN:
        _PLAIN.update(packed)
    return packed


def _unpack(value: Any, pieces: dict[int, bytes]) -> Any:
    kind = type(value)
    if kind is dict:
        if len(value) == 1:
            ((key, inner),) = value.items()
            if key == "$":
                return "".join(_decode(pieces[p]) if type(p) is int else p for p in inner)
            if key == "$n":
                return [x for number in inner for x in _numbers(pieces[number])]
        return {(k[1:] if k[:1] == "$" else k): _unpack(v, pieces) for k, v in value.items()}
    if kind is list:
        return [_unpack(v, pieces) for v in value]
    return value


def _references(value: Any) -> Iterator[int]:
    if type(value) is dict:
        if len(value) == 1 and next(iter(value)) in ("$", "$n"):
            yield from (p for p in next(iter(value.values())) if type(p) is int)
        else:
            for inner in value.values():
                yield from _references(inner)
    elif type(value) is list:
        for inner in value:
            yield from _references(inner)


def _pack_text(text: str, intern: Intern, known: Known) -> Any:
    parts: list[int | str] = []
    for cut in _cuts(text):
        if len(cut) >= MIN_TEXT:
            parts.append(intern(_encode(cut)))
        elif parts and type(parts[-1]) is str:
            parts[-1] += cut
        else:
            parts.append(cut)
    packed = {"$": parts}
    if len(text) <= _LONG:
        if len(known) >= _MAX_KNOWN:
            known.clear()
        known[text] = packed
    return packed


def _cuts(text: str) -> list[str]:
    """Cut after line ends and around tags; a text that contains the cut mark itself stays whole."""
    if "\0" in text:
        return [text]
    marked = text.replace("\n", "\n\0").replace("<", "\0<").replace(">", ">\0")
    return marked.split("\0")


def _chunks(ids: Sequence[int]) -> Iterator[bytes]:
    """Cut after ids that are multiples of 32, into chunks of at least `MIN_ARRAY`."""
    start = 0
    for at in [i for i, number in enumerate(ids, 1) if not number & 31]:
        if at - start >= MIN_ARRAY:
            yield _integers(ids[start:at])
            start = at
    if start < len(ids):
        yield _integers(ids[start:])


def _integers(values: Sequence[int]) -> bytes:
    data = array("H" if max(values) < 2**16 else "I", values)
    return data.typecode.encode() + _little(data).tobytes()


def _floats(values: Sequence[float]) -> bytes:
    """32-bit floats if that loses nothing (engines compute log-probs with them), otherwise 64-bit.

    The lowest bytes of all numbers come first, then the second lowest, …: the highest bytes repeat and compress well.
    """
    try:
        short = array("f", values)
    except OverflowError:
        short = array("f")
    data = short if short.tolist() == list(values) else array("d", values)
    mixed, width = _little(data).tobytes(), data.itemsize
    return data.typecode.encode() + b"".join(mixed[i::width] for i in range(width))


def _numbers(data: bytes) -> list[Any]:
    values = array(data[:1].decode())
    body, width = data[1:], values.itemsize
    if values.typecode in "fd":
        count = len(body) // width
        mixed = bytearray(len(body))
        for i in range(width):
            mixed[i::width] = body[i * count : (i + 1) * count]
        body = bytes(mixed)
    values.frombytes(body)
    return _little(values).tolist()


def _little(values: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
