"""Whole rollouts beside vLLM: the same episodes through both engines, ours checked against a full pass.

Every configuration of vLLM is a process of its own. Ours is measured first, then they are, one after the other; where
the model is small, all of them have started by then. The fastest one counts.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _peer import SMALL, Peer, Peers
from _results import Results
from _rollout_engine import free
from _rollout_workload import Corpus, Totals, overlapped, scripts, tokenizer
from _shapes import SHAPES, random_source, write_folder
from _timing import GraphTimes, bandwidth, device_name

from subquest.engine.torch import Source, TorchEngine, load
from subquest.errors import UsageError

GRAPHS = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, 385, 32)]
"""Batches that vLLM captures: up to as many contexts as there are episodes, padded by an eighth at most."""
_COMMON: dict[str, Any] = {"max_num_seqs": 512, "cudagraph_capture_sizes": GRAPHS}
_WIDE: dict[str, Any] = {
    "max_num_seqs": 512, "cudagraph_capture_sizes": [*GRAPHS, 448, 512, 640, 768, 896, 1024],
    "max_num_batched_tokens": 8192, "prefix_caching_hash_algo": "xxhash",
}  # fmt: skip
_NEWER: dict[str, Any] = {"environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
CONFIGS: dict[str, dict[str, Any]] = {
    "8k": {**_COMMON, "max_num_batched_tokens": 8192},
    "16k": {**_COMMON, "max_num_batched_tokens": 16_384},
    "2k": {**_COMMON, "max_num_batched_tokens": 2048},
    "sync": {**_COMMON, "max_num_batched_tokens": 8192, "async_scheduling": False},
    "two": {**_COMMON, "max_num_batched_tokens": 8192, "engines": 2},
    "wide": _WIDE,
    "wide-two": {**_WIDE, "engines": 2},
    "v2": {**_WIDE, **_NEWER},
    "v2-two": {**_WIDE, **_NEWER, "engines": 2},
}
"""What is tried: prompt tokens a step, scheduling in the step's shadow or not, one engine or two. `wide` captures steps
that read a document beside 300 contexts too, and finds cached prefixes by a faster hash; `v2` has vLLM's newer model
runner, too, which does less on the host and is the default for other models."""
CACHE_TOKENS = 600_000
WARM = 2
"""Runs of ours that are not counted."""
LARGEST_MEAN_GAP, LARGEST_SHIFT = 0.08, 0.01
"""Bounds of the mean difference between log-probs, by size and signed. Two bf16 passes that sum in another order differ
by 0.03 on average with real weights (docs/performance.md) and are not shifted; a wrong token in the cache does both."""
Say = Callable[..., None]


class Size(NamedTuple):
    """How much is rolled out."""

    questions: int
    rollouts: int
    passages: int
    runs: int


def compare(
    *,
    shape: str,
    model: str | None,
    path: str,
    configs: Sequence[str],
    device: torch.device,
    size: Size,
    seconds: float,
    logs: Path | None,
    results: Results,
    say: Say,
) -> None:
    """Both engines' figures and the ratio to the fastest configuration of vLLM, as they are found."""
    unknown = [name for name in configs if name not in CONFIGS]
    if unknown:
        raise UsageError(f"there is no vLLM configuration {unknown[0]!r}; there are {', '.join(CONFIGS)}")
    gpu = device.type == "cuda"
    dtype = torch.bfloat16 if gpu else torch.float32
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        if not model:
            write_folder(shape, folder)
        source = _source(shape, model, device, dtype)
        a = source.architecture
        cached = CACHE_TOKENS if gpu else 20_000
        task = {
            "model": model or str(folder), "load_format": "auto" if model else "dummy", "window": 8192,
            "dtype": str(dtype).removeprefix("torch."), "vocabulary": a.vocabulary, "passages": size.passages,
            "cache_bytes": cached * a.cache_values() * dtype.itemsize, "runs": size.runs,
            "episodes": [size.questions, size.rollouts],
        }  # fmt: skip
        environment = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "INFO"}

        def start(name: str) -> Peer:
            log = (logs or folder) / f"vllm-{name}.log"
            config = dict(CONFIGS[name])
            own = {"VLLM_CACHE_ROOT": str(folder / f"compiled-{name}")}  # several compile at once
            own |= environment | config.pop("environment", {})
            return Peer(f"vLLM {name}", "_rollout_vllm.py", {**task, "config": config}, path=path, log=log, env=own)

        starts = {name: partial(start, name) for name in configs}
        together = _weights(source) * dtype.itemsize < SMALL
        peers = held.enter_context(Peers(starts, together=together, seconds=seconds, say=say))
        peers.wait()
        named = shape if not model else source.name
        results.keep(shape=named, device=device_name(device), **size._asdict())
        ours, exact = _ours(source, device, dtype, cached, size, results, say)
        limit = _limit(source, dtype, ours, device)
        del source
        free(device)  # the peer needs the memory
        row = _row(ours.seconds, ours, limit) | {"log-prob gap": exact}
        results.keep(bandwidth_limit_s=limit, ours=row)
        _say_row(say, "ours", row)
        if exact["mean"] > LARGEST_MEAN_GAP or abs(exact["signed mean"]) > LARGEST_SHIFT:
            raise RuntimeError(f"the engine's log-probs are not those of the model: {exact}")
        theirs: dict[str, dict[str, Any]] = {}
        for peer, found in peers.figures():
            for kind, row in found.items():
                if any(row[key] != value for key, value in ours.counts().items()):
                    raise RuntimeError(f"{peer} did other work than ours: {row} and {ours.counts()}")
                name = f"{peer}, {kind}"
                theirs[name] = _row(row["seconds"], ours, limit)
                _say_row(say, name, theirs[name])
                times = [row["seconds"] for name, row in theirs.items() if name.endswith(f", {kind}")]
                results.ratios[f"whole rollout {named}, vLLM {kind} at its best / ours"] = min(times) / ours.seconds
                results.keep(vllm=theirs)


