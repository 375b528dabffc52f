"""CoDA's composite reward, R = R_ans + R_format + R_refine (seed 000, eq. 4 to 9), shared by planner and executors.

Two readings. `paper`: executors' format is all or nothing over the episode (eq. 6), refine texts are joined before the
gold answer is looked for (eq. 7 and 8). `code`: executors' format is a mean, tags are only counted, and one executor's
refine texts must hold the answer by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from ..metrics import contains_answer, is_yes_no, score_answer
from ..protocol import parse
from ..record import Episode, Trajectory
from .base import Reward, shared, written_answer
from .format import tags_balance, well_formed


@dataclass(frozen=True, slots=True)
class CodaReward:
    """Each part can be switched off, as in table 3.

    The paper's match is F1, which pays half for the unit of a wrong number where `46 years` is a gold answer
    (docs/claims.md#coda-peco has what comes of it); `em` does not.
    """

    reading: Literal["paper", "code"] = "paper"
    answer: bool = True
    format: bool = True
    refine: bool = True
    delta: float = 0.5
    match: Literal["f1", "em"] = "f1"

    def __post_init__(self) -> None:
        if self.match not in ("f1", "em"):
            raise ConfigError(f"unknown match {self.match!r}: f1 or em")
        if self.reading not in ("paper", "code"):
            raise ConfigError(f"unknown reading {self.reading!r}: paper or code")

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        return [self.reward(episode) for episode in episodes]

    def reward(self, episode: Episode) -> Reward:
        terms: dict[str, float] = {}
        if self.answer:
            match = score_answer(written_answer(episode), episode.question.answers)
            terms["answer"] = 6 * getattr(match, self.match) - 3  # eq. 4, 5
        if self.format:
            terms["format_planner"], terms["format_executor"] = self.formats(episode)  # eq. 6
        if self.refine:
            terms["refine"] = self.delta * self.refined(episode)  # eq. 8
        return shared(episode, terms)

    def formats(self, episode: Episode) -> tuple[float, float]:
        """I_P and I_E. No executor ran: 0, or else skipping them would pay."""
        check = well_formed if self.reading == "paper" else tags_balance
        planners = [float(check(t)) for t in episode.by_role("planner")]
        executors = [float(check(t)) for t in episode.by_role("executor")]
        if self.reading == "paper":
            return min(planners, default=0.0), min(executors, default=0.0)
        return _mean(planners), _mean(executors)

    def refined(self, episode: Episode) -> float:
        """1 if the refine texts hold a gold answer. Yes and no stand in any text, so they earn nothing."""
        golds = episode.question.answers
        if is_yes_no(golds):
            return 0.0
        texts = [refine_text(t) for t in episode.by_role("executor")]
        if self.reading == "paper":
            texts = ["\n".join(filter(None, texts))]  # eq. 7
        return float(any(contains_answer(text, golds) for text in texts if text))


def refine_text(trajectory: Trajectory) -> str:
    """Contents of all `<refine>` blocks that it wrote by itself, one a line."""
    blocks = (block for turn in trajectory.written_turns for block in parse(turn).all("refine"))
    return "\n".join(block.content for block in blocks if block.content)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
