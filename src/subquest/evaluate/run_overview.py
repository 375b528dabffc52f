"""Runs at a glance: what kind of run, on which data, with which model, how good, and whether it is over."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..runs import RunStore
from .result_table import Scored, scored
from .statistics import interval

RECENT = 120.0
"""Seconds without a change after which a run that is not complete counts as stopped, if no process has closed it."""
DECISIVE = ("em", "judge", "f1")
"""The first metric that answers have is the score of an evaluation."""
LEARNT = ("dev_em", "dev_f1", "dev_reward", "reward", "dev_loss", "loss")
"""The first that a training run has is its score."""

Overview = dict[str, Any]


def progress(run: Overview) -> str:
    """Whether a run is over: `stopped: 12 of 40 answered`; empty for the questions asked of a server."""
    if run["status"] in ("finished", "open"):
        return "finished" if run["status"] == "finished" else ""
    if run["kind"] == "training":
        return f"{run['status']}: step {run['step']}" + (f" of {run['steps']}" if run["steps"] else "")
    return f"{run['status']}: {run['answered']} of {run['answered'] + run['missing']} answered"


class Overviews:
    """What runs are, remembered until their files change: a score with its interval takes reading all of them."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[Any, ...], Overview]] = {}

    def get(self, name: str, path: Path) -> Overview:
        """The run in a line; for a damaged one, what is wrong."""
        stamp = _stamp(path)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            try:
                with RunStore.open(path) as store:
                    known = (stamp, _overview(store))
            except UsageError as error:
                known = (stamp, {"created": 0.0, "error": str(error)})
            self._known[path] = known
        found = {"name": name, **known[1]}
        return found if "error" in found else {**found, "status": _status(found, stamp)}


def _stamp(path: Path) -> tuple[Any, ...]:
    """What changes with a run's file: the time of its last change, and its size; the same of its log."""
    found: list[Any] = []
    for place in (path, path.with_name(f"{path.name}-wal")):
        try:
            status = place.stat()
            found += [status.st_mtime, status.st_size] if status.st_size else [0.0, 0]  # a reader leaves an empty log
        except OSError:
            found += [0.0, 0]
    return tuple(found)


def kind_of(settings: dict[str, Any]) -> str:
    """evaluation, training, or asked: the questions that were asked of a server."""
    if settings.get("recipe"):
        return "training"
    return "asked" if settings.get("kind") == "server" else "evaluation"


def _overview(store: RunStore) -> Overview:
    settings, summaries = store.settings, list(store.summaries())
    kind = kind_of(settings)
    out: Overview = {
        "created": store.created,
        **store.counts(),
        "settings": settings,
        "kind": kind,
        "data": sorted({summary.dataset for summary in summaries} - {""}) if kind != "asked" else [],
        "systems": sorted({summary.system for summary in summaries}),
        "models": sorted({summary.model for summary in summaries} - {""}) or [str(settings.get("model") or "")],
        "updated": max((summary.added for summary in summaries), default=store.created),
        "score": None,
    }
    if kind == "training":
        out |= _learnt(store)
    elif kind == "evaluation":
        rows = scored(store)
        out["score"] = _best(rows)
        asked = {(question.dataset, question.id) for question in store.questions()}  # stored before the first answer
        out["answered"] = len(rows)
        out["missing"] = len(asked) * max(len(out["systems"]), 1) - len(rows)
    return out


def _best(rows: list[Scored]) -> Overview | None:
    """The score of the best system, over the questions of all sets."""
    metric = next((name for name in DECISIVE if any(name in row.scores for row in rows)), "")
    values: dict[str, list[float]] = {}
    for row in rows:
        if metric in row.scores:
            values.setdefault(row.system, []).append(row.scores[metric])
    if not values:
        return None
    system = max(values, key=lambda name: sum(values[name]) / len(values[name]))
    found = interval(values[system])
    return {
        "metric": metric,
        "value": found.mean,
        "low": found.low,
        "high": found.high,
        "n": len(values[system]),
        "system": system,
    }


def _learnt(store: RunStore) -> Overview:
    """The newest figure that says how well a model has learnt, and how far the run has come."""
    newest: dict[str, float] = {}
    step = 0
    for at, name, value in store.metrics():
        newest[name] = value
        step = max(step, at)
    metric = next((name for name in LEARNT if name in newest), "")
    score = {"metric": metric, "value": newest[metric]} if metric else None
    folder = store.path.parent
    recipe = {name: table for name, table in _object(folder / "recipe.json").items() if isinstance(table, dict)}
    asked, model = (recipe.get(table, {}).get(name) for table, name in (("optimiser", "steps"), ("model", "path")))
    steps = _object(folder / "steps.json").get("steps", asked)
    found: Overview = {"score": score, "step": step, "steps": steps if isinstance(steps, int) else 0}
    return {**found, "models": [Path(model).name]} if isinstance(model, str) else found


def _object(path: Path) -> dict[str, Any]:
    """A JSON object in a training run's folder; empty if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _status(run: Overview, stamp: tuple[Any, ...]) -> str:
    if run["kind"] == "asked":
        return "open"
    if run["kind"] == "training":
        complete = bool(run["steps"]) and run["step"] >= run["steps"]
    else:
        complete = not run["interrupted"] and not run["missing"]
    if complete:
        return "finished"
    logged = bool(stamp[-1])  # whoever writes keeps a log beside the file, and removes it at the end
    return "running" if logged and time.time() - max(stamp[::2]) < RECENT else "stopped"
