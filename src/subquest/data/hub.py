"""The Hugging Face hub: downloads registered question sets into the user's data folder (extra `hub`)."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from pathlib import Path

from ..errors import MissingDependency, OutsideError, UsageError
from ..models import cache_folder
from .attachments import files_folder
from .question_files import read_questions
from .registry import DataSet


def fetch(entry: DataSet, split: str = "") -> list[Path]:
    """Downloads the files of a set (or of one split), and reads each once to be sure that it can be read."""
    if not entry.files:
        raise UsageError(f"data set {entry.name!r} has no known file on the hub; put one into {_folder()}")
    chosen = [(name, file) for name, file in entry.files if not split or name == split]
    if not chosen:
        known = ", ".join(name for name, _ in entry.files)
        raise UsageError(f"data set {entry.name!r} has no split {split!r} on the hub; there are {known}")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingDependency("huggingface_hub, which fetches data sets,", "hub")
    _folder().mkdir(parents=True, exist_ok=True)
    out = []
    for name, file in chosen:
        found, file = _first(entry, file)
        target = _folder() / f"{entry.name}_{name}{''.join(Path(file).suffixes)}"
        scratch = target.with_name(f".fetching.{target.name}")
        shutil.copyfile(found, scratch)
        try:
            questions = read_questions(scratch)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
        out.append(target)
        for attached in sorted({place for question in questions for place in question.files}):
            if not Path(attached).is_absolute() and "://" not in attached and ".." not in Path(attached).parts:
                out.append(_fetch_beside(entry, f"{Path(file).parent}/{attached}", files_folder(target) / attached))
    return out


def _fetch_beside(entry: DataSet, file: str, target: Path) -> Path:
    """A file that questions of the set refer to."""
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".fetching.{target.name}")
        shutil.copyfile(_download(entry, file), scratch)
        scratch.replace(target)
    return target


def _first(entry: DataSet, file: str) -> tuple[Path, str]:
    """A file under the first of its names that the repository has, and that name."""
    try:
        return _download(entry, file), file
    except OutsideError:
        for other in (new for old, new in entry.renamed if old == file):
            with contextlib.suppress(OutsideError):
                return _download(entry, other), other
        raise


def _download(entry: DataSet, file: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(entry.hub, file, repo_type="dataset"))
    except Exception as error:  # the hub's client lets through errors of whatever HTTP library it uses
        raise OutsideError(_why(entry, file, error)) from error


def _folder() -> Path:
    return cache_folder() / "data"


def _why(entry: DataSet, file: str, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    page = f"https://huggingface.co/datasets/{entry.hub}"
    if entry.gated:
        return (
            f"{entry.name} could not be fetched: {reason}. It is behind terms: accept them at {page}, "
            "then log in with `hf auth login` (or set HF_TOKEN)"
        )
    return (
        f"{entry.name} could not be fetched ({file} of {page}): {reason}. "
        f"Without a network, put the file into {_folder()} as {entry.name}_SPLIT.jsonl, or point SUBQUEST_DATA to it"
    )
