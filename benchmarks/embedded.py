"""Speed of the embedded model: our CPU kernel, where llama.cpp comes from, which weights, adapters, and transformers.

    python benchmarks/embedded.py [--threads 2] [--rounds 3] [--native PYTHON]
    python benchmarks/embedded.py --kernel                      our kernel and llama.cpp's own in turn, all known models
    python benchmarks/embedded.py --forms qwen-1.5b             a known model as published, with an adapter, and merged
    python benchmarks/embedded.py --spins 0,300,1000,300000     how long threads look for each other before they sleep

`--native` names the Python of an environment with numpy and llama-cpp-python, compiled there for this machine's CPU.
Every case runs in a process of its own. Speeds are the best of the rounds; `cpu` speeds count the seconds that all
threads computed, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PROMPT, WRITTEN, SESSIONS, FAR = 384, 32, 4, 2048


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench embedded", description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernel", action="store_true", help="measure only our kernel against llama.cpp's own")
    parser.add_argument("--forms", metavar="MODEL", help="measure only the forms in which a known model can run")
    parser.add_argument("--native", help="Python of an environment with llama-cpp-python")
    parser.add_argument("--spins", help="measure only these values of GOMP_SPINCOUNT, on what runs by default")
    args = parser.parse_args(argv)
    from subquest.engine.embedded.quantised import quantise
    from subquest.models import embedded_model

    if args.forms:
        return _forms(args.forms, args.threads, args.rounds)
    figures: dict[str, Any] = {}
    for name, file in _known_files().items():
        case = [str(args.threads), str(args.rounds), "kernel", str(file)]
        figures[f"kernel {name}"] = _run(sys.executable, case, {})
        print(name, figures[f"kernel {name}"], file=sys.stderr, flush=True)
    if args.kernel:
        return {"name": "embedded", "figures": figures, "ratios": _ratios(figures)}
    with tempfile.TemporaryDirectory() as folder:
        base, lora = embedded_model(), Path(folder) / "lora.gguf"
        eight, merged = Path(folder) / "q8.gguf", Path(folder) / "merged.gguf"
        _random_adapter(lora, base)
        quantise(base, None, eight)
        quantise(base, lora, merged)
        cases: list[tuple[str, str, list[str]]] = [
            ("xllamacpp Q4_1", sys.executable, ["xllamacpp", str(base)]),
            ("xllamacpp Q8_0", sys.executable, ["xllamacpp", str(eight)]),
            ("xllamacpp Q8_0, adapter attached", sys.executable, ["xllamacpp", str(eight), str(lora)]),
            ("xllamacpp Q8_0, adapter merged", sys.executable, ["xllamacpp", str(merged)]),
            ("transformers float32", sys.executable, ["transformers", str(base)]),
            ("sessions", sys.executable, ["sessions", str(eight)]),
        ]
        if args.native:
            cases[2:2] = [
                ("llama-cpp-python Q4_1", args.native, ["llama-cpp-python", str(base)]),
                ("llama-cpp-python Q8_0", args.native, ["llama-cpp-python", str(eight)]),
            ]
        environments: dict[str, dict[str, str]] = {}
        if args.spins:
            environments = {f"{n} spins": {"GOMP_SPINCOUNT": n} for n in args.spins.split(",")}
            cases = [(name, sys.executable, ["xllamacpp", str(merged)]) for name in environments]
        for name, python, case in cases:
            figures[name] = _run(python, [str(args.threads), str(args.rounds), *case], environments.get(name, {}))
            print(name, figures[name], file=sys.stderr, flush=True)
    _table(figures)
    return {"name": "embedded", "figures": figures, "ratios": _ratios(figures)}


def _forms(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """A model with an adapter of rank 16: sizes in MB, and tokens a second of computing, all forms in turn."""
    from subquest.engine.embedded.quantised import quantise
    from subquest.models import resolve

    base = resolve(name)
    with tempfile.TemporaryDirectory() as folder:
        half, eight, merged = (Path(folder) / f"{form}.gguf" for form in ("half", "eight", "merged"))
        _random_adapter(half, base)
        _random_adapter(eight, base, eight_bit=True)
        clock = time.process_time()
        quantise(base, half, merged)
        seconds = time.process_time() - clock
        files = {
            "published": [base],
            "16-bit adapter attached": [base, half],
            "8-bit adapter attached": [base, eight],
            "merged, Q8_0": [merged],
        }
        case = [str(threads), str(rounds), "forms", json.dumps({form: list(map(str, f)) for form, f in files.items()})]
        figures = {"merging, CPU seconds": seconds, **_run(sys.executable, case, {})}
        for form, used in files.items():
            figures[form] = figures.get(form, {}) | {"MB": used[-1].stat().st_size / 1e6}
            print(form, figures[form], file=sys.stderr, flush=True)
    ratios = {
        f"{what}: merged over attached": figures["merged, Q8_0"][what] / figures["8-bit adapter attached"][what]
        for what in ("read cpu", "write cpu")
    }
    return {"name": "embedded", "figures": figures, "ratios": ratios}


def _ratios(figures: dict[str, Any]) -> dict[str, float]:
    def ratio(one: str, two: str, what: str) -> float | None:
        a, b = figures.get(one, {}).get(what), figures.get(two, {}).get(what)
        return a / b if a and b else None

    ours = "xllamacpp Q8_0"
    pairs = {
        f"{what}: {one} over {two}": ratio(one, two, what)
        for one, two in (
            (ours, "transformers float32"),
            (ours, "xllamacpp Q4_1"),
            ("llama-cpp-python Q8_0", ours),
            ("xllamacpp Q8_0, adapter merged", "xllamacpp Q8_0, adapter attached"),
        )
        for what in ("read", "write", "read cpu", "write cpu")
    }
    for name, row in figures.items():
        for what in (
            ("read cpu", "write cpu", "8 at once cpu", "read far cpu", "write far cpu")
            if name.startswith("kernel") and "read cpu" in row
            else ()
        ):
            pairs[f"{what}: our kernel over llama.cpp's own, {name.removeprefix('kernel ')}"] = (
                row[what] / row[f"{what}, llama.cpp"]
            )
    sessions = figures.get("sessions", {})
    if "together" in sessions:
        pairs[f"{SESSIONS} sessions at once over one after the other"] = sessions["together"] / sessions["in turn"]
        pairs["first turn over second turn, seconds"] = sessions["first turn"] / sessions["second turn"]
    return {name: value for name, value in pairs.items() if value is not None}


def _table(figures: dict[str, Any]) -> None:
    print(f"{'tokens/s':<36}{'read':>8}{'write':>8}{'x4':>8}   per CPU second:{'read':>8}{'write':>8}", file=sys.stderr)
    for name, row in figures.items():
        if "write x4" in row or "float32" in name:
            cells = (row["read"], row["write"], row.get("write x4", 0.0), row["read cpu"], row["write cpu"])
            print(
                f"{name:<36}{cells[0]:8.0f}{cells[1]:8.1f}{cells[2]:8.1f}   {'':<15}{cells[3]:8.0f}{cells[4]:8.1f}",
                file=sys.stderr,
            )
        else:
            print(f"{name:<36}{row}", file=sys.stderr)


def _known_files() -> dict[str, Path]:
    """The known language models that are here."""
    from subquest.errors import SubquestError
    from subquest.models import MODELS, is_language_model, resolve

    found: dict[str, Path] = {}
    for name in filter(is_language_model, MODELS):
        with suppress(SubquestError):
            found[name] = resolve(name)
    return found


def _run(python: str, case: list[str], more: dict[str, str]) -> dict[str, Any]:
    places = [str(Path(__file__).resolve().parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "OMP_NUM_THREADS": case[0],
        **more,
    }
    done = subprocess.run(
        [python, __file__, "--case", *case], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        reason = f"ended by signal {-done.returncode}" if done.returncode < 0 else done.stderr.strip().splitlines()[-1:]
        return {"error": reason}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _random_adapter(path: Path, base: Path, *, eight_bit: bool = False) -> None:
    """Rank 16 on all seven weights of every layer, as a trained adapter has; the numbers do not matter here."""
    import numpy as np

    from subquest.engine import adapter
    from subquest.engine.gguf_package import open_gguf

    shapes = {
        str(t.name): t.shape for t in open_gguf(base).tensors if str(t.name).startswith("blk.") and len(t.shape) > 1
    }
    random = np.random.default_rng(0)
    pairs = {}
    for name, (width, out) in shapes.items():
        a, b = random.normal(0, 0.01, (16, int(width))), random.normal(0, 0.01, (int(out), 16))
        pairs[adapter.module_name(name.removesuffix(".weight"))] = (a.astype(np.float16), b.astype(np.float16))
    adapter.write_gguf(adapter.Lora(pairs, 16.0), path, adapter.shape_of(base), eight_bit=eight_bit)


# What follows runs in a case's own process.


def _best(rounds: int, tokens: int, work: Callable[[], Any]) -> tuple[float, float]:
    """Most tokens a second, by the clock and by CPU time."""
    wall = cpu = float("inf")
    for _ in range(rounds):
        clock, busy = time.perf_counter(), time.process_time()
        work()
        wall, cpu = min(wall, time.perf_counter() - clock), min(cpu, time.process_time() - busy)
    return tokens / wall, tokens / cpu


def _ids(n: int) -> list[int]:
    return [1000 + (i * 7919) % 30000 for i in range(n)]


def _llama(threads: int, rounds: int, build: str, file: str, lora: str | None = None) -> dict[str, float]:
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model, Stretch

    adapter = Path(lora) if lora else None
    room = {"cells": 2048, "sequences": SESSIONS, "batch": 128}
    model = Model(open_library(build), Path(file), adapter=adapter, threads=threads, **room)  # type: ignore[arg-type]
    ids = _ids(PROMPT)

    def read() -> None:
        model.drop(0)
        for at in range(0, PROMPT, 128):
            model.step([Stretch(0, at, ids[at : at + 128], at + 128 == PROMPT)])

    def write(sequences: int) -> Callable[[], None]:
        def go() -> None:
            for s in range(sequences):
                model.drop(s, PROMPT)
            for i in range(WRITTEN):
                model.step([Stretch(s, PROMPT + i, [5000 + i + s], True) for s in range(sequences)])

        return go

    model.step([Stretch(0, 0, ids[:32], True)])
    out: dict[str, float] = {}
    out["read"], out["read cpu"] = _best(rounds, PROMPT, read)
    out["write"], out["write cpu"] = _best(rounds, WRITTEN, write(1))
    for s in range(1, SESSIONS):
        model.copy(0, s, PROMPT)
    out["write x4"], out["write x4 cpu"] = _best(rounds, WRITTEN * SESSIONS, write(SESSIONS))
    model.free()
    return out


def _kernel(threads: int, rounds: int, file: str) -> dict[str, float]:
    """Our kernel and llama.cpp's own."""
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model, Stretch

    room: dict[str, Any] = {"adapter": None, "cells": FAR + 256, "sequences": 1, "batch": 128, "threads": threads}
    models = {on: Model(open_library("xllamacpp"), Path(file), cpu_kernel=on, **room) for on in (True, False)}
    if not models[True].kernel:
        raise SystemExit("our kernel does not run here: see subquest doctor")
    out = _passes(models, rounds)
    ids = _ids(128)
    models[True].drop(0)
    for at in range(0, FAR, 128):
        models[True].step([Stretch(0, at, ids, at + 128 == FAR)])
    models[False].drop(0)
    if not models[False].restore(0, models[True].state(0)):
        raise SystemExit("the cache of one model could not be given to the other")
    far = _passes(models, rounds, FAR)
    for key, speeds in far.items():
        out[key] |= {name.replace("read", "read far").replace("write", "write far"): v for name, v in speeds.items()}
    return out[True] | {f"{what}, llama.cpp": speed for what, speed in out[False].items()}


