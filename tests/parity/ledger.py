"""What a parity run has seen: the largest difference by name, and what a peer computed, to be kept in a file.

    tests/parity/recorded.json    peer and name → the peer's figures on the first random batches

`make parity` compares with the peers themselves, which need environments of their own. `make test` compares with the
recorded figures, so a change on our side shows there; `tests/parity/run.sh --record` writes them anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

RECORDED = Path(__file__).resolve().with_name("recorded.json")
SEEDS = 4
"""Random batches whose figures are recorded."""


def figures(values: torch.Tensor) -> list[float]:
    """A tensor in a few numbers: itself where it is short, else its length as a vector and its products with waves."""
    flat = values.detach().double().flatten()
    if flat.numel() <= 4:
        return [float(v) for v in flat]
    places = torch.arange(flat.numel(), dtype=torch.double)
    return [float(flat.norm()), *(float(flat @ torch.cos(speed * places)) for speed in (0.0, 0.7, 2.1))]


def difference(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """Relative to the size of the peer's tensor, absolute where that is below 1."""
    mine, theirs = mine.detach().double(), theirs.detach().double()
    if mine.shape != theirs.shape:
        raise SystemExit(f"shapes {tuple(mine.shape)} and {tuple(theirs.shape)}")
    if not theirs.numel():
        return 0.0
    return float((mine - theirs).abs().max()) / max(1.0, float(theirs.abs().max()))


class Ledger:
    """Largest difference seen for each thing compared; prints a table and says whether all held."""

    def __init__(self, peer: str, tolerance: float = 1e-5) -> None:
        self.peer = peer
        self.tolerance = tolerance
        self.worst: dict[str, tuple[int, float]] = {}
        self.recorded: dict[str, list[list[float]]] = {}

    def compare(self, name: str, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        count, worst = self.worst.get(name, (0, 0.0))
        self.worst[name] = count + 1, max(worst, difference(mine, theirs))
        if count < SEEDS:
            self.recorded.setdefault(name, []).append(figures(theirs))

    def report(self) -> int:
        print(f"{self.peer}: largest difference (tolerance {self.tolerance:g})")
        failed = False
        for name, (count, worst) in self.worst.items():
            bad = not worst <= self.tolerance
            failed |= bad
            print(f"  {name:<58} {count:>4} batches  {worst:.1e}  {'DIFFERS' if bad else 'ok'}")
        if not failed and "--record" in sys.argv[1:]:
            self._record()
        return int(failed)

    def _record(self) -> None:
        known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        known[self.peer] = {n: [[float(f"{v:.9g}") for v in one] for one in all_] for n, all_ in self.recorded.items()}
        peers = (
            f"{json.dumps(peer)}: {{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in of.items()) + "\n}"
            for peer, of in sorted(known.items())
        )
        RECORDED.write_text("{\n" + ",\n".join(peers) + "\n}\n")
