"""Advantages by role under verl: what DECOR's objective needs and verl's own trainer cannot give.

verl takes one reward a session, so roles could not be told apart. Here each row keeps the reward of its own role
(`extra_fields["role_reward"]`, written by the loop) and is compared with the same role in the question's other
sessions: a role that acts several times in a session counts once in the baseline (DECOR eq. 6).

    export VERL_USE_EXTERNAL_MODULES=subquest.train.verl.roles
    trainer.v1.trainer_mode=subquest_decor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from ..advantage import BASELINES, Baseline, group_advantages


def role_advantages(
    keys: Sequence[str], fields: Sequence[Mapping[str, Any]], baseline: Baseline = BASELINES["decor"]
) -> list[float]:
    """The advantage of each row. Keys are verl's `{uid}_{session}_{index}`, fields the rows' extra fields."""
    sessions: dict[tuple[str, str, str], float] = {}
    rows: list[tuple[str, str, str] | None] = []
    for key, field in zip(keys, fields, strict=True):
        uid, session, _ = key.rsplit("_", 2)
        if field.get("role_reward") is None:
            rows.append(None)  # a role without a reward stays out of the loss
            continue
        place = (uid, session, str(field["role"]))
        sessions.setdefault(place, float(field["role_reward"]))
        rows.append(place)
    places = list(sessions)
    values = group_advantages([sessions[p] for p in places], [(uid, role) for uid, _, role in places], baseline)
    found = dict(zip(places, values, strict=True))
    return [0.0 if place is None else found[place] for place in rows]


@register_trainer("subquest_decor")
class DecorTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer with advantages by role; use it with the policy loss `gspo` and the loop's DECOR."""

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        fields = ["response_mask", "extra_fields"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        mask = data["response_mask"]
        extra = [entry if isinstance(entry, Mapping) else entry.data for entry in data["extra_fields"]]
        values = role_advantages(batch.keys, extra)
        metrics["subquest/advantage_std"] = float(torch.tensor(values).std()) if len(values) > 1 else 0.0
        padded = mask.to_padded_tensor(0) if mask.is_nested else mask
        scores = torch.tensor(values, dtype=torch.float32)[:, None] * padded
        nested = response_to_nested(scores, mask)
        out = TensorDict({"advantages": nested, "returns": nested}, batch_size=len(batch.keys))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=out)
