"""The trainer that DECOR's objective needs and verl's own cannot give: advantages and weights by role.

verl takes one reward a session, so roles could not be told apart. Here each row keeps the reward of its own role
(`extra_fields["role_reward"]`, written by the loop) and is compared with the same role in the question's other
sessions: a role that acts several times in a session counts once in the baseline (DECOR eq. 6). A row's advantage is
also multiplied by what makes verl's mean over rows DECOR's eq. 4 (`advantages.role_weights`).

    export VERL_USE_EXTERNAL_MODULES=subquest.train.verl.roles
    trainer.v1.trainer_mode=subquest_decor

What stays different is eq. 5: verl's `gspo` takes one ratio a row, where DECOR pools a role's turns. The gradient is
the same wherever the ratios are 1, as in the first optimiser step on a batch of rollouts, and wherever a role has one
row in its session; otherwise rows are clipped one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from .advantages import role_advantages, role_weights


@register_trainer("subquest_decor")
class DecorTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer with advantages by role; use it with the policy loss `gspo` and the loop's DECOR."""

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        fields = ["response_mask", "extra_fields"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        mask = data["response_mask"]
        extra = [entry if isinstance(entry, Mapping) else entry.data for entry in data["extra_fields"]]
        padded = mask.to_padded_tensor(0) if mask.is_nested else mask
        values = role_advantages(batch.keys, extra)
        weights = role_weights(batch.keys, extra, padded.sum(-1).int().tolist())
        metrics["subquest/advantage_std"] = float(torch.tensor(values).std()) if len(values) > 1 else 0.0
        scores = (torch.tensor(values) * torch.tensor(weights)).float()[:, None] * padded
        nested = response_to_nested(scores, mask)
        out = TensorDict({"advantages": nested, "returns": nested}, batch_size=len(batch.keys))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=out)
