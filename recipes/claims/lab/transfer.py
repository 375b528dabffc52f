"""What has to be copied between a bare machine with a GPU and the project, in pieces of limited size.

`pack` writes one tar in pieces, `claims-000.tar` and so on: results first, then adapters whose rows are not complete,
then the newest checkpoints of trainings that are not finished, rounded to 16 bits, which halves them. `unpack`
reads the pieces that are there, in order: what comes first is found even if the last ones are missing.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

PIECE = 15_500_000
"""Bytes of a file at most."""
NAME = "claims-{:03d}.tar"


class Pieces(io.RawIOBase):
    """A file to write that is kept in pieces."""

    def __init__(self, folder: Path, size: int = PIECE) -> None:
        self._folder, self._size = folder, size
        self._number = self._room = 0
        self._file: IO[bytes] | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        view = memoryview(data)
        while view:
            if self._file is None or not self._room:
                self._next()
            assert self._file is not None
            taken = view[: self._room]
            self._file.write(taken)
            self._room -= len(taken)
            view = view[len(taken) :]
        return len(data)

    def _next(self) -> None:
        self.close_piece()
        self._file = (self._folder / NAME.format(self._number)).open("wb")
        self._number, self._room = self._number + 1, self._size

    def close_piece(self) -> None:
        if self._file is not None:
            self._file.close()


def pack(out: Path, results: Path, folders: Iterable[tuple[str, Path]], *, size: int = PIECE) -> int:
    """Write the pieces, results first, then the folders of runs by name (`peco-1a2b3c4d/adapter`), the most important
    first; returns how many pieces there are."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("claims-*.tar"):
        old.unlink()
    pieces = Pieces(out, size)
    with tarfile.open(fileobj=pieces, mode="w|") as tar:
        for file in sorted(results.glob("*.json.xz")):
            tar.add(file, f"results/{file.name}")
        for file in sorted(results.glob("episodes/*.jsonl")):
            _add(tar, f"results/episodes/{file.name}.xz", lzma.compress(file.read_bytes(), preset=1))
        for name, folder in folders:
            for file in sorted(f for f in (folder.rglob("*") if folder.is_dir() else [folder]) if f.is_file()):
                _add(
                    tar, f"runs/{name}/{file.relative_to(folder)}" if folder.is_dir() else f"runs/{name}", _small(file)
                )
    pieces.close_piece()
    return len(list(out.glob("claims-*.tar")))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _small(file: Path) -> bytes:
    """A file's content; of a checkpoint's tensors in 16 bits."""
    if not file.match("checkpoints/*/shard-*.safetensors"):
        return file.read_bytes()
    import torch
    from safetensors.torch import load_file, save

    return save({name: tensor.to(torch.bfloat16) for name, tensor in load_file(file).items()})


def unpack(packed: Path, results: Path, runs: Path) -> int:
    """Put everything that is whole in its place; returns how many files there were."""
    count = 0
    for member, content in _members(packed):
        kind, _, name = member.name.partition("/")
        if ".." in Path(name).parts:
            continue
        place = {"results": results, "runs": runs}[kind] / name.removesuffix(".jsonl.xz")
        if name.endswith(".jsonl.xz"):
            place, content = place.with_name(f"{place.name}.jsonl"), lzma.decompress(content)
        elif kind == "results" and place.is_file():
            content = _merged(place.read_bytes(), content)
        place.parent.mkdir(parents=True, exist_ok=True)
        building = place.with_name(f"{place.name}.tmp")
        building.write_bytes(content)
        building.replace(place)
        count += 1
    return count


def _members(packed: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The files that are whole."""
    number, data = 0, io.BytesIO()
    while (piece := packed / NAME.format(number)).is_file():
        data.write(piece.read_bytes())
        number += 1
    data.seek(0)
    try:
        with tarfile.open(fileobj=data, mode="r:") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None and len(found := content.read()) == member.size:
                    yield member, found
    except tarfile.ReadError:  # the last pieces are missing
        return


def _merged(here: bytes, packed: bytes) -> bytes:
    """A file of results with what only the one here has of the same measurement."""
    old, new = (json.loads(lzma.decompress(content)) for content in (here, packed))
    if "stamp" not in new or old.get("stamp") != new["stamp"]:
        return packed
    new["units"] = {**old["units"], **new["units"]}
    return lzma.compress(json.dumps(new, separators=(",", ":")).encode())
