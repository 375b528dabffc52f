"""Advantages: rollouts are counted, rows are not."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.errors import UsageError
from subquest.rewards import Reward
from subquest.train.advantage import BASELINES, Baseline, group_advantages, trajectory_advantages, with_spread

from .episodes import rollouts_of


def test_three_rollouts_with_one_three_and_two_trajectories() -> None:
    episodes = [
        rollouts_of("a", {"planner": 1}),
        rollouts_of("b", {"planner": 1, "executor": 2}),
        rollouts_of("c", {"planner": 1, "executor": 1}),
    ]
    rewards = [Reward(1.0), Reward(0.0), Reward(0.5)]
    # mean 0.5, sample std sqrt((0.25 + 0.25 + 0) / 2) = 0.5
    assert [set(a.values()) for a in trajectory_advantages(episodes, rewards)] == [{1.0}, {-1.0}, {0.0}]
    assert [len(a) for a in trajectory_advantages(episodes, rewards)] == [1, 3, 2]
    # what counting rows would have given: 1.63, -0.82, 0.41
    rows = group_advantages([1, 0, 0, 0, 0.5, 0.5], "q" * 6)
    assert [round(rows[i], 2) for i in (0, 1, 4)] == [1.63, -0.82, 0.41]


def test_presets_by_hand() -> None:
    rewards = [1.0, 0.0, 0.5]
    assert group_advantages(rewards, "qqq", BASELINES["trl"]) == pytest.approx([0.5 / 0.5001, -0.5 / 0.5001, 0.0])
    assert group_advantages(rewards, "qqq", BASELINES["verl"]) == pytest.approx([0.5 / 0.500001, -0.5 / 0.500001, 0.0])
    assert group_advantages(rewards, "qqq", BASELINES["dr-grpo"]) == [0.5, -0.5, 0.0]
    population = math.sqrt(0.5 / 3)
    assert group_advantages(rewards, "qqq", Baseline("population")) == pytest.approx(
        [0.5 / population, -0.5 / population, 0]
    )


def test_no_spread_and_singletons_give_zero() -> None:
    assert group_advantages([0.3, 0.1 + 0.2, 5.0], "aab") == [0.0, 0.0, 0.0]
    assert group_advantages([], "") == []


def test_ids_of_different_data_sets_do_not_mix() -> None:
    one, two = rollouts_of("a", {"planner": 1}, question="0"), rollouts_of("b", {"planner": 1}, question="0")
    two = replace(two, question=replace(two.question, dataset="other"))
    assert trajectory_advantages([one, two], [Reward(1.0), Reward(0.0)]) == [{"a-planner-0": 0.0}, {"b-planner-0": 0.0}]


def test_by_role_one_value_a_rollout_and_role() -> None:
    episodes = [
        rollouts_of("a", {"planner": 3, "answerer": 1}),
        rollouts_of("b", {"planner": 1, "answerer": 1}),
        rollouts_of("c", {"planner": 2}),  # stopped early: its answerer never acted
    ]
    rewards = [
        Reward(0.0, roles={"planner": 1.0, "answerer": 0.2}),
        Reward(0.0, roles={"planner": 0.0, "answerer": 0.6}),
        Reward(0.0, roles={"planner": -1.0}),
    ]
    plain = Baseline("sample")
    a, b, c = trajectory_advantages(episodes, rewards, plain, by="role")
    # planner: mean 0, std 1. answerer: mean 0.4, sample std sqrt(0.04 + 0.04) = 0.2828
    assert [a["a-planner-0"], a["a-planner-2"], b["b-planner-0"], c["c-planner-1"]] == [1.0, 1.0, 0.0, -1.0]
    assert a["a-answerer-0"] == pytest.approx(-0.2 / math.sqrt(0.08))
    assert b["b-answerer-0"] == pytest.approx(0.2 / math.sqrt(0.08))
    assert set(c) == {"c-planner-0", "c-planner-1"}


def test_by_step_measures_each_step_against_the_rollouts() -> None:
    episodes = [rollouts_of("a", {"planner": 2}), rollouts_of("b", {"planner": 1})]
    rewards = [
        Reward(0.0, roles={"planner": 0.0}, steps={"a-planner-0": 1.0, "a-planner-1": -1.0}),
        Reward(0.0, roles={"planner": 1.0}, steps={"b-planner-0": 1.0}),
    ]
    # roles' values 0 and 1: mean 0.5, std 0.7071
    a, b = trajectory_advantages(episodes, rewards, Baseline("sample"), by="step")
    root = math.sqrt(0.5)
    assert a == pytest.approx({"a-planner-0": 0.5 / root, "a-planner-1": -1.5 / root})
    assert b == pytest.approx({"b-planner-0": 0.5 / root})


def test_groups_without_spread_are_dropped_whole() -> None:
    episodes = [rollouts_of(i, {"planner": 1}, question=q) for i, q in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))]
    rewards = [Reward(1.0), Reward(1.0), Reward(1.0), Reward(0.0)]
    assert with_spread(episodes, rewards) == [False, False, True, True]
    by_role = [Reward(0.0, roles={"planner": v, "filter": 1.0}) for v in (1.0, 1.0, 0.0, 1.0)]
    assert with_spread(episodes, by_role, by="role") == [False, False, True, True]


def test_bad_input_is_named() -> None:
    with pytest.raises(UsageError, match="finite"):
        group_advantages([1.0, math.nan], "qq")
    with pytest.raises(UsageError, match="must be finite"):
        Reward(math.inf)
    with pytest.raises(UsageError, match="sample, population or none"):
        Baseline("mad")  # type: ignore[arg-type]


_rewards = st.lists(st.floats(-3, 3).map(lambda x: round(x, 3)), min_size=2, max_size=8)


@given(_rewards, st.floats(-10, 10), st.randoms())
def test_shift_and_order_change_nothing(rewards: list[float], shift: float, random) -> None:  # type: ignore[no-untyped-def]
    plain = group_advantages(rewards, ["q"] * len(rewards))
    moved = group_advantages([r + shift for r in rewards], ["q"] * len(rewards))
    assert moved == pytest.approx(plain, abs=1e-6)
    order = list(range(len(rewards)))
    random.shuffle(order)
    shuffled = group_advantages([rewards[i] for i in order], ["q"] * len(rewards))
    assert shuffled == [plain[i] for i in order]


@given(_rewards)
def test_advantages_of_a_group_have_mean_zero_and_std_one(rewards: list[float]) -> None:
    values = group_advantages(rewards, ["q"] * len(rewards))
    assert sum(values) == pytest.approx(0, abs=1e-6)
    if any(values):
        assert sum(v * v for v in values) / (len(values) - 1) == pytest.approx(1)


def test_by_rollout_a_role_that_the_reward_leaves_out_is_left_out() -> None:
    episodes = [rollouts_of(i, {"planner": 1, "executor": 2}) for i in "ab"]
    rewards = [Reward(value, roles={"planner": value}) for value in (1.0, 0.0)]
    for episode, found in zip(episodes, trajectory_advantages(episodes, rewards), strict=True):
        assert set(found) == {t.id for t in episode.by_role("planner")}
    everyone = trajectory_advantages(episodes, [Reward(1.0), Reward(0.0)])
    assert [len(found) for found in everyone] == [3, 3]
