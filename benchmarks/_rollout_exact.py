"""The rollout engine against transformers with the same weights: greedy texts, log-probabilities, kernels.

With a real model the prompts are chats, and turns end where the model ends them; with random weights they are ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from subquest.engine.chat_format import encode_pieces
from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import Source, TorchEngine
from subquest.engine.torch.scheduler import Context

QUESTIONS = (
    "What is the capital of France?", "Name three colours of the rainbow.", "Who wrote Hamlet, and when?",
    "Explain in two sentences why the sky is blue.", "Count from one to ten in words.",
    "Which river flows through Vienna, and into which sea?", "Write a short poem about a lighthouse.",
    "List the planets of the solar system.",
)  # fmt: skip
Say = Callable[..., None]


def peer(source: Source, device: torch.device, dtype: torch.dtype) -> Any:
    """The same weights in transformers."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(source.config, attn_implementation="sdpa")
    model.load_state_dict(source.state)
    return model.to(device, dtype).eval()


def sampled(model: Any, ids: torch.Tensor, mask: torch.Tensor, count: int) -> None:
    """`model.generate` over a batch, this many tokens for each row."""
    with torch.inference_mode():
        model.generate(
            ids, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, pad_token_id=0,
            max_new_tokens=count, min_new_tokens=count, eos_token_id=None,
        )  # fmt: skip


Drawn = list[tuple[list[int], list[float]]]
"""Ids and their log-probabilities, for each prompt."""


async def together(
    engine: TorchEngine, prompts: Sequence[Sequence[int]], count: int, *, temperature: float = 1.0
) -> Drawn:
    """Let contexts of given ids grow together."""
    sampling = Sampling(max_tokens=count, temperature=temperature, logprobs=True)
    turns = await asyncio.gather(*(engine.run(Context(list(ids)), sampling) for ids in prompts))
    return [(turn.drawn, turn.logprobs) for turn in turns]


def _prompts(engine: TorchEngine, number: int) -> list[list[int]]:
    if engine.name.startswith("random"):
        return [[5 + n, *range(100, 200 + 7 * n)] for n in range(number)]
    texts = [QUESTIONS[n % len(QUESTIONS)] for n in range(number)]
    openings = [engine.chat.opening([Message("user", text)]) for text in texts]
    return [list(encode_pieces(pieces, engine.vocabulary.encode)) for pieces in openings]


def kernels_equal_torch(source: Source, device: torch.device, say: Say) -> dict[str, Any]:
    """Every Triton kernel against the plain torch operation, by one pass of a whole model in fp32."""
    from subquest.engine.torch import reference_operations as reference
    from subquest.engine.torch.model import Model

    engine = TorchEngine(source, device=device, seed=0, dtype=torch.float32, cache_tokens=65_536, graphs=False)
    try:
        ids = [int(i) for i in np.random.default_rng(0).integers(1, 40_000, 700)]
        plain = Model(engine.weights, engine._model.cache, reference)
        found: Drawn = []
        for model in (plain, engine._model):
            engine.runner.model = model
            found += asyncio.run(together(engine, [ids], 32, temperature=0.0))
            engine.refresh()
    finally:
        asyncio.run(engine.close())
    same = found[0][0] == found[1][0]
    gap = max(abs(a - b) for a, b in zip(found[0][1], found[1][1], strict=True))
    say(f"kernels against torch, fp32, greedy: tokens equal {same}, log-probs differ by at most {gap:.1e}")
    return {"greedy_equal": same, "largest_logprob_gap": gap}


def shared_equals_alone(source: Source, device: torch.device, say: Say) -> dict[str, Any]:
    """Contexts of two roles with their prefixes read once and row by row, by whole models in fp32."""
    chance = np.random.default_rng(0)
    roles = chance.integers(1, 40_000, (2, 1000)).tolist()
    prompts = [roles[n % 2] + chance.integers(1, 40_000, 5 + n).tolist() for n in range(128)]
    found: list[Drawn] = []
    for shared in (False, True):
        engine = TorchEngine(
            source, device=device, seed=0, dtype=torch.float32, cache_tokens=65_536, shared_prefixes=shared
        )
        try:
            found.append(asyncio.run(together(engine, prompts, 32, temperature=0.0)))
            steps = engine.runner.shared_steps
        finally:
            asyncio.run(engine.close())
    return compared(found, f"shared prefixes, fp32, {steps} steps", say) | {"steps": steps}


