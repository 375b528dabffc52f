"""Question sets and corpora brought into the user's data folder, by name.

A file whose digest is known must have it. Of others the digest, and the commit of their repository, are recorded when
they are fetched for the first time (trust on first use), and what is fetched later must be the same.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedRandom
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..codec import Record, from_dict, to_dict
from ..download.hub import check_mirror, hub_address, hub_key, offline
from ..download.part_file import Inspect, SourceFailed, Wanted, bring, room_errors, take
from ..errors import DataError, MissingDependency, OutsideError, UsageError
from ..models import cache_folder, file_digest, megabytes
from ..output_file import complete_file
from .attachments import files_folder
from .question_files import read_questions
from .registry import DataSet, Published, PublishedFile

if TYPE_CHECKING:
    from ..download.http import Transfer

Say = Callable[[str], None]
Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the file."""


class FirstUse(Record):
    """What was recorded of a file when it was fetched for the first time."""

    sha256: str
    source: str
    date: str
    commit: str = ""


def fetch(
    entry: Published,
    split: str = "",
    *,
    files: Sequence[Path] = (),
    mirror: str = "",
    renew: bool = False,
    say: Say = lambda line: None,
    progress: Progress = lambda done, total: None,
) -> list[Path]:
    """Bring the files of a set or corpus (or of one split) into the data folder, and return their paths.

    `files` are where the user has them, `mirror` a server with the hub's layout. `renew` accepts another content than
    the one that was recorded on first use.
    """
    if not entry.files:
        raise UsageError(
            f"data set {entry.name!r} has no known address; put a file into {_folder()} as {entry.name}_SPLIT.jsonl"
        )
    chosen = [file for file in entry.files if split in ("", file.split)]
    if not chosen:
        known = ", ".join(file.split for file in entry.files)
        raise UsageError(f"data set {entry.name!r} has no split {split!r} to fetch; there are {known}")
    check_mirror(mirror)
    if files and len(chosen) != 1:
        splits = " or ".join(f"{entry.name}:{file.split}" for file in chosen)
        raise UsageError(f"--file is for one split: name it, {splits}")
    job = _Fetch(entry, f":{split}" if split else "", mirror, renew, say, progress)
    folder = _folder()
    with room_errors(folder, job.command, lambda: list(folder.glob(f".{entry.name}_*.part"))):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for file in chosen for path in job.run(file, files)]


