"""Files that belong to questions: found beside the question file; those that stand inside a row become files.

GAIA's rows name files of their own folder, Humanity's Last Exam has its pictures as `data:` URLs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import mimetypes
import os
from dataclasses import replace
from pathlib import Path

from ..errors import DataError, UsageError
from ..models import cache_folder
from ..record import Question


def files_folder(questions: Path) -> Path:
    """The folder beside a question file that may hold its attachments: `gaia_validation_files`."""
    return questions.with_name(f"{questions.name.split('.')[0]}_files")


def with_files(question: Question, source: Path) -> Question:
    """The question with its files as they can be opened from anywhere. What is not there stays as the row has it."""
    if not question.files:
        return question
    return replace(question, files=tuple(_found(file, source) for file in question.files))


def _found(file: str, source: Path) -> str:
    if file.startswith("data:"):
        return str(_kept(file))
    if "://" in file:
        return file
    for folder in (source.parent, files_folder(source)):
        place = folder / file
        try:
            if place.is_file():
                return str(place.resolve())
        except (OSError, ValueError):
            raise DataError(f"no file can be called {file[:60]!r}") from None
    return file


def _kept(url: str) -> Path:
    """The content of a data URL as a file in the user's cache, called after what is in it."""
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
            f"an attached file cannot be kept in {target.parent}: {error.strerror} (SUBQUEST_CACHE names another place)"
        ) from None
    return target
