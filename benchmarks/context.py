"""How long contexts grow: a monolithic agent against the hierarchical systems (CoDA, section 3.4).

    subquest bench context --svg context.svg

Peak and total context tokens against the number of hops, of documents a search and of words a document. All systems
answer the same questions of a generated world over a real index, driven by one oracle (`_world_oracle.py`), a function
of the visible context; tokens are the scripted engine's words, figures are means over questions. The second part
compares APEX with parallel branches to APEX as published, on a model of fixed latency.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _world_oracle import Oracle, cut, findable, world

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.plots import Point, Series, picture
from subquest.record import Document, Episode, Question
from subquest.retrieval import Index
from subquest.systems import registry

HOPS = (1, 2, 3, 4, 5, 6, 7, 8)
TOP_K = (3, 5, 10, 20, 30)
WORDS = (50, 100, 200, 400, 800)
BASE_HOPS, BASE_K, BASE_WORDS = 4, 3, 100
ARTICLES, QUESTIONS = 1600, 1500
SAMPLE = 5
"""Questions of each number of hops: such that one search for each step finds its article among the first three."""
MONOLITH = "autorefine"
SYSTEMS = (MONOLITH, "coda", "decor", "apex", "hira")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a system took for the questions of one point, on average."""

    system: str
    hops: int
    k: int
    words: int
    total: float
    """Tokens read and written over all model calls, cached ones included."""
    peaks: Mapping[str, float]
    """Longest context of each role."""

    @property
    def peak(self) -> float:
        return max(self.peaks.values())


def settings(system: str, hops: int, k: int, words: int) -> dict[str, Any]:
    """Room for as many steps as the question has; documents are never cut (HiRA's expert reads snippets)."""
    if system == "hira":
        return {"k": k, "experts": "search", "subtasks": hops, "tool_tokens": 2 * k * words, "egress": "private"}
    room: dict[str, Any] = {"k": k, "document_tokens": 2 * words}
    return {**room, "steps": hops} if system == "apex" else {**room, "turns": hops + 1}


def measure(
    system: str, index: Index, questions: Sequence[Question], oracle: Oracle, hops: int, k: int, words: int
) -> Reading:
    agent = registry.get(system)(ScriptedEngine(oracle), index, **settings(system, hops, k, words))
    episodes = [agent.ask(question) for question in questions]
    for episode in episodes:
        if episode.answer not in episode.question.answers or episode.errors:
            raise AssertionError(f"{system} answered {episode.answer!r} to {episode.question}: {episode.errors}")
    peaks = [_peaks(episode) for episode in episodes]
    totals = [e.usage.prompt_tokens + e.usage.completion_tokens for e in episodes]
    mean = {role: round(statistics.fmean(p[role] for p in peaks), 1) for role in peaks[0]}
    return Reading(system, hops, k, words, round(statistics.fmean(totals), 1), mean)


def _peaks(episode: Episode) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for trajectory in episode.trajectories:
        peaks[trajectory.role] = max(peaks.get(trajectory.role, 0), trajectory.usage.peak_context)
    return peaks


def sweep(
    hops: Sequence[int],
    top_k: Sequence[int],
    words: Sequence[int],
    *,
    articles: int = ARTICLES,
    questions: int = QUESTIONS,
    sample: int = SAMPLE,
) -> list[Reading]:
    """Each axis for itself, the others at their base; the questions of one number of hops are the same everywhere."""
    points = [(h, BASE_K, BASE_WORDS) for h in hops]
    points += [(BASE_HOPS, k, BASE_WORDS) for k in top_k] + [(BASE_HOPS, BASE_K, w) for w in words]
    documents, asked = world(7, articles, questions, sorted({*hops, BASE_HOPS}))
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory() as folder:
        indexes = {w: Index.build(Path(folder) / str(w), cut(documents, w)) for w in {w for _, _, w in points}}
        try:
            chosen = {h: _chosen(asked, h, points, indexes, sample) for h in {h for h, _, _ in points}}
            oracle = Oracle([question for some in chosen.values() for question in some])
            for h, k, w in dict.fromkeys(points):
                readings += [measure(system, indexes[w], chosen[h], oracle, h, k, w) for system in SYSTEMS]
        finally:
            for index in indexes.values():
                index.close()
    return readings


def _chosen(
    asked: Sequence[Question],
    hops: int,
    points: Sequence[tuple[int, int, int]],
    indexes: Mapping[int, Index],
    count: int,
) -> list[Question]:
    """Questions of so many hops whose facts can be found at every point where they are asked."""
    lengths = sorted({w for h, _, w in points if h == hops})
    fitting = (q for q in asked if q.hops == hops and all(findable(q, indexes[w], BASE_K) for w in lengths))
    chosen = [question for question, _ in zip(fitting, range(count), strict=False)]
    if len(chosen) < count:
        raise AssertionError(f"only {len(chosen)} questions of {hops} hops can be found; make a larger world")
    return chosen


