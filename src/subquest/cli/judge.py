"""`subquest judge`: judge the answers of a run, and measure how far rules and a model agree."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    answers = actions.add_parser("answers", help="judge every answer of a run; kept in the run as the score `judge`")
    agree = actions.add_parser("agree", help="how far the rule judges and a model agree on answers and DECOR's steps")
    for action in (answers, agree):
        action.add_argument("run", metavar="RUN")
        action.add_argument(
            "--model",
            required=True,
            help="the judge: any model as for `ask`" + (", or `rules`" if action is answers else ""),
        )
        action.add_argument(
            "--instruction",
            default=None if action is answers else "decor",
            choices=["equivalence", "core", "decor"],
            help="what counts as right: the same, the core of a long answer, or DECOR's rules (default: "
            + ("the set's own: core for WebWalkerQA, else equivalence)" if action is answers else "%(default)s)"),
        )
        action.add_argument("--cache", metavar="FILE", type=Path, help="keep verdicts here (default: beside the run)")
        action.add_argument("--limit", type=int, metavar="N", help="only the first N episodes")
        action.add_argument("--json", action="store_true", help="print one JSON document")
    agree.add_argument(
        "--show", type=int, default=10, metavar="N", help="differing cases to print (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    from ..errors import UsageError

    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit must be at least 1")
    return asyncio.run(_answers(args) if args.action == "answers" else _agree(args))


async def _answers(args: argparse.Namespace) -> int:
    from ..judge import BY_SET, RuleJudge, case_of
    from ..runs import RunStore

    instruction = args.instruction or BY_SET
    judge = RuleJudge() if args.model == "rules" else _model_judge(args)
    with RunStore.open(args.run, write=True) as store:
        episodes = _episodes(store, args.limit)
        verdicts = await judge.judge_answers([case_of(e, instruction) for e in episodes])
        for episode, verdict in zip(episodes, verdicts, strict=True):
            # an earlier judge's verdict does not stand for this one's
            said = None if verdict.yes is None else float(verdict.yes)
            store.add_scores(episode.id, {"judge": said, "judge_undecided": float(said is None)})
        store.flush()
    decided = [v.yes for v in verdicts if v.yes is not None]
    report: dict[str, Any] = {
        "run": str(args.run),
        "instruction": instruction,
        "n": len(decided),
        "judge": sum(decided) / len(decided) if decided else None,
        "undecided": len(verdicts) - len(decided),
        **await _closed(judge),
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

    judge = _model_judge(args)
    with RunStore.open(args.run) as store:
        table, differing = await compare(_episodes(store, args.limit), RuleJudge(), judge)
    report = {
        "run": str(args.run),
        "agreement": {
            what: {**to_dict(a), "n": a.n, "share": round(a.share, 4), "kappa": round(a.kappa, 4)}
            for what, a in table.items()
        },
        "differing": [to_dict(d) for d in differing[: args.show]],
        **await _closed(judge),
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


def _model_judge(args: argparse.Namespace) -> Any:
    from ..engine.resolve import resolve
    from ..errors import UsageError
    from ..judge import ModelJudge
    from ..runs import VERDICTS, run_path

    file = run_path(args.run)
    if not file.exists():
        raise UsageError(f"there is no run {args.run}")
    engine = resolve(args.model)
    if isinstance(engine, dict):
        raise UsageError("a judge is one model: --model takes no roles here")
    return ModelJudge(
        engine, instruction=args.instruction or "equivalence", cache=args.cache or file.with_suffix(VERDICTS)
    )


def _episodes(store: Any, limit: int | None) -> list[Any]:
    from ..errors import UsageError

    replaced, chosen = _replaced(store), list[Any]()
    for episode in store.episodes(events=False):
        if limit is not None and len(chosen) >= limit:
            break
        if episode.question.answers and episode.id not in replaced:
            chosen.append(episode)
    if not chosen:
        raise UsageError(f"the run {store.path} has no episode whose question has a gold answer")
    return chosen


def _replaced(store: Any) -> set[str]:
    """Episodes that failed and were tried again since: no table counts them."""
    newest: dict[tuple[str, str, str], int] = {}
    failed = []
    for s in store.summaries():
        key = (s.dataset, s.question, s.system)
        newest[key] = max(newest.get(key, 0), s.attempt)
        if s.stop_reason == "failed":
            failed.append((key, s))
    return {s.id for key, s in failed if s.attempt < newest[key]}


async def _closed(judge: Any) -> dict[str, Any]:
    """What the judging cost, once the judge is let go."""
    from ..judge import ModelJudge

    if not isinstance(judge, ModelJudge):
        return {}
    await judge.close()
    await judge.engine.close()
    print(f"{judge.usage.model_calls} model calls, {judge.cached} from the cache", file=sys.stderr)
    return {"model": judge.engine.name, "model_calls": judge.usage.model_calls, "cached": judge.cached}


def _word(yes: bool | None) -> str:
    return "undecided" if yes is None else "yes" if yes else "no"
