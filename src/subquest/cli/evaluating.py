"""What `eval` and `study` share: the options of a run, how it is carried out, judged and shown while it goes on."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from .terminal import is_live, printable

if TYPE_CHECKING:
    from ..config import Config
    from ..evaluate.runner import Job, Solver
    from ..judge import ModelJudge, RuleJudge
    from ..record import Episode, Question
    from ..runs import RunStore

_BEGINNING = 200
"""Characters of an article that are compared with its index; a longer one may have been cut into passages."""
PAPER = "paper"
"""In place of a number after `--sample`."""


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
    if args.timeout is not None and not args.timeout > 0:
        raise UsageError("--timeout must be above 0")
    check_judge(args)


def _sample_size(text: str) -> int | str:
    try:
        return text if text == PAPER else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number or {PAPER!r}, not {text!r}") from None


def check_askable(source: str, questions: Sequence[Question]) -> None:
    """Refuse what no system takes before anything is asked: one such question would end the run in its midst."""
    from ..systems.base import checked_question

    for question in questions:
        try:
            checked_question(question)
        except UsageError as error:
            raise DataError(f"{source}: question {question.id!r}: {error}") from None


def with_index(config: Config, sources: Sequence[str]) -> Config:
    """A world's folder holds its corpus: without another index its own is searched, made at the first use."""
    folder = Path(sources[0]).expanduser() if len(sources) == 1 else None
    if config.index or folder is None or not (folder / "corpus.jsonl").is_file():
        return config
    place, corpus = folder / "docs.sq", folder / "corpus.jsonl"
    if place.exists():
        _check_world_index(place, corpus)
    else:
        from ..evaluate.indexing import build_whole
        from ..retrieval.corpus import read

        print(f"making an index of {corpus} in {place}", file=sys.stderr)
        build_whole(place, read([corpus]))
    return replace(config, index=str(place))


def _check_world_index(place: Path, corpus: Path) -> None:
    """Refuse an index of what the corpus was before: a world made anew in its folder has other articles.

    Both are read only where the corpus is the newer one, for a world may have a million articles.
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
            f"the index {place} is not of {corpus} as it is now; remove it to have it made anew, or name another "
            "with --index"
        )


def settings_of(config: Config, args: argparse.Namespace) -> dict[str, Any]:
    """What must be the same when a run is resumed."""
    from ..evaluate import fingerprint
    from ..judge import BY_SET

    local = config.index is not None and Path(config.index).is_dir()
    judge = {"model": args.judge, "instruction": args.judge_instruction or BY_SET}
    return {
        "model": config.model or "embedded",
        "adapter": config.engine.adapter,
        **({"adapter_content": adapter} if (adapter := fingerprint.of_adapter(config.engine.adapter)) else {}),
        "protocol": config.protocol,
        "index": str(Path(config.index).resolve()) if config.index and local else config.index,
        "index_content": fingerprint.of_index(config.index) if config.index and local else None,
        "search": asdict(config.search),
        "sampling": asdict(config.sampling),
        "limits": asdict(config.limits),
        "prompts": fingerprint.of_prompts(config.prompts) if config.prompts else None,
        "tools": {name: value for name, value in asdict(config.tools).items() if value is not None},
        "seed": args.seed,
        **({"judge": judge} if args.judge else {}),
    }


_KEPT_SINCE = ("tools", "prompts", "adapter_content", "dialect_content")
"""Settings that runs did not always keep; those of an older run are not known."""


def _known_to(file: Path, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings without those that the run at `file` does not say: it is older than their being kept.

    A run that was judged by one instruction before sets had their own goes on with it.
    """
    from ..judge import BY_SET

    found = settings_at(file) or {}
    if settings.get("judge", {}).get("instruction") == BY_SET and "judge" in found:
        one = {**settings["judge"], "instruction": "equivalence"}
        settings = {**settings, "judge": one if found["judge"] == one else settings["judge"]}
    return {key: value for key, value in settings.items() if key in found or key not in _KEPT_SINCE}


def settings_at(path: Path) -> Mapping[str, Any] | None:
    """The settings of a run that was begun; None where there is none."""
    from ..runs import RunStore
    from ..runs.schema import run_path

    file = run_path(path)
    if not file.exists():
        return None
    with RunStore.open(file) as store:
        return store.settings


