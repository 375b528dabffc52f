"""A whole GRPO step beside TRL: the same prompts, group, lengths, LoRA rank and reward, on one device.

TRL runs in a process of its own (`_train_peer_trl.py`) and is measured after ours. Every completion has the same length
on both sides, whatever the model would like to write.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from _peer import SMALL, Peer, Peers
from _results import Results
from _rollout_engine import free
from _rollout_workload import tokenizer, word
from _shapes import SHAPES, random_source
from _timing import device_name, products_a_second

from subquest.engine import Message, Sampling
from subquest.engine.torch import Source, TorchEngine, load
from subquest.errors import UsageError
from subquest.record import Episode, Question
from subquest.rewards import Reward, shared
from subquest.runtime.run import Answer, Run
from subquest.systems.registry import get
from subquest.train.components import make_policy
from subquest.train.data import Stream
from subquest.train.lora import TARGETS
from subquest.train.recipe import DataPart, ModelPart, OptimiserPart, Recipe, RolloutPart
from subquest.train.rl import RLTrainer
from subquest.train.run import TrainRun

ENGINES = ("vllm", "transformers")
"""What TRL generates with."""
PHASES = ("rollout", "reward", "old log-probs", "update", "hand-over")
Say = Callable[..., None]


class Size(NamedTuple):
    """One step."""

    questions: int
    group: int
    prompt_words: int
    """On average; prompts have half as many to one and a half times as many."""
    max_tokens: int
    rank: int
    steps: int
    """Steps that are measured, after one to warm up."""
    micro_tokens: int
    peer_batch: int
    """Sequences that go through TRL's model at once."""


class Checksum:
    """A reward that any text can be given, different for every text."""

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        return [shared(e, {"checksum": checksum(e.trajectories[0].agent_text)}) for e in episodes]


def checksum(text: str) -> float:
    return zlib.crc32(text.encode()) / (1 << 32)


def compare(
    *,
    shape: str,
    model: str | None,
    path: str,
    engines: Sequence[str],
    device: torch.device,
    size: Size,
    seconds: float,
    logs: Path | None,
    results: Results,
    say: Say,
) -> None:
    """Seconds of a step by phase for both, and the ratio to each of TRL's ways to generate, as they are found."""
    unknown = [name for name in engines if name not in ENGINES]
    if unknown:
        raise UsageError(f"TRL generates with {' or '.join(ENGINES)}, not with {unknown[0]!r}")
    gpu = device.type == "cuda"
    dtype = torch.bfloat16 if gpu else torch.float32
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        source = _source(shape, model, device, dtype)
        questions = _questions(2 * size.questions, size.prompt_words)
        if not model:
            write_model(source, folder)
        prompts = _prompts(source, questions)
        window = _window(source, prompts, size)
        task = {
            "model": model or str(folder), "prompts": prompts, "targets": TARGETS, "device": device.type,
            "window": window, **size._asdict(),
        }  # fmt: skip
        environment = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

        def start(name: str) -> Peer:
            log = (logs or folder) / f"trl-{name}.log"
            one = {**task, "engine": name}
            return Peer(f"TRL with {name}", "_train_peer_trl.py", one, path=path, log=log, env=environment)

        starts = {name: partial(start, name) for name in engines}
        together = sum(t.numel() for t in source.state.values()) * dtype.itemsize < SMALL
        peers = held.enter_context(Peers(starts, together=together, seconds=seconds, say=say))
        peers.wait()
        named = shape if not model else source.name
        results.keep(shape=named, device=device_name(device), **size._asdict())
        ours = _ours(source, device, dtype, questions, size, window, folder, results, say)
        del source
        free(device)  # the peer needs the memory
        _say_row(say, "ours", ours)
        say(f"ours: {ours['peak_share']:.0%} of the peak in the update, {ours['update_tokens_s']:,.0f} tokens/s")
        name = f"GRPO step {named} {size.questions} × {size.group}"
        for peer, found in peers.figures():
            _say_row(say, peer, found)
            results.ratios[f"{name}, {peer} / ours"] = found["seconds"] / ours["seconds"]
            results.keep(**{peer: found})


def _source(shape: str, model: str | None, device: torch.device, dtype: torch.dtype) -> Source:
    if model:
        return load(model)
    if shape not in SHAPES:
        raise UsageError(f"there is no shape {shape!r}; there are {', '.join(SHAPES)}")
    return random_source(shape, tokenizer(), device, dtype)