class _Fetch:
    """One set or corpus on its way."""

    def __init__(self, entry: Published, split: str, mirror: str, renew: bool, say: Say, progress: Progress) -> None:
        self._entry, self._mirror, self._renew, self._say, self._progress = entry, mirror, renew, say, progress
        self.command = f"subquest data get {entry.name}{split}"

    def run(self, file: PublishedFile, given: Sequence[Path]) -> list[Path]:
        """The file, and the files that questions in it refer to."""
        if file.suffixes == ".parquet" and importlib.util.find_spec("pyarrow") is None:
            raise MissingDependency("pyarrow, which reads parquet files,", "hub")
        if given:
            return [self._copied(file, given)]
        renamed = self._entry.renamed if isinstance(self._entry, DataSet) else ()
        failed: list[SourceFailed] = []
        for other in [file, *(replace(file, path=new) for old, new in renamed if old == file.path)]:
            try:
                target = self._downloaded(other, _folder() / self._entry.file_name(other))
                return [target, *self._attached(other, target)]
            except SourceFailed as error:
                failed.append(error)
        raise OutsideError(self._why(file, failed[0]))

    def _downloaded(self, file: PublishedFile, target: Path) -> Path:
        from ..download.http import Transfer

        recorded = None if self._renew else _recorded(target)
        expected = file.sha256 or (recorded.sha256 if recorded else "")
        if target.is_file() and not self._renew:
            if expected in ("", file_digest(target)):
                if not expected:
                    self._record(target, f"found as {target}")
                return target
            self._say(f"{target} is not what was fetched before: fetching it again")
        commit = recorded.commit if recorded else ""
        address = self._address(file, commit)
        if self._entry.hub and offline():
            raise SourceFailed(f"HF_HUB_OFFLINE is set, so {address} is not asked", lasting=True)
        with Transfer(hub_key() if self._entry.hub and not self._mirror else None) as transfer:
            size, version = file.size, ""
            if size is None or not expected:
                facts = transfer.facts(address)
                size, version, commit = size or facts.size, facts.version, commit or facts.commit
                expected = expected or facts.sha256
            wanted = Wanted(self._entry.name, self.command, target, size, expected, version)
            self._say(f"downloading {target.name} from {address}" + (f" ({megabytes(size)})" if size else ""))
            here = partial(_advance, self._progress, size)
            try:
                bring(
                    wanted, [partial(_load, transfer, address, size, here)], inspect=self._check(file, target, address)
                )
            except OutsideError as error:
                if recorded and not file.sha256 and "has SHA-256" in str(error):
                    raise OutsideError(
                        f"{error}. {recorded.sha256} was recorded on {recorded.date}, when it was first fetched; to "
                        f"accept another content, run: {self.command} --renew"
                    ) from None
                raise
        if not file.sha256:
            self._record(target, address, commit)
        return target

    def _address(self, file: PublishedFile, commit: str) -> str:
        entry = self._entry
        if entry.hub:
            revision = commit if commit and entry.revision == "main" else entry.revision
            return hub_address(entry.hub, revision, file.path, kind="dataset", mirror=self._mirror)
        return f"{self._mirror.rstrip('/')}/{file.path.rpartition('/')[2]}" if self._mirror else file.path

    def _copied(self, file: PublishedFile, given: Sequence[Path]) -> Path:
        name = file.path.rpartition("/")[2]
        target = _folder() / self._entry.file_name(file)
        paths = [path / name if path.is_dir() else path for path in given]
        if len(paths) != 1 or not paths[0].is_file():
            raise UsageError(f"no such file: {', '.join(map(str, paths))}; {self._entry.name} is one file, {name}")
        recorded = None if self._renew else _recorded(target)
        expected = file.sha256 or (recorded.sha256 if recorded else "")
        wanted = Wanted(self._entry.name, self.command, target, paths[0].stat().st_size, expected)
        source = str(paths[0])
        take(wanted, partial(_copy, paths[0]), source, inspect=self._check(file, target, source))
        if not file.sha256:
            self._record(target, source)
        return target

    def _inspect(self, target: Path, source: str, part: Path) -> None:
        """Refuse a file without a published digest whose questions cannot be read."""
        scratch = target.with_name(f".reading.{target.name}")
        scratch.unlink(missing_ok=True)
        os.link(part, scratch)
        try:
            read_questions(scratch)
        except DataError as error:
            raise DataError(str(error).replace(str(scratch), source)) from None
        finally:
            scratch.unlink()

    def _check(self, file: PublishedFile, target: Path, source: str) -> Inspect | None:
        return None if file.sha256 else partial(self._inspect, target, source)

    def _record(self, target: Path, source: str, commit: str = "") -> None:
        """Record the digest of a file for which none is published, unless that is done already."""
        if _recorded(target) is not None and not self._renew:
            return
        digest = file_digest(target)
        self._say(f"{target.name}: no digest is published; recorded on first use: SHA-256 {digest}")
        record = FirstUse(digest, source, time.strftime("%Y-%m-%d", time.gmtime()), commit)
        with complete_file(_record_place(target)) as scratch:
            scratch.write_bytes(msgspec.json.encode(to_dict(record)))

    def _attached(self, file: PublishedFile, target: Path) -> list[Path]:
        """Files that questions of the set refer to; none where the digest is known: such sets have none."""
        if file.sha256 or not isinstance(self._entry, DataSet):
            return []
        found = []
        names = {place for question in read_questions(target) for place in question.files}
        for name in sorted(names):
            if Path(name).is_absolute() or "://" in name or ".." in Path(name).parts:
                continue
            beside = files_folder(target) / name
            if not beside.is_file():
                self._beside(replace(file, path=f"{file.path.rpartition('/')[0]}/{name}"), beside, target)
            found.append(beside)
        return found

    def _beside(self, file: PublishedFile, beside: Path, target: Path) -> None:
        from ..download.http import Transfer

        recorded = _recorded(target)
        address = self._address(file, recorded.commit if recorded else "")
        with Transfer(hub_key() if not self._mirror else None) as transfer:
            facts = transfer.facts(address)
            wanted = Wanted(self._entry.name, self.command, beside, facts.size, facts.sha256, facts.version)
            here = partial(_advance, self._progress, facts.size)
            bring(wanted, [partial(_load, transfer, address, facts.size, here)])

    def _why(self, file: PublishedFile, error: SourceFailed) -> str:
        entry = self._entry
        if entry.gated:
            return (
                f"{entry.name} could not be fetched: {error}. It is behind terms: accept them at {entry.place}, "
                "then log in with `hf auth login` (or set HF_TOKEN)"
            )
        return (
            f"{entry.name} could not be fetched ({file.path} of {entry.place}): {error}. If you have the file, run: "
            f"{self.command} --file FILE; or set SUBQUEST_DATA to the folder that holds it as {entry.file_name(file)}"
        )


def _load(
    transfer: Transfer, address: str, size: int | None, progress: Callable[[int], None], part: BufferedRandom
) -> None:
    transfer.load(address, part, size, progress)


def _copy(source: Path, part: BufferedRandom) -> None:
    with source.open("rb") as file:
        shutil.copyfileobj(file, part, 1 << 20)


def _advance(progress: Progress, total: int | None, here: int) -> None:
    progress(here, total or here)


def _folder() -> Path:
    return cache_folder() / "data"


def _record_place(target: Path) -> Path:
    return target.with_name(f".{target.name}.first-use.json")


def _recorded(target: Path) -> FirstUse | None:
    place = _record_place(target)
    try:
        return from_dict(FirstUse, msgspec.json.decode(place.read_bytes()))
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, DataError):
        raise DataError(f"{place} cannot be read; remove it to trust {target.name} anew") from None
