"""Embedding: a vector for every document of an index, in steps that survive a kill.

Documents are encoded in runs of STEP, each committed when it is done, so a killed job goes on where it was. At the end
the new vectors are published as a vector file.
"""

from __future__ import annotations

import dataclasses

from ..errors import UsageError
from . import store
from .encoder import Encoder, EncoderSpec
from .writer import Progress, Writer, mergeable

STEP = 1024


def recorded_encoder(writer: Writer) -> EncoderSpec | None:
    """The encoder that the index was embedded with."""
    found = store.get(writer.db, "encoder", None)
    return None if found is None else EncoderSpec(**found)


def embed(writer: Writer, encoder: Encoder, progress: Progress | None = None) -> int:
    """Encode the documents that have no vector yet and publish their vectors; how many there were."""
    import numpy as np

    recorded = recorded_encoder(writer)
    if recorded is None:
        with store.transaction(writer.db):
            store.put(writer.db, "encoder", dataclasses.asdict(encoder.spec))
    elif recorded != encoder.spec:
        raise UsageError(
            f"{writer.folder} has vectors of {recorded.kind} {recorded.model}; vectors of {encoder.spec.kind} "
            f"{encoder.spec.model} cannot be mixed with them. Build another index."
        )
    done, last = 0, 0
    while True:
        rows = writer.db.execute(
            "SELECT number, title, text FROM documents WHERE number > ? "
            "AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.number = documents.number) ORDER BY number LIMIT ?",
            (last, STEP),
        ).fetchall()
        if not rows:
            break
        last = rows[-1][0]
        vectors = encoder.encode([f"{title}\n{text}" for _, title, text in rows], query=False).astype(np.float16)
        with store.transaction(writer.db):
            pairs = [(row[0], vector.tobytes()) for row, vector in zip(rows, vectors, strict=True)]
            writer.db.executemany("INSERT INTO vectors VALUES (?, ?)", pairs)
        done += len(rows)
        if progress:
            progress(len(rows))
    (newest,) = writer.db.execute("SELECT coalesce(max(number), 0) FROM vectors").fetchone()
    covered = max((segment.last for segment in writer.segments("dense")), default=0)
    if newest > covered:
        writer.rewrite_vectors([], newest)
    if run := mergeable(writer.segments("dense")):
        writer.rewrite_vectors(run)
    return done
