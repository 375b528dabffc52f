"""What `eval` and `study` share: the options of a run, the index of a world, the store, and answering."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import DataError, UsageError
from .judge import check_judge
from .progress import EvaluationProgress

if TYPE_CHECKING:
    from ..config import Config
    from ..evaluate.runner import Solver
    from ..record import Question
    from ..runs import RunStore

_BEGINNING = 200
"""Characters of an article that are compared with its index; longer articles may be split into passages."""
MOST_AT_ONCE = 10_000
"""Episodes at a time."""
MANY_ANSWERS = 200
"""From so many answers on, a process of its own writes the run: it takes as long to start as to write that many."""
PAPER = "paper"
"""Instead of a number after `--sample`."""


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample",
        type=_sample_size,
        metavar="N",
        help="a random N questions of each set, fixed by --seed; paper: as many as the papers take, always the same",
    )
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="episodes at a time")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds a question may take")
    parser.add_argument("--seed", type=int, default=0, help="seed for sampling questions and tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.add_argument("--judge", metavar="MODEL", help="judge answers with this model (or by rules: rules)")
    parser.add_argument(
        "--judge-instruction",
        choices=("equivalence", "core", "decor"),
        help="what counts as right: the same, the core of a long answer, or DECOR's rules (default: the set's own, "
        "which is core for WebWalkerQA and equivalence for others)",
    )


def check_run_options(args: argparse.Namespace) -> None:
    for name in ("concurrency", "sample", "limit"):
        value = getattr(args, name, None)
        if isinstance(value, int) and value < 1:
            raise UsageError(f"--{name} must be at least 1")
    if args.concurrency > MOST_AT_ONCE:
        raise UsageError(f"--concurrency must be at most {MOST_AT_ONCE:,}")
    if args.timeout is not None and not args.timeout > 0:
        raise UsageError("--timeout must be above 0")
    check_judge(args.judge)


def _sample_size(text: str) -> int | str:
    try:
        return text if text == PAPER else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number or {PAPER!r}, not {text!r}") from None


def check_questions(source: str, questions: Sequence[Question]) -> None:
    """Refuse questions that no system accepts before anything is asked: one of them would end the run halfway."""
    from ..record import checked_question

    for question in questions:
        try:
            checked_question(question)
        except UsageError as error:
            raise DataError(f"{source}: question {question.id!r}: {error}") from None


def with_world_index(config: Config, sources: Sequence[str]) -> Config:
    """A world's folder contains its corpus: unless another index is given, it is indexed on first use and searched."""
    folder = Path(sources[0]).expanduser() if len(sources) == 1 else None
    if config.index or folder is None or not (folder / "corpus.jsonl").is_file():
        return config
    place, corpus = folder / "docs.sq", folder / "corpus.jsonl"
    if place.exists():
        _check_world_index(place, corpus)
    else:
        from ..retrieval.corpus import read
        from ..retrieval.index import build_whole
        from ..retrieval.papers import build_index, papers_of

        print(f"indexing {corpus} in {place}", file=sys.stderr)
        build_whole(place, lambda path: build_index(path, list(read([corpus])), papers_of(folder)))
    return replace(config, index=str(place))


def _check_world_index(place: Path, corpus: Path) -> None:
    """Refuse an index of an earlier corpus: a world that was made again in its folder has other articles.

    Both are read only if the corpus is the newer one, because a world may have a million articles.
    """
    from ..retrieval import Index
    from ..retrieval.corpus import read
    from ..retrieval.store import STORE

    def key(text: str) -> int:
        return hash(" ".join(text.split())[:_BEGINNING])

    made = place / STORE
    if made.exists() and corpus.stat().st_mtime_ns <= made.stat().st_mtime_ns:
        return
    with Index.open(place) as index:
        known = {(document.id, key(document.text)) for document in index.documents()}
    if any((document.id, key(document.text)) not in known for document in read([corpus])):
        raise UsageError(
            f"the index {place} is not of {corpus} as it is now; remove it to have it rebuilt, or name another "
            "with --index"
        )