BRANCHES = ("north", "south", "east", "west")
BRANCH = (
    "retrieve",
    "<search>{} one</search>",
    "yes",
    "<search>{} two</search>",
    "yes",
    "<search>{} three</search>",
    "no",
    "<answer>{}</answer>",
)
"""What the executor of a branch replies, turn by turn."""


def parallel_seconds(latency: float, *, parallel: bool, repeats: int = 3) -> float:
    """Wall time of an episode whose plan has four independent branches of three searches; the best of some runs."""

    def reply(context: Context) -> str:
        if context.role == "planner":
            return "<plan>" + "\n".join(f"{number}. {task}" for number, task in enumerate(BRANCHES, 1)) + "</plan>"
        if context.role == "synthesizer":
            return "<answer>all</answer>"
        return BRANCH[context.turn].format(context.messages[1].content.split("Sub-question: ")[1].split()[0])

    places = [f"{branch} {number}" for branch in BRANCHES for number in ("one", "two", "three")]
    seconds: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.build(Path(folder) / "index", [Document(place, place, place) for place in places]) as index,
    ):
        system = registry.get("apex")(ScriptedEngine(reply, latency=latency), index, parallel=parallel, k=1)
        for _ in range(repeats):
            start = time.perf_counter()
            episode = system.ask("Where?")
            seconds.append(time.perf_counter() - start)
            if episode.usage.model_calls != 2 + len(BRANCHES) * len(BRANCH):
                raise AssertionError(f"{episode.usage.model_calls} calls; the branches did not run as scripted")
    return min(seconds)


def table(readings: Sequence[Reading]) -> str:
    lines = [f"{'hops':>4} {'k':>3} {'words':>5}  {'system':<11} {'peak':>7} {'total':>8}  peak of each role"]
    for r in readings:
        roles = ", ".join(f"{role} {peak:.0f}" for role, peak in r.peaks.items())
        lines.append(f"{r.hops:>4} {r.k:>3} {r.words:>5}  {r.system:<11} {r.peak:>7.0f} {r.total:>8.0f}  {roles}")
    return "\n".join(lines)


def panels(readings: Sequence[Reading]) -> dict[str, list[Series]]:
    def along(axis: str, fixed: dict[str, int]) -> list[Series]:
        chosen = [r for r in readings if all(getattr(r, name) == value for name, value in fixed.items())]
        lines = [Series(s, [Point(getattr(r, axis), r.peak) for r in chosen if r.system == s]) for s in SYSTEMS]
        planner = [Point(getattr(r, axis), r.peaks["planner"]) for r in chosen if r.system == "coda"]
        return [*lines, Series("coda planner", planner)]

    return {
        "hops": along("hops", {"k": BASE_K, "words": BASE_WORDS}),
        "documents a search": along("k", {"hops": BASE_HOPS, "words": BASE_WORDS}),
        "words a document": along("words", {"hops": BASE_HOPS, "k": BASE_K}),
    }


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench context", description=__doc__)
    parser.add_argument("--svg", metavar="FILE", help="where to write the plot")
    parser.add_argument(
        "--latency", type=float, default=0.1, metavar="S", help="of the model in the parallel comparison"
    )
    args = parser.parse_args(argv)
    readings = sweep(HOPS, TOP_K, WORDS)
    print(table(readings), file=sys.stderr)
    if args.svg:
        Path(args.svg).write_text(picture("Longest context, in tokens", panels(readings)), encoding="utf-8")
    by_place = {(r.system, r.hops, r.k, r.words): r for r in readings}

    def ratio(system: str, place: tuple[int, int, int]) -> float:
        return by_place[(MONOLITH, *place)].peak / by_place[(system, *place)].peak

    extremes = {
        f"{HOPS[-1]} hops": (HOPS[-1], BASE_K, BASE_WORDS),
        f"top-{TOP_K[-1]}": (BASE_HOPS, TOP_K[-1], BASE_WORDS),
        f"{WORDS[-1]} words": (BASE_HOPS, BASE_K, WORDS[-1]),
    }
    ratios = {f"peak {MONOLITH}/{s}, {what}": ratio(s, at) for what, at in extremes.items() for s in SYSTEMS[1:]}
    sequential = parallel_seconds(args.latency, parallel=False)
    parallel = parallel_seconds(args.latency, parallel=True)
    ratios["apex sequential/parallel, 4 branches"] = sequential / parallel
    figures = {
        "readings": [
            {"system": r.system, "hops": r.hops, "k": r.k, "words": r.words, "total": r.total, "peaks": dict(r.peaks)}
            for r in readings
        ],
        "apex seconds": {"sequential": sequential, "parallel": parallel, "latency": args.latency},
    }
    return {"name": "context", "figures": figures, "ratios": {name: round(value, 3) for name, value in ratios.items()}}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
