"""What one of two processes does in `test_distributed`: sharded updates, then a short run; the first writes results."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import torch

from subquest.train.batch import Rollout, pack
from subquest.train.components import make_policy
from subquest.train.distributed import Ranks, average_gradients, shard, whole
from subquest.train.loss import LOSSES
from subquest.train.optimiser import Optimiser, logprobs_of
from subquest.train.random_model import tiny_source
from subquest.train.recipe import ModelPart, OptimiserPart

from .episodes import episode, trajectory
from .test_rl import RECIPE, trainer

torch.set_num_threads(1)
CASES = [("lora", "coda"), ("lora-whole", "coda"), ("lora-half", "search-r1"), ("full", "decor"), ("full", "grpo")]
MODELS = {
    "lora": ModelPart("random:llama", rank=4),
    "lora-whole": ModelPart("random:llama", rank=4, shard=False),
    "lora-half": ModelPart("random:qwen3", rank=4, dtype="bfloat16"),
    "full": ModelPart("random:llama", rank=0),
}
SHORT = replace(
    RECIPE,
    optimiser=replace(RECIPE.optimiser, steps=2, learning_rate=1e-2),
    rollout=replace(RECIPE.rollout, group=2),
    checkpoint_every=2,
)


def rollouts() -> list[Rollout]:
    """Five rollouts of very different sizes: the two processes get unequal shares."""
    made = []
    for n in range(5):
        planner = trajectory(f"{n}-p", "planner", ("prompt", [5, 6, 7]), ("agent", [8 + n] * (3 + 4 * n)))
        turns = ("env", [12] * n), ("agent", [13])
        executors = [
            trajectory(f"{n}-e{m}", "executor", ("prompt", [9]), ("agent", [10, 11 + m]), *turns) for m in range(n % 3)
        ]
        e = episode(f"e{n}", planner, *executors)
        made.append(Rollout(e, {t.id: (-1.0) ** n * (1 + n) for t in e.trajectories}))
    return made


def gradients(model: str, objective: str, ranks: Ranks) -> dict[str, torch.Tensor]:
    """Gradients of one update, the norm among them, put together from all processes."""
    part = MODELS[model]
    family = part.path.removeprefix("random:")
    policy = make_policy(part, tiny_source(family, vocabulary=260), device=torch.device("cpu"), seed=0)
    with torch.no_grad():
        for n, p in enumerate(policy.trained().values()):
            p.add_(0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(n)))
    if part.shard:
        shard(policy, policy.model.layers, ranks)
    if LOSSES[objective].kl:
        policy.keep_reference()
    optimiser = Optimiser(policy, OptimiserPart(learning_rate=0.0, micro_tokens=24, clip=0.0), 1, ranks=ranks)
    loss = LOSSES[objective]
    batch = pack(ranks.share(rollouts()), aggregation=loss.aggregation)
    found: dict[str, torch.Tensor] = {}

    def keep() -> float:
        average_gradients(list(policy.trained().values()), ranks)
        for name, p in policy.trained().items():
            assert p.grad is not None
            found[name] = whole(p.grad).clone()
        return 0.0

    optimiser._step = keep  # type: ignore[method-assign]
    reference = None
    if loss.kl:
        with policy.reference():
            reference = logprobs_of(policy, batch, temperature=1.0, micro_tokens=24, ranks=ranks)
        reference = reference + 0.1
    optimiser.policy_step(batch, loss, temperature=1.0, old=None, reference=reference)
    return found


def short_run(folder: Path, ranks: Ranks) -> None:
    t = trainer(folder, SHORT, ranks=ranks)
    asyncio.run(t.train())
    asyncio.run(t.engine.close())
    t.run.close()


def main(folder: Path) -> None:
    ranks = Ranks.from_environment(torch.device("cpu"))
    assert ranks.size == 2
    found = {f"{model}/{objective}": gradients(model, objective, ranks) for model, objective in CASES}
    if ranks.first:
        torch.save(found, folder / "gradients.pt")
    short_run(folder / "run", ranks)
    ranks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
