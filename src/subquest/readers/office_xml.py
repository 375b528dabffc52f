"""The XML inside office files as a stream of events: constant memory, no entities."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple, TypeVar
from xml.parsers import expat

from ..errors import DataError

_CHUNK = 1 << 16
T = TypeVar("T")


class Start(NamedTuple):
    tag: str
    """Without its namespace."""
    attributes: Mapping[str, str]
    """By local name; an attribute with a namespace takes precedence."""


class End(NamedTuple):
    tag: str


def make_parser(name: str, *, namespaces: bool = True) -> expat.XMLParserType:
    """A parser that refuses entities. It gives names as `namespace name`, or as they are, which is faster."""

    def refuse(*_: Any) -> None:
        raise DataError(f"{name} declares entities: refused")

    parser = expat.ParserCreate(namespace_separator=" " if namespaces else None)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    return parser


def events(stream: IO[bytes], name: str) -> Iterator[Start | End | str]:
    """Starts and ends of elements, and the text between them."""
    pending: list[Start | End | str] = []
    parser = make_parser(name)
    parser.StartElementHandler = lambda tag, values: pending.append(Start(tag.rpartition(" ")[2], _local(values)))
    parser.EndElementHandler = lambda tag: pending.append(End(tag.rpartition(" ")[2]))
    parser.CharacterDataHandler = pending.append
    return feed(parser, stream, name, pending)


def feed(parser: expat.XMLParserType, stream: IO[bytes], name: str, found: list[T]) -> Iterator[T]:
    """What the parser's handlers put into `found`, as the stream is read."""
    try:
        while chunk := stream.read(_CHUNK):
            parser.Parse(chunk)
            yield from found
            found.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DataError(f"{name}: {error}") from None
    yield from found


def _local(values: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in values.items():
        space, _, name = key.rpartition(" ")
        if space or name not in found:
            found[name] = value
    return found


def related(archive: zipfile.ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """What a part refers to, or the whole file if it is empty: kind and name by the reference's id."""
    folder, plain = posixpath.split(name)
    relations = posixpath.join(folder, "_rels", f"{plain}.rels")
    found: dict[str, tuple[str, str]] = {}
    if relations not in archive.NameToInfo:
        return found
    with archive.open(relations) as stream:
        for event in events(stream, relations):
            if isinstance(event, Start) and event.tag == "Relationship":
                target = event.attributes.get("Target", "")
                path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
                kind = event.attributes.get("Type", "").rpartition("/")[2]
                found[event.attributes.get("Id", "")] = (kind, path)
    return found


def core_title(archive: zipfile.ZipFile, properties: str = "docProps/core.xml") -> str:
    """The title in the properties of an office file."""
    if properties not in archive.NameToInfo:
        return ""
    inside, words = False, ""
    with archive.open(properties) as stream:
        for event in events(stream, properties):
            if isinstance(event, str):
                words += event if inside else ""
            else:
                inside = isinstance(event, Start) and event.tag == "title"
    return " ".join(words.split())
