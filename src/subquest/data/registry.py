"""The question sets and corpora that the papers use: licences, what they may be used for and where their files are.

Files are looked for in `$SUBQUEST_DATA` and in `data` below the user's cache, which `subquest data get` fills. A file
belongs to a set and a split when its name begins with both: `hotpotqa_test500.jsonl.gz`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from ..codec import Record
from ..errors import UsageError, suggest
from ..models import cache_folder
from ..record import Question


class PublishedFile(Record):
    """A file of a set or corpus, as it was published."""

    split: str
    """`corpus` for a corpus."""
    path: str
    """In the repository on the hub, or the whole address elsewhere."""
    size: int | None = None
    sha256: str = ""
    """Empty where nobody has published it: then the digest of the first download is recorded and must not change."""

    @property
    def suffixes(self) -> str:
        """The endings of its name that say how it is read."""
        name = self.path.rpartition("/")[2]
        packed = ".gz" if name.endswith(".gz") else ""
        return Path(name.removesuffix(".gz")).suffix + packed


class Published(Record):
    """What can be fetched by name."""

    name: str
    title: str
    licence: str
    hub: str = ""
    """Repository on the Hugging Face hub."""
    files: tuple[PublishedFile, ...] = ()
    revision: str = "main"
    """A commit of that repository; `main` where none is pinned: then the commit of the first download is recorded."""
    gated: bool = False
    """Behind terms that each user must accept upstream."""

    @property
    def place(self) -> str:
        """Where it comes from, for messages."""
        address = self.files[0].path if self.files else ""
        return f"https://huggingface.co/datasets/{self.hub}" if self.hub else "/".join(address.split("/")[:3])

    def file_name(self, file: PublishedFile) -> str:
        return f"{self.name}_{file.split}{file.suffixes}"


class DataSet(Published):
    """A question set: its licence, its files and how the papers use it."""

    renamed: tuple[tuple[str, str], ...] = ()
    """A file, and what it is called in other revisions of the repository."""
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


class Corpus(Published):
    """Passages to search in."""

    passages: int = 0


_FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"
_FLASHRAG_REVISION = "bcafb8dd07d453be3cbeeeb3f78be1841bddf92c"


def _flashrag(name: str, title: str, licence: str, *files: PublishedFile, **more: Any) -> DataSet:
    return DataSet(name, title, licence, _FLASHRAG, files, _FLASHRAG_REVISION, **more)


REGISTRY: dict[str, DataSet] = {
    d.name: d
    for d in (
        _flashrag(
            "nq", "Natural Questions (open)", "CC BY-SA 3.0", PublishedFile("test", "nq/test.jsonl"),
            PublishedFile(
                "train", "nq/train.jsonl", 9_960_189, "572685d3f384d9c37479b1fb14232984c85ff13b58923c0c9442232bd5d5647b"
            ),
            aliases=("nq_open",), training=True,
        ),
        _flashrag(
            "triviaqa", "TriviaQA", "Apache-2.0 (questions)", PublishedFile("test", "triviaqa/test.jsonl"),
            PublishedFile("train", "triviaqa/train.jsonl"), aliases=("triviaqa_rc_wikipedia",), training=True,
        ),
        _flashrag("popqa", "PopQA", "MIT", PublishedFile("test", "popqa/test.jsonl"), unify=True),
        _flashrag(
            "hotpotqa", "HotpotQA", "CC BY-SA 4.0",
            PublishedFile(
                "dev", "hotpotqa/dev.jsonl", 48_191_374,
                "434ec155867019396312f3d466ce3406c71fe8a2917f49f63bb646ec5ad2ff52",
            ),
            PublishedFile(
                "train", "hotpotqa/train.jsonl", 569_520_788,
                "a81274abafa899ec0ee073102edbe6bb694a8a1174201b4e43e2bc6c98964d1a",
            ),
            breakdowns=("type", "level"), training=True,
        ),
        _flashrag(
            "2wikimultihopqa", "2WikiMultiHopQA", "Apache-2.0",
            PublishedFile(
                "dev", "2wikimultihopqa/dev.jsonl", 54_682_944,
                "b4d74d73d1cb3c0632c665a85e1e5060e3411968b807721618cfd2464fc905e3",
            ),
            PublishedFile("train", "2wikimultihopqa/train.jsonl"),
            breakdowns=("type", "hops"), aliases=("2wiki",), training=True,
        ),
        _flashrag(
            "musique", "MuSiQue", "CC BY 4.0", PublishedFile("dev", "musique/dev.jsonl"),
            PublishedFile("train", "musique/train.jsonl"), breakdowns=("hops", "type"), training=True,
        ),
        _flashrag(
            "bamboogle", "Bamboogle", "MIT",
            PublishedFile(
                "test", "bamboogle/test.jsonl",
                sha256="c9703dae6bb1ceb9e2df77be45da28cb12aa040d2f471507890a461296968f3f",
            ),
        ),
        DataSet(
            "gaia", "GAIA", "gated upstream, not to be reshared", "gaia-benchmark/GAIA",
            (PublishedFile("validation", "2023/validation/metadata.jsonl"),),
            renamed=(("2023/validation/metadata.jsonl", "2023/validation/metadata.parquet"),),
            breakdowns=("level", "type"), gated=True,
        ),
        DataSet(
            "webwalkerqa", "WebWalkerQA", "Apache-2.0", "callanwu/WebWalkerQA",
            (PublishedFile("test", "data/main-00000-of-00001.parquet"),), sample=200,
            breakdowns=("difficulty", "lang"), judge="core",
        ),
        DataSet(
            "simpleqa", "SimpleQA", "MIT", "basicv8vc/SimpleQA", (PublishedFile("test", "simple_qa_test_set.csv"),),
            sample=200,
        ),
        DataSet(
            "hle", "Humanity's Last Exam", "MIT, gated upstream", "cais/hle",
            (PublishedFile("test", "data/test-00000-of-00001.parquet"),), sample=500, breakdowns=("category", "type"),
            gated=True,
        ),
        DataSet(
            "browsecomp", "BrowseComp", "MIT, encrypted upstream: never publish it in the clear",
            files=(
                PublishedFile(
                    "test", "https://openaipublic.blob.core.windows.net/simple-evals/browse_comp_test_set.csv",
                    sha256="7b24471cd5b3eb2a46830a14802b5c029ea62f488ff75a0f88af7923d1454abf",
                ),
            ),
        ),
        DataSet(
            "frames", "FRAMES", "Apache-2.0", "google/frames-benchmark", (PublishedFile("test", "test.tsv"),),
            breakdowns=("hops",),
        ),
        DataSet("fanoutqa", "FanOutQA", "MIT"),
        DataSet("strategyqa", "StrategyQA", "MIT", breakdowns=("hops",), training=True),
        DataSet(
            "squad", "SQuAD 1.1 (single hop)", "CC BY-SA 4.0",
            files=(
                PublishedFile(
                    "dev", "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json", 4_854_279,
                    "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
                ),
                PublishedFile(
                    "train", "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json", 30_288_272,
                    "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
                ),
            ),
            training=True,
        ),
    )
}  # fmt: skip

CORPORA: dict[str, Corpus] = {
    c.name: c
    for c in (
        Corpus(
            "wiki18", "Wikipedia of December 2018 in passages of 100 words: the corpus of Search-R1 and FlashRAG",
            "CC BY-SA 3.0", "PeterJinGo/wiki-18-corpus",
            (
                PublishedFile(
                    "corpus", "wiki-18.jsonl.gz", 5_123_307_260,
                    "7abd929223399cd63c52b499f289bf4f9039be1e9f8c43e1cb3938305b2317db",
                ),
            ),
            "69c1c00ffe7c5554c68d8548355cb22e46aabc51", passages=21_015_324,
        ),
        Corpus(
            "wiki18-dpr", "The same passages as DPR published them", "CC BY-SA 3.0",
            files=(
                PublishedFile(
                    "corpus", "https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz", 4_694_541_059,
                    "c39b020c855a2b5c25ffef3abe4a3b6f9b829ad7dbc14ec3d163d34d7c53ea8d",
                ),
            ),
            passages=21_015_300,
        ),
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
    if name in CORPORA:
        return (
            f"{name!r} is a corpus, not a question set: index it with `subquest index build`, then ask over the index"
        )
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


def local_corpus(corpus: Corpus) -> dict[str, Path]:
    """The file of a corpus on this machine, under `corpus`."""
    names = [corpus.file_name(file) for file in corpus.files]
    found = next((path for folder in folders() for name in names if (path := folder / name).is_file()), None)
    return {"corpus": found} if found else {}


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
