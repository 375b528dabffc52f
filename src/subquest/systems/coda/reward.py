"""CoDA's composite reward, R = R_ans + R_format + R_refine (CoDA's paper, eq. 4 to 9), shared by planner and executors.

Two readings. `paper`: executors' format is all or nothing over the episode (eq. 6), refine texts are joined before the
gold answer is looked for (eq. 7 and 8). `code`: executors' format is a mean, tags are only counted, and one executor's
refine texts must hold the answer by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from ...errors import ConfigError
from ...metrics import contains_answer, is_yes_no, score_answer
from ...protocol import parse
from ...record import Episode, Trajectory
from ...rewards import Reward, RewardFunction, shared, written_answer

ACTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "planner": (("task",), ("answer",)),
    "executor": (("search", "sql", "task"), ("result", "answer")),
}
"""By role: the tags that go on, and the tags that end. The paper's executor ends with `<result>`, the code's with
`<answer>`; one that finds rows of a table may query the table, and a nested one also hands out tasks."""


@dataclass(frozen=True, slots=True)
class CoDAReward:
    """Each part can be switched off, as in table 3.

    The paper's match is F1, which pays half for the unit of a wrong number where `46 years` is a gold answer
    (docs/claims/135m.md#coda-peco has what comes of it); `em` does not.
    """

    reads_quotes: ClassVar[bool] = False
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
        """I_P and I_E. Without executors, I_E is 0: skipping them must not pay."""
        check = well_formed if self.reading == "paper" else tags_balance
        planners = [float(check(t)) for t in episode.by_role("planner")]
        executors = [float(check(t)) for t in episode.by_role("executor")]
        if self.reading == "paper":
            return min(planners, default=0.0), min(executors, default=0.0)
        return _mean(planners), _mean(executors)

    def refined(self, episode: Episode) -> float:
        """1 if the refine texts contain a gold answer. Yes and no occur in any text, and no document says that
        something is unknown, so they earn nothing."""
        golds = episode.question.answers
        if is_yes_no(golds) or episode.question.unanswerable:
            return 0.0
        texts = [refine_text(t) for t in episode.by_role("executor")]
        if self.reading == "paper":
            texts = ["\n".join(filter(None, texts))]  # eq. 7
        return float(any(contains_answer(text, golds) for text in texts if text))


def well_formed(trajectory: Trajectory) -> bool:
    """Every turn parses without problems and takes exactly one kind of action, and only the last one ends.

    Several tasks in one turn are one way to act: they are sent together. A forced turn is not the trajectory's own, so
    one that had to be forced has not ended.
    """
    if trajectory.role not in ACTIONS or trajectory.format_errors:
        return False
    on, end = ACTIONS[trajectory.role]
    turns = trajectory.written_turns
    for number, text in enumerate(turns, 1):
        parsed = parse(text)
        acted = parsed.all(*on, *end)
        tags = {block.tag for block in acted}
        wanted = end if number == len(turns) else on
        if parsed.problems or len(tags) != 1 or not tags <= set(wanted) or not all(b.content for b in acted):
            return False
        if "task" not in tags and len(acted) != 1:
            return False
    return bool(turns)


def tags_balance(trajectory: Trajectory) -> bool:
    """The published code's check: each of the role's tags is there, with as many openings as closings, in any order.

    The code also asks for `<think>`; our prompts do not, so it only has to balance.
    """
    text = "\n".join(trajectory.written_turns)
    wanted: tuple[tuple[str, ...], ...] = {
        "planner": (("task",), ("answer",)),
        "executor": (("search",), ("refine",), ("answer", "result")),
    }.get(trajectory.role, ())

    def count(tag: str) -> tuple[int, int]:
        return len(re.findall(f"<{tag}>", text)), len(re.findall(f"</{tag}>", text))

    present = all(any(count(tag)[0] for tag in either) for either in wanted)
    balanced = all(len(set(count(tag))) == 1 for tag in ("think", *(tag for either in wanted for tag in either)))
    return bool(wanted) and present and balanced


def refine_text(trajectory: Trajectory) -> str:
    """Contents of all `<refine>` blocks that it wrote by itself, one per line."""
    blocks = (block for turn in trajectory.written_turns for block in parse(turn).all("refine"))
    return "\n".join(block.content for block in blocks if block.content)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


REWARDS: Mapping[str, Callable[[], RewardFunction]] = {
    "coda": CoDAReward,
    "coda-code": partial(CoDAReward, reading="code"),
    "coda-answer-only": partial(CoDAReward, format=False, refine=False),
    "coda-no-format": partial(CoDAReward, format=False),
    "coda-no-refine": partial(CoDAReward, refine=False),
    "coda-em": partial(CoDAReward, match="em"),
}
LOSSES: Mapping[str, Mapping[str, Any]] = {
    "coda": {"dual_clip": 3.0, "kl": 1e-3, "kl_limit": 10.0, "entropy": 1e-3},
    "coda-paper-sum": {"aggregation": "rollout-sum", "kl": 1e-3},
}
BASELINES: Mapping[str, Mapping[str, Any]] = {"coda": {"std": "sample", "epsilon": 0.0}}  # eq. 2 has no epsilon
