"""The tail of a step's rollouts, filled with episodes of the next step."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest.errors import ConfigError
from subquest.record import Episode, Question
from subquest.rewards import RewardFunction
from subquest.rewards import load as load_reward
from subquest.train.data import Stream
from subquest.train.recipe import Recipe, load_recipe
from subquest.train.sampler import Sampler

from .episodes import rollouts_of
from .test_rl import QUESTIONS, RECIPE, Lowercase, finish, trainer

AHEAD = replace(RECIPE, rollout=replace(RECIPE.rollout, questions=2, group=2, ahead=0.5), checkpoint_every=100)


class Held:
    """A system whose episodes end when the test says so."""

    def __init__(self) -> None:
        self.engines: dict[str, Any] = {}
        self.running: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []
        self.quoted: list[str] = []

    async def solve(self, question: Question, *, seed: int, id: str, support: bool) -> Episode:
        self.begun.append(id)
        self.quoted += [id] * support
        self.running[id] = asyncio.Event()
        try:
            await self.running[id].wait()
        finally:
            del self.running[id]
        return rollouts_of(id, {"planner": 1}, question=question.id)

    async def end(self, *ids: str) -> None:
        for id in ids:
            self.running[id].set()
        for _ in range(10):  # the loop has to see the ends, and to begin what follows
            await asyncio.sleep(0)


def sampler(system: Held, recipe: Recipe = AHEAD) -> Sampler:
    return Sampler(recipe, system, Stream(QUESTIONS, 0), Lowercase(), by="rollout")  # type: ignore[arg-type]


def names(step: int) -> list[str]:
    return [f"step-{step:05d}-{question:03d}-{member}" for question in (0, 1) for member in (0, 1)]


async def begun_by(system: Held, count: int) -> None:
    for _ in range(100):
        if len(system.begun) >= count:
            return
        await asyncio.sleep(0)


async def test_the_next_step_begins_in_the_places_of_the_last_episodes() -> None:
    system = Held()
    s = sampler(system)
    first, second = names(1), names(2)
    step = asyncio.create_task(s.sample(0, ahead=True))
    await begun_by(system, 4)
    assert system.begun == first
    await system.end(first[2], first[0])  # two of four are left: as many as are to run
    assert system.begun == first
    await system.end(first[1])
    assert system.begun == [*first, second[0]]
    await system.end(second[0])  # an episode of the next step makes room too
    assert system.begun == [*first, *second[:2]]
    await system.end(first[3])  # none is left
    sampled = await step
    assert [e.id for e in sampled.episodes] == first
    assert system.begun == [*first, *second[:2]], "the next step waits for its weights"
    step = asyncio.create_task(s.sample(1))
    await begun_by(system, 8)
    assert system.begun == [*first, *second], "no episode is begun twice"
    await system.end(*second[1:])
    assert [e.id for e in (await step).episodes] == second
    assert s.begun is None
    assert s.questions.position == 4


async def test_without_ahead_nothing_begins_before_its_step() -> None:
    for recipe, allowed in ((AHEAD, False), (replace(AHEAD, rollout=replace(AHEAD.rollout, ahead=0.0)), True)):
        system = Held()
        s = sampler(system, recipe)
        step = asyncio.create_task(s.sample(0, ahead=allowed))
        await begun_by(system, 4)
        await system.end(*names(1)[:3])
        assert system.begun == names(1)
        await system.end(names(1)[3])
        await step
        assert s.questions.position == 2


async def test_begun_episodes_that_are_given_up_are_asked_again() -> None:
    system = Held()
    s = sampler(system)
    step = asyncio.create_task(s.sample(0, ahead=True))
    await begun_by(system, 4)
    await system.end(*names(1)[:3])
    assert system.running.keys() == {names(1)[3], names(2)[0]}
    await system.end(names(1)[3])
    await step
    await s.forget_begun()
    assert not system.running
    assert s.questions.position == 2


async def test_no_more_episodes_run_at_once_than_allowed() -> None:
    system = Held()
    s = sampler(system, replace(AHEAD, rollout=replace(AHEAD.rollout, concurrency=2, ahead=1.0)))
    step = asyncio.create_task(s.sample(0, ahead=True))
    most = 0
    for _ in range(12):
        await begun_by(system, 1)
        most = max(most, len(system.running))
        if step.done():
            break
        await system.end(next(iter(system.running)))
    assert (await step).drawn == 4
    assert most == 2
    await s.forget_begun()


@pytest.mark.parametrize(
    ("reward", "dynamic", "quoted"),
    [
        (load_reward("coda"), False, names(1)[:2]),
        (load_reward("coda"), True, names(1)),
        (Lowercase(), False, names(1)),
    ],
)
async def test_quotes_are_chosen_where_somebody_may_look_at_them(
    reward: RewardFunction, dynamic: bool, quoted: list[str]
) -> None:
    """The run's folder keeps the first question's; a user's reward may look at all."""
    system = Held()
    recipe = replace(RECIPE, rollout=replace(AHEAD.rollout, ahead=0.0, dynamic=dynamic))
    sampling = asyncio.create_task(Sampler(recipe, system, Stream(QUESTIONS, 0), reward, by="rollout").sample(0))  # type: ignore[arg-type]
    await begun_by(system, 4)
    assert system.begun == names(1)
    assert system.quoted == quoted
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)


