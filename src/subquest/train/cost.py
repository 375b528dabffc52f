"""What a step costs: its operations counted (`Meter`), and an estimate of tokens, memory of each GPU and seconds.

The formulas count what the code does; three efficiencies turn counts into seconds. They were measured on one H200 with
SmolLM2-135M (`subquest bench train`, `subquest bench rollout`; docs/scale.md has the runs) and are also used for
larger models, where matrix products are at least as efficient. Search is not counted: it runs during generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..engine.torch.architecture import Architecture
from ..english import counted
from ..errors import UsageError
from .lora import MERGED_UP_TO
from .recipe import Recipe

UPDATE_EFFICIENCY = 0.25
"""Share of the peak that packed updates reach: 843,176 tokens of 1,339 trajectories in 4.11 s."""
DECODE_EFFICIENCY = 0.56
"""Share of the copy bandwidth that decoding reaches: batch 384, context 700, 2.8 ms a step."""
OCCUPANCY = 0.16
"""Share of the concurrent episodes that decode at a time (others wait for search, prefill, a parent, the last one)."""


class Shape(NamedTuple):
    """A decoder's sizes, as `engine.torch.architecture` has them."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, a: Architecture) -> Shape:
        return cls(a.layers, a.width, a.heads, a.kv_heads, a.head_size, a.inner, a.vocabulary, a.tied)

    @property
    def body(self) -> int:
        """Parameters of the layers, norms left out."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return self.layers * (2 * self.width * (queries + keys) + 3 * self.width * self.inner)

    @property
    def parameters(self) -> int:
        return self.body + self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def cache_bytes(self) -> int:
        """Of one token in the rollout engine's cache, in bfloat16."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_size

    def adapter(self, rank: int) -> int:
        """Parameters of a LoRA adapter on all seven matrices."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        sides = 2 * (self.width + queries) + 2 * (self.width + keys) + 3 * (self.width + self.inner)
        return self.layers * rank * sides

    def activations(self, *, checkpointing: bool) -> int:
        """Values kept for the backward pass, a token."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        layer = 4 * self.width + 2 * queries + 2 * keys + 4 * self.inner
        return self.layers * self.width + layer if checkpointing else self.layers * layer


def operations(
    shape: Shape, tokens: float, pairs: float, rows: float, *, rank: int, backward: bool, again: bool = False
) -> float:
    """Multiplications and additions of one pass over so many tokens, with so many pairs of a query and a key that it
    sees, of which `rows` go through the output layer and the last layer's second half.

    The way back takes as much for what the slopes go through, and as much again for the gradient of a matrix; that of a
    frozen one is not computed, unless its adapter is merged. `again` is checkpointing's second way forward.
    """
    whole = not rank or shape.width <= MERGED_UP_TO  # the gradient of whole matrices is computed
    forward = 1 + (again and backward)
    queries = shape.heads * shape.head_size
    last = shape.width * (queries + 3 * shape.inner)  # parameters that only the rows go through
    body = 2 * (shape.body * tokens - last * (tokens - rows)) * (forward + backward * (2 if whole else 1))
    thin = 0 if whole else 2 * shape.adapter(rank) * tokens * (forward + 2 * backward)
    attention = 4 * shape.layers * queries * pairs * (forward + 2.5 * backward)
    output = 2 * shape.vocabulary * shape.width * rows * (1 + backward * (2 if rank else 3))
    return body + thin + attention + output


class Meter:
    """What went through a model since the last reading."""

    def __init__(self, shape: Shape, rank: int) -> None:
        self._shape, self._rank = shape, rank
        self._learned = self._passed = self._operations = 0.0

    def count(self, tokens: int, pairs: int, rows: int, *, backward: bool, again: bool) -> None:
        if backward:
            self._learned += tokens
        else:
            self._passed += tokens
        self._operations += operations(
            self._shape, tokens, pairs, rows, rank=self._rank, backward=backward, again=again
        )

    def read(self) -> dict[str, float]:
        """Tokens with and without gradients, and 1e12 operations; then it counts from zero."""
        found = {"computed": self._learned, "computed_before": self._passed, "tflop": self._operations / 1e12}
        self._learned = self._passed = self._operations = 0.0
        return found


SHAPES: Mapping[str, Shape] = {
    "smollm2": Shape(30, 576, 9, 3, 64, 1536, 49_152, True),
    "Qwen2.5-3B": Shape(36, 2048, 16, 2, 128, 11_008, 151_936, True),
    "Qwen2.5-7B": Shape(28, 3584, 28, 4, 128, 18_944, 152_064, False),
    "Qwen3-8B": Shape(36, 4096, 32, 8, 128, 12_288, 151_936, False),
}


