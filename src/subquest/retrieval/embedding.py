"""Embedding: a vector for every document of an index, in steps that survive a kill.

Documents are encoded in runs of STEP, each committed when it is done, so a killed job resumes. At the end the new
vectors are published as a vector file. The encoding itself may happen elsewhere (`ray_encoders`); only this process
writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import SearchRefused, UsageError
from . import store
from .encoder import Encoder, EncoderSpec
from .segment_builder import mergeable
from .writer import Progress, Writer

if TYPE_CHECKING:
    from .encoder import Vectors

STEP = 1024


class Run(NamedTuple):
    """Documents that are encoded together."""

    numbers: list[int]
    texts: list[str]


Encode = Callable[[Iterable[Run]], "Iterator[tuple[Run, Vectors]]"]
"""Takes runs and returns each with its vectors, in any order."""


def recorded_encoder(writer: Writer) -> EncoderSpec | None:
    """The encoder that the index was embedded with."""
    found = store.get(writer.db, "encoder", None)
    return None if found is None else EncoderSpec(**found)


def record_encoder(writer: Writer, spec: EncoderSpec) -> None:
    """Record the encoder in the index; a UsageError where there are vectors of another."""
    recorded = recorded_encoder(writer)
    if recorded is None:
        with store.transaction(writer.db):
            store.put(writer.db, "encoder", dataclasses.asdict(spec))
    elif recorded != spec:
        raise UsageError(
            f"{writer.folder} has vectors of {recorded.kind} {recorded.model}; vectors of {spec.kind} "
            f"{spec.model} cannot be mixed with them. Build another index."
        )


def embed(writer: Writer, encoder: Encoder, progress: Progress | None = None) -> int:
    """Encode the documents that have no vector yet and publish their vectors; returns how many there were."""
    return embed_with(writer, encoder.spec, local(encoder), progress)


def local(encoder: Encoder) -> Encode:
    """Encodes in this process, one run after another."""

    def encode(runs: Iterable[Run]) -> Iterator[tuple[Run, Vectors]]:
        for run in runs:
            yield run, encoder.encode(run.texts, query=False)

    return encode


def embed_with(writer: Writer, spec: EncoderSpec, encode: Encode, progress: Progress | None = None) -> int:
    """Like `embed`, with the encoding done by `encode`; runs may come back in any order."""
    import numpy as np

    record_encoder(writer, spec)
    done = 0
    for run, vectors in encode(_without_vectors(writer)):
        known = writer.db.execute("SELECT length(vector) / 2 FROM vectors LIMIT 1").fetchone()
        if known is not None and known[0] != vectors.shape[-1]:
            raise SearchRefused(
                f"{writer.folder} has vectors of {known[0]} numbers, and {spec.model} now gives {vectors.shape[-1]}: "
                "the model has changed; rebuild the index"
            )
        with np.errstate(over="ignore"):
            halves = vectors.astype(np.float16)
        if not np.isfinite(halves).all():
            number = run.numbers[int(np.argmin(np.isfinite(halves).all(axis=1)))]
            (name,) = writer.db.execute("SELECT id FROM documents WHERE number = ?", (number,)).fetchone()
            raise SearchRefused(f"{spec.model}: the vector of document {name!r} has numbers that are not finite")
        rows = [(n, v.tobytes()) for n, v in zip(run.numbers, halves, strict=True)]
        with store.transaction(writer.db):
            writer.store_vectors(rows)
        done += len(rows)
        if progress:
            progress(len(rows))
    publish_vectors(writer)
    return done


def _without_vectors(writer: Writer) -> Iterator[Run]:
    """The documents without vectors, in runs. Those that a vector file covers have theirs."""
    last = covered(writer)
    while rows := writer.db.execute(
        "SELECT number, title, text FROM documents WHERE number > ? "
        "AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.number = documents.number) ORDER BY number LIMIT ?",
        (last, STEP),
    ).fetchall():
        last = rows[-1][0]
        yield Run([row[0] for row in rows], [f"{title}\n{text}" for _, title, text in rows])


def complete(writer: Writer) -> bool:
    """Whether every document has a vector."""
    return next(_without_vectors(writer), None) is None


def covered(writer: Writer) -> int:
    """The number up to which every document has a vector in a file."""
    return max((segment.last for segment in writer.files.listed("dense")), default=0)


def pending(writer: Writer) -> bool:
    """Whether the index has vectors, and documents that lack one: new ones, or those of a killed run."""
    if recorded_encoder(writer) is None:
        return False
    found = writer.db.execute("SELECT 1 FROM documents WHERE number > ? LIMIT 1", (covered(writer),)).fetchone()
    return found is not None


def publish_vectors(writer: Writer) -> None:
    """Write a vector file of the vectors that no file has, and merge small files."""
    (newest,) = writer.db.execute("SELECT coalesce(max(number), 0) FROM vectors").fetchone()
    if newest > covered(writer):
        writer.rewrite_vectors([], newest)
    if run := mergeable(writer.files.listed("dense")):
        writer.rewrite_vectors(run)