class LongTail:
    """The last episode of each step ends when one of the next step has."""

    def __init__(self, system: Any, *, last: int) -> None:
        self.system, self.last, self.engines = system, last, system.engines
        self.ended = {step: asyncio.Event() for step in range(1, last + 2)}

    async def solve(self, question: Question, *, seed: int, id: str, support: bool) -> Episode:
        step = int(id.split("-")[1])
        episode: Episode = await self.system.solve(question, seed=seed, id=id, support=support)
        self.ended[step].set()
        if id == names(step)[-1] and step < self.last:
            await self.ended[step + 1].wait()
        return episode


def spied(t: Any, seen: Callable[[int, dict[str, float], list[Episode]], None]) -> Any:
    one_step = t.one_step

    async def watched() -> tuple[dict[str, float], list[Episode]]:
        before = t.step
        figures, episodes = await one_step()
        seen(before, figures, episodes)
        return figures, episodes

    t.one_step = watched
    return t


@pytest.mark.slow
def test_every_token_is_by_these_weights_or_those_before_and_counted(tmp_path: Path) -> None:
    recipe = replace(AHEAD, optimiser=replace(RECIPE.optimiser, steps=3), evaluate_every=100)
    older_steps = []

    def seen(step: int, figures: dict[str, float], episodes: list[Episode]) -> None:
        turns = [s for e in episodes for t in e.trajectories for s in t.segments if s.kind == "agent"]
        assert {s.policy for s in turns} <= {step, step - 1}
        older = sum(len(s.token_ids) for s in turns if s.policy != step)
        assert figures["older"] == pytest.approx(older / sum(len(s.token_ids) for s in turns))
        assert (figures["importance"] == 1.0) == (older == 0)
        if older:
            older_steps.append(step)
        names = [e.id for e in episodes]
        assert names == [f"step-{step + 1:05d}-{q:03d}-{m}" for q in (0, 1) for m in (0, 1)]

    t = trainer(tmp_path, recipe)
    t.sampler.system = LongTail(t.sampler.system, last=3)  # type: ignore[assignment]
    curves = finish(spied(t, seen))
    assert sorted(curves) == list(range(4))
    assert older_steps == [1, 2]


@pytest.mark.slow
def test_a_checkpoint_is_never_crossed(tmp_path: Path) -> None:
    """With a checkpoint after each step nothing begins ahead, and the course is that of a run without the setting."""
    recipe = replace(AHEAD, checkpoint_every=1, optimiser=replace(RECIPE.optimiser, steps=3))
    plain = finish(trainer(tmp_path / "a", replace(recipe, rollout=replace(recipe.rollout, ahead=0.0))))
    found = finish(trainer(tmp_path / "b", recipe))
    for step in plain:
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "dev_f1"):
            if name in plain[step]:
                assert found[step][name] == plain[step][name], (step, name)
    assert found[3]["older"] == 0.0


@pytest.mark.slow
def test_a_run_that_stops_early_asks_what_it_had_begun(tmp_path: Path) -> None:
    recipe = replace(AHEAD, optimiser=replace(RECIPE.optimiser, steps=6), evaluate_every=100)
    t = trainer(tmp_path, recipe)
    t.time_is_up = lambda: t.step == 3  # type: ignore[method-assign]
    finish(t)
    again = trainer(tmp_path, recipe)
    assert again.step == 3
    assert again.order.position == 3 * recipe.rollout.questions
    finish(again)


@pytest.mark.parametrize("other", ["overlap", "dynamic"])
def test_settings_that_exclude_it_are_named(other: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "x"\nkind = "rl"\n[model]\npath = "random:llama"\n[[data]]\nquestions = "world:seed=1"\n'
        f"[rollout]\nahead = 0.2\n{other} = true\n"
    )
    with pytest.raises(ConfigError, match=rf"rollout\.ahead and rollout\.{other} exclude each other"):
        load_recipe(path)
