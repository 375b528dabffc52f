"""E-mail: who wrote to whom and when, what the message says, and the files that came with it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from typing import BinaryIO

from ..errors import DataError, MissingDependency
from . import reader
from .file_kind import sniff
from .part import NOWHERE, Part
from .text import decode

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_NESTED = 3
"""Messages inside messages that are read."""
_HEAD = re.compile(rb"\A\s*[!-9;-~]+:")


def read_mail(file: BinaryIO) -> Iterator[Part]:
    """The header fields that people read, with the text; then each attachment under its name.

    What an attachment holds that cannot be read is named after the rest, in one DataError.
    """
    content = file.read()
    if not _HEAD.match(content):
        raise DataError("not an e-mail message: it does not begin with header fields such as From:")
    message = BytesParser(EmailMessage, policy=policy.default).parsebytes(content)
    wrong: list[str] = []
    yield from _message(message, (), wrong)
    if wrong:
        raise DataError("; ".join(wrong))


def _message(message: EmailMessage, section: tuple[str, ...], wrong: list[str], depth: int = 1) -> Iterator[Part]:
    subject = _field(message, "Subject")
    head = "".join(f"{name}: {value}\n" for name in _HEADERS if (value := _field(message, name)))
    body = message.get_body(("plain", "html"))
    parts = list(_of(body, wrong)) if body is not None else []
    title = subject if depth == 1 else ""
    if parts and not parts[0].row and not parts[0].section:
        parts[0] = parts[0]._replace(text=f"{head}\n{parts[0].text}", place={"paragraph": 0})
    else:
        parts.insert(0, Part(head, {"paragraph": 0}))
    for part in parts:
        yield part._replace(section=(*section, *part.section), title=title)
        title = ""
    for at, attached in enumerate(message.iter_attachments(), 1):
        inside = attached.get_content() if attached.get_content_type() == "message/rfc822" else None
        if isinstance(inside, EmailMessage):
            if depth < _NESTED:
                name = _field(inside, "Subject") or f"message {at}"
                yield from _message(inside, (*section, name), wrong, depth + 1)
            continue
        name = attached.get_filename() or f"attachment {at}"
        for part in _of(attached, wrong, name):
            yield _attached(part, (*section, name))


def _attached(part: Part, section: tuple[str, ...]) -> Part:
    """A part of an attachment: its page or sheet is a heading, because it is not one of the message."""
    within = (f"{field} {part.place[field]}" for field in ("page", "slide", "sheet") if field in part.place)
    number = part.place.get("row", part.place.get("line")) if part.row else None
    place = {"row": number} if number is not None else NOWHERE
    if "paragraph" in part.place:
        place = {"paragraph": part.place["paragraph"]}
    return part._replace(section=(*section, *within, *part.section), place=place, title="")


def _of(part: MIMEPart, wrong: list[str], name: str = "") -> Iterator[Part]:
    """The parts of a body or an attachment; nothing for an image and other kinds without text."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return
    body = not name and part.get_content_type() == "text/plain"
    kind = "text" if body else sniff(payload, name, part.get_content_type())
    if kind == "text":
        yield Part(_text(payload, part.get_content_charset() or ""), {"paragraph": 1})
        return
    read = reader(kind) if kind not in ("image", "mail") else None
    if read is None:
        return
    try:
        yield from read(io.BytesIO(payload))
    except (DataError, MissingDependency) as error:
        wrong.append(f"the attachment {name}: {error}" if name else str(error))


def _text(payload: bytes, charset: str) -> str:
    """The text of a message, in the encoding that it names."""
    try:
        return payload.decode(charset or "ascii")
    except (LookupError, UnicodeDecodeError):
        return decode(payload)


def _field(message: EmailMessage, name: str) -> str:
    return " ".join(str(message.get(name, "")).split())