def run_settings(config: Config, args: argparse.Namespace) -> dict[str, Any]:
    """What must be the same when a run is resumed."""
    from ..assemble.agent import model_of
    from ..evaluate import fingerprint
    from ..judge import BY_SET

    local = config.index is not None and Path(config.index).is_dir()
    judge = {"model": args.judge, "instruction": args.judge_instruction or BY_SET}
    tokens = config.search.tokens  # a run of an earlier version has none
    return {
        "model": model_of(config),
        "adapter": config.engine.adapter,
        **({"adapter_content": adapter} if (adapter := fingerprint.of_adapter(config.engine.adapter)) else {}),
        "protocol": config.protocol,
        "index": str(Path(config.index).resolve()) if config.index and local else config.index,
        "index_content": fingerprint.of_index(config.index) if config.index and local else None,
        "search": {"k": config.search.k, "mode": config.search.mode, **({"tokens": tokens} if tokens else {})},
        "sampling": asdict(config.sampling),
        "limits": asdict(config.limits),
        "prompts": fingerprint.of_prompts(config.prompts) if config.prompts else None,
        "tools": {name: value for name, value in asdict(config.tools).items() if value is not None},
        "seed": args.seed,
        **({"judge": judge} if args.judge else {}),
    }


_ADDED_LATER = ("tools", "prompts", "adapter_content", "dialect_content")
"""Settings that early versions did not store with a run; for such a run they are not known."""


def _comparable(file: Path, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that the run at `file` can be compared by: an old run does not store all of them.

    A run that was judged by one instruction for all sets, as in early versions, keeps it.
    """
    from ..judge import BY_SET

    found = stored_settings(file) or {}
    if settings.get("judge", {}).get("instruction") == BY_SET and "judge" in found:
        one = {**settings["judge"], "instruction": "equivalence"}
        settings = {**settings, "judge": one if found["judge"] == one else settings["judge"]}
    return {key: value for key, value in settings.items() if key in found or key not in _ADDED_LATER}


def stored_settings(path: Path) -> Mapping[str, Any] | None:
    """The settings of a stored run; None where there is no run."""
    from ..runs import RunStore, run_path

    file = run_path(path)
    if not file.exists():
        return None
    with RunStore.open(file) as store:
        return store.settings


@contextmanager
def open_run(path: Path, settings: Mapping[str, Any], answers: int) -> Iterator[RunStore]:
    """The run to resume or to begin, for so many answers; its folder is created if need be.

    A run that could not begin, because a model is missing for example, leaves nothing behind.
    """
    from ..retrieval.store import exists
    from ..runs import RunStore
    from ..runs.file import new_run_path

    if path.is_dir() and exists(path):
        raise UsageError(f"--out {path}: there is an index in it; name another place for the run")
    file = new_run_path(path)
    new, empty = not file.exists(), False
    made = [folder for folder in file.parents if not folder.exists()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the run {file}: {error.strerror}: {error.filename}") from None
    try:
        with RunStore.resume(
            path, settings=settings if new else _comparable(file, settings), own_process=answers >= MANY_ANSWERS
        ) as store:
            try:
                yield store
            except UsageError:
                empty = not store.counts()["episodes"]
                raise
    except UsageError:
        if new and empty:
            for ending in ("", "-wal", "-shm"):
                Path(f"{file}{ending}").unlink(missing_ok=True)
            with suppress(OSError):
                for folder in made:
                    folder.rmdir()
        raise


async def answer_all(
    store: RunStore,
    systems: Mapping[str, Solver],
    datasets: Mapping[str, Sequence[Question]],
    args: argparse.Namespace,
) -> None:
    """Have every system answer what it has not answered yet, and show the progress."""
    from ..evaluate.model_scores import score_unscored
    from ..evaluate.runner import evaluate, jobs_for

    if unscored := score_unscored(store):
        print(f"{counted(unscored, 'answer')} of the run had no scores: scored now", file=sys.stderr)
    jobs = list(jobs_for(store, datasets, systems))
    store.add_questions(job.question for job in jobs)  # a run that is killed can say what is missing
    total = sum(map(len, datasets.values())) * len(systems)
    with EvaluationProgress(total, total - len(jobs)) as progress:
        await evaluate(
            jobs,
            systems,
            store,
            concurrency=args.concurrency,
            seconds=args.timeout,
            seed=args.seed,
            finished=progress.add,
        )
