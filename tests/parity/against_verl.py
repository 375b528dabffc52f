"""Loss, KL and advantages against verl's core algorithms; gradients are compared at the log-probs."""

from __future__ import annotations

import sys

import numpy as np
import torch
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

from .ledger import Ledger
from .trials import GROUPED, KL, VERL, Trial, group_trials, kl_trials, multi_trajectory_trials, verl_trials

BATCHES = 200


def compare(ledger: Ledger, name: str, trial: Trial, theirs: torch.Tensor, log_prob: torch.Tensor) -> None:
    (gradient,) = torch.autograd.grad(theirs, log_prob)
    ledger.compare(f"{name}: loss", trial.mine[f"{name}: loss"], theirs)
    ledger.compare(f"{name}: gradient", trial.mine[f"{name}: gradient"], gradient)


def losses(ledger: Ledger) -> None:
    for name, (kind, mode, clips, _) in VERL.items():
        config = ActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, **clips)
        for trial in verl_trials(name, range(BATCHES)):
            rows = trial.rows
            log_prob = rows.spread(trial.new).requires_grad_()
            theirs, _ = get_policy_loss_fn(kind)(
                old_log_prob=rows.spread(trial.old),
                log_prob=log_prob,
                advantages=rows.advantages[:, None].expand(rows.actions.shape),
                response_mask=rows.actions.float(),
                loss_agg_mode=mode,
                config=config,
            )
            compare(ledger, name, trial, theirs, log_prob)


def kl(ledger: Ledger) -> None:
    for trial in kl_trials(range(BATCHES)):
        log_prob = trial.rows.spread(trial.new).requires_grad_()
        penalty = kl_penalty(log_prob, trial.rows.spread(trial.reference), "low_var_kl")
        compare(ledger, KL, trial, agg_loss(penalty, trial.rows.actions.float(), "token-mean"), log_prob)


def grpo_advantage(ledger: Ledger) -> None:
    for trial in group_trials(range(BATCHES)):
        scores = torch.zeros(len(trial.groups), 3)
        scores[:, -1] = torch.tensor(trial.rewards)
        mask, groups = torch.ones_like(scores), np.array(trial.groups)
        for name, preset in GROUPED.items():
            std = preset == "verl"
            theirs, _ = compute_grpo_outcome_advantage(scores, mask, groups, norm_adv_by_std_in_grpo=std)
            ledger.compare(name, trial.mine[name], theirs[:, 0])


def multi_trajectory_advantage(ledger: Ledger) -> None:
    for trial in multi_trajectory_trials(range(BATCHES)):
        rows = torch.zeros(len(trial.groups), 4)
        rows[:, -1] = torch.tensor(trial.rewards)
        data = DataProto.from_dict(
            tensors={"token_level_rewards": rows, "response_mask": torch.ones_like(rows)},
            non_tensors={"uid": np.array([k.split("_")[0] for k in trial.groups], dtype=object)},
        )
        made = compute_advantage_for_multi_trajectories(data, trial.groups, AdvantageEstimator.GRPO)
        for name, mine in trial.mine.items():
            ledger.compare(name, mine, made.batch["advantages"][:, 0])


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
