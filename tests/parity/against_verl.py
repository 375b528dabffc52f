"""Loss, KL and advantages against verl's core algorithms; gradients are compared at the log-probs."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from batches import Ledger, ours, padded, random_rollouts
from verl import DataProto
from verl.trainer.ppo.core_algos import (
    AdvantageEstimator,
    agg_loss,
    compute_grpo_outcome_advantage,
    get_policy_loss_fn,
    kl_penalty,
)
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.workers.config import ActorConfig

from subquest.record import Episode, Question, Trajectory
from subquest.rewards.base import Reward
from subquest.train.advantage import BASELINES, group_advantages, trajectory_advantages
from subquest.train.loss import LOSSES, LossSettings, policy_loss

BATCHES = 200

CASES: dict[str, tuple[str, str, dict[str, Any], LossSettings]] = {
    "vanilla, token-mean, dual clip": ("vanilla", "token-mean", {}, LOSSES["verl"]),
    "vanilla, asymmetric clip": (
        "vanilla",
        "token-mean",
        {"clip_ratio_low": 0.1, "clip_ratio_high": 0.28},
        replace(LOSSES["verl"], clip_low=0.1, clip_high=0.28),
    ),
    "vanilla, seq-mean-token-mean": (
        "vanilla",
        "seq-mean-token-mean",
        {},
        replace(LOSSES["verl"], aggregation="sequence-mean"),
    ),
    "vanilla, seq-mean-token-sum-norm": (
        "vanilla",
        "seq-mean-token-sum-norm",
        {},
        replace(LOSSES["verl"], aggregation="constant"),
    ),
    "gspo": (
        "gspo",
        "seq-mean-token-mean",
        {"clip_ratio_low": 0.05, "clip_ratio_high": 0.08},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.08),
    ),
}


def losses(ledger: Ledger) -> None:
    for name, (kind, mode, clips, settings) in CASES.items():
        config = ActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, **clips)
        for seed in range(BATCHES):
            rollouts = random_rollouts(seed)
            rows = padded(rollouts)
            if settings.aggregation == "constant":  # verl divides by the padded width
                settings = replace(settings, length=rows.actions.shape[1])
            batch = ours(rollouts, settings)
            g = torch.Generator().manual_seed(seed)
            new = (-3 * torch.rand(batch.rows.shape, generator=g)).requires_grad_()
            old = new.detach() + 0.5 * torch.randn(new.shape, generator=g)
            mine = policy_loss(
                new, old, batch.advantages, batch.weights, settings, units=batch.layout.units(settings.level)
            ).total
            log_prob = rows.spread(new.detach()).requires_grad_()
            theirs, _ = get_policy_loss_fn(kind)(
                old_log_prob=rows.spread(old),
                log_prob=log_prob,
                advantages=rows.advantages[:, None].expand(rows.actions.shape),
                response_mask=rows.actions.float(),
                loss_agg_mode=mode,
                config=config,
            )
            ledger.compare(f"{name}: loss", mine, theirs)
            (my_grad,) = torch.autograd.grad(mine, new)
            (their_grad,) = torch.autograd.grad(theirs, log_prob)
            ledger.compare(f"{name}: gradient", rows.spread(my_grad), their_grad)


def kl(ledger: Ledger) -> None:
    settings = replace(LOSSES["verl"], kl=1.0)
    for seed in range(BATCHES):
        rollouts = random_rollouts(seed)
        rows, batch = padded(rollouts), ours(rollouts, settings)
        g = torch.Generator().manual_seed(seed)
        new = (-3 * torch.rand(batch.rows.shape, generator=g)).requires_grad_()
        reference = new.detach() + 2 * torch.randn(new.shape, generator=g)
        zeros = torch.zeros_like(new)
        mine = policy_loss(new, new.detach(), zeros, batch.weights, settings, reference=reference).total
        log_prob = rows.spread(new.detach()).requires_grad_()
        mask = rows.actions.float()
        theirs = agg_loss(kl_penalty(log_prob, rows.spread(reference), "low_var_kl"), mask, "token-mean")
        ledger.compare("low_var_kl, token-mean: loss", mine, theirs)
        (my_grad,) = torch.autograd.grad(mine, new)
        (their_grad,) = torch.autograd.grad(theirs, log_prob)
        ledger.compare("low_var_kl, token-mean: gradient", rows.spread(my_grad), their_grad)


def grpo_advantage(ledger: Ledger) -> None:
    for seed in range(BATCHES):
        r = random.Random(seed)
        groups = [f"q{q}" for q in range(r.randint(1, 4)) for _ in range(r.randint(2, 6))]
        r.shuffle(groups)
        rewards = [r.choice([0.0, 1.0, r.gauss(0, 2)]) for _ in groups]
        scores = torch.zeros(len(groups), 3)
        scores[:, -1] = torch.tensor(rewards)
        mask = torch.ones_like(scores)
        for std, preset in ((True, "verl"), (False, "dr-grpo")):
            theirs, _ = compute_grpo_outcome_advantage(scores, mask, np.array(groups), norm_adv_by_std_in_grpo=std)
            mine = torch.tensor(group_advantages(rewards, groups, BASELINES[preset]))
            ledger.compare(f"GRPO advantage, {'std' if std else 'mean only'}", mine, theirs[:, 0])


def multi_trajectory_advantage(ledger: Ledger) -> None:
    """verl takes each session's last row for its reward; there our planner, which trains last, would stand."""
    for seed in range(BATCHES):
        r = random.Random(seed)
        episodes, rewards, keys, scores = [], [], [], []
        for q in range(r.randint(1, 3)):
            for session in range(r.randint(2, 5)):
                reward, count = r.choice([0.0, 1.0, r.gauss(0, 2)]), r.randint(1, 5)
                names = [f"{q}_{session}_{i}" for i in range(count)]
                trajectories = tuple(Trajectory(name, "executor", "") for name in names)
                question = Question(f"q{q}", f"question {q}?")
                episodes.append(Episode(f"{q}_{session}", question, "", "", trajectories=trajectories))
                rewards.append(Reward(reward))
                keys += names
                scores += [reward] * count
        rows = torch.zeros(len(keys), 4)
        rows[:, -1] = torch.tensor(scores)
        data = DataProto.from_dict(
            tensors={"token_level_rewards": rows, "response_mask": torch.ones_like(rows)},
            non_tensors={"uid": np.array([k.split("_")[0] for k in keys], dtype=object)},
        )
        theirs = compute_advantage_for_multi_trajectories(data, keys, AdvantageEstimator.GRPO).batch["advantages"]
        by_id = {t: a for e in trajectory_advantages(episodes, rewards, BASELINES["verl"]) for t, a in e.items()}
        ledger.compare("multi-trajectory advantage", torch.tensor([by_id[k] for k in keys]), theirs[:, 0])


def main() -> int:
    torch.set_num_threads(1)
    ledger = Ledger("verl")
    losses(ledger)
    kl(ledger)
    grpo_advantage(ledger)
    multi_trajectory_advantage(ledger)
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main())
