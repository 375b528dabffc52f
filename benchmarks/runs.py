"""What the run store costs: 1,000 CoDA episodes, their size and the time to make them durable, beside plain JSON lines.

    subquest bench runs                       # or: python benchmarks/runs.py --episodes 1000

Episodes come from CoDA on a scripted model over made-up passages, eight attempts at each question, as in training:
with token ids, log-probs and all events. The peers are what programs do by hand: one JSON line an episode, flushed to
the disk for each (`jsonl`), the same compressed line by line (`jsonl.gz`), and an SQLite table of JSON with a commit
an episode (`sqlite`). All acknowledge an episode only when it is on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.record import Document, Episode, Hit, Question
from subquest.runs import RunStore
from subquest.systems.coda import CoDA

ATTEMPTS = 8
WORDS = [
    "harbour",
    "coast",
    "founded",
    "year",
    "light",
    "tower",
    "river",
    "bridge",
    "song",
    "guild",
    "council",
    "ferry",
]


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench runs", description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    count = parser.parse_args(argv).episodes
    episodes = asyncio.run(make_episodes(count))
    writers = {"subquest": write_store, "jsonl": write_lines, "jsonl.gz": write_compressed, "sqlite": write_table}
    figures = {name: measure(writer, episodes) for name, writer in writers.items()}
    ours = figures["subquest"]
    ratios = {f"size, {n} / subquest": f["kb_per_episode"] / ours["kb_per_episode"] for n, f in figures.items()}
    ratios |= {f"CPU, subquest / {n}": ours["cpu_ms"] / f["cpu_ms"] for n, f in figures.items()}
    ratios |= {f"episodes/s, subquest / {n}": ours["per_second"] / f["per_second"] for n, f in figures.items()}
    print(f"{count} episodes, {ATTEMPTS} attempts a question, {os.cpu_count()} cores", file=sys.stderr)
    print(f"{'':10}{'kB/episode':>12}{'episodes/s':>12}{'CPU ms/episode':>16}", file=sys.stderr)
    for name, f in figures.items():
        print(f"{name:10}{f['kb_per_episode']:12.1f}{f['per_second']:12.0f}{f['cpu_ms']:16.2f}", file=sys.stderr)
    return {
        "name": "runs",
        "figures": figures,
        "ratios": {n: r for n, r in ratios.items() if "subquest / subquest" not in n},
    }


def measure(write: Callable[[Path, Sequence[Episode]], None], episodes: Sequence[Episode]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        wall, cpu = time.perf_counter(), time.process_time()
        write(path, episodes)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = path.stat().st_size
    return {
        "kb_per_episode": size / len(episodes) / 1e3,
        "per_second": len(episodes) / wall,
        "cpu_ms": cpu / len(episodes) * 1e3,
    }


def write_store(path: Path, episodes: Sequence[Episode]) -> None:
    """Sixty-four workers, each waiting for its episode to be durable before it goes on."""

    async def work(run: RunStore, mine: Sequence[Episode]) -> None:
        for episode in mine:
            await run.add_episode(episode)

    async def write(run: RunStore) -> None:
        await asyncio.gather(*(work(run, episodes[i::64]) for i in range(64)))

    with RunStore.create(path) as run:
        asyncio.run(write(run))


def write_lines(path: Path, episodes: Sequence[Episode], squeeze: Callable[[bytes], bytes] = bytes) -> None:
    with path.open("wb") as file:
        for episode in episodes:
            file.write(squeeze(episode.to_json().encode()) + b"\n")
            file.flush()
            os.fsync(file.fileno())


def write_compressed(path: Path, episodes: Sequence[Episode]) -> None:
    write_lines(path, episodes, zlib.compress)


def write_table(path: Path, episodes: Sequence[Episode]) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE episode (id TEXT PRIMARY KEY, body TEXT)")
    for episode in episodes:
        with connection:
            connection.execute("INSERT INTO episode VALUES (?, ?)", (episode.id, episode.to_json()))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def make_episodes(count: int) -> list[Episode]:
    rng = random.Random(0)

    def prose(words: int) -> str:
        return " ".join(rng.choice(WORDS) + str(rng.randrange(40)) for _ in range(words))

    passages = [Document(f"d{n}", f"Place {n}", ". ".join(prose(14) for _ in range(7))) for n in range(2000)]

    class Stub:
        name = "stub"

        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return [[Hit(d, 1.0) for d in random.Random(q).sample(passages, k)] for q in queries]

    def reply(context: Context) -> str:
        thought = f"<think>{prose(40)}</think>\n"
        if context.role == "planner":
            asked = context.messages[-1 if context.turn == 0 else 1].content.split()[-1]
            return thought + (
                f"<task>{asked}, part {context.turn}</task>" if context.turn < 3 else "<answer>x</answer>"
            )
        if context.turn == 0:
            return thought + f"<search>{context.last}</search>"
        return thought + f"<refine>{prose(25)}</refine>\n<result>{prose(6)}</result>"

    agent = CoDA(ScriptedEngine(reply), Stub())
    questions = [Question(f"q{n}", f"What is known of {prose(6)} q{n}") for n in range(-(-count // ATTEMPTS))]
    return [await agent.solve(questions[n // ATTEMPTS]) for n in range(count)]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
