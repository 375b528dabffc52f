"""DECOR's advantages and weights for verl's rows, without verl.

A row is one trajectory. verl knows its key, `{uid}_{session}_{index}`, and the extra fields that our loop wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..advantage import BASELINES, Baseline, group_advantages

Fields = Sequence[Mapping[str, Any]]


def role_advantages(keys: Sequence[str], fields: Fields, baseline: Baseline = BASELINES["decor"]) -> list[float]:
    """The advantage of each row: its role's reward against the same role in the question's other sessions (eq. 6)."""
    sessions: dict[tuple[str, str, str], float] = {}
    rows: list[tuple[str, str, str] | None] = []
    for key, field in zip(keys, fields, strict=True):
        if field.get("role_reward") is None:
            rows.append(None)  # a role without a reward stays out of the loss
            continue
        place = _place(key, field)
        sessions.setdefault(place, float(field["role_reward"]))
        rows.append(place)
    places = list(sessions)
    values = group_advantages([sessions[p] for p in places], [(uid, role) for uid, _, role in places], baseline)
    found = dict(zip(places, values, strict=True))
    return [0.0 if place is None else found[place] for place in rows]


def role_weights(keys: Sequence[str], fields: Fields, tokens: Sequence[int]) -> list[float]:
    """What turns verl's mean over rows into eq. 4: roles add up, a role's tokens in all its turns count alike, and the
    sum is divided by the rollouts. `tokens` are each row's action tokens; rows without any are not counted by verl."""
    pooled: Counter[tuple[str, str, str]] = Counter()
    for key, field, number in zip(keys, fields, tokens, strict=True):
        pooled[_place(key, field)] += number
    rows, rollouts = sum(number > 0 for number in tokens), len({place[:2] for place in pooled})
    return [
        rows / rollouts * number / max(1, pooled[_place(key, field)])
        for key, field, number in zip(keys, fields, tokens, strict=True)
    ]


def _place(key: str, field: Mapping[str, Any]) -> tuple[str, str, str]:
    """Question, session and role of a row."""
    uid, session, _ = key.rsplit("_", 2)
    return uid, session, str(field["role"])
