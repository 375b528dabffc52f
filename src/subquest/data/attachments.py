"""Files attached to questions: looked up beside the question file, or written to the cache from inside a row.

GAIA's rows name files of their own folder, Humanity's Last Exam has its pictures as `data:` URLs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import mimetypes
import os
from pathlib import Path

from msgspec.structs import replace

from ..errors import DataError, UsageError
from ..models import cache_folder
from ..record import Question


def files_folder(questions: Path) -> Path:
    """The folder beside a question file that may hold its attachments: `gaia_validation_files`."""
    return questions.with_name(f"{questions.name.split('.')[0]}_files")


def with_files(question: Question, source: Path) -> Question:
    """The question with paths that can be opened from anywhere; a file that is not found keeps the row's name."""
    if not question.files:
        return question
    return replace(question, files=tuple(_found(file, source) for file in question.files))


def _found(file: str, source: Path) -> str:
    if file.startswith("data:"):
        return str(_cached(file))
    if "://" in file:
        return file
    for folder in (source.parent, files_folder(source)):
        path = folder / file
        try:
            if path.is_file():
                return str(path.resolve())
        except (OSError, ValueError):
            raise DataError(f"no file can be called {file[:60]!r}") from None
    return file


def _cached(url: str) -> Path:
    """The content of a data URL as a file in the user's cache, named by its digest."""
    head, comma, body = url[len("data:") :].partition(",")
    kind, *marks = head.split(";")
    try:
        if not comma or "base64" not in marks:
            raise ValueError("it is not in base64")
        content = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"the attached data URL {url[:40]!r}… cannot be read: {error}") from None
    name = hashlib.sha256(content).hexdigest()[:24] + (mimetypes.guess_extension(kind) or "")
    target = cache_folder() / "attached" / name
    try:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = target.with_name(f".{name}.{os.getpid()}.new")
            scratch.write_bytes(content)
            scratch.replace(target)
    except OSError as error:
        raise UsageError(
            f"cannot write an attached file to {target.parent}: {error.strerror} (set SUBQUEST_CACHE to another folder)"
        ) from None
    return target