def _model_forms(threads: int, rounds: int, forms: str) -> dict[Any, dict[str, float]]:
    """A model in several forms: `forms` has the file of each, and its adapter where it has one."""
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model

    room: dict[str, Any] = {"cells": 256, "sequences": 1, "batch": 128, "threads": threads}
    models = {
        form: Model(open_library(), Path(file), adapter=Path(lora[0]) if lora else None, **room)
        for form, (file, *lora) in json.loads(forms).items()
    }
    return _passes(models, rounds)


def _passes(models: dict[Any, Any], rounds: int, far: int = 0) -> dict[Any, dict[str, float]]:
    """Tokens a second of several models in turn: 128 read, one written, eight in one pass; the first two if `far`."""
    from subquest.engine.embedded.model import Stretch

    ids = _ids(128)
    cases = (("read", far, 128), ("write", far + 128, 1), ("8 at once", far + 128, 8))[: 2 if far else 3]
    out: dict[Any, dict[str, float]] = {name: {} for name in models}
    for _ in range(rounds):
        for key, model in models.items():
            for what, start, width in cases:
                for _ in range(1 if what == "read" else 4):
                    model.drop(0, start)
                    speeds = _best(1, width, lambda: model.step([Stretch(0, start, ids[:width], True)]))  # noqa: B023
                    for name, speed in zip((what, f"{what} cpu"), speeds, strict=True):
                        out[key][name] = max(out[key].get(name, 0.0), speed)
    return out