def write_model(source: Source, folder: Path) -> None:
    """The model as a folder that TRL and vLLM can load."""
    from safetensors.torch import save_file

    source.config.architectures = [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[source.config.model_type]]
    source.config.save_pretrained(folder)
    source.tokenizer.save_pretrained(folder)
    tied = source.architecture.tied
    state = {n: t.contiguous() for n, t in source.state.items() if not (tied and n == "lm_head.weight")}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def _questions(count: int, words: int) -> list[Question]:
    chance = np.random.default_rng(0)
    lengths = chance.integers(words // 2, words + words // 2 + 1, count)
    texts = ["".join(word(int(n)) for n in chance.integers(100, 20_000, length)) for length in lengths]
    return [Question(str(n), text.strip()) for n, text in enumerate(texts)]


def _prompts(source: Source, questions: Sequence[Question]) -> list[str]:
    """The questions as the model reads them."""
    from subquest.engine.chat_format import chat_format_of
    from subquest.engine.torch.vocabulary import Vocabulary

    chat, vocabulary = chat_format_of(source.tokenizer), Vocabulary(source.tokenizer, source.architecture.vocabulary)
    openings = [vocabulary.prompt_segments(chat, [Message("user", q.question)]) for q in questions]
    return ["".join(segment.text for segment in opening) for opening in openings]


def _window(source: Source, prompts: Sequence[str], size: Size) -> int:
    """Tokens of the longest prompt with its completion, rounded up."""
    longest = max(len(source.tokenizer(prompt, add_special_tokens=False)["input_ids"]) for prompt in prompts)
    return min(-(-(longest + size.max_tokens + 1) // 256) * 256, source.architecture.window)


def _ours(
    source: Source,
    device: torch.device,
    dtype: torch.dtype,
    questions: Sequence[Question],
    size: Size,
    window: int,
    folder: Path,
    results: Results,
    say: Say,
) -> dict[str, Any]:
    recipe = Recipe(
        name="bench",
        kind="rl",
        system="direct",
        model=ModelPart("", rank=size.rank, alpha=2.0 * size.rank),
        data=(DataPart(""),),
        loss="grpo",
        advantage="trl",
        rollout=RolloutPart(size.questions, size.group, max_tokens=size.max_tokens),
        optimiser=OptimiserPart(steps=size.steps + 1, learning_rate=1e-6, micro_tokens=size.micro_tokens),
    )
    peak = products_a_second(device) / 1e12
    policy = make_policy(recipe.model, source, device=device, seed=0)
    engine = TorchEngine(source, device=device, dtype=dtype, cache_tokens=size.questions * size.group * window)
    engine.scheduler.stops.ends[:] = False  # lengths are forced
    sampling = Sampling(max_tokens=size.max_tokens, temperature=1.0, logprobs=True)
    system = _writer()(engine, sampling=sampling)
    steps: list[dict[str, float]] = []
    run = TrainRun(folder / "run", recipe)
    try:
        trainer = RLTrainer(run, policy, engine, system, system, Stream(questions, 0), (), Checksum())

        async def train() -> None:
            for number in range(1 + size.steps):
                figures, episodes = await trainer.one_step()
                written = [len(e.trajectories[0].segments[-1].token_ids) for e in episodes]
                if set(written) != {size.max_tokens}:
                    raise RuntimeError(f"completions of {min(written)} to {max(written)} tokens: nothing to compare")
                steps.append(figures)
                say(f"ours, step {number}: {figures['seconds']:.2f} s, {figures['packed']:,.0f} tokens in the update")
                if number:
                    results.keep(ours=_row(steps[1:], peak))

        asyncio.run(train())
    finally:
        asyncio.run(engine.close())
        run.close()
    return _row(steps[1:], peak)


def _row(steps: Sequence[dict[str, float]], peak: float) -> dict[str, Any]:
    """The median step by phase, and how much of the device's peak the update reaches."""
    middle = {name: statistics.median(s[name] for s in steps) for name in steps[0]}
    row: dict[str, Any] = {"seconds": middle["seconds"]}
    row |= {phase: middle.get(f"seconds_{phase}", 0.0) for phase in ("rollout", "reward", "update")}
    row |= {"old log-probs": 0.0, "hand-over": middle["seconds_sync"], "mismatch": middle["mismatch"]}
    row["tflop"], row["peak_share"] = middle["tflop"], middle["tflop"] / row["update"] / peak
    row["update_tokens_s"] = middle["packed"] / row["update"]
    row["written_tokens_s"] = middle["completion_tokens"] / row["rollout"]
    return row


def _writer() -> Any:
    """A system that writes one turn and stops nowhere."""
    direct = get("direct")

    class Writer(direct):  # type: ignore[misc, valid-type]
        async def answer(self, run: Run) -> Answer:
            question = run.question.question
            context = await run.open("answerer", question, [Message("user", question)])
            turn = await context.write()
            await context.close("answered", turn.text)
            return Answer(turn.text)

    return Writer


def _say_row(say: Say, name: str, row: dict[str, Any]) -> None:
    say(f"{name}: {row['seconds']:.2f} s a step (" + ", ".join(f"{p} {row[p]:.2f}" for p in PHASES) + ")")
