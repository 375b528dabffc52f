"""Our side of the comparisons with TRL and verl: what is compared, our figures, and what a peer needs for its own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from subquest.record import Episode, Question, Trajectory
from subquest.rewards import Reward
from subquest.train.advantage import BASELINES, group_advantages, trajectory_advantages
from subquest.train.batch import Batch
from subquest.train.logprobs import token_logprobs
from subquest.train.loss import LOSSES, LossSettings, policy_loss

from .batches import VOCABULARY, Padded, noise, ours, padded, random_rollouts

LENGTH = 24
"""Tokens that TRL's `dr_grpo` divides by."""

TRL: dict[str, tuple[dict[str, Any], LossSettings]] = {
    "grpo": ({"loss_type": "grpo"}, LOSSES["grpo"]),
    "grpo, k3": ({"loss_type": "grpo", "beta": 0.3}, replace(LOSSES["grpo"], kl=0.3)),
    "grpo, k3 with ratio correction": (
        {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": True},
        replace(LOSSES["grpo"], kl=0.3, kl_correction=True),
    ),
    "grpo, asymmetric clip, two-sided clip 3": (
        {"loss_type": "grpo", "epsilon_high": 0.28, "delta": 3.0},
        replace(LOSSES["grpo"], clip_high=0.28, dual_clip=3.0),
    ),
    "bnpo": ({"loss_type": "bnpo"}, LOSSES["bnpo"]),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, LOSSES["dapo"]),
    "dapo, temperature 0.7": ({"loss_type": "dapo", "temperature": 0.7}, LOSSES["bnpo"]),
    "dr_grpo": ({"loss_type": "dr_grpo"}, replace(LOSSES["dr-grpo"], length=LENGTH)),
    "sequence level (GSPO)": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.08},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.08),
    ),
    "sequence level, k3": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "beta": 0.3, "epsilon": 0.05},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.05, kl=0.3),
    ),
}
"""TRL's options, and our settings that mean the same."""

VERL: dict[str, tuple[str, str, dict[str, Any], LossSettings]] = {
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
        replace(LOSSES["verl"], aggregation="constant", length=1),  # of each batch its padded width, as verl divides
    ),
    "gspo": (
        "gspo",
        "seq-mean-token-mean",
        {"clip_ratio_low": 0.05, "clip_ratio_high": 0.08},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.08),
    ),
}
"""verl's policy loss, its aggregation and options, and our settings that mean the same."""


@dataclass(frozen=True)
class Trial:
    """One random batch: our figures by name, and what the peer computes its own from."""

    mine: Mapping[str, torch.Tensor]
    rows: Padded
    new: torch.Tensor
    """Log-probs of action tokens, row by row: under the policy, the one that sampled and the reference."""
    old: torch.Tensor
    reference: torch.Tensor


