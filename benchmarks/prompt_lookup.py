"""What guessing tokens ahead (prompt lookup) could gain on this machine: the cost of checking n tokens in one pass.

    python benchmarks/prompt_lookup.py [--threads 2] [--rounds 4]

Prompt lookup guesses that the model goes on copying from its context and checks the guesses in one pass. Such a pass of
n tokens yields n tokens if every guess is right, and one if the first is wrong. So n tokens over the cost of the pass,
in passes of one token, is the most it can gain. Where that is near 1, guessing is not worth its code.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

READ, SIZES = 384, (1, 2, 4, 8, 16)


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench prompt-lookup", description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args(argv)
    from subquest.engine.embedded.llama_cpp import open_library
    from subquest.engine.embedded.model import Model, Stretch
    from subquest.engine.embedded.quantised import embedded_files
    from subquest.models import default_adapter

    file, adapter = embedded_files(default_adapter())
    model = Model(open_library(), file, adapter=adapter, cells=1024, sequences=1, batch=READ, threads=args.threads)
    tokens = [100 + n % 128 for n in range(READ)]
    model.step([Stretch(0, 0, tokens, False)])
    cost: dict[int, float] = {}
    for _ in range(args.rounds):
        for size in SIZES:
            start = time.process_time()
            for _ in range(4):
                model.drop(0, READ)
                model.step([Stretch(0, READ, tokens[:size], True)])
            cost[size] = min(cost.get(size, 1e9), (time.process_time() - start) / 4)
    model.free()
    ratios = {f"most gain, {n} tokens a pass": n / (cost[n] / cost[1]) for n in SIZES[1:]}
    return {"name": "prompt-lookup", "figures": {"cpu_seconds": cost}, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
