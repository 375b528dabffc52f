"""What has to be copied between a bare machine with a GPU and the project, in a few files of limited size.

    claims-results.tar      all results and curves, partial ones too
    claims-start.tar        the adapter that the trainings start from, as it is
    claims-adapters-1.tar   adapters of trainings whose rows are not complete yet, several a file

An adapter is packed as the exclusive or of its bytes with those of the start, low and high bytes separately, in xz:
after a short training most of its high bytes are the start's, so it takes about half of its size and is restored
exactly. Adapters whose rows are complete are not packed: nothing more will be asked of them.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FILE = 16_600_000
"""Bytes of a file at most, without the tar headers: three adapters."""
FILES = 5
"""Together under 64 MiB: results, the start, and three files of three adapters each."""
RESULTS = "claims-results.tar"
START = "claims-start.tar"
ADAPTERS = "claims-adapters-{}.tar"
_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"


def pack(out: Path, results: Path, adapters: Mapping[str, Path], start: str = "") -> list[str]:
    """Write the files; returns the names of adapters for which there was no room. `adapters` by the name of the folder
    of their training, the most important first; `start` is the one that the others are packed against."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("claims-*.tar"):
        old.unlink()
    with tarfile.open(out / RESULTS, "w") as tar:
        for file in sorted(results.glob("*.json.xz")):
            tar.add(file, file.name)
    base = b""
    if start in adapters:
        base = (adapters[start] / _WEIGHTS).read_bytes()
        _tar(out / START, [(f"{start}/{part}", (adapters[start] / part).read_bytes()) for part in (_WEIGHTS, _CONFIG)])
    others = {name: place for name, place in adapters.items() if name != start}
    with ThreadPoolExecutor(8) as pool:  # xz releases the interpreter lock
        contents = list(pool.map(lambda place: squeeze((place / _WEIGHTS).read_bytes(), base), others.values()))
    boxes: list[list[tuple[str, bytes]]] = [[]]
    left = []
    for (name, place), weights in zip(others.items(), contents, strict=True):
        if sum(len(c) for _, c in boxes[-1]) + len(weights) > FILE:
            boxes.append([])
        if len(boxes) > FILES - 2:
            left.append(name)
            continue
        boxes[-1] += [(f"{name}/{_WEIGHTS}.xz", weights), (f"{name}/{_CONFIG}", (place / _CONFIG).read_bytes())]
    for number, box in enumerate(boxes[: FILES - 2], 1):
        if box:
            _tar(out / ADAPTERS.format(number), box)
    return left


def unpack_results(packed: Path, results: Path) -> int:
    """Put packed results into their folder, where they are newer; returns how many files were unpacked."""
    place = packed / RESULTS
    if not place.is_file():
        return 0
    results.mkdir(parents=True, exist_ok=True)
    count = 0
    with tarfile.open(place) as tar:
        for member in tar.getmembers():
            target = results / Path(member.name).name
            if member.isfile() and not (target.is_file() and target.stat().st_mtime > member.mtime):
                tar.extract(member, results, filter="data")
                count += 1
    return count


def unpack_adapters(packed: Path, runs: Path) -> list[str]:
    """Put packed adapters where their trainings would have left them; returns the names of the folders."""
    found = []
    base = b""
    whole = packed / START
    for file in ([whole] if whole.is_file() else []) + sorted(packed.glob(ADAPTERS.format("*"))):
        with tarfile.open(file) as tar:
            for member in tar.getmembers():
                content = tar.extractfile(member)
                assert content is not None  # a tar of ours holds plain files alone
                name, part = Path(member.name).parts[-2:]
                place = runs / name / "adapter"
                place.mkdir(parents=True, exist_ok=True)
                if part == _CONFIG:
                    (place / _CONFIG).write_bytes(content.read())
                elif not (place / _WEIGHTS).is_file():
                    building = place / f"{_WEIGHTS}.tmp"
                    plain = part == _WEIGHTS
                    building.write_bytes(content.read() if plain else expand(content.read(), base))
                    building.replace(place / _WEIGHTS)
                    found.append(name)
                if file == whole and part == _WEIGHTS:
                    base = (place / _WEIGHTS).read_bytes()
    return found


def squeeze(content: bytes, base: bytes) -> bytes:
    """The exclusive or with `base`, low bytes before high ones, in xz."""
    planes = _xor(content, base)
    return lzma.compress(planes[0::2] + planes[1::2], preset=4)


def expand(content: bytes, base: bytes) -> bytes:
    planes = lzma.decompress(content)
    half = -(-len(planes) // 2)
    restored = bytearray(len(planes))
    restored[0::2], restored[1::2] = planes[:half], planes[half:]
    return _xor(bytes(restored), base)


def _xor(content: bytes, base: bytes) -> bytes:
    """Exclusive or with the base, as far as it goes."""
    import numpy as np

    out = np.frombuffer(content, np.uint8).copy()
    size = min(len(content), len(base))
    out[:size] ^= np.frombuffer(base, np.uint8)[:size]
    return out.tobytes()


def _tar(place: Path, files: Sequence[tuple[str, bytes]]) -> None:
    with tarfile.open(place, "w") as tar:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
