"""`subquest judge`: judge the answers of a run, and measure how far rules and a model agree."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from ..models import find, is_language_model

if TYPE_CHECKING:
    from ..judge import ModelJudge, RuleJudge
    from ..record import Episode
    from ..runs import RunStore

RULES = "rules"
"""The judge that needs no model."""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    answers = actions.add_parser("answers", help="judge every answer of a run; stored in the run as the score `judge`")
    agree = actions.add_parser("agree", help="how far the rule judges and a model agree on answers and DECOR's steps")
    for action in (answers, agree):
        action.add_argument("run", metavar="RUN")
        action.add_argument(
            "--model",
            required=True,
            help="the judge: any model as for `ask`" + (f", or `{RULES}`" if action is answers else ""),
        )
        action.add_argument(
            "--instruction",
            default=None if action is answers else "decor",
            choices=["equivalence", "core", "decor"],
            help="what counts as right: the same, the core of a long answer, or DECOR's rules (default: "
            + ("the set's own: core for WebWalkerQA, else equivalence)" if action is answers else "%(default)s)"),
        )
        action.add_argument("--cache", metavar="FILE", type=Path, help="cache verdicts here (default: beside the run)")
        action.add_argument("--limit", type=int, metavar="N", help="only the first N episodes")
        action.add_argument("--json", action="store_true", help="print one JSON document")
    agree.add_argument(
        "--show", type=int, default=10, metavar="N", help="differing cases to print (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit must be at least 1")
    return asyncio.run(_answers(args) if args.action == "answers" else _agree(args))


def check_judge(model: str | None) -> None:
    """Refuse a judge that does not exist before anything is asked: the run would store its name and could not resume.

    A model of this process is looked for and not loaded: the judge comes after the models that answer.
    """
    if not model or model in (RULES, "embedded"):
        return
    name = model.removeprefix("torch:").removeprefix("gguf:")
    if is_language_model(name):
        find(name)
        return
    if model.startswith(("gguf:", "torch:")):
        if not Path(name).expanduser().exists():
            raise UsageError(f"--judge {model}: no such model file")
        return
    from ..assemble import open_engine

    open_engine(model, part="judge")


async def judge_run(store: RunStore, model: str | None, instruction: str | None, *, concurrency: int) -> None:
    """A verdict for every answer of a run that has none yet; nothing where no judge is named."""
    from ..evaluate.model_scores import judge_answers
    from ..judge import BY_SET

    if not model:
        return
    judge = open_judge(model, store.path, concurrency=concurrency)
    instruction = store.settings.get("judge", {}).get("instruction", instruction or BY_SET)
    try:
        undecided = await judge_answers(store, judge, instruction=instruction, report=report_count("judged"))
    finally:
        await _close(judge)
    if undecided:
        print(
            f"the judge did not decide on {counted(undecided, 'answer')}; run again to ask once more", file=sys.stderr
        )


def open_judge(model: str, file: Path, **options: Any) -> ModelJudge | RuleJudge:
    """The judge that a model's name stands for; its verdicts are cached beside the run's file, unless options say
    otherwise."""
    from ..assemble import open_engine
    from ..judge import ModelJudge, RuleJudge
    from ..runs import VERDICTS

    if model == RULES:
        return RuleJudge()
    return ModelJudge(open_engine(model, part="judge"), **{"cache": file.with_suffix(VERDICTS), **options})


def report_count(what: str) -> Callable[[int], None]:
    """Prints how many answers are done, as often as it is called."""
    return lambda done: print(f"{what}: {counted(done, 'answer')}", file=sys.stderr)


async def _answers(args: argparse.Namespace) -> int:
    from ..judge import BY_SET, case_of
    from ..runs import RunStore

    instruction = args.instruction or BY_SET
    judge = _open_judge(args)
    with RunStore.open(args.run, write=True) as store:
        episodes = _episodes(store, args.limit)
        verdicts = await judge.judge_answers([case_of(e, instruction) for e in episodes])
        for episode, verdict in zip(episodes, verdicts, strict=True):
            # replaces the verdict of an earlier judge, also where this one is undecided
            score = None if verdict.yes is None else float(verdict.yes)
            store.add_scores(episode.id, {"judge": score, "judge_undecided": float(score is None)})
        store.flush()
    decided = [v.yes for v in verdicts if v.yes is not None]
    report: dict[str, Any] = {
        "run": str(args.run),
        "instruction": instruction,
        "n": len(decided),
        "judge": sum(decided) / len(decided) if decided else None,
        "undecided": len(verdicts) - len(decided),
        **await _close(judge),
    }
    if args.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        share = "nothing decided" if report["judge"] is None else f"{report['judge']:.3f} right"
        print(f"{share}, {report['n']} judged, {report['undecided']} undecided")
    return 0


async def _agree(args: argparse.Namespace) -> int:
    from ..codec import to_dict
    from ..judge import RuleJudge, compare
    from ..runs import RunStore

    judge = _open_judge(args)
    if isinstance(judge, RuleJudge):
        raise UsageError(f"the rules are compared with a model: --model {RULES} is none")
    with RunStore.open(args.run) as store:
        table, differing = await compare(_episodes(store, args.limit), RuleJudge(), judge)
    report = {
        "run": str(args.run),
        "agreement": {
            what: {**to_dict(a), "n": a.n, "share": round(a.share, 4), "kappa": round(a.kappa, 4)}
            for what, a in table.items()
        },
        "differing": [to_dict(d) for d in differing[: args.show]],
        **await _close(judge),
    }
    if args.json:
        print(json.dumps(report, ensure_ascii=False))
        return 0
    print(f"{'':<10} {'cases':>6} {'agree':>6} {'kappa':>6}  rules yes only / model yes only / undecided")
    for what, a in table.items():
        print(f"{what:<10} {a.n:>6} {a.share:>6.3f} {a.kappa:>6.3f}  {a.first_only} / {a.second_only} / {a.undecided}")
    for d in differing[: args.show]:
        print(f"  {d.what} {d.episode} {d.trajectory}: {d.content[:80]!r}")
        print(f"    rules {_word(d.first.yes)} ({d.first.reason}), model {_word(d.second.yes)}")
    return 0


def _open_judge(args: argparse.Namespace) -> Any:
    from ..runs import RunStore, run_path

    file = run_path(args.run)
    if not file.exists():
        raise UsageError(f"there is no run {args.run}")
    RunStore.open(file).close()  # says what is wrong with it before a cache is made beside it
    cached = {"cache": args.cache} if args.cache else {}
    return open_judge(args.model, file, instruction=args.instruction or "equivalence", **cached)


def _episodes(store: RunStore, limit: int | None) -> list[Episode]:
    replaced, chosen = _replaced(store), list[Any]()
    for episode in store.episodes(events=False):
        if limit is not None and len(chosen) >= limit:
            break
        if episode.question.answers and episode.id not in replaced:
            chosen.append(episode)
    if not chosen:
        raise UsageError(f"the run {store.path} has no episode whose question has a gold answer")
    return chosen


def _replaced(store: RunStore) -> set[str]:
    """Failed episodes whose question was tried again later: no table counts them."""
    newest: dict[tuple[str, str, str], int] = {}
    failed = []
    for s in store.summaries():
        key = (s.dataset, s.question, s.system)
        newest[key] = max(newest.get(key, 0), s.attempt)
        if s.stop_reason == "failed":
            failed.append((key, s))
    return {s.id for key, s in failed if s.attempt < newest[key]}


async def _close(judge: ModelJudge | RuleJudge) -> dict[str, Any]:
    """Close the judge; says what the judging cost."""
    from ..judge import RuleJudge

    if isinstance(judge, RuleJudge):
        return {}
    await judge.close()
    await judge.engine.close()
    print(f"judge: {counted(judge.usage.model_calls, 'model call')}, {judge.cached} from the cache", file=sys.stderr)
    return {"model": judge.engine.name, "model_calls": judge.usage.model_calls, "cached": judge.cached}


def _word(yes: bool | None) -> str:
    return "undecided" if yes is None else "yes" if yes else "no"
