"""Chunked log-probs against plain log_softmax: time, memory and exactness of forward and backward.

    python benchmarks/logprobs.py [--tokens 65536] [--width 576] [--vocabulary 49152] [--device cuda]

Peers in the same run: `log_softmax` of all logits in float32, and cross-entropy as `F.cross_entropy` computes it. On a
CPU the default is 2,048 tokens and peak memory is not measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from subquest.train.logprobs import token_logprobs


def plain(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return (hidden @ weight.t()).float().log_softmax(-1).gather(1, targets[:, None]).squeeze(1)


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return -torch.nn.functional.cross_entropy((hidden @ weight.t()).float(), targets, reduction="none")


def chunked(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return token_logprobs(hidden, weight, targets).logprobs


def chunked_with_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    out = token_logprobs(hidden, weight, targets, entropy=True)
    assert out.entropy is not None
    return out.logprobs + 0.01 * out.entropy


def measure(
    call: Callable[..., Tensor], hidden: Tensor, weight: Tensor, targets: Tensor, repeats: int
) -> dict[str, float]:
    """Seconds (best of the repeats) and bytes beyond the inputs, of one forward and backward."""
    cuda = hidden.is_cuda
    times = []
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
    for _ in range(repeats):
        hidden.grad = weight.grad = None
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        call(hidden, weight, targets).sum().backward()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    out = {"seconds": min(times)}
    if cuda:
        out["peak_mb"] = (torch.cuda.max_memory_allocated() - base) / 1e6
    return out


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        prog="subquest bench logprobs", description="Chunked log-probs against plain ones."
    )
    cuda = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--tokens", type=int, default=65_536 if cuda else 2_048)
    parser.add_argument("--width", type=int, default=576)
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--repeats", type=int, default=5 if cuda else 2)
    parser.add_argument("--frozen", action="store_true", help="the output layer has no gradient, as with LoRA")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    half = torch.bfloat16 if args.device == "cuda" else torch.float32
    hidden = torch.randn(args.tokens, args.width, device=args.device).to(half).requires_grad_()
    weight = (torch.randn(args.vocabulary, args.width, device=args.device) / 8).to(half).requires_grad_()
    targets = torch.randint(0, args.vocabulary, (args.tokens,), device=args.device)

    some = slice(0, min(args.tokens, 512))
    exact = plain(hidden[some].double(), weight.double(), targets[some]).detach()
    figures: dict[str, Any] = {"tokens": args.tokens, "vocabulary": args.vocabulary, "dtype": str(half)}
    calls = {
        "chunked": chunked,
        "chunked+entropy": chunked_with_entropy,
        "plain": plain,
        "cross_entropy": cross_entropy,
    }
    if args.frozen:
        weight.requires_grad_(False)
    print(f"{'':<24} {'seconds':>9} {'peak MB':>9} {'error':>9}", file=sys.stderr)
    for name, call in calls.items():
        result = measure(call, hidden, weight, targets, args.repeats)
        if "entropy" not in name.removeprefix("cross_entropy"):
            with torch.no_grad():
                result["error"] = float((call(hidden[some], weight, targets[some]).double() - exact).abs().max())
        figures[name] = result
        print(
            f"{name:<24} {result['seconds']:>9.4f} {result.get('peak_mb', float('nan')):>9.0f} "
            f"{result.get('error', float('nan')):>9.1e}",
            file=sys.stderr,
        )
    ratios = {"time_over_plain": figures["chunked"]["seconds"] / figures["plain"]["seconds"]}
    if "peak_mb" in figures["chunked"]:
        ratios["memory_under_plain"] = figures["plain"]["peak_mb"] / figures["chunked"]["peak_mb"]
    return {"name": "logprobs", "figures": figures, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