@contextmanager
def run_at(path: Path, settings: Mapping[str, Any]) -> Iterator[RunStore]:
    """The run to resume or to begin, in a folder that is made where there is none.

    One that could not begin, for want of a model say, leaves nothing behind.
    """
    from ..retrieval.store import exists
    from ..runs import RunStore
    from ..runs.schema import run_path

    if path.is_dir() and exists(path):
        raise UsageError(f"--out {path}: there is an index in it; name another place for the run")
    file = run_path(path)
    new, empty = not file.exists(), False
    made = [folder for folder in file.parents if not folder.exists()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the run {file}: {error.strerror}: {error.filename}") from None
    try:
        with RunStore.resume(path, settings=settings if new else _known_to(file, settings), apart=True) as store:
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
    """Have every system answer what it has not answered yet, with a word on how far it is."""
    from ..evaluate.model_scores import score_unscored
    from ..evaluate.runner import evaluate, jobs_for

    if unscored := score_unscored(store):
        print(f"{unscored} answers of the run had no scores and were scored again", file=sys.stderr)
    jobs = list(jobs_for(store, datasets, systems))
    total = sum(map(len, datasets.values())) * len(systems)
    with Progress(total, total - len(jobs)) as progress:
        await evaluate(
            jobs,
            systems,
            store,
            concurrency=args.concurrency,
            seconds=args.timeout,
            seed=args.seed,
            finished=progress.add,
        )


def check_judge(args: argparse.Namespace) -> None:
    """Refuse a judge that there is not before anything is asked: the run would keep its name and could not go on.

    A model of this process is looked for and not loaded: the judge comes after the models that answer.
    """
    from ..engine.resolve import resolve
    from ..models import smollm2_path

    name = args.judge
    if not name or name == "rules":
        return
    if name == "embedded":
        smollm2_path()
    elif name.startswith(("gguf:", "torch:")) and name != "torch:smollm2":
        if not Path(name.partition(":")[2]).expanduser().exists():
            raise UsageError(f"--judge {name}: no such model file")
    elif name != "torch:smollm2" and isinstance(resolve(name), Mapping):
        raise UsageError("a judge is one model: --judge takes no roles")


async def judged(store: RunStore, args: argparse.Namespace) -> None:
    """A verdict of `--judge` for every answer that has none yet."""
    from ..evaluate.model_scores import judge_answers
    from ..judge import BY_SET, RuleJudge

    if not args.judge:
        return
    judge = _judge(store, args)
    instruction = store.settings.get("judge", {}).get("instruction", args.judge_instruction or BY_SET)
    try:
        undecided = await judge_answers(store, judge, instruction=instruction, told=told("judged"))
    finally:
        if not isinstance(judge, RuleJudge):
            print(f"judge: {judge.usage.model_calls} model calls, {judge.cached} from the cache", file=sys.stderr)
            await judge.close()
            await judge.engine.close()
    if undecided:
        print(f"the judge did not decide on {undecided} answers; run again to ask once more", file=sys.stderr)


def _judge(store: RunStore, args: argparse.Namespace) -> ModelJudge | RuleJudge:
    from ..engine.resolve import resolve
    from ..judge import ModelJudge, RuleJudge
    from ..runs.schema import VERDICTS

    if args.judge == "rules":
        return RuleJudge()
    engine = resolve(args.judge)
    if isinstance(engine, Mapping):
        raise UsageError("a judge is one model: --judge takes no roles")
    cache = store.path.with_suffix(VERDICTS)
    return ModelJudge(engine, cache=cache, concurrency=args.concurrency)


def told(what: str) -> Callable[[int], None]:
    return lambda done: print(f"{what}: {done} answers", file=sys.stderr)


class Progress:
    """How far an evaluation is: on a terminal a line that is rewritten, elsewhere a line now and then."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._new = total, done, 0
        self._start = self._shown = time.monotonic()
        self._em = self._tokens = self._cost = 0.0
        self._failed = 0
        self._reasons: Counter[str] = Counter()
        self._hampered = 0
        """Answers that were given although something failed on the way."""
        self._hindrance = ""
        self._live = is_live(sys.stderr)

    def __enter__(self) -> Progress:
        if self._done:
            print(f"{self._done} of {self._total} are done already", file=sys.stderr)
        return self

    def __exit__(self, *error: object) -> None:
        if self._new:
            self._show(end="\n")
        if self._reasons:
            (reason, times), *others = self._reasons.most_common()
            often = f" ({times} of them{', others for other reasons' if others else ''})" if self._failed > 1 else ""
            print(f"{self._failed} failed: {printable(reason)}{often}; run again to try once more", file=sys.stderr)
        if self._hampered:
            why = printable(self._hindrance)
            print(f"{self._hampered} of {self._new} answered in spite of failures ({why})", file=sys.stderr)

    def add(self, job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        self._done += 1
        self._new += 1
        self._em += scores["em"]
        self._tokens += scores["prompt_tokens"] + scores["completion_tokens"]
        self._cost += scores["cost"]
        if scores["failed"]:
            self._failed += 1
            worst = max(reversed(episode.errors), key=lambda f: f.fatal, default=None)
            self._reasons[worst.message if worst else "no reason was given"] += 1
        elif outside := [f for f in episode.errors if f.where in ("engine", "search", "file")]:
            self._hampered += 1
            self._hindrance = self._hindrance or f"{outside[0].where}: {outside[0].message}"
        if time.monotonic() - self._shown > (0.2 if self._live else 10):
            self._show(end="\r" if self._live else "\n")

    def _show(self, end: str) -> None:
        self._shown = time.monotonic()
        rate = self._new / max(self._shown - self._start, 1e-9)
        left = (self._total - self._done) / rate if rate else 0
        cost = f", cost {self._cost:.4g}" if self._cost else ""
        failed = f", {self._failed} failed" if self._failed else ""
        line = (
            f"{self._done}/{self._total}  EM {self._em / self._new:.3f}  {rate:.2f}/s  "
            f"{left / 60:.0f} min left  {self._tokens / 1000:.0f}k tokens{cost}{failed}"
        )
        print(f"{line:<90}" if end == "\r" else line, end=end, file=sys.stderr, flush=True)