def _transformers(threads: int, rounds: int, file: str) -> dict[str, float]:
    import torch
    from transformers import LlamaForCausalLM

    from subquest.engine.torch.loader import load

    torch.set_num_threads(threads)
    source = load(file)
    model = LlamaForCausalLM(source.config).float().eval()
    model.load_state_dict(source.state)
    prompt = torch.tensor([_ids(PROMPT)])
    out: dict[str, float] = {}

    @torch.no_grad()
    def read() -> Any:
        return model(prompt, use_cache=True, logits_to_keep=1).past_key_values

    @torch.no_grad()
    def write() -> None:
        for i in range(WRITTEN):
            model(torch.tensor([[5000 + i]]), past_key_values=cache, use_cache=True)

    out["read"], out["read cpu"] = _best(rounds, PROMPT, read)
    cache = read()
    out["write"], out["write cpu"] = _best(rounds, WRITTEN, write)
    return out


def _sessions(threads: int, rounds: int, file: str) -> dict[str, float]:
    """The engine itself: several sessions at once, and a second turn whose context is already read."""
    from subquest.engine.embedded import EmbeddedEngine
    from subquest.engine.interface import Message, Sampling

    engine = EmbeddedEngine(file, threads=threads, context=4096)
    words = ["north", "river", "stone", "lamp", "seven", "winter", "orchard", "paper", "copper", "glass"]

    async def one(number: int) -> None:
        text = " ".join(words[(number * 3 + i * i) % 10] for i in range(60))
        session = await engine.open([Message("user", f"{number} {text}")])
        await session.generate(Sampling(max_tokens=WRITTEN, temperature=1.0, seed=number))
        await session.close()

    async def run() -> dict[str, float]:
        out: dict[str, float] = {"together": 0.0, "in turn": 0.0, "first turn": 1e9, "second turn": 1e9}
        for r in range(rounds):
            clock = time.perf_counter()
            await asyncio.gather(*(one(100 * r + n) for n in range(SESSIONS)))
            out["together"] = max(out["together"], SESSIONS / (time.perf_counter() - clock))
            clock = time.perf_counter()
            for n in range(SESSIONS):
                await one(100 * r + 50 + n)
            out["in turn"] = max(out["in turn"], SESSIONS / (time.perf_counter() - clock))
            session = await engine.open([Message("user", f"{r} " + " ".join(words * 100))])
            for turn in ("first turn", "second turn"):
                clock = time.perf_counter()
                await session.generate(Sampling(max_tokens=4, temperature=1.0, seed=1))
                out[turn] = min(out[turn], time.perf_counter() - clock)
                await session.append("Go on.")
            await session.close()
        return out

    result = asyncio.run(run())
    engine.shut()
    return result


def _case(arguments: list[str]) -> dict[Any, Any]:
    threads, rounds, kind, *rest = arguments
    if kind == "transformers":
        return _transformers(int(threads), int(rounds), *rest)
    if kind == "sessions":
        return _sessions(int(threads), int(rounds), *rest)
    if kind == "kernel":
        return _kernel(int(threads), int(rounds), *rest)
    if kind == "forms":
        return _model_forms(int(threads), int(rounds), *rest)
    return _llama(int(threads), int(rounds), kind, *rest)


if __name__ == "__main__":
    print(json.dumps(_case(sys.argv[2:]) if sys.argv[1:2] == ["--case"] else main(sys.argv[1:])))
