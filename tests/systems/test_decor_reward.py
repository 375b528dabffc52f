"""DECOR's reward, eq. 2 and 3, with judges whose verdicts are given."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from subquest.errors import ConfigError
from subquest.judge import AnswerCase, StepCase, Verdict
from subquest.record import Episode
from subquest.rewards import load
from subquest.systems.decor.reward import DECORReward
from subquest.train.advantage import BASELINES, trajectory_advantages
from tests.judge.test_model import decor_episode


@dataclass
class Given:
    """A judge that says what it is told and counts what it is asked."""

    answer: bool | None = True
    steps: dict[str, bool | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def judge_answers(self, cases: Sequence[AnswerCase]) -> list[Verdict]:
        self.asked += ["answer"] * len(cases)
        return [Verdict(self.answer)] * len(cases)

    async def judge_steps(self, cases: Sequence[StepCase]) -> list[Verdict]:
        self.asked += [c.role for c in cases]
        return [Verdict(self.steps.get(c.trajectory, True)) for c in cases]


GOOD = decor_episode("e", "about 1931")  # F1 with "1931": 2 * 1 / (2 + 1) = 2/3


async def test_mixture_by_hand() -> None:
    judge = Given(answer=True, steps={"2": False, "1.1": False})
    reward = (await DECORReward(answer_judge=judge, step_judge=judge).score([GOOD]))[0]
    team = 0.5 * 2 / 3 + 0.5 * 1
    assert reward.terms["team"] == pytest.approx(team)
    # planner: one good and one bad step, mean 0; filter -1; answerer +1
    assert reward.roles == pytest.approx(
        {"planner": 0.6 * team, "filter": 0.6 * team - 0.4, "answerer": 0.6 * team + 0.4}
    )
    assert reward.steps == pytest.approx(
        {"1": 0.6 * team + 0.4, "2": 0.6 * team - 0.4, "1.1": 0.6 * team - 0.4, "3": 0.6 * team + 0.4}
    )
    assert "compressor" not in reward.roles, "the frozen helper is not trained"
    assert reward.total == pytest.approx(0.6 * team)


def broken(role: str) -> Episode:
    changed = tuple(replace(t, format_errors=("no query",)) if t.role == role else t for t in GOOD.trajectories)
    return replace(GOOD, trajectories=changed, answer="")


async def test_format_comes_first() -> None:
    stopped = broken("planner")
    stopped = replace(stopped, trajectories=stopped.trajectories[:2])
    reward = (await DECORReward().score([stopped]))[0]
    assert reward.roles == {"planner": -1.0, "filter": -1.0}, "the answerer never acted and stays out"
    assert set(reward.steps.values()) == {-1.0}
    assert (reward.total, reward.terms["format"]) == (-1.0, 0.0)
    blamed = (await load("decor-blame", judge=Given(answer=False)).score([stopped]))[0]  # type: ignore[arg-type]
    assert blamed.roles == pytest.approx({"planner": -1.0, "filter": 0.4})


async def test_undecided_judges_neither_reward_nor_punish() -> None:
    judge = Given(answer=None, steps=dict.fromkeys(("1", "2", "1.1", "3")))
    reward = (await DECORReward(answer_judge=judge, step_judge=judge).score([GOOD]))[0]
    assert list(reward.roles.values()) == pytest.approx([0.6 * 0.5 * 2 / 3] * 3)


@pytest.mark.parametrize(
    ("preset", "roles", "asked"),
    [
        ("decor-f1", {"planner": 2 / 3, "filter": 2 / 3, "answerer": 2 / 3}, set()),
        ("decor-em", {"planner": 0.0, "filter": 0.0, "answerer": 0.0}, set()),
        ("decor-judge", {"planner": 1.0, "filter": -1.0, "answerer": 1.0}, {"planner", "filter", "answerer"}),
    ],
)
async def test_presets_ask_only_what_counts(preset: str, roles: dict[str, float], asked: set[str]) -> None:
    judge = Given(steps={"1.1": False})
    reward = (await load(preset, judge=judge).score([GOOD]))[0]  # type: ignore[arg-type]
    assert reward.roles == pytest.approx(roles)
    assert set(judge.asked) == asked


async def test_rules_by_default_and_advantages_by_role() -> None:
    episodes = [decor_episode("a", "1931"), decor_episode("b", "1950")]
    rewards = await load("decor").score(episodes)
    # rules: every step of a is good except that the answer is not in memory and right all the same; b made 1950 up
    assert rewards[0].roles == pytest.approx({"planner": 1.0, "filter": 1.0, "answerer": 1.0})
    assert rewards[1].roles == pytest.approx({"planner": 0.4, "filter": 0.4, "answerer": -0.4})
    first, second = trajectory_advantages(episodes, rewards, BASELINES["coda"], by="role")
    assert first["1"] == pytest.approx(0.5**0.5)
    assert second["3"] == pytest.approx(-(0.5**0.5))
    assert "2.1" not in first, "the compressor stays out of the loss"


def test_weights_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"alpha is 1\.5"):
        DECORReward(alpha=1.5)
