"""What prepared gold traces teach of CoDA: how many tasks planners give, and how executors' searches end.

python recipes/lab/count_traces.py traces.xz --model qwen-1.5b
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from subquest.models import resolve
from subquest.train.components import load_source
from subquest.train.traces import TraceSet


def counts(traces: TraceSet, tokenizer: Any) -> Counter[str]:
    """By what the teacher wrote in each context. A search that the executor began with is part of its prompt."""
    found: Counter[str] = Counter()
    ends = np.cumsum(traces.lengths)
    for start, end in zip(ends - traces.lengths, ends, strict=True):
        written = tokenizer.decode(traces.ids[start:end][traces.actions[start:end]].tolist())
        if "<result>" in written:
            ended = "not found" if "not found" in written.rpartition("<result>")[2].lower() else "found"
            found[f"executor, {written.count('<search>')} searches of its own, {ended}"] += 1
        elif tasks := written.count("<task>"):
            found[f"planner, {'one task' if tasks == 1 else 'more tasks'}"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--model", required=True, help="the model that the traces are for")
    args = parser.parse_args()
    tokenizer = load_source(str(resolve(args.model)), weights=False).tokenizer
    for what, number in sorted(counts(TraceSet.load(args.traces), tokenizer).items()):
        print(f"{number:7,}  {what}")


if __name__ == "__main__":
    main()
