"""DECOR's hybrid reward (DECOR's paper, eq. 2 and 3): format first, then the team's answer and each role's own work.

    R_u = -1                              if the format is broken (the episode was stopped there)
        = alpha R_team + beta R_role_u    otherwise, beta = 1 - alpha
    R_team = lambda F1 + (1 - lambda) judge

R_role_u is +1 or -1 by a functional judge; a role that acts several times gets the mean of its steps. The answer and
the steps are judged by a model or by rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from ...errors import ConfigError
from ...judge.cases import AnswerCase, AnswerJudge, StepCase, StepJudge
from ...judge.rules import RuleJudge
from ...judge.steps import JUDGED_ROLES, steps_of
from ...metrics import score_answer
from ...record import Episode
from ...rewards import Reward, RewardFunction, roles_of, written_answer

FORMAT_PENALTY = -1.0


@dataclass(frozen=True, slots=True)
class DECORReward:
    reads_quotes: ClassVar[bool] = False
    alpha: float = 0.6
    """Weight of the team's outcome against the role's own work."""
    lambda_: float = 0.5
    """Weight of F1 (or EM) against the answer judge in R_team."""
    match: Literal["f1", "em"] = "f1"
    blame: Literal["all", "offender"] = "all"
    """Who gets -1 when the format breaks: every role that acted, or the one that broke it."""
    answer_judge: AnswerJudge = field(default_factory=RuleJudge)
    step_judge: StepJudge = field(default_factory=RuleJudge)

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("lambda", self.lambda_)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} is {value}, but must lie between 0 and 1")
        if self.match not in ("f1", "em"):
            raise ConfigError(f"unknown match {self.match!r}: f1 or em")
        if self.blame not in ("all", "offender"):
            raise ConfigError(f"unknown blame {self.blame!r}: all or offender")

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        steps = [steps_of(e) for e in episodes]
        judged = await self._judge_answers(episodes)
        signs = iter(await self._judge_steps([s for group in steps for s in group]))
        return [
            self._reward(e, [(s, next(signs)) for s in group], team)
            for e, group, team in zip(episodes, steps, judged, strict=True)
        ]

    async def _judge_answers(self, episodes: Sequence[Episode]) -> list[tuple[float, float]]:
        """Lexical match and judge's verdict for each answer; what has no weight is not requested."""
        answers = [written_answer(e) for e in episodes]
        golds = [e.question.answers for e in episodes]
        matches = [getattr(score_answer(a, g), self.match) for a, g in zip(answers, golds, strict=True)]
        if self.lambda_ == 1 or self.alpha == 0:
            return [(m, 0.0) for m in matches]
        cases = [AnswerCase(e.question.question, g, a) for e, g, a in zip(episodes, golds, answers, strict=True)]
        verdicts = await self.answer_judge.judge_answers(cases)
        return [(m, float(bool(v.yes))) for m, v in zip(matches, verdicts, strict=True)]

    async def _judge_steps(self, cases: Sequence[StepCase]) -> list[float]:
        if self.alpha == 1:
            return [0.0] * len(cases)
        return [verdict.sign for verdict in await self.step_judge.judge_steps(cases)]

    def _reward(self, episode: Episode, steps: Sequence[tuple[StepCase, float]], judged: tuple[float, float]) -> Reward:
        match, verdict = judged
        team = self.lambda_ * match + (1 - self.lambda_) * verdict
        acted = [role for role in roles_of(episode) if role in JUDGED_ROLES]
        offenders = {t.role for t in episode.trajectories if t.format_errors and t.role in JUDGED_ROLES}
        values: dict[str, float] = {}
        by_step: dict[str, float] = {}
        terms = {self.match: match, "judge": verdict, "team": team, "format": float(not offenders)}
        for role in acted:
            own = [(case.trajectory, sign) for case, sign in steps if case.role == role]
            work = terms[f"role_{role}"] = sum(sign for _, sign in own) / len(own)
            penalised = bool(offenders) if self.blame == "all" else role in offenders
            values[role] = FORMAT_PENALTY if penalised else self._mix(team, work)
            by_step |= {step: FORMAT_PENALTY if penalised else self._mix(team, sign) for step, sign in own}
        total = FORMAT_PENALTY if offenders else sum(values.values()) / len(values) if values else 0.0
        return Reward(total, terms, values, by_step)

    def _mix(self, team: float, role: float) -> float:
        return self.alpha * team + (1 - self.alpha) * role


REWARDS: Mapping[str, Callable[[], RewardFunction]] = {
    "decor": DECORReward,
    "decor-f1": partial(DECORReward, alpha=1.0, lambda_=1.0),
    "decor-em": partial(DECORReward, alpha=1.0, lambda_=1.0, match="em"),
    "decor-judge": partial(DECORReward, alpha=0.0),
    "decor-blame": partial(DECORReward, blame="offender"),
}
LOSSES: Mapping[str, Mapping[str, Any]] = {
    "decor": {"level": "role", "aggregation": "role-mean", "clip_low": 3e-4, "clip_high": 4e-4},
}
BASELINES: Mapping[str, Mapping[str, Any]] = {"decor": {"std": "sample", "epsilon": 1e-6}}  # eq. 6
