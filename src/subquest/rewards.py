"""What an episode is worth: rewards by name, with a user's own terms added.

    reward = load("coda")
    reward = load("coda", terms={"brief.py:brevity": 0.2})      # a function of the episode in a file
    reward = load("decor", judge=ModelJudge(engine, instruction="decor"))
    reward = load("decor", terms={"my-term": 1.0})              # entry point group subquest.rewards
    reward = load("decor", options={"alpha": 0.4})              # some settings of a preset changed
    rewards = await reward.score(episodes)

The formulas of the papers are declared with their systems (`systems/NAME/reward.py`, table `REWARDS`). Every term, a
user's too, is in `Reward.terms` by its name.
"""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

from .codec import changed
from .errors import ConfigError, UsageError, suggest
from .record import Episode
from .systems import registry

if TYPE_CHECKING:
    from .judge.agreement import BothJudges
    from .metrics.embeddings import Embedder

GROUP = "subquest.rewards"
"""Entry-point group in which packages register terms of their own."""

Term = Callable[[Episode], float]
"""A user's own reward term: any function of the episode."""


@dataclass(frozen=True, slots=True)
class Reward:
    """What one episode is worth."""

    total: float
    """The reward of the episode as a whole."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """The named parts it is made of, including their weights if they add up; logged as they are."""
    roles: Mapping[str, float] = field(default_factory=dict)
    """The reward of each role that acted; if a system rewards all alike, each is the total."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """The reward of single trajectories by id, if the reward function distinguishes the steps of a role."""

    def __post_init__(self) -> None:
        for name, value in (("total", self.total), *self.terms.items(), *self.roles.items(), *self.steps.items()):
            if not math.isfinite(value):
                raise UsageError(f"the reward {name!r} is {value}: rewards must be finite numbers")

    def plus(self, name: str, value: float, weight: float) -> Reward:
        """With one more term, which counts for the episode and for every role and step."""
        extra = weight * value
        return Reward(
            self.total + extra,
            {**self.terms, name: extra},
            {role: r + extra for role, r in self.roles.items()},
            {step: r + extra for step, r in self.steps.items()},
        )


class RewardFunction(Protocol):
    """Scores episodes, many at a time, because judges and encoders work best in batches."""

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]: ...


def reads_quotes(reward: RewardFunction) -> bool:
    """Whether a reward may look at the quotes of an episode and at whether they support its answer. Choosing them takes
    the host longer than the rest of an episode, so rollouts leave them out for a reward with `reads_quotes = False`."""
    return bool(getattr(reward, "reads_quotes", True))


def written_answer(episode: Episode) -> str:
    """The answer that the policy gave by itself; empty if it was forced or taken from a result.

    Users get such answers. A reward that paid for them would teach to run out of turns.
    """
    return "" if episode.forced else episode.stated_answer


def roles_of(episode: Episode) -> tuple[str, ...]:
    """Roles that wrote at least one turn, in order of appearance."""
    acted = (t.role for t in episode.trajectories if any(s.kind == "agent" for s in t.segments))
    return tuple(dict.fromkeys(acted))


def shared(episode: Episode, terms: Mapping[str, float]) -> Reward:
    """The sum of the terms, as the reward of the episode and of each of its roles."""
    total = math.fsum(terms.values())
    return Reward(total, terms, dict.fromkeys(roles_of(episode), total))


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


def names() -> list[str]:
    """The rewards that our systems declare."""
    return list(registry.declared("reward", "REWARDS"))


def load(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    terms: Mapping[str, float] | None = None,
    judge: BothJudges | None = None,
    embedder: Embedder | None = None,
    tau: float | None = None,
) -> RewardFunction:
    """The reward `name`, its settings changed by `options`, with the terms (name or `path.py:function`) added.

    A system from elsewhere (`path.py:Class`, an entry point) brings a reward of its name. Rewards that judge or embed
    use `judge`, `embedder` and `tau`; others ignore them.
    """
    known = registry.declared("reward", "REWARDS", name)
    if name not in known:
        raise UsageError(f"there is no reward {name!r}; {suggest(name, known)}")
    reward = known[name]()
    parts = {"answer_judge": judge, "step_judge": judge, "embedder": embedder, "tau": tau}
    used = {key: value for key, value in parts.items() if value is not None and key in _settings(reward)}
    reward = _changed(name, dataclasses.replace(reward, **used) if used else reward, options or {})
    if not terms:
        return reward
    return WithTerms(reward, tuple((term_name(spec), find_term(spec), weight) for spec, weight in terms.items()))


def _settings(reward: Any) -> dict[str, Any]:
    """The fields of a reward and their values; none for a user's reward that is no dataclass."""
    if not dataclasses.is_dataclass(reward):
        return {}
    return {f.name: getattr(reward, f.name) for f in dataclasses.fields(reward)}


def _changed(name: str, reward: Any, options: Mapping[str, Any]) -> RewardFunction:
    """A reward with some of its settings changed; only plain ones, such as weights and switches."""
    plain = [key for key, value in _settings(reward).items() if isinstance(value, bool | int | float | str)]
    for key in options:
        if key not in plain:
            raise UsageError(f"the reward {name!r} has no setting {key!r}; {suggest(key, plain)}")
    if not options:
        return reward  # type: ignore[no-any-return]
    return changed(reward, options, f"the reward {name!r}", error=ConfigError)  # type: ignore[no-any-return]


def term_name(spec: str) -> str:
    """The name a term is logged by: the function's for a file, the entry point's otherwise."""
    return spec.rpartition(":")[2]


def find_term(spec: str) -> Term:
    """A user's term: `path.py:function`, or the name of an entry point in the group `subquest.rewards`."""
    if ":" in spec:
        term = registry.load_object(spec, "reward term")
    else:
        found = {entry.name: entry for entry in entry_points(group=GROUP)}
        if spec not in found:
            known = f"installed: {', '.join(sorted(found))}" if found else "none is installed"
            raise UsageError(f"there is no reward term {spec!r} ({known}). Give path.py:function for one of your own")
        term = found[spec].load()
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
