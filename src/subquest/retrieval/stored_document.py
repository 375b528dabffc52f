"""Documents as they can be stored, by our own index or by another backend, and as they come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..codec import utf8
from ..errors import UsageError
from ..record import Document


def meta_text(document: Document) -> str | None:
    """The document's metadata as it is stored."""
    return json.dumps(dict(document.meta), ensure_ascii=False, sort_keys=True) if document.meta else None


def cleaned(document: Document) -> Document:
    """The document as it can be stored; a UsageError that names it where it cannot.

    Lone surrogates, which UTF-8 does not have, are replaced; numbers that JSON does not have (NaN, infinities) become
    null.
    """
    if not isinstance(document, Document):
        raise UsageError(f"expected a Document, got {type(document).__name__}")
    for field in ("id", "title", "text"):
        if not isinstance(value := getattr(document, field), str):
            raise UsageError(f"document {document.id!r}: its {field} is a {type(value).__name__}, not a string")
    try:
        document.id.encode(), document.title.encode(), document.text.encode()
        if document.meta and not _simple(document.meta):
            json.dumps(dict(document.meta), ensure_ascii=False, sort_keys=True, allow_nan=False).encode()
        return document
    except (TypeError, ValueError, RecursionError):  # of which UnicodeEncodeError is one
        return Document(utf8(document.id), utf8(document.title), utf8(document.text), _storable(document))


def _simple(meta: Mapping[str, Any]) -> bool:
    """Whether nothing can be wrong with the metadata; true for most, and fast to check."""
    for key, value in meta.items():
        if type(key) is not str or not key.isascii():
            return False
        if type(value) is not int and (type(value) is not str or not value.isascii()):
            return False
    return True


def _storable(document: Document) -> Any:
    """The metadata as they can be stored."""
    try:
        written = json.dumps(dict(document.meta), ensure_ascii=False)
        found = json.loads(utf8(written), parse_constant=lambda _: None)
        json.dumps(found, sort_keys=True)
        return found
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"document {document.id!r}: its metadata cannot be stored as JSON ({error})") from None


def to_document(row: tuple[str, str, str, str | None]) -> Document:
    """A document from the columns id, title, text, meta."""
    identifier, title, text, meta = row
    return Document(identifier, title, text, json.loads(meta) if meta else {})
