"""What a report says: rows of one or more runs, brought together under names that tell them apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...data.registry import find_set
from ...errors import UsageError
from ...metrics import Calibration
from ...record import Episode
from ...runs import RunStore, run_path
from ..result_table import Scored, calibration_of, field_of, less_is_better, scored, table, values_of
from ..statistics import Comparison, compare

OUTCOMES = ("right", "nearly", "misread", "not found", "wrong", "no answer", "failed")
OUTCOME_NOTES = {
    "right": "exact match",
    "nearly": "it contains a gold answer, with more around it",
    "misread": "wrong, although every gold passage was found",
    "not found": "wrong, and a gold passage was never found",
    "wrong": "wrong; the gold passages are not known",
    "no answer": "nothing was answered",
    "failed": "the outside world failed, or time ran out",
}


class Entry(NamedTuple):
    """One scored answer, with where it came from."""

    row: Scored
    run: Path
    base: str
    """The system's name without what tells its runs apart."""
    k: int | None
    """Documents a search, where the run says so."""
    answer: str
    outcome: str
    stop_reason: str


class Versus(NamedTuple):
    """A system against the reference, over the questions both answered."""

    system: str
    reference: str
    result: Comparison
    adjusted: float
    """p-value after Holm's correction for the number of comparisons on the set."""

    @property
    def mark(self) -> str:
        return "‡" if self.adjusted < 0.01 else "†" if self.adjusted < 0.05 else ""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything a report shows."""

    entries: Sequence[Entry]
    metric: str
    settings: Mapping[str, Mapping[str, Any]]
    """Settings of each run, by its path."""
    errors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By system: where failures happened, and how often; survived ones included."""
    reference: str | None = None
    """The system others are compared with; None is the best one of each set."""

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(e.row.dataset for e in self.entries))

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(e.row.system for e in self.entries))

    def of(self, dataset: str, system: str | None = None) -> list[Entry]:
        return [e for e in self.entries if e.row.dataset == dataset and system in (None, e.row.system)]

    def table(self) -> dict[str, dict[str, dict[str, Any]]]:
        return table((e.row for e in self.entries), metric=self.metric)

    def values(self, entries: Sequence[Entry]) -> list[float]:
        """What the metric gave entries of one system."""
        return list(values_of((e.row for e in entries), self.metric).values())

    def best_first(self, mean: float) -> float:
        """A key by which means of the metric are sorted, the best first."""
        return mean if less_is_better(self.metric) else -mean

    def to_json(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The table, with how each system compares with the reference, and how far its confidence can be trusted."""
        out = self.table()
        for dataset, cells in out.items():
            for system, cell in cells.items():
                if (found := self.calibration(dataset, system)) is not None:
                    cell["calibration"] = [bin._asdict() for bin in found.bins]
            for versus in self.comparisons(dataset):
                cells[versus.system]["against"] = {
                    "system": versus.reference,
                    "metric": self.metric,
                    "better": "less" if less_is_better(self.metric) else "more",
                    **{name: getattr(versus.result, name) for name in ("n", "difference", "low", "high")},
                    "p": versus.adjusted,
                }
        return out

    def comparisons(self, dataset: str) -> list[Versus]:
        """Every system against the reference, with p-values corrected for how many there are.

        Questions are paired by id and text: two runs may hold other questions under the same name and numbers.
        """
        values: dict[str, dict[tuple[str, str], float]] = {}
        for system in self.systems:
            entries = self.of(dataset, system)
            for at, value in values_of((e.row for e in entries), self.metric).items():
                question = entries[at].row.question
                values.setdefault(system, {})[question.id, question.question] = value
        ranks = {s: self.best_first(sum(v.values()) / len(v)) for s, v in values.items()}
        reference = self.reference if self.reference in values else min(ranks, key=ranks.__getitem__, default=None)
        if reference is None:
            return []
        found: list[tuple[str, Comparison, float]] = []
        for system, mine in values.items():
            shared = sorted(mine.keys() & values[reference].keys())
            if system != reference and shared:
                result = compare([mine[q] for q in shared], [values[reference][q] for q in shared])
                found.append((system, result, result.p if result.mcnemar is None else result.mcnemar))
        adjusted = holm([p for _, _, p in found])
        return [Versus(s, reference, r, p) for (s, r, _), p in zip(found, adjusted, strict=True)]

    def calibration(self, dataset: str, system: str) -> Calibration | None:
        return calibration_of(e.row for e in self.of(dataset, system))

    def breakdowns(self, dataset: str) -> dict[str, dict[str, list[Entry]]]:
        """Entries by the fields the papers report by, where they really divide the set."""
        entry = find_set(dataset.partition(":")[0])
        fields = dict.fromkeys((*(entry.breakdowns if entry else ()), "data_source", "hops", "type", "level"))
        out = {}
        for name in fields:
            groups: dict[str, list[Entry]] = {}
            for e in self.of(dataset):
                if value := field_of(e.row.question, name):
                    groups.setdefault(value, []).append(e)
            if 1 < len(groups) <= 40:
                out[name] = dict(sorted(groups.items(), key=_natural))
        return out

    def outcomes(self, dataset: str, system: str) -> Counter[str]:
        return Counter(e.outcome for e in self.of(dataset, system))


def load(runs: Sequence[str | Path], *, metric: str = "em", reference: str | None = None) -> Content:
    """Read runs. Where two hold the same system on the same set, the settings that differ become part of its name."""
    stores: list[tuple[Path, RunStore]] = []
    try:
        for run in {run_path(run).resolve(): run for run in runs}.values():  # one that is named twice counts once
            store = RunStore.open(run)
            stores.append((store.path, store))
        return _content(stores, metric, reference)
    finally:
        for _, store in stores:
            store.close()


def _content(stores: Sequence[tuple[Path, RunStore]], metric: str, reference: str | None) -> Content:
    rows = [(path, store, row) for path, store in stores for row in scored(store)]
    if not rows:
        raise UsageError(f"nothing to report: no episode in {', '.join(str(p) for p, _ in stores)}")
    if not any(metric in row.scores for _, _, row in rows):
        metrics = sorted({m for _, _, row in rows for m in row.scores})
        if not metrics:
            raise UsageError(f"nothing to report: no answer in {', '.join(str(p) for p, _ in stores)} is scored")
        raise UsageError(f"no episode has the metric {metric!r}; there are {', '.join(metrics)}")
    owners: dict[tuple[str, str], set[Path]] = {}
    for path, _, row in rows:
        owners.setdefault((row.dataset, row.system), set()).add(path)
    shared = {system for (_, system), paths in owners.items() if len(paths) > 1}
    names = run_names({path: store.settings for path, store in stores})
    summaries = {(path, s.id): s for path, store in stores for s in store.summaries()}
    k = {path: _k(store.settings) for path, store in stores}
    entries, errors = [], dict[str, Counter[str]]()
    places = {path: _places(store) for path, store in stores}
    for path, _, row in rows:
        system = f"{row.system} ({names[path]})" if row.system in shared else row.system
        summary = summaries[path, row.episode]
        outcome = outcome_of(row.scores)
        entry = Entry(
            row._replace(system=system), path, row.system, k[path], summary.answer, outcome, summary.stop_reason
        )
        entries.append(entry)
        errors.setdefault(system, Counter()).update(places[path].get(row.episode, ()))
    entries.sort(key=lambda e: (e.row.dataset, _counted(e.base), e.k or 0, e.row.system, e.row.question.id))
    if reference is not None and reference not in {e.row.system for e in entries}:
        known = ", ".join(dict.fromkeys(e.row.system for e in entries))
        raise UsageError(f"there is no system {reference!r} to compare with; there are {known}")
    settings = {str(path): store.settings for path, store in stores}
    return Content(entries, metric, settings, {s: dict(c) for s, c in errors.items() if c}, reference)


def outcome_of(scores: Mapping[str, float]) -> str:
    """What became of an answer, by the metrics alone; the first that fits."""
    if scores.get("failed"):
        return "failed"
    if scores.get("em"):
        return "right"
    if scores.get("no_answer"):
        return "no answer"
    if scores.get("cem"):
        return "nearly"
    recall = scores.get("support_recall")
    return "wrong" if recall is None else "misread" if recall >= 1 else "not found"


def run_names(settings: Mapping[Path, Mapping[str, Any]]) -> dict[Path, str]:
    """A short name for each run: the settings in which it differs from the others, else its file's name."""
    flat = {path: dict(_flat(found)) for path, found in settings.items()}
    keys = list(dict.fromkeys(k for f in flat.values() for k in f))
    telling = [key for key in keys if len({json.dumps(f.get(key)) for f in flat.values()}) > 1]
    telling = [k for k in telling if not k.endswith("_content") or k.removesuffix("_content") not in telling]
    given = {_label(key) for key in telling if not key.startswith("shared.")}
    telling = [key for key in telling if not key.startswith("shared.") or _label(key) not in given]
    names = {
        path: ", ".join(f"{_label(key)}={_short(f[key])}" for key in telling if f.get(key) is not None)
        for path, f in flat.items()
    }
    own = {path: path.parent.name if path.name == "run.sqlite" else path.stem for path in settings}
    if len(set(names.values())) < len(names) or any(not n or len(n) > 40 for n in names.values()):
        names = own
    if len(set(names.values())) < len(names):
        names = {path: str(path) for path in settings}
    return names


def shown(
    content: Content, columns: Sequence[tuple[str, str]], cells: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Those columns (key, name) that some cell fills, and one for the metric that is compared."""
    named = dict(columns) if content.metric in dict(columns) else {**dict(columns), content.metric: content.metric}
    return [(key, name) for key, name in named.items() if any(cell.get(key) is not None for cell in cells.values())]


def number(value: float) -> str:
    """Three digits behind the point say what there is to say of a share, and too much of a thousand tokens."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _label(key: str) -> str:
    """The last part of a setting's name; the judge's model is not the systems'."""
    return "judge" if key == "judge.model" else key.rpartition(".")[2]


def traced(content: Content, each: int) -> Iterable[tuple[Entry, Episode]]:
    """Episodes worth reading in full: of each system on each set, some that went wrong and a few that went right."""
    chosen: dict[Path, list[Entry]] = {}
    for dataset in content.datasets:
        for system in content.systems:
            found = content.of(dataset, system)
            wrong = sorted((e for e in found if e.outcome != "right"), key=lambda e: -OUTCOMES.index(e.outcome))
            right = [e for e in found if e.outcome == "right"]
            spread = wrong[:: max(1, len(wrong) // max(each, 1))][:each]
            for e in (*spread, *right[: max(1, each // 4) if each else 0]):
                chosen.setdefault(e.run, []).append(e)
    for run, entries in chosen.items():
        with RunStore.open(run) as store:
            for e in entries:
                yield e, store.episode(e.row.episode)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the smallest of m p-values counts m times, the next m - 1 times, ..."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    out, highest = [0.0] * len(ps), 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, ps[at] * (len(ps) - rank)))
        out[at] = highest
    return out


def _places(store: RunStore) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    query = "SELECT e.id, f.place, f.fatal FROM failure f JOIN episode e ON e.number = f.episode"
    for episode, place, fatal in store.query(query):
        found.setdefault(episode, []).append(f"{place} (fatal)" if fatal else str(place))
    return found


def _k(settings: Mapping[str, Any]) -> int | None:
    for section in ("settings", "search", "shared"):
        value = (settings.get(section) or {}).get("k")
        if isinstance(value, int):
            return value
    return None


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _short(value: Any) -> str:
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)


def _counted(name: str) -> list[tuple[str, int]]:
    """A name by which `k=3` comes before `k=10`."""
    return [(words, int(number or 0)) for words, number in re.findall(r"(\D*)(\d{0,18})", name)]


def _natural(item: tuple[str, object]) -> tuple[float, str]:
    try:
        return float(item[0]), ""
    except ValueError:
        return float("inf"), item[0]
