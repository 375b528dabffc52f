"""What a micro-batch of the update costs the host: operations handed to the device, and the time that takes.

    subquest bench train-host                      on a CPU: 30 narrow layers, where arithmetic costs next to nothing
    subquest bench train-host --tokens 32768       on a GPU: the shape of SmolLM2-135M, bfloat16

`apart` recomputes each effective weight in every micro-batch and multiplies by one matrix at a time, as a sharded
policy does; `merged` is what one process does: weights merged once, products fused (`train/merged_weights.py`). On a
GPU `host` is the time until everything is launched and `whole` until it is done: where both are the same, the GPU waits
for the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _micro_batch import micro_batch

from subquest.engine.torch.loader import Source
from subquest.train.lora import LoraSettings
from subquest.train.loss import sft_loss
from subquest.train.policy import Policy

NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "vocab_size": 300}  # fmt: skip
SMOLLM2 = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
           "head_dim": 64, "vocab_size": 49_152}  # fmt: skip
LAYERS = 30
VIEWS = ("view", "t", "transpose", "unsqueeze", "squeeze", "slice", "split", "split_with_sizes", "select", "unbind",
         "expand", "detach", "alias", "as_strided", "_unsafe_view", "empty", "empty_like", "new_empty")  # fmt: skip
"""Operations that launch nothing."""


class Counting(TorchDispatchMode):
    """Operations that reach the device. Kernels of our own are launched past the dispatcher and not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.times[function.name().removeprefix("aten::").partition(".")[0]] += 1
        return function(*args, **(kwargs or {}))

    @property
    def launches(self) -> int:
        return sum(times for name, times in self.times.items() if name not in VIEWS)


def source(shape: dict[str, int]) -> Source:
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=LAYERS, max_position_embeddings=2048, tie_word_embeddings=True, **shape
    )
    return Source("random", config, transformers.LlamaForCausalLM(config).state_dict(), None, ())


def measure(work: Callable[[], object], repeats: int, *, cuda: bool) -> dict[str, float]:
    """Operations, and milliseconds of the host (CPU time of this process on a CPU) and as a whole."""
    work()
    with Counting() as counted:
        work()
    host, whole = [], []
    clock = time.perf_counter if cuda else time.process_time
    for _ in range(repeats):
        start = clock()
        work()
        host.append(1e3 * (clock() - start))
        if cuda:
            torch.cuda.synchronize()
        whole.append(1e3 * (clock() - start))
    best = statistics.median if cuda else min  # other programs only add to CPU time
    return {"operations": counted.launches, "host_ms": best(host), "whole_ms": best(whole)}


def main(argv: list[str]) -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="subquest bench train-host", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--tokens", type=int, default=32_768 if cuda else 6, help="tokens of a micro-batch")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args(argv)
    cuda = args.device.startswith("cuda")
    if not cuda:
        torch.set_num_threads(1)
    shape = SMOLLM2 if cuda else NARROW
    dtype = torch.bfloat16 if cuda else torch.float32
    policy = Policy(source(shape), lora=LoraSettings(args.rank), device=args.device, dtype=dtype)
    batch = micro_batch(args.tokens, shape["vocab_size"], longest=700, written=8)
    figures: dict[str, Any] = {"device": args.device, "tokens": batch.token_ids.numel(), "layers": LAYERS}
    for name, merged in (("apart", None), ("merged", policy.merge())):

        def update(merged: Any = merged) -> None:
            part = batch.to(args.device)
            sft_loss(policy(part, merged=merged).logprobs, part.weights).backward()  # type: ignore[no-untyped-call]

        @torch.no_grad()
        def only_forward(merged: Any = merged) -> None:
            policy(batch.to(args.device), merged=merged)

        for kind, work in (("update", update), ("pass", only_forward)):
            found = figures[f"{kind}, {name}"] = measure(work, args.repeats, cuda=cuda)
            print(f"{kind}, {name}: " + ", ".join(f"{k} {v:,.1f}" for k, v in found.items()), file=sys.stderr)
    once = figures["merging, once a step"] = measure(policy.merge, args.repeats, cuda=cuda)
    print("merging, once a step: " + ", ".join(f"{k} {v:,.1f}" for k, v in once.items()), file=sys.stderr)
    ratios = {
        f"{label} of a micro-batch's {kind}, apart / merged": figures[f"{kind}, apart"][key]
        / figures[f"{kind}, merged"][key]
        for kind in ("update", "pass")
        for key, label in (("operations", "operations"), ("whole_ms", "time"))
    }
    return {"name": "train-host", "figures": figures, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
