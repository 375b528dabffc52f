"""How long contexts grow: a monolithic agent against the hierarchical systems (CoDA, section 3.4).

    subquest bench context --svg context.svg

Peak and total context tokens against the number of hops, of documents per search and of words per document. All systems
answer the same generated questions over a real index, driven by one oracle (`_oracle.py`); tokens are the scripted
engine's words. The second part compares APEX with parallel branches to APEX as published, on a model of fixed latency.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _oracle import oracle, question, world
from _plot import Line, Panel, svg

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

HOPS = (1, 2, 3, 4, 5, 6, 7, 8)
TOP_K = (3, 5, 10, 20, 30)
WORDS = (50, 100, 200, 400, 800)
BASE_HOPS, BASE_K, BASE_WORDS = 4, 3, 100
CHAINS = 40
"""Enough that every relation stands in more articles than the largest top-k asks for."""
MONOLITH = "autorefine"
SYSTEMS = (MONOLITH, "coda", "decor", "apex")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one episode took."""

    system: str
    hops: int
    k: int
    words: int
    total: int
    """Tokens read and written over all model calls, cached ones included."""
    peaks: dict[str, int]
    """Longest context of each role."""

    @property
    def peak(self) -> int:
        return max(self.peaks.values())


def settings(system: str, hops: int, k: int, words: int) -> dict[str, Any]:
    """Room for as many steps as the question has; documents are never cut."""
    room: dict[str, Any] = {"k": k, "document_tokens": 2 * words}
    if system == "apex":
        return {**room, "steps": hops}
    return {**room, "turns": hops + 1}


def measure(system: str, index: Index, text: str, answer: str, hops: int, k: int, words: int) -> Reading:
    episode = registry.get(system)(ScriptedEngine(oracle), index, **settings(system, hops, k, words)).ask(text)
    if episode.answer != answer or episode.errors:
        raise AssertionError(f"{system} answered {episode.answer!r}, not {answer!r}: {episode.errors}")
    usage = episode.usage
    return Reading(system, hops, k, words, usage.prompt_tokens + usage.completion_tokens, _peaks(episode))


def _peaks(episode: Episode) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for trajectory in episode.trajectories:
        peaks[trajectory.role] = max(peaks.get(trajectory.role, 0), trajectory.usage.peak_context)
    return peaks


def sweep(hops: Sequence[int], top_k: Sequence[int], words: Sequence[int], chains: int = CHAINS) -> list[Reading]:
    """Each axis for itself, the others at their base."""
    points = [(h, BASE_K, BASE_WORDS) for h in hops]
    points += [(BASE_HOPS, k, BASE_WORDS) for k in top_k] + [(BASE_HOPS, BASE_K, w) for w in words]
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory() as folder:
        for length in sorted({w for _, _, w in points}):
            documents = world(7, chains, length)
            with Index.build(Path(folder) / str(length), documents) as index:
                for h, k, _ in (p for p in dict.fromkeys(points) if p[2] == length):
                    text, answer = question(documents, 0, h)
                    readings += [measure(system, index, text, answer, h, k, length) for system in SYSTEMS]
    return sorted(readings, key=lambda r: points.index((r.hops, r.k, r.words)))


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
        roles = ", ".join(f"{role} {peak}" for role, peak in r.peaks.items())
        lines.append(f"{r.hops:>4} {r.k:>3} {r.words:>5}  {r.system:<11} {r.peak:>7} {r.total:>8}  {roles}")
    return "\n".join(lines)


def panels(readings: Sequence[Reading]) -> list[Panel]:
    def along(axis: str, fixed: dict[str, int]) -> list[Line]:
        chosen = [r for r in readings if all(getattr(r, name) == value for name, value in fixed.items())]
        lines = [Line(s, [(getattr(r, axis), r.peak) for r in chosen if r.system == s]) for s in SYSTEMS]
        return [
            *lines,
            Line("coda planner", [(getattr(r, axis), r.peaks["planner"]) for r in chosen if r.system == "coda"]),
        ]

    return [
        Panel("hops", along("hops", {"k": BASE_K, "words": BASE_WORDS})),
        Panel("documents a search", along("k", {"hops": BASE_HOPS, "words": BASE_WORDS})),
        Panel("words a document", along("words", {"hops": BASE_HOPS, "k": BASE_K})),
    ]


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
        Path(args.svg).write_text(svg("Longest context, in tokens", panels(readings)), encoding="utf-8")
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
            {"system": r.system, "hops": r.hops, "k": r.k, "words": r.words, "total": r.total, "peaks": r.peaks}
            for r in readings
        ],
        "apex seconds": {"sequential": sequential, "parallel": parallel, "latency": args.latency},
    }
    return {"name": "context", "figures": figures, "ratios": {name: round(value, 3) for name, value in ratios.items()}}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