def small_llama() -> LlamaForCausalLM:
    """Weights that no version of a library decides on."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for at, (name, parameter) in enumerate(sorted(model.named_parameters())):
            parameter.copy_(0.1 * noise(at, parameter.shape) + ("norm" in name))
    return model


def gradients(model: LlamaForCausalLM, loss: torch.Tensor) -> torch.Tensor:
    parameters = [parameter for _, parameter in sorted(model.named_parameters())]
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


def trl_trials(name: str, model: LlamaForCausalLM, seeds: Iterable[int]) -> Iterator[Trial]:
    """Loss and parameter gradients of a small Llama: packed records, no padding, chunked log-probs."""
    options, settings = TRL[name]
    for seed in seeds:
        rollouts = random_rollouts(seed)
        batch = ours(rollouts, settings)
        new = _logprobs(model, batch, options.get("temperature", 1.0))
        old = new.detach() + 0.3 * noise(seed, new.shape)
        reference = new.detach() + 0.5 * noise(seed + 1, new.shape)
        units = batch.layout.units(settings.level)
        loss = policy_loss(new, old, batch.advantages, batch.weights, settings, units=units, reference=reference).total
        mine = {f"{name}: loss": loss, f"{name}: gradient": gradients(model, loss)}
        yield Trial(mine, padded(rollouts), new.detach(), old, reference)


def _logprobs(model: LlamaForCausalLM, batch: Batch, temperature: float) -> torch.Tensor:
    states = [model.model(ids[None]).last_hidden_state[0] for ids in batch.token_ids.split(batch.lengths.tolist())]
    hidden = torch.cat(states)[batch.rows]
    return token_logprobs(hidden, model.lm_head.weight, batch.targets, temperature=temperature, chunk=7).logprobs


def verl_trials(name: str, seeds: Iterable[int]) -> Iterator[Trial]:
    """Loss and its gradient at the log-probs."""
    settings = VERL[name][-1]
    for seed in seeds:
        rollouts = random_rollouts(seed)
        rows = padded(rollouts)
        if settings.aggregation == "constant":
            settings = replace(settings, length=rows.actions.shape[1])
        batch = ours(rollouts, settings)
        new = _random_logprobs(seed, batch)
        old = new.detach() + 0.5 * noise(seed, new.shape)
        units = batch.layout.units(settings.level)
        loss = policy_loss(new, old, batch.advantages, batch.weights, settings, units=units).total
        yield Trial(_with_gradient(name, loss, new, rows), rows, new.detach(), old, old)


KL = "low_var_kl, token-mean"


def kl_trials(seeds: Iterable[int]) -> Iterator[Trial]:
    settings = replace(LOSSES["verl"], kl=1.0)
    for seed in seeds:
        rollouts = random_rollouts(seed)
        rows, batch = padded(rollouts), ours(rollouts, settings)
        new = _random_logprobs(seed, batch)
        reference = new.detach() + 2 * noise(seed, new.shape)
        zeros = torch.zeros_like(new)
        loss = policy_loss(new, new.detach(), zeros, batch.weights, settings, reference=reference).total
        yield Trial(_with_gradient(KL, loss, new, rows), rows, new.detach(), new.detach(), reference)


def _random_logprobs(seed: int, batch: Batch) -> torch.Tensor:
    return (-noise(seed + 1, batch.rows.shape).abs()).requires_grad_()


def _with_gradient(name: str, loss: torch.Tensor, new: torch.Tensor, rows: Padded) -> dict[str, torch.Tensor]:
    (gradient,) = torch.autograd.grad(loss, new)
    return {f"{name}: loss": loss, f"{name}: gradient": rows.spread(gradient)}


@dataclass(frozen=True)
class Rewarded:
    """Rewards in groups: our advantages by name, and what the peer computes its own from."""

    mine: Mapping[str, torch.Tensor]
    groups: list[str]
    rewards: list[float]


GROUPED = {"GRPO advantage, std": "verl", "GRPO advantage, mean only": "dr-grpo"}


def group_trials(seeds: Iterable[int]) -> Iterator[Rewarded]:
    for seed in seeds:
        r = random.Random(seed)
        groups = [f"q{q}" for q in range(r.randint(1, 4)) for _ in range(r.randint(2, 6))]
        r.shuffle(groups)
        rewards = [r.choice([0.0, 1.0, r.gauss(0, 2)]) for _ in groups]
        mine = {
            name: torch.tensor(group_advantages(rewards, groups, BASELINES[preset])) for name, preset in GROUPED.items()
        }
        yield Rewarded(mine, groups, rewards)


def multi_trajectory_trials(seeds: Iterable[int]) -> Iterator[Rewarded]:
    """Groups are verl's keys of rows. It takes each session's last row for its reward; there our planner stands."""
    for seed in seeds:
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
        by_id = {t: a for e in trajectory_advantages(episodes, rewards, BASELINES["verl"]) for t, a in e.items()}
        yield Rewarded({"multi-trajectory advantage": torch.tensor([by_id[k] for k in keys])}, keys, scores)