@dataclass(frozen=True, slots=True)
class Machine:
    gpus: int = 8
    flops: float = 790e12
    """Dense bfloat16 operations a second, as large products reach them (H200)."""
    bandwidth: float = 4.1e12
    """Bytes a second that a large copy reads and writes (H200)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What an episode is made of; a run's own figures (`packed`, `completion_tokens`) are the best source."""

    packed: float = 2196.0
    """Tokens of all its trajectories; the default is CoDA's on generated worlds."""
    written: float = 295.0
    """The part of them that the model wrote."""
    trajectories: float = 3.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step; memory is that of each GPU."""

    tokens: float
    written: float
    weights: float
    """Bytes of the policy, its gradients, Adam's moments and the reference."""
    engine: float
    """Bytes of the rollout engine's weights, and of DECOR's frozen compressor where all are trained; the cache
    comes on top and is a setting."""
    activations: float
    """Bytes of one micro-batch."""
    rollout_s: float
    update_s: float

    @property
    def seconds(self) -> float:
        return self.rollout_s + self.update_s


def shape_of(recipe: Recipe) -> Shape:
    """The shape of a recipe's model, where it is one of the papers'."""
    name = recipe.model.path.rpartition("/")[2]
    found = next((shape for known, shape in SHAPES.items() if name.startswith(known)), None)
    if found is None:
        raise UsageError(f"no cost is known for {recipe.model.path!r}; there are {', '.join(SHAPES)}")
    return found


def estimate(recipe: Recipe, machine: Machine | None = None, workload: Workload | None = None) -> Cost:
    """The cost of one step of a recipe of reinforcement learning."""
    if recipe.kind != "rl":
        raise UsageError(f"{recipe.name} is supervised: it has no rollouts to estimate")
    machine, load, shape = machine or Machine(), workload or Workload(), shape_of(recipe)
    r, part = recipe.rollout, recipe.model
    episodes = r.questions * r.group
    tokens, written = episodes * load.packed, episodes * load.written
    trained = shape.adapter(part.rank) if part.rank else shape.parameters
    loss = recipe.objective
    frozen = 2 * shape.parameters if part.rank else 0
    parts = machine.gpus if part.shard else 1
    weights = (frozen + 16 * trained + (4 * trained if loss.kl else 0)) / parts
    kept = shape.activations(checkpointing=part.checkpointing) * 2
    micro = min(recipe.optimiser.micro_tokens, tokens / machine.gpus)
    return Cost(
        tokens=tokens,
        written=written,
        weights=weights,
        engine=2 * shape.parameters * (2 if part.rank == 0 and recipe.system == "decor" else 1),
        activations=kept * micro,
        rollout_s=_rollout_seconds(recipe, shape, load, written, machine),
        update_s=_update_operations(recipe, shape, load, tokens, written)
        / (machine.gpus * machine.flops * UPDATE_EFFICIENCY),
    )


def _rollout_seconds(recipe: Recipe, shape: Shape, load: Workload, written: float, machine: Machine) -> float:
    """Decoding is bound by memory: a step reads all weights once and the cache of every context that decodes."""
    rows = min(recipe.rollout.concurrency, recipe.rollout.questions * recipe.rollout.group / machine.gpus)
    context = load.packed / load.trajectories
    step = 2 * shape.parameters + rows * context * shape.cache_bytes
    rate = OCCUPANCY * rows / (step / (machine.bandwidth * DECODE_EFFICIENCY))
    return written / machine.gpus / rate


def _update_operations(recipe: Recipe, shape: Shape, load: Workload, tokens: float, written: float) -> float:
    """Multiplications and additions of the update: the passes before it, and its own."""
    loss = recipe.objective
    reference = 1 if loss.kl else 0
    old = 1 if recipe.optimiser.minibatches > 1 or recipe.rollout.overlap else 0
    pairs = tokens * load.packed / load.trajectories / 2
    before = operations(shape, tokens, pairs, written, rank=recipe.model.rank, backward=False)
    again = recipe.model.checkpointing
    own = operations(shape, tokens, pairs, written, rank=recipe.model.rank, backward=True, again=again)
    return (reference + old) * before + own


def table(cost: Cost, gpus: int) -> str:
    """The estimate in words."""
    gib = 1 << 30
    return "\n".join(
        (
            f"a step on {counted(gpus, 'GPU')}",
            f"  tokens     {cost.tokens:>14,.0f}  of which written {cost.written:,.0f}",
            f"  memory     {(cost.weights + cost.engine + cost.activations) / gib:>10.1f} GiB a GPU, the cache on top:"
            f" policy {cost.weights / gib:.1f}, engine {cost.engine / gib:.1f},"
            f" activations {cost.activations / gib:.1f}",
            f"  seconds    {cost.seconds:>14.1f}  rollout {cost.rollout_s:.1f}, update {cost.update_s:.1f}",
        )
    )
