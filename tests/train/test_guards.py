"""Guards: each bound stops a run with the number, its value and the bound; what is absent is not judged."""

import math

import pytest

from subquest.train.guards import Collapsed, Guards
from subquest.train.recipe import GuardPart

HEALTHY = {"kl": 0.01, "ratio_max": 1.2, "entropy": 1.0, "cut_turns": 0.1, "reward": 0.5, "loss": 2.0}


def feed(guards: Guards, rewards: list[float]) -> None:
    for step, reward in enumerate(rewards):
        guards.check(step, {"reward": reward})


def test_a_healthy_step_passes() -> None:
    guards = Guards(GuardPart())
    guards.check(1, HEALTHY)
    guards.check(2, {})


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"loss": math.nan}, "step 7: loss is nan"),
        ({"gradient_norm": math.inf}, "step 7: gradient_norm is inf"),
        ({"kl": 1.5}, "kl is 1.5, above 1"),
        ({"ratio_max": 101.0}, "ratio_max is 101, above 100"),
        ({"entropy": 0.001}, "entropy is 0.001, below 0.01"),
        ({"cut_turns": 0.6}, "cut_turns is 0.6, above 0.5"),
        ({"failed_searches": 0.6}, "failed_searches is 0.6, above 0.5"),
    ],
)
def test_each_bound_is_named(figures: dict[str, float], message: str) -> None:
    with pytest.raises(Collapsed, match=message):
        Guards(GuardPart()).check(7, HEALTHY | figures)


def test_a_falling_reward_stops_a_run_and_noise_does_not() -> None:
    feed(Guards(GuardPart()), [0.5 + 0.2 * (-1) ** step for step in range(60)])
    rising = [0.2 + 0.04 * step for step in range(20)]
    feed(Guards(GuardPart()), rising)
    with pytest.raises(Collapsed, match="mean reward of 10 steps fell"):
        feed(Guards(GuardPart()), rising + [1.0 - 0.1 * step for step in range(40)])


def test_the_rewards_seen_survive_a_restart() -> None:
    first, second = Guards(GuardPart()), Guards(GuardPart())
    feed(first, [1.0] * 15)
    second.load(first.state())
    with pytest.raises(Collapsed, match="fell from 1 to"):
        feed(second, [-1.0] * 25)