def compared(found: Sequence[Drawn], name: str, say: Say) -> dict[str, Any]:
    """How many texts of two ways are equal, and how far the log-probs of these differ."""
    pairs = list(zip(*found, strict=True))
    same = sum(a[0] == b[0] for a, b in pairs)
    gaps = (abs(x - y) for a, b in pairs if a[0] == b[0] for x, y in zip(a[1], b[1], strict=True))
    gap = max(gaps, default=0.0)
    say(f"{name}: {same} of {len(pairs)} texts equal, log-probs within {gap:.1e}")
    return {"texts": len(pairs), "equal": same, "largest_logprob_gap": gap}


def greedy_equals_generate(source: Source, device: torch.device, say: Say) -> dict[str, int]:
    """Texts that are the same, token for token, in fp32."""
    gpu = device.type == "cuda"
    count = 64 if gpu else 16
    engine = TorchEngine(source, device=device, seed=0, cache_tokens=16_384, dtype=torch.float32)
    try:
        prompts = _prompts(engine, len(QUESTIONS) if gpu else 2)
        found = asyncio.run(together(engine, prompts, count, temperature=0.0))
        ends = np.flatnonzero(engine.scheduler.stops.ends).tolist() or None
    finally:
        asyncio.run(engine.close())
    model = peer(source, device, torch.float32)
    equal = 0
    for prompt, (ids, _) in zip(prompts, found, strict=True):
        given = torch.tensor([prompt], device=device)
        with torch.inference_mode():
            out = model.generate(
                given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count, pad_token_id=0,
                eos_token_id=ends,
            )[0, len(prompt) :].tolist()  # fmt: skip
        equal += out == ids
        if out != ids:
            same = [a == b for a, b in zip(out, ids, strict=False)]
            say(f"greedy differs from generate after {(*same, False).index(False)} of {len(ids)} tokens")
    tokens = sum(len(ids) for ids, _ in found)
    say(f"greedy, fp32: {equal} of {len(prompts)} texts equal to model.generate, {tokens} tokens")
    return {"texts": len(prompts), "equal": equal, "tokens": tokens}


def logprob_gaps(source: Source, device: torch.device, dtype: torch.dtype, say: Say) -> dict[str, dict[str, float]]:
    """The engine's log-probs of what it sampled, less those of one full pass of transformers."""
    gpu = device.type == "cuda"
    engine = TorchEngine(source, device=device, seed=0, cache_tokens=65_536, dtype=dtype)
    try:
        prompts = _prompts(engine, 32 if gpu else 4)
        found = asyncio.run(together(engine, prompts, 100 if gpu else 16))
    finally:
        asyncio.run(engine.close())
    spreads: dict[str, dict[str, float]] = {}
    for other in dict.fromkeys((dtype, torch.float32)):
        model = peer(source, device, other)
        gaps: list[float] = []
        for prompt, (ids, logprobs) in zip(prompts, found, strict=True):
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + ids], device=device), use_cache=False).logits[0]
            wanted = logits[len(prompt) - 1 : -1].float().log_softmax(-1).cpu().gather(1, torch.tensor(ids)[:, None])
            gaps += (torch.tensor(logprobs) - wanted[:, 0]).tolist()
        del model
        spread = {f"p{p}": float(np.percentile(np.abs(gaps), p)) for p in (50, 90, 99, 100)}
        spread |= {"mean": float(np.mean(gaps)), "tokens": float(len(gaps))}
        name = str(other).removeprefix("torch.")
        spreads[name] = spread
        say(f"log-prob gap to a full {name} pass: " + ", ".join(f"{k} {v:.1e}" for k, v in spread.items()))
    return spreads
