"""Rollouts: the torch engine beside `model.generate`, on a GPU or a CPU, both in the same run.

    python3 benchmarks/rollout.py --quick                    a few minutes on a GPU: all tables, small
    python3 benchmarks/rollout.py --only decode,host --plot docs/rollout.svg
    PYTORCH_ALLOC_CONF=expandable_segments:True python3 benchmarks/rollout.py --only rollout
    python3 benchmarks/rollout.py --only exact --model FILE.gguf
    python3 benchmarks/rollout.py --only shared --shape 1.5b     shared prefixes read once, and row by row
    subquest bench rollout --peer vllm --shape 1.5b --peer-path FOLDER      whole rollouts, vLLM's packages in FOLDER

Speed does not depend on the weights' values, so without `--model` they are random, in the shape of SmolLM2-135M.
`--save FILE` keeps what was measured so far; `--seconds N` ends the run in good order (`_results.py`). The lock-step
rollout allocates tensors of ever new sizes; expandable segments keep its allocator from asking the driver each time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _options import COUNT, at_least, existing_device
from _results import Results, add_options
from _rollout_attention import sweep
from _rollout_engine import decode_seconds, fill_rows, free, make
from _rollout_exact import greedy_equals_generate, kernels_equal_torch, logprob_gaps, peer, sampled, together
from _rollout_mixed import compare_mixed
from _rollout_peer import CONFIGS
from _rollout_shared import compare_shared
from _rollout_workload import Corpus, lockstep, overlapped, scripts, tokenizer
from _shapes import SHAPES, random_source
from _timing import bandwidth, kernels_of, products_a_second, synchronise

from subquest.engine.torch import Adapter, Source, TorchEngine, load
from subquest.engine.torch.runner import Pending

PARTS = (
    *("kernels", "attention", "decode", "profile", "prefill", "mixed", "shared"),
    *("peers", "throughput", "adapters", "exact", "rollout", "host"),
)
BATCHES = (1, 8, 32, 128, 384, 1024, 2048)
CONTEXTS = (256, 700, 2048, 8000)
LARGEST_CACHE = 110e9
"""Bytes of keys and values that a GPU of 141 GB has room for beside everything else."""


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def _random(shape: str, device: torch.device) -> Source:
    """Weights that are spread enough for greedy choices to be clear."""
    return random_source(shape, tokenizer(), device, torch.float32, initializer_range=0.04)


class Bench:
    def __init__(self, source: Source, device: torch.device, results: Results, *, quick: bool) -> None:
        self.source, self.device, self.quick = source, device, quick
        self.results = results
        self.figures, self.ratios, self.save = results.figures, results.ratios, results.keep
        self.gpu = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.gpu else torch.float32
        self.clock = time.perf_counter if self.gpu else time.process_time
        """On a CPU, which others may be using too, CPU-seconds of this process."""
        self.rollouts = 8
        self.batches: Sequence[int] = ()
        self.contexts: Sequence[int] = ()
        self.prefixes: Sequence[int] = (1500, 2500)
        self.shape = ""
        """That of random weights."""

    def kernels(self) -> None:
        if self.gpu:
            self.figures["kernels"] = kernels_equal_torch(self.source, self.device, say)

    def attention(self) -> None:
        """Attention of a layer by the shape of its kernels."""
        if self.gpu and self.shape:
            batches = self.batches or (8, 32, 64, 128, 192, 256, 384)
            sweep(self.shape, batches, self.contexts, self.results, say, bandwidth(self.device))

    def decode(self) -> None:
        """Milliseconds a step over batch and context, and the share of the memory's bandwidth."""
        limit = bandwidth(self.device)
        self.figures["bandwidth_TB_s"] = limit / 1e12
        say(f"copy bandwidth {limit / 1e12:.2f} TB/s")
        contexts: Sequence[int] = CONTEXTS[1:2] if self.quick else CONTEXTS
        batches: Sequence[int] = ((1, 384) if self.quick else BATCHES) if self.gpu else (1, 8, 32)
        if not self.gpu:
            contexts = (256, 700)
        contexts, batches = self.contexts or contexts, self.batches or batches
        architecture = self.source.architecture
        weights = sum(t.numel() for n, t in self.source.state.items() if n != "lm_head.weight") * self.dtype.itemsize
        for context in contexts:
            for batch in batches:
                cached = batch * context * architecture.cache_values() * self.dtype.itemsize
                if cached > (LARGEST_CACHE if self.gpu else 4e9):
                    continue
                step = self._step(batch, context)
                free(self.device)
                least = (cached + weights) / limit
                row = {"decode_ms": step * 1e3, "limit_ms": least * 1e3, "bandwidth_share": least / step}
                for name, value in row.items():
                    self.figures.setdefault(name, {}).setdefault(str(context), {})[str(batch)] = round(value, 3)
                self.save()
                say(
                    f"decode context {context:5d} batch {batch:5d}: {step * 1e3:8.3f} ms a step,"
                    f" {batch / step / 1e3:8.1f}k tok/s, {100 * least / step:5.1f} % of the bandwidth"
                )

    def _step(self, batch: int, context: int) -> float:
        """One decode step of the runner over a cache full of noise; `context` is the mean length of the timed steps."""
        with self._full(batch, context) as engine:
            return decode_seconds(engine, batch, context, self.clock)

    @contextmanager
    def _full(self, batch: int, context: int) -> Iterator[TorchEngine]:
        """An engine with a cache full of noise."""
        tokens = batch * (context + 144)
        engine = make(self.source, self.device, cache_tokens=tokens, max_batch=batch, prefill_tokens=64)
        try:
            width = -(-(context + 64) // 16)
            order = np.random.default_rng(0).permutation(batch * width) + 1
            fill_rows(engine, order.reshape(batch, width), context)
            yield engine
        finally:
            asyncio.run(engine.close())

    def profile(self) -> None:
        """Which kernels a decode step and the filling of a prompt spend their time in."""
        if not self.gpu:
            return
        batch, context, steps = max(self.batches or (384,)), min(self.contexts or (700,)), 20
        with self._full(batch, context) as engine:
            decode_seconds(engine, batch, context, self.clock)  # captured from here on
            slots = np.arange(batch, dtype=np.int32)

            def decode() -> None:
                engine.scheduler.rows.position[:batch] = context - steps // 2
                with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                    for _ in range(steps):
                        last = engine.runner.decode(slots)
                    last.read()

            self._say_kernels(f"a decode step of {batch} × {context}", kernels_of(decode), steps)
        free(self.device)
        count, length = 16, 2000
        engine = make(self.source, self.device, cache_tokens=count * (length + 32), max_batch=count)
        prompts = np.random.default_rng(0).integers(1, 40_000, (2, count, length)).tolist()
        try:
            asyncio.run(together(engine, prompts[0], 1))
            kernels = kernels_of(lambda: asyncio.run(together(engine, prompts[1], 1)))
        finally:
            asyncio.run(engine.close())
        self._say_kernels(f"filling {count} × {length} tokens", kernels, 1)

    def _say_kernels(self, name: str, kernels: dict[str, float], times: int) -> None:
        row = {kernel: seconds / times * 1e6 for kernel, seconds in kernels.items()}
        self.figures.setdefault("kernels_us", {})[name] = row
        total = sum(row.values())
        say(f"{name}: {total:,.0f} µs in kernels")
        for kernel, microseconds in list(row.items())[:14]:
            say(f"  {microseconds:8.0f} µs {microseconds / total:4.0%}  {kernel[:100]}")

    def prefill(self) -> None:
        """Prompt tokens a second, of prompts that have nothing in common, and the share of a large product's speed."""
        count, length = (64, 2000) if self.gpu else (4, 100)
        engine = make(self.source, self.device, cache_tokens=count * (length + 32), max_batch=count)
        prompts = np.random.default_rng(0).integers(1, 40_000, (3, count, length)).tolist()
        try:
            times = []
            for run in prompts:  # the first one captures graphs
                engine.refresh()
                times.append(self._timed(lambda run=run: asyncio.run(together(engine, run, 1))))  # type: ignore[misc]
        finally:
            asyncio.run(engine.close())
        seconds, tokens = min(times[1:]), count * length
        layers = sum(t.numel() for n, t in self.source.state.items() if t.dim() == 2 and ".layers." in n)
        self.figures["prefill"] = {"tokens": tokens, "seconds": seconds, "tokens_s": tokens / seconds}
        if self.gpu:
            share = 2 * layers * tokens / products_a_second(self.device) / seconds
            self.figures["prefill"]["share of a large product, without attention"] = share
        say(f"prefill {count} × {length} tokens: {seconds:.2f} s, {tokens / seconds:,.0f} tokens/s")

    def mixed(self) -> None:
        """Steps, texts and whole rollouts with prompts beside the rows that decode, and in steps of their own."""
        if self.gpu:
            compare_mixed(
                self.source, self.device, self.results, say, batches=self.batches or (32, 160, 256),
                context=min(self.contexts or (900,)), prompts=(384, 1024), rollouts=self.rollouts,
            )  # fmt: skip

    def shared(self) -> None:
        """Decode steps, texts and whole rollouts with shared prefixes read once, and row by row."""
        if self.gpu:
            batches = self.batches or ((160,) if self.quick else (64, 160, 256, 384))
            lengths = self.contexts or ((300,) if self.quick else (300, 1000))
            compare_shared(
                self.source, self.device, self.results, say,
                batches=batches, prefixes=self.prefixes, lengths=lengths, rollouts=self.rollouts,
            )  # fmt: skip

    def _timed(self, work: Callable[[], object]) -> float:
        synchronise(self.device)
        start = self.clock()
        work()
        synchronise(self.device)
        return self.clock() - start

    def peers(self) -> None:
        """A decode step of `model.generate` at the same batch and context, without padding and with it."""
        batch, context, steps = (384, 700, 128) if self.gpu else (32, 128, 12)
        model = peer(self.source, self.device, self.dtype)
        ids = torch.randint(1, 40_000, (batch, context - steps // 2), device=self.device)

        def generate(count: int, mask: torch.Tensor) -> float:
            """Seconds for this many tokens; the difference of two counts leaves the prompt out."""
            return self._timed(lambda: sampled(model, ids, mask, count))

        ours = self._step(batch, context)
        free(self.device)
        self.figures["ours_ms"] = ours * 1e3
        for name, padding in (("", 0), (", padded", 9)):
            mask = torch.ones_like(ids)
            mask[::2, :padding] = 0
            generate(steps + 2, mask)  # the allocator's blocks are there afterwards
            theirs = (generate(steps + 2, mask) - generate(2, mask)) / steps
            say(f"batch {batch}, context {context}{name}: generate {theirs * 1e3:.2f} ms a step, ours {ours * 1e3:.2f}")
            self.figures[f"generate_ms{name}"] = theirs * 1e3
            self.ratios[f"decode step{name}, model.generate / ours"] = theirs / ours

    def throughput(self) -> None:
        """A batch of 32 prompts of different lengths as a whole, prompts read and 64 tokens written each."""
        chance = np.random.default_rng(0)
        prompts = [chance.integers(1, 40_000, n).tolist() for n in chance.integers(32, 257, 32)]
        count, warm, width = 64, 64 if self.gpu else 2, max(map(len, prompts))
        engine = make(self.source, self.device, cache_tokens=32 * 512)
        try:
            asyncio.run(together(engine, prompts, warm))
            engine.refresh()
            ours = self._timed(lambda: asyncio.run(together(engine, prompts, count)))
        finally:
            asyncio.run(engine.close())
        model = peer(self.source, self.device, self.dtype)
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts], device=self.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.device)

        sampled(model, ids, mask, warm)
        theirs = self._timed(lambda: sampled(model, ids, mask, count))
        written = 32 * count
        say(f"32 prompts: ours {written / ours:.1f} tokens/s, model.generate {written / theirs:.1f} tokens/s")
        self.figures["throughput"] = {"ours": written / ours, "generate": written / theirs}
        self.ratios["throughput of a batch of 32, ours / model.generate"] = theirs / ours

    def adapters(self) -> None:
        """An adapter merged or beside the weights: a step, and putting a new one in place."""
        if not self.gpu:
            return
        pairs = {}
        for name, tensor in self.source.state.items():
            if "_proj" in name:
                rows, columns = tensor.shape
                a, b = torch.randn(16, columns, device=self.device), torch.randn(rows, 16, device=self.device)
                pairs[name.removesuffix(".weight")] = (a * 0.01, b * 0.01)
        adapter = Adapter(pairs, 2.0)
        found: dict[str, Any] = {}
        for merged in (True, False):
            engine = make(self.source, self.device, cache_tokens=300_000, max_batch=384)
            try:
                engine.refresh(adapter=adapter, merged=merged)
                start = time.perf_counter()
                engine.refresh(adapter=adapter, merged=merged)
                refresh = time.perf_counter() - start
                prompts = [[7 + n, *range(100, 400)] for n in range(384)]
                asyncio.run(together(engine, prompts, 40))
                start = time.perf_counter()
                asyncio.run(together(engine, prompts, 200))
                name = "merged" if merged else "unmerged"
                wall = time.perf_counter() - start
                found[name] = {"refresh_ms": refresh * 1e3, "200_tokens_s": wall}
                say(f"adapter {name}: refresh {refresh * 1e3:.1f} ms, 384 × 200 tokens {wall:.2f} s")
            finally:
                asyncio.run(engine.close())
        self.figures["adapters"] = found

    def exact(self) -> None:
        self.figures["greedy_fp32"] = greedy_equals_generate(self.source, self.device, say)
        self.figures["logprob_gap"] = logprob_gaps(self.source, self.device, self.dtype, say)

    def rollout(self) -> None:
        """Whole CoDA rollouts: 48 questions × 8, top-3 search over 30,000 passages. Both arms are warm."""
        questions, rollouts, passages = (48, self.rollouts, 30_000) if self.gpu else (2, 4, 2_000)
        corpus = Corpus(passages)
        episodes = scripts(questions, rollouts)
        engine = make(self.source, self.device, cache_tokens=600_000 if self.gpu else 40_000)
        try:
            if self.gpu:
                first = asyncio.run(overlapped(engine, corpus, episodes))
                say(f"first rollout, graphs captured on the way: {first.seconds:.2f} s")
            engine.refresh()
            steps, prefills = engine.runner.steps, engine.runner.prefills
            ours = asyncio.run(overlapped(engine, corpus, episodes))
            steps, prefills = engine.runner.steps - steps, engine.runner.prefills - prefills
            say(f"{steps} decode steps, {ours.written / steps:.0f} rows each, and {prefills} prefill steps")
            say(
                f"rollout {questions} × {rollouts}: ours {ours.seconds:.2f} s, {ours.written} tokens written,"
                f" {ours.read} read, {engine.scheduler.preemptions} preemptions"
            )
            self.figures["episodes"] = questions * rollouts
            self.figures["rollout_s"] = ours.seconds
            self.figures["rollout_tokens"] = {"written": ours.written, "read": ours.read}
            if self.quick and self.gpu:
                return
            self.save()
            model = peer(self.source, self.device, self.dtype)
            with torch.inference_mode():
                theirs = lockstep(model, engine.vocabulary, corpus, episodes, say)
            say(f"lock-step model.generate {theirs.seconds:.2f} s")
            self.figures["lockstep_s"] = theirs.seconds
            self.ratios["whole rollout, lock-step / ours"] = theirs.seconds / ours.seconds
        finally:
            asyncio.run(engine.close())

    def host(self) -> None:
        """What the host does a step, beside waiting for the device: scheduling, packing, launching, reading."""
        waited = [0.0]
        read = Pending.read

        def timed(pending: Pending) -> Any:
            start = time.perf_counter()
            if pending.event is not None:
                pending.event.synchronize()
            waited[0] += time.perf_counter() - start
            return read(pending)

        batches, count, tokens = ((1, 32, 384, 1024), 128, 400_000) if self.gpu else ((16,), 16, 20_000)
        engine = make(self.source, self.device, cache_tokens=tokens)
        try:
            for batch in batches:
                prompts = [[n + 1, *range(100, 300)] for n in range(batch)]
                asyncio.run(together(engine, prompts, count))
                Pending.read = timed  # type: ignore[method-assign]
                waited[0] = 0.0
                before, start = engine.runner.steps, time.perf_counter()
                asyncio.run(together(engine, prompts, count))
                wall, steps = time.perf_counter() - start, engine.runner.steps - before
                Pending.read = read  # type: ignore[method-assign]
                busy = (wall - waited[0]) / steps
                say(
                    f"engine loop, batch {batch}: {wall / steps * 1e3:.3f} ms a step,"
                    f" of which the host is busy {busy * 1e3:.3f} ms"
                )
                row = {"step_ms": wall / steps * 1e3, "busy_ms": busy * 1e3}
                self.figures.setdefault("host", {})[str(batch)] = row
        finally:
            Pending.read = read  # type: ignore[method-assign]
            asyncio.run(engine.close())


def plot(figures: dict[str, Any], path: Path) -> None:
    from subquest.plots import Point, Series, picture

    def lines(name: str, factor: float = 1.0) -> list[Series]:
        return [
            Series(f"context {context}", [Point(int(batch), factor * float(value)) for batch, value in row.items()])
            for context, row in figures[name].items()
        ]

    panels = {
        "milliseconds a step, by contexts in the batch": lines("decode_ms"),
        "% of the bandwidth limit, by contexts in the batch": lines("bandwidth_share", 100.0),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture("Decode steps of the rollout engine", panels, x_log=True), encoding="utf-8")


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        prog="subquest bench rollout", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer shapes, and no lock-step rollout")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, of {', '.join(PARTS)}")
    parser.add_argument("--model", help="a model folder or GGUF file instead of random weights")
    parser.add_argument("--device", type=existing_device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", default="135m", choices=SHAPES, help="the shape of the random weights")
    parser.add_argument("--peer", choices=("vllm",), help="compare whole rollouts with this engine, and nothing else")
    parser.add_argument("--peer-path", default="", help="where the peer's packages are, as PYTHONPATH takes it")
    parser.add_argument("--peer-configs", default="v2,wide,v2-two", help=f"of {', '.join(CONFIGS)}")
    parser.add_argument("--peer-seconds", type=float, default=600, help="the longest wait for the peer")
    parser.add_argument("--peer-logs", type=Path, help="an existing folder for the peer's logs")
    parser.add_argument("--questions", type=COUNT, help="questions of a whole rollout")
    parser.add_argument("--rollouts", type=COUNT, default=8, help="rollouts of each question")
    parser.add_argument("--runs", type=COUNT, default=2, help="runs of each engine that are measured beside a peer")
    parser.add_argument("--batches", type=COUNT, nargs="+", default=[], help="batches of the decode table")
    parser.add_argument("--contexts", type=at_least(32), nargs="+", default=[], help="contexts of the decode table")
    parser.add_argument("--prefixes", type=COUNT, nargs="+", default=[1500, 2500], help="shared prefixes before these")
    parser.add_argument("--plot", type=Path, help="write the decode table as an SVG")
    add_options(parser)
    arguments = parser.parse_args(argv)
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    device = torch.device(arguments.device)
    results = Results("rollout", arguments)
    with results.limited():
        if arguments.peer:
            _beside_peer(arguments, device, results)
        else:
            _alone(arguments, device, results)
    if arguments.plot and "decode_ms" in results.figures:
        plot(results.figures, arguments.plot)
    for name, ratio in results.ratios.items():
        say(f"{name}: {ratio:.2f}")
    return results.as_dict()


def _alone(arguments: argparse.Namespace, device: torch.device, results: Results) -> None:
    source = load(arguments.model) if arguments.model else _random(arguments.shape, device)
    bench = Bench(source, device, results, quick=arguments.quick)
    bench.rollouts = arguments.rollouts
    bench.shape = "" if arguments.model else arguments.shape
    bench.batches, bench.contexts, bench.prefixes = arguments.batches, arguments.contexts, arguments.prefixes
    for part in PARTS:
        if part in arguments.only.split(","):
            start = time.perf_counter()
            getattr(bench, part)()
            free(bench.device)
            bench.save()
            say(f"-- {part}: {time.perf_counter() - start:.1f} s")


def _beside_peer(arguments: argparse.Namespace, device: torch.device, results: Results) -> None:
    from _rollout_peer import Size, compare

    gpu = device.type == "cuda"
    size = Size(arguments.questions or (48 if gpu else 2), arguments.rollouts, 30_000 if gpu else 500, arguments.runs)
    compare(
        shape=arguments.shape,
        model=arguments.model,
        path=arguments.peer_path,
        configs=arguments.peer_configs.split(","),
        device=device,
        size=size,
        seconds=arguments.peer_seconds,
        logs=arguments.peer_logs,
        results=results,
        say=say,
    )


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