def _source(shape: str, model: str | None, device: torch.device, dtype: torch.dtype) -> Source:
    """The weights, with the workload's words as tokens: what is written means nothing either way."""
    if model:
        return replace(load(model), tokenizer=tokenizer(), end_ids=())
    if shape not in SHAPES:
        raise UsageError(f"there is no shape {shape!r}; there are {', '.join(SHAPES)}")
    return random_source(shape, tokenizer(), device, dtype)


def _ours(
    source: Source, device: torch.device, dtype: torch.dtype, cached: int, size: Size, results: Results, say: Say
) -> tuple[Totals, dict[str, float]]:
    """The median run after two to warm up, and how far its log-probs are from a full pass. Graphs of steps are captured
    when they first occur, those of vLLM before the first."""
    engine = TorchEngine(source, device=device, dtype=dtype, seed=0, cache_tokens=cached)
    engine.scheduler.stops.ends[:] = False  # lengths are forced
    corpus, episodes = Corpus(size.passages), scripts(size.questions, size.rollouts)
    closed: list[Any] = []
    busy = GraphTimes(engine)
    try:
        runs = []
        for number in range(WARM + size.runs):
            engine.refresh()
            closed.clear()
            before = _counts(engine)
            runs.append(asyncio.run(overlapped(engine, corpus, episodes, closed)))
            on_device = busy.take()
            steps, prefills, prefilled = (now - then for now, then in zip(_counts(engine), before, strict=True))
            say(
                f"ours, run {number}: {runs[-1].seconds:.2f} s, {steps} decode steps of"
                f" {runs[-1].written / steps:.0f} rows, {prefills} prefill steps of"
                f" {prefilled / prefills:.0f} tokens"
                + "".join(f"; {kind} {seconds:.2f} s on the device" for kind, seconds in on_device.items())
            )
            results.keep(
                ours_runs_s=[run.seconds for run in runs],
                decode_steps=steps,
                prefill_steps=prefills,
                prefill_tokens=prefilled,
                on_device_s=on_device,
            )
    finally:
        asyncio.run(engine.close())
    del engine
    taken = closed[:: max(1, len(closed) // (64 if device.type == "cuda" else 4))]
    gaps = torch.tensor(list(itertools.chain.from_iterable(_gaps(source, device, dtype, taken))))
    exact = {
        "tokens": float(gaps.numel()), "mean": float(gaps.abs().mean()), "largest": float(gaps.abs().max()),
        "signed mean": float(gaps.mean()),
    }  # fmt: skip
    say("log-probs less those of a full pass: " + ", ".join(f"{name} {value:.2g}" for name, value in exact.items()))
    middle = statistics.median_low(run.seconds for run in runs[WARM:])
    return next(run for run in runs if run.seconds == middle), exact


def _counts(engine: TorchEngine) -> tuple[int, int, int]:
    return engine.runner.steps, engine.runner.prefills, engine.runner.prefilled


def _gaps(source: Source, device: torch.device, dtype: torch.dtype, sessions: Sequence[Any]) -> Iterator[list[float]]:
    """For each session the engine's log-probs of what it sampled, less those of one pass of transformers over it."""
    from transformers import AutoModelForCausalLM

    with device:
        model = AutoModelForCausalLM.from_config(source.config, dtype=dtype, attn_implementation="sdpa").eval()
    missing, unknown = model.load_state_dict(source.state, strict=False)
    if unknown or set(missing) - {"lm_head.weight"}:  # which may be the embedding
        raise RuntimeError(f"transformers' model has other parameters: {(missing + unknown)[0]}")
    model.tie_weights()
    head = model.get_output_embeddings().weight.float()
    for session in sessions:
        segments = session.segments
        ids = torch.tensor([i for s in segments for i in s.token_ids], device=device)
        own = torch.tensor([s.kind == "agent" for s in segments for _ in s.token_ids], device=device)
        places = own.nonzero().squeeze(1)
        with torch.inference_mode():
            states = model.model(ids[None], use_cache=False).last_hidden_state[0, places - 1]
            logprobs = (states.float() @ head.t()).log_softmax(-1)
            wanted = logprobs.gather(1, ids[places, None]).squeeze(1).tolist()
        said = [p for s in segments if s.kind == "agent" for p in s.logprobs or ()]
        yield [ours - theirs for ours, theirs in zip(said, wanted, strict=True)]


def _limit(source: Source, dtype: torch.dtype, work: Totals, device: torch.device) -> float:
    """Seconds that decoding takes at least: the weights once for each token of the longest episode, and for each token
    written the keys and values before it, at the bandwidth of a large copy."""
    cached = source.architecture.cache_values()
    return (work.chain * _weights(source) + work.attended * cached) * dtype.itemsize / bandwidth(device)


def _weights(source: Source) -> int:
    """Weights that a step reads."""
    tied = source.architecture.tied
    return sum(t.numel() for name, t in source.state.items() if name != "lm_head.weight" or not tied)


def _row(seconds: float, work: Totals, limit: float) -> dict[str, Any]:
    return {"seconds": seconds, "tokens_s": work.written / seconds, "bandwidth_share": limit / seconds, **work.counts()}


def _say_row(say: Say, name: str, row: dict[str, Any]) -> None:
    say(
        f"{name}: {row['seconds']:.2f} s, {row['tokens_s']:,.0f} tokens/s written,"
        f" {row['bandwidth_share']:.0%} of the bandwidth limit"
    )
