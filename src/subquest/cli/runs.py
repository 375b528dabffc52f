"""`subquest runs`: list, describe, export, import, prune and verify stored runs."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..english import counted
from ..output_file import check_output, complete_file


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    shown = actions.add_parser("list", help="the runs in a folder")
    shown.add_argument(
        "folder",
        nargs="?",
        help="where to look (default: where `serve` looks: `runs` in the settings, or the folder runs)",
    )
    shown.add_argument("--json", action="store_true", help="print one JSON document")
    info = actions.add_parser("info", help="what a run holds")
    info.add_argument("run")
    info.add_argument("--json", action="store_true", help="print one JSON document")
    export = actions.add_parser("export", help="write a run as JSON lines")
    export.add_argument("run")
    export.add_argument("--out", default="-", metavar="FILE", help="where to (default: standard output)")
    calibrate = actions.add_parser("calibrate", help="measure how often answers are right, for `ask` to say in words")
    calibrate.add_argument("runs", nargs="+", metavar="RUN", help="evaluated runs over dev questions")
    place = calibrate.add_mutually_exclusive_group()
    place.add_argument("--out", default="calibration.json", metavar="FILE", help="default: calibration.json")
    place.add_argument(
        "--for",
        dest="weights",
        type=Path,
        metavar="ADAPTER",
        help="put it beside the adapter (or GGUF model) that answered, where `ask` finds it by itself",
    )
    restore = actions.add_parser("import", help="create a run from exported JSON lines")
    restore.add_argument("file")
    restore.add_argument("--out", required=True, metavar="RUN")
    prune = actions.add_parser("prune", help="remove old conversations from the run of a server")
    prune.add_argument("run", nargs="?", help="default: asked.sqlite where `serve` keeps it")
    prune.add_argument(
        "--days", type=float, required=True, metavar="N", help="keep conversations with an answer in the last N days"
    )
    verify = actions.add_parser("verify", help="check a run; save what is readable of a damaged run")
    verify.add_argument("run")
    verify.add_argument("--salvage", metavar="NEW", help="write what is readable as a new run")
    verify.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    action = {
        "list": _list,
        "info": _info,
        "calibrate": _calibrate,
        "export": _export,
        "import": _import,
        "prune": _prune,
        "verify": _verify,
    }[args.action]
    return action(args)


def _calibrate(args: argparse.Namespace) -> int:
    from ..codec import to_dict
    from ..errors import UsageError
    from ..evaluate.result_table import Scored, scored
    from ..metrics.confidence import FEWEST, Calibrations, Judged, Measured, calibrate, calibration_place, documents_of
    from ..models import file_digest
    from ..runs import RunStore

    weights = args.weights
    if weights is not None and not weights.exists():
        raise UsageError(f"--for {weights}: no such adapter or model")
    out = calibration_place(weights) if weights is not None else Path(args.out)
    check_output(out, "json")
    groups: dict[tuple[str, str], list[Scored]] = {}
    documents: set[str] = set()
    for run in args.runs:
        with RunStore.open(run) as store:
            models = {summary.id: summary.model for summary in store.summaries()}
            for row in scored(store):
                left_out = row.scores.get("no_answer") or row.scores.get("parts_supported")
                if "em" in row.scores and not left_out:
                    model = "" if weights is not None else models[row.episode]
                    groups.setdefault((row.system, model), []).append(row)
                    documents |= {documents_of(store.episode(row.episode, events=False))} - {""}
    found = []
    for (system, model), rows in groups.items():
        answers = [
            Judged(
                row.scores.get("judge", row.scores["em"]) > 0.5,
                row.scores.get("confidence"),
                bool(row.scores["supported"]) if "supported" in row.scores else None,
            )
            for row in rows
        ]
        fitted = calibrate(system, model, answers)
        found += [fitted] if fitted.curves else []
        kinds = {True: "supported", False: "unsupported", None: "all"}
        shares = (f"{kinds[c.supported]} answers right {c.share:.0%} (n={c.n})" for c in fitted.curves)
        told = ", ".join(shares) or f"fewer than {FEWEST} answers of a kind: left out"
        print(f"{system} on {model or weights.name}: {told}")
    if not found:
        names = ", ".join(args.runs)
        raise UsageError(f"{names}: no system has {FEWEST} scored answers of a kind; evaluate more dev questions")
    known = {(each.system, each.model) for each in found}
    rows = [row for key, some in groups.items() if key in known for row in some]
    data = tuple(sorted({row.dataset for row in rows}))
    digest = file_digest(weights) if weights is not None and weights.is_file() else ""
    measured = Measured(data, len(rows), time.strftime("%Y-%m-%d", time.gmtime()), digest, tuple(sorted(documents)))
    with complete_file(out) as scratch:
        scratch.write_text(json.dumps(to_dict(Calibrations(tuple(found), measured))), encoding="utf-8")
    hint = (
        "ask uses it by itself"
        if weights is not None
        else f"use it with: subquest ask --calibration {shlex.quote(str(out))}"
    )
    print(f"written to {out}; {hint}")
    return 0


def _list(args: argparse.Namespace) -> int:
    from ..config import load_config
    from ..errors import UsageError
    from ..runs import RUN_FILE, runs_in

    folder = Path(args.folder or load_config().runs or "runs")
    if not folder.is_dir() and args.folder:
        raise UsageError(f"there is no folder {folder}")
    found = []
    for path in runs_in(folder).values() if folder.is_dir() else ():
        try:
            found.append(_description(path.parent if path.name == RUN_FILE and path.parent != folder else path))
        except UsageError as error:
            print(f"skipped: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps({"runs": found}, ensure_ascii=False))
    for run in [] if args.json else found:
        print(
            f"{run['run']}  {run['created']}  {counted(run['episodes'], 'episode')}"
            f"{_and_interrupted(run)}  {', '.join(run['systems']) or 'no system yet'}  {run['bytes'] / 1e6:.1f} MB"
            f"{'  ' if run['progress'] else ''}{run['progress']}"
        )
    if not found and not args.json:
        here = len(runs_in(Path())) if not args.folder else 0
        hint = f"; {here} here: subquest runs list ." if here else "; name another folder: subquest runs list FOLDER"
        print(f"no runs in {folder}{hint}", file=sys.stderr)
    return 0


def _info(args: argparse.Namespace) -> int:
    description = _description(Path(args.run))
    if args.json:
        print(json.dumps(description, ensure_ascii=False))
        return 0
    progress = f", {description['progress']}" if description["progress"] else ""
    print(f"{description['run']}, begun {description['created']}, {description['bytes'] / 1e6:.1f} MB{progress}")
    print(
        f"  {counted(description['episodes'], 'episode')}{_and_interrupted(description)}, "
        f"{counted(description['questions'], 'question')}, {counted(description['trajectories'], 'trajectory')}, "
        f"{counted(description['failures'], 'failure')}"
    )
    for dataset, systems in description["datasets"].items():
        for system, endings in systems.items():
            print(
                f"  {dataset or '(no data set)'}, {system}: "
                + ", ".join(f"{count} {ending or '(no stop reason)'}" for ending, count in endings.items())
            )
    for key, value in _given(description["settings"]):
        print(f"  {key} = {json.dumps(value, ensure_ascii=False)}")
    return 0


def _given(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings that have a value, as in subquest.toml: `limits.turns`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _given(value, f"{above}{key}.")
        elif value not in (None, "", []):
            yield f"{above}{key}", value


def _export(args: argparse.Namespace) -> int:
    from ..errors import UsageError
    from ..runs import RunStore
    from ..runs.jsonl import export_run

    with RunStore.open(args.run) as store:
        if args.out == "-":
            episodes = export_run(store, sys.stdout)
        else:
            path = Path(args.out)
            if path.exists():
                raise UsageError(f"{path} already exists; choose another name")
            check_output(path, "json")
            # half a run would look like a complete one
            with complete_file(path, replace=False) as scratch, scratch.open("w", encoding="utf-8") as file:
                episodes = export_run(store, file)
    print(f"exported {counted(episodes, 'episode')}", file=sys.stderr)
    return 0


def _import(args: argparse.Namespace) -> int:
    from ..runs.jsonl import import_run

    episodes = import_run(args.file, args.out)
    print(f"imported {counted(episodes, 'episode')} into {args.out}", file=sys.stderr)
    return 0


def _prune(args: argparse.Namespace) -> int:
    from ..config import load_config
    from ..errors import UsageError
    from ..runs.prune import prune_run

    if not 0 < args.days < float("inf"):
        raise UsageError("--days must be a number above 0")
    path = Path(args.run or Path(load_config().runs or "runs") / "asked.sqlite")
    done = prune_run(path, time.time() - args.days * 86_400)
    print(f"{path}: {counted(done.removed, 'question')} removed, {done.kept} kept; {done.bytes / 1e6:.1f} MB smaller")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from ..runs.salvage import salvage_run, verify_run

    path = Path(args.run)
    verdict = verify_run(path)
    result: dict[str, Any] = {"run": str(path), "sound": verdict.sound, "episodes": verdict.episodes}
    result["problems"] = list(verdict.problems)
    result["checked"] = verdict.checked
    lines = [f"{path}: {'sound' if verdict.sound else 'damaged'}, {counted(verdict.episodes, 'episode')} read in full"]
    lines += [f"  {problem}" for problem in verdict.problems]
    if not verdict.checked:
        lines.append(
            "  an older version wrote this run, without checksums: changed numbers, names and short records cannot be "
            "found. Export and import it to add them"
        )
    if not verdict.sound and not args.salvage:
        lines.append("  reading stops at what is damaged: --salvage SAVED may save more episodes than these")
    if args.salvage:
        saved = salvage_run(path, Path(args.salvage))
        result["salvage"] = {"run": args.salvage, "episodes": saved.episodes, "lost": list(saved.lost)}
        lines.append(f"saved {counted(saved.episodes, 'episode')} to {args.salvage}")
        lines += [f"  lost: {what}" for what in saved.lost]
    print(json.dumps(result, ensure_ascii=False) if args.json else "\n".join(lines))
    return 0 if verdict.sound or args.salvage else 1


def _description(path: Path) -> dict[str, Any]:
    from datetime import UTC, datetime

    from ..evaluate.run_overview import Overviews, progress
    from ..runs import RunStore

    with RunStore.open(path) as store:
        overview = Overviews().get(path.name, store.path)
        datasets: dict[str, dict[str, dict[str, int]]] = {}
        for summary in store.summaries():
            endings = datasets.setdefault(summary.dataset, {}).setdefault(summary.system, {})
            endings[summary.stop_reason] = endings.get(summary.stop_reason, 0) + 1
        return {
            "run": str(path),
            "created": datetime.fromtimestamp(store.created, UTC).isoformat(timespec="seconds"),
            "bytes": store.path.stat().st_size,
            **store.counts(),
            "progress": "" if "error" in overview else progress(overview),
            "systems": sorted({system for systems in datasets.values() for system in systems}),
            "datasets": datasets,
            "settings": store.settings,
        }


def _and_interrupted(run: dict[str, Any]) -> str:
    return f" and {run['interrupted']} interrupted" if run["interrupted"] else ""
