"""The question sets that the papers use: their licences, what they may be used for and where their files are.

Files are looked for in `$SUBQUEST_DATA` and in `data` below the user's cache, which `subquest data get` fills. A file
belongs to a set and a split when its name begins with both: `hotpotqa_test500.jsonl.gz`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from ..codec import Record
from ..errors import UsageError, suggest
from ..models import cache_folder
from ..record import Question


class DataSet(Record):
    """A question set: its licence, its files on the Hugging Face hub and how the papers use it."""

    name: str
    title: str
    licence: str
    hub: str = ""
    """Repository on the Hugging Face hub."""
    files: tuple[tuple[str, str], ...] = ()
    """Split and the file in that repository."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Such a file, and what it is called in other revisions of the repository."""
    splits: tuple[str, ...] = ("test", "dev", "validation", "train")
    """In the order in which one is chosen when none is asked for."""
    sample: int | None = None
    """How many questions the papers evaluate, where they take a subset."""
    unify: bool = False
    """Questions with the same text are one, with the answers of all."""
    breakdowns: tuple[str, ...] = ()
    """Fields by which the papers report: a field of Question, or of its meta."""
    aliases: tuple[str, ...] = ()
    training: bool = False
    """Whether questions of its train split may be trained on; the other sets are for measuring only."""
    judge: Literal["equivalence", "core"] = "equivalence"
    """What counts as right for a model that judges answers: core where gold answers are long texts from one page."""
    gated: bool = False
    """Behind terms that each user must accept upstream."""


REGISTRY: dict[str, DataSet] = {
    d.name: d
    for d in (
        DataSet(
            "nq", "Natural Questions (open)", "CC BY-SA 3.0", "RUC-NLPIR/FlashRAG_datasets",
            (("test", "nq/test.jsonl"), ("train", "nq/train.jsonl")), aliases=("nq_open",), training=True,
        ),
        DataSet(
            "triviaqa", "TriviaQA", "Apache-2.0 (questions)", "RUC-NLPIR/FlashRAG_datasets",
            (("test", "triviaqa/test.jsonl"), ("train", "triviaqa/train.jsonl")), aliases=("triviaqa_rc_wikipedia",),
            training=True,
        ),
        DataSet("popqa", "PopQA", "MIT", "RUC-NLPIR/FlashRAG_datasets", (("test", "popqa/test.jsonl"),), unify=True),
        DataSet(
            "hotpotqa", "HotpotQA", "CC BY-SA 4.0", "RUC-NLPIR/FlashRAG_datasets",
            (("dev", "hotpotqa/dev.jsonl"), ("train", "hotpotqa/train.jsonl")), breakdowns=("type", "level"),
            training=True,
        ),
        DataSet(
            "2wikimultihopqa", "2WikiMultiHopQA", "Apache-2.0", "RUC-NLPIR/FlashRAG_datasets",
            (("dev", "2wikimultihopqa/dev.jsonl"), ("train", "2wikimultihopqa/train.jsonl")),
            breakdowns=("type", "hops"), aliases=("2wiki",), training=True,
        ),
        DataSet(
            "musique", "MuSiQue", "CC BY 4.0", "RUC-NLPIR/FlashRAG_datasets",
            (("dev", "musique/dev.jsonl"), ("train", "musique/train.jsonl")), breakdowns=("hops", "type"),
            training=True,
        ),
        DataSet("bamboogle", "Bamboogle", "MIT", "RUC-NLPIR/FlashRAG_datasets", (("test", "bamboogle/test.jsonl"),)),
        DataSet(
            "gaia", "GAIA", "gated upstream, not to be reshared", "gaia-benchmark/GAIA",
            (("validation", "2023/validation/metadata.jsonl"),),
            (("2023/validation/metadata.jsonl", "2023/validation/metadata.parquet"),),
            breakdowns=("level", "type"), gated=True,
        ),
        DataSet(
            "webwalkerqa", "WebWalkerQA", "Apache-2.0", "callanwu/WebWalkerQA",
            (("test", "data/main-00000-of-00001.parquet"),), sample=200, breakdowns=("difficulty", "lang"),
            judge="core",
        ),
        DataSet("simpleqa", "SimpleQA", "MIT", "basicv8vc/SimpleQA", (("test", "simple_qa_test_set.csv"),), sample=200),
        DataSet(
            "hle", "Humanity's Last Exam", "MIT, gated upstream", "cais/hle",
            (("test", "data/test-00000-of-00001.parquet"),), sample=500, breakdowns=("category", "type"), gated=True,
        ),
        DataSet("browsecomp", "BrowseComp", "MIT, encrypted upstream: never publish it in the clear"),
        DataSet(
            "frames", "FRAMES", "Apache-2.0", "google/frames-benchmark", (("test", "test.tsv"),), breakdowns=("hops",)
        ),
        DataSet("fanoutqa", "FanOutQA", "MIT"),
        DataSet("strategyqa", "StrategyQA", "MIT", breakdowns=("hops",), training=True),
        DataSet("squad", "SQuAD (single hop)", "CC BY-SA 4.0", training=True),
    )
}  # fmt: skip


def find_set(name: str) -> DataSet | None:
    """A set by name or alias."""
    return REGISTRY.get(name) or next((d for d in REGISTRY.values() if name in d.aliases), None)


def match_set(name: str) -> DataSet | None:
    """The set whose name a table's name begins with (`gaia_validation`)."""
    known = ((alias, entry) for entry in REGISTRY.values() for alias in (entry.name, *entry.aliases))
    return next((entry for alias, entry in known if re.match(rf"{re.escape(alias)}(?![a-z0-9])", name)), None)


def measured_only(question: Question) -> bool:
    """Whether nothing may be learnt from a question, or chosen by it: it is for testing, or its set is."""
    entry = find_set(question.dataset)
    return question.split == "test" or (entry is not None and not entry.training)


def unknown_set(name: str) -> str:
    """The message for a name that is no set."""
    hint = suggest(name, REGISTRY, f"known sets are {', '.join(REGISTRY)}")
    return f"{name!r} is neither a file, a folder with questions.jsonl nor a known data set; {hint}"


def folders() -> list[Path]:
    """Folders that may hold data files."""
    chosen = [Path(p).expanduser() for p in os.environ.get("SUBQUEST_DATA", "").split(os.pathsep) if p]
    return [*chosen, cache_folder() / "data"]


def local_files(entry: DataSet) -> dict[str, Path]:
    """The files of a set on this machine, by split."""
    names = (entry.name, *entry.aliases)
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            stem = path.name.split(".")[0]
            for name in names:
                rest = stem.removeprefix(f"{name}_")
                if rest == stem or "corpus" in rest:
                    continue
                split = next((s for s in entry.splits if rest.startswith(s)), None)
                if split and path.is_file():
                    found.setdefault(split, path)
    return found


def find_file(entry: DataSet, split: str = "") -> Path:
    """The file of a split; where none is asked for, of the first split that is on this machine."""
    found = local_files(entry)
    if split and split not in found:
        raise UsageError(f"data set {entry.name!r}: no file of split {split!r} was found{_how_to_get(entry)}")
    chosen = split or next((s for s in entry.splits if s in found), "")
    if not chosen:
        raise UsageError(f"data set {entry.name!r} was not found{_how_to_get(entry)}")
    return found[chosen]


def _how_to_get(entry: DataSet) -> str:
    places = ", ".join(map(str, folders()))
    fetch = f" Fetch it with: subquest data get {entry.name}" if entry.files else ""
    return f" in {places} (set SUBQUEST_DATA to the folder that holds it).{fetch}"
