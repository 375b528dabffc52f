"""Rewards by name, with a user's own terms added.

    reward = load("coda")
    reward = load("coda", terms={"brief.py:brevity": 0.2})      # a function of the episode in a file
    reward = load("decor", judge=ModelJudge(engine, instruction="decor"))
    reward = load("decor", terms={"my-term": 1.0})              # entry point group subquest.rewards
    reward = load("decor", options={"alpha": 0.4})              # a preset with some of its own settings changed
    rewards = await reward.score(episodes)

Every term, a user's too, is in `Reward.terms` by its name.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..codec import changed
from ..errors import ConfigError, UsageError, suggest
from ..record import Episode
from .base import Reward, RewardFunction, Term
from .baselines import AutoRefineReward, SearchR1Reward
from .coda import CodaReward
from .decor import DecorReward
from .plan import PlanReward

if TYPE_CHECKING:
    from ..judge.agreement import BothJudges
    from ..metrics.embeddings import Embedder

GROUP = "subquest.rewards"


class Parts(NamedTuple):
    """What a preset may be given."""

    judges: Mapping[str, Any]
    """Arguments of DECOR's reward."""
    plan: Mapping[str, Any]
    """Arguments of the plan reward."""


PRESETS: Mapping[str, Callable[[Parts], RewardFunction]] = {
    "coda": lambda _: CodaReward(),
    "coda-code": lambda _: CodaReward(reading="code"),
    "coda-answer-only": lambda _: CodaReward(format=False, refine=False),
    "coda-no-format": lambda _: CodaReward(format=False),
    "coda-no-refine": lambda _: CodaReward(refine=False),
    "coda-em": lambda _: CodaReward(match="em"),
    "decor": lambda parts: DecorReward(**parts.judges),
    "decor-f1": lambda parts: DecorReward(alpha=1.0, lambda_=1.0, **parts.judges),
    "decor-em": lambda parts: DecorReward(alpha=1.0, lambda_=1.0, match="em", **parts.judges),
    "decor-judge": lambda parts: DecorReward(alpha=0.0, **parts.judges),
    "decor-blame": lambda parts: DecorReward(blame="offender", **parts.judges),
    "apex-plan": lambda parts: PlanReward(**parts.plan),
    "search-r1": lambda _: SearchR1Reward(),
    "autorefine": lambda _: AutoRefineReward(),
}


@dataclass(frozen=True, slots=True)
class WithTerms:
    """A reward with a user's terms added to it."""

    reward: RewardFunction
    terms: tuple[tuple[str, Term, float], ...]

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        out = []
        for episode, reward in zip(episodes, await self.reward.score(episodes), strict=True):
            for name, term, weight in self.terms:
                if name in reward.terms:
                    raise UsageError(f"there are two reward terms named {name!r}; give the function another name")
                reward = reward.plus(name, _value(name, term, episode), weight)
            out.append(reward)
        return out


def load(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    terms: Mapping[str, float] | None = None,
    judge: BothJudges | None = None,
    embedder: Embedder | None = None,
    tau: float | None = None,
) -> RewardFunction:
    """The preset `name`, its settings changed by `options`, with the terms (name or `path.py:function`) added."""
    if name not in PRESETS:
        raise UsageError(f"there is no reward {name!r}; {suggest(name, PRESETS)}")
    parts = Parts(
        judges={} if judge is None else {"answer_judge": judge, "step_judge": judge},
        plan={"embedder": embedder, **({} if tau is None else {"tau": tau})},
    )
    reward = _changed(name, PRESETS[name](parts), options or {})
    if not terms:
        return reward
    return WithTerms(reward, tuple((term_name(spec), find_term(spec), weight) for spec, weight in terms.items()))


def _changed(name: str, reward: Any, options: Mapping[str, Any]) -> RewardFunction:
    """A preset with some of its settings changed; only plain ones, such as weights and switches."""
    plain = [f.name for f in fields(reward) if isinstance(getattr(reward, f.name), bool | int | float | str)]
    for key in options:
        if key not in plain:
            raise UsageError(f"the reward {name!r} has no setting {key!r}; {suggest(key, plain)}")
    return changed(reward, options, f"the reward {name!r}", error=ConfigError)  # type: ignore[no-any-return]


def term_name(spec: str) -> str:
    """The name a term is logged by: the function's for a file, the entry point's otherwise."""
    return spec.rpartition(":")[2]


def find_term(spec: str) -> Term:
    """A user's term: `path.py:function`, or the name of an entry point in the group `subquest.rewards`."""
    path, colon, function = spec.rpartition(":")
    if colon:
        return _from_file(Path(path), function)
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if spec not in found:
        known = f"installed: {', '.join(sorted(found))}" if found else "none is installed"
        raise UsageError(f"there is no reward term {spec!r} ({known}). Give path.py:function for one of your own")
    return _checked(spec, found[spec].load())


def _from_file(path: Path, function: str) -> Term:
    if not path.is_file():
        raise UsageError(f"there is no file {path} with a reward term")
    spec = importlib.util.spec_from_file_location(f"subquest_term_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for what the file defines
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise UsageError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, function):
        raise UsageError(f"{path} has no function {function!r}")
    return _checked(f"{path}:{function}", getattr(module, function))


def _checked(spec: str, term: Any) -> Term:
    if not callable(term):
        raise UsageError(f"the reward term {spec!r} is not a function of the episode")
    return term  # type: ignore[no-any-return]


def _value(name: str, term: Term, episode: Episode) -> float:
    try:
        value: Any = term(episode)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"the reward term {name!r} failed for episode {episode.id}: {type(error).__name__}: {error} "
            f"({at.filename}:{at.lineno})"
        ) from error
    if not isinstance(value, Real):  # numpy's numbers are real ones too
        raise UsageError(f"the reward term {name!r} gave {value!r} for episode {episode.id}, not a number")
    return float(value)
