"""How backends store a passage: its key, what they can hold of its texts, and the facets that filters ask for."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from ...record import Document
from ..filters import Filter, conditions_of

MISSING = "\ufffd"
"""Stands for what a store cannot hold: lone surrogates, and the NUL that PostgreSQL refuses."""


def key_of(identifier: str) -> str:
    """A passage's key in backends: a UUID from the digest of its id."""
    return str(uuid.UUID(bytes=hashlib.blake2b(_utf8(identifier).encode(), digest_size=16).digest()))


def digest_of(document: Document) -> str:
    content = json.dumps([document.title, document.text, dict(document.meta)], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def text(term: bytes) -> str:
    """A term as text; a character that was cut in the middle becomes a sign that stands for it."""
    return term.decode(errors="replace")


def storable(document: Document) -> Document:
    """The document without what a store cannot hold; its metadata are stored as JSON in ASCII (`meta_text`)."""
    return Document(_utf8(document.id), _utf8(document.title), _utf8(document.text), document.meta)


def meta_text(document: Document) -> str:
    return json.dumps(dict(document.meta), sort_keys=True)


def _utf8(words: str) -> str:
    return words.encode(errors="replace").decode().replace("\0", MISSING)


def facets_of(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """What a passage can be filtered by."""
    facets = []
    for field, value in meta.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str | int | float):
                facets.append(facet(field, one))
    return tuple(dict.fromkeys(facets))


def facet(field: str, value: str | float) -> str:
    """`field=value`; a whole number is the same as int, float or bool."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return f"{_utf8(field)}={json.dumps(value if not isinstance(value, str) else _utf8(value), ensure_ascii=False)}"


def filter_facets(where: Filter) -> list[list[str]]:
    """A filter as groups of facets; wrong ones are refused as in our own index."""
    return [[facet(field, choice) for choice in choices] for field, choices in conditions_of(where)]
