"""The RL loop on a tiny model and the real rollout engine: it learns, it resumes, it stops when it should."""

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from subquest.engine import Sampling
from subquest.engine.torch.engine import TorchEngine
from subquest.errors import ConfigError, DataError, SearchRefused, UsageError
from subquest.record import Episode, Hit, Question, Step
from subquest.rewards import Reward, shared
from subquest.systems.apex import APEX
from subquest.systems.coda import CoDA
from subquest.systems.registry import get
from subquest.train.components import make_policy
from subquest.train.data import Stream
from subquest.train.distributed import ALONE, Ranks, shard
from subquest.train.guards import Collapsed
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart, GuardPart, ModelPart, OptimiserPart, Recipe, RolloutPart, load_recipe
from subquest.train.rl import RLTrainer
from subquest.train.run import TrainRun
from subquest.train.sft import SFTTrainer

from ..systems.fakes import FakeSearch
from .steady_engine import SteadyEngine

torch.set_num_threads(1)
SHORT_PROMPTS = Path(__file__).parent / "prompts"
"""The question alone: a model of bytes reads CoDA's own prompt as 450 tokens, in each rollout and each pass."""
QUESTIONS = [Question(f"q{i}", f"What is {i}?", (str(i),), dataset="toy") for i in range(8)]
RECIPE = Recipe(
    name="toy",
    kind="rl",
    model=ModelPart("random:llama", rank=4, alpha=16.0),
    data=(DataPart("none"),),
    loss="coda",
    advantage="coda",
    rollout=RolloutPart(questions=4, group=4, max_tokens=8, concurrency=64),
    optimiser=OptimiserPart(steps=4, learning_rate=5e-2, micro_tokens=4096),
    guards=GuardPart(cut_turns=2.0, kl=100.0, entropy=0.0),
    evaluate_every=2,
    evaluate_questions=4,
    checkpoint_every=1,
)


class Lowercase:
    """Rewards the share of lower-case letters in what the planner writes: a random model can learn it at once."""

    async def score(self, episodes: list[Episode]) -> list[Reward]:
        def share(episode: Episode) -> float:
            text = episode.trajectories[0].agent_text
            return sum("a" <= c <= "z" for c in text) / max(len(text), 1)

        return [shared(e, {"lowercase": share(e)}) for e in episodes]


def trainer(
    folder: Path,
    recipe: Recipe = RECIPE,
    *,
    minutes: float | None = None,
    watch: object = None,
    ranks: Ranks = ALONE,
    engine: Any = None,
) -> RLTrainer:
    source = tiny_source("llama", vocabulary=260)
    policy = make_policy(recipe.model, source, device=torch.device("cpu"), seed=recipe.seed)
    shard(policy, policy.model.layers, ranks)
    engine = engine or SteadyEngine(source, device="cpu", cache_tokens=65_536)
    settings: dict[str, Any] = {"turns": 1, "force": False, "prompts": SHORT_PROMPTS}
    sampling = Sampling(max_tokens=recipe.rollout.max_tokens, temperature=1.0, logprobs=True)
    system = CoDA(engine, FakeSearch(), sampling=sampling, **settings)
    greedy = CoDA(engine, FakeSearch(), sampling=replace(sampling, temperature=0.0), **settings)
    run = TrainRun(folder, recipe, minutes=minutes, ranks=ranks)
    stream = Stream(QUESTIONS, recipe.seed)
    return RLTrainer(
        run,
        policy,
        engine,
        system,
        greedy,
        stream,
        QUESTIONS[:2],
        Lowercase(),
        watch=watch,
        ranks=ranks,  # type: ignore[arg-type]
    )


def finish(t: RLTrainer) -> dict[int, dict[str, float]]:
    """Train to the end and return the curves."""
    try:
        asyncio.run(t.train())
    finally:
        asyncio.run(t.engine.close())
        curves: dict[int, dict[str, float]] = {}
        t.run.store.flush()
        for step, name, value in t.run.store.metrics():
            curves.setdefault(step, {})[name] = value
        t.run.close()
    return curves


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    recipe = replace(
        RECIPE, optimiser=replace(RECIPE.optimiser, steps=16), rollout=replace(RECIPE.rollout, questions=8)
    )
    curves = finish(trainer(tmp_path, recipe))
    assert sorted(curves) == list(range(17))
    first, last = (sum(curves[s]["reward"] for s in steps) / 3 for steps in ((1, 2, 3), (14, 15, 16)))
    assert last > 2 * first
    assert curves[16]["kl"] > 0
    assert {"seconds_rollout", "seconds_update", "em", "length_planner", "reward/lowercase", "gradient_norm"} <= curves[
        1
    ].keys()
    assert (tmp_path / "best" / "adapter_model.safetensors").is_file()
    assert "dev_f1" in json.loads((tmp_path / "best" / "dev.json").read_text())


@pytest.mark.slow
def test_an_interrupted_run_equals_the_unbroken_one(tmp_path: Path) -> None:
    unbroken = finish(trainer(tmp_path / "a"))

    class Killed(Exception):
        pass

    def kill(step: int, figures: object) -> None:
        if step == 2:
            raise Killed

    with pytest.raises(Killed):
        finish(trainer(tmp_path / "b", watch=kill))
    resumed = finish(trainer(tmp_path / "b"))
    same = ("reward", "gradient_norm", "total", "kl", "entropy", "em", "dev_f1", "completion_tokens")
    for step in unbroken:
        for name in same:
            if name in unbroken[step]:
                assert resumed[step][name] == pytest.approx(unbroken[step][name], abs=1e-6), (step, name)


@pytest.mark.slow
def test_a_run_that_was_killed_equals_the_unbroken_one(tmp_path: Path) -> None:
    """kill -9 in the middle of a step's work, then the same command again: order, optimiser and seeds go on."""
    unbroken = finish(trainer(tmp_path / "a"))
    command = [sys.executable, "-m", "tests.train.kill_worker", str(tmp_path / "b"), "3"]
    root = Path(__file__).resolve().parents[2]
    killed = subprocess.run(command, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    again = trainer(tmp_path / "b")
    assert again.step == 2  # the third step's checkpoint was still to be written
    resumed = finish(again)
    assert resumed.keys() == unbroken.keys()
    for step in (3, 4):
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "learning_rate", "em", "completion_tokens"):
            assert resumed[step][name] == pytest.approx(unbroken[step][name], abs=1e-6), (step, name)


def test_a_slice_stops_in_time_with_a_checkpoint(tmp_path: Path) -> None:
    t = trainer(tmp_path, minutes=0.0)
    finish(t)
    assert t.step == 0
    assert t.run.checkpoints.steps() == [0]


def test_another_recipe_cannot_resume_the_run(tmp_path: Path) -> None:
    TrainRun(tmp_path, replace(RECIPE, seed=5)).close()
    begun = TrainRun(tmp_path, RECIPE)  # nothing was trained with seed 5: a slip, put right
    begun.record(1, {"loss": 1.0})
    begun.close()
    other = replace(RECIPE, seed=1, optimiser=replace(RECIPE.optimiser, steps=77))
    with pytest.raises(
        UsageError, match=r"another recipe \(optimiser.steps was \d+, is 77, seed was the default, is 1;"
    ):
        TrainRun(tmp_path, other)


def test_one_process_trains_a_run_at_a_time(tmp_path: Path) -> None:
    first = TrainRun(tmp_path, RECIPE)
    with pytest.raises(UsageError, match="another process is training the run"):
        TrainRun(tmp_path, RECIPE)
    first.close()
    TrainRun(tmp_path, RECIPE).close()


def test_a_run_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="is a file; name a folder"):
            TrainRun(place, RECIPE)


def test_a_kill_while_the_recipe_is_written_harms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, text: str, **_: object) -> None:
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", half)
        with pytest.raises(KeyboardInterrupt):
            TrainRun(tmp_path, RECIPE)
    begun = TrainRun(tmp_path, RECIPE)
    begun.record(1, {"loss": 1.0})
    begun.close()
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(DataError, match=r"recipe.json: not JSON"):
        TrainRun(tmp_path, RECIPE)


def test_a_guard_stops_the_run_and_names_the_reason(tmp_path: Path) -> None:
    recipe = replace(RECIPE, guards=GuardPart(cut_turns=0.0, kl=100.0, entropy=0.0))
    with pytest.raises(Collapsed, match="cut_turns"):
        finish(trainer(tmp_path, recipe))


@pytest.mark.parametrize(("fails", "evaluated"), [(True, False), (True, True), (False, False)])
def test_a_search_that_is_down_stops_the_run(fails: bool, evaluated: bool, tmp_path: Path) -> None:
    class Down(FakeSearch):
        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            if fails:
                raise SearchRefused("nobody is there")
            return await super().retrieve(queries, k)

    t = trainer(tmp_path, replace(RECIPE, optimiser=replace(RECIPE.optimiser, steps=1)))
    sampling = Sampling(max_tokens=8, temperature=1.0, logprobs=True)
    system = get("rag")(t.engine, Down(), sampling=sampling)
    if evaluated:
        t.evaluator.greedy = system
    else:
        t.sampler.system = system
    if fails:
        with pytest.raises(Collapsed, match=r"failed_searches is 1, above 0.5 \(nobody is there\)"):
            finish(t)
    else:
        assert finish(t)[1]["failed_searches"] == 0


def test_a_step_in_which_nothing_was_written_says_why(tmp_path: Path) -> None:
    t = trainer(tmp_path)
    t.engine.context_window = 16
    why = r"an episode met a limit: context window: a context of .* leaves no room in a window of 16"
    with pytest.raises(DataError, match=why):
        finish(t)


def test_dynamic_sampling_refills_with_whole_groups(tmp_path: Path) -> None:
    class Every(Lowercase):
        async def score(self, episodes: list[Episode]) -> list[Reward]:
            # odd questions have no spread and must be replaced
            return [
                shared(e, {"r": float(i % 4) if int(e.question.id[1:]) % 2 == 0 else 1.0})
                for i, e in enumerate(episodes)
            ]

    recipe = replace(RECIPE, rollout=replace(RECIPE.rollout, dynamic=True))
    t = trainer(tmp_path, recipe)
    t.sampler.reward = Every()
    figures, episodes = asyncio.run(t.one_step())
    asyncio.run(t.engine.close())
    t.run.close()
    assert len(episodes) == 16
    assert {int(e.question.id[1:]) % 2 for e in episodes} == {0}
    assert figures["drawn"] > 16


class Flat(Lowercase):
    """Nothing to choose between."""

    async def score(self, episodes: list[Episode]) -> list[Reward]:
        return [shared(e, {"r": 1.0}) for e in episodes]


class SecondOfTwo(Ranks):
    """A process beside one that has found all but one of its groups."""

    def __init__(self) -> None:
        super().__init__(1, 2)

    def gather(self, value: Any) -> list[Any]:
        return [12, value]


def test_a_process_without_any_spread_takes_part_all_the_same(tmp_path: Path) -> None:
    """The last questions that are asked anew are fewer than the processes: this one asks none."""
    t = trainer(tmp_path, replace(RECIPE, rollout=replace(RECIPE.rollout, dynamic=True)))
    t.sampler.reward, t.sampler.ranks = Flat(), SecondOfTwo()
    sampled = asyncio.run(t.sampler.sample(0))
    asyncio.run(t.engine.close())
    t.run.close()
    assert len(sampled.episodes) == len(sampled.rewards) == 4
    assert len({e.question.id for e in sampled.episodes}) == 1


def test_few_rollouts_make_fewer_minibatches(tmp_path: Path) -> None:
    """Dynamic sampling may find less than it looked for; the run goes on with what there is."""
    recipe = replace(
        RECIPE,
        rollout=replace(RECIPE.rollout, dynamic=True),
        optimiser=replace(RECIPE.optimiser, minibatches=16, steps=1),
    )
    t = trainer(tmp_path, recipe)
    t.sampler.reward = Flat()
    figures, episodes = asyncio.run(t.one_step())
    asyncio.run(t.engine.close())
    t.run.close()
    assert len(episodes) == 4
    assert t.optimiser.step_count == 4
    assert figures["drawn"] == 4 * 16


def test_a_step_has_something_for_every_process(tmp_path: Path) -> None:
    recipe = replace(RECIPE, kind="sft", optimiser=replace(RECIPE.optimiser, batch=1))
    unused: Any = None
    run = TrainRun(tmp_path, recipe)
    with pytest.raises(ConfigError, match=r"1 trace a step .* cannot occupy 2 processes"):
        SFTTrainer(run, unused, unused, unused, unused, (), ranks=SecondOfTwo())
    run.close()


def test_several_minibatches_use_the_old_policy(tmp_path: Path) -> None:
    recipe = replace(RECIPE, optimiser=replace(RECIPE.optimiser, minibatches=2, steps=1))
    t = trainer(tmp_path, recipe)
    figures, episodes = asyncio.run(t.one_step())
    asyncio.run(t.engine.close())
    t.run.close()
    assert t.optimiser.step_count == 2
    assert figures["ratio_max"] > 1.0
    assert figures["packed"] == sum(len(tr.token_ids) for e in episodes for tr in e.trajectories)
    assert figures["tokens"] == figures["completion_tokens"]
    assert figures["mismatch"] < 1e-3  # the rollout engine and the training forward agree on the CPU


def test_old_log_probs_of_the_engine_take_no_pass(tmp_path: Path) -> None:
    """On the CPU both are in float32, so the two ways end with the same weights."""
    ends, passed = [], []
    for old in ("trainer", "engine"):
        optimiser = replace(RECIPE.optimiser, minibatches=2, steps=1, old_logprobs=old)
        t = trainer(tmp_path / old, replace(RECIPE, optimiser=optimiser, loss="grpo"))
        figures, _ = asyncio.run(t.one_step())
        asyncio.run(t.engine.close())
        t.run.close()
        ends.append(torch.cat([p.detach().flatten() for p in t.policy.trained().values()]))
        passed.append(figures["computed_before"])
        assert 0 < figures["mismatch"] < 1e-3
    assert passed[0] > 0
    assert passed[1] == 0
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-3, atol=1e-6)


def test_samples_of_older_weights_need_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "x"\nkind = "rl"\n[model]\npath = "random:llama"\n[[data]]\nquestions = "world:seed=1"\n'
        '[rollout]\noverlap = true\n[optimiser]\nold_logprobs = "engine"\n'
    )
    with pytest.raises(ConfigError, match=r"rollout\.overlap samples with older weights"):
        load_recipe(path)


@pytest.mark.parametrize(("minibatches", "bites"), [(1, False), (2, True)])
def test_decors_clip_bites_from_the_second_step_on_a_batch(minibatches: int, bites: bool, tmp_path: Path) -> None:
    recipe = replace(RECIPE, loss="decor", optimiser=replace(RECIPE.optimiser, minibatches=minibatches, steps=1))
    t = trainer(tmp_path, recipe)
    figures, _ = asyncio.run(t.one_step())
    asyncio.run(t.engine.close())
    t.run.close()
    assert (figures["clip_fraction"] > 0) is bites


def test_full_fine_tuning_trains_all_weights(tmp_path: Path) -> None:
    recipe = replace(RECIPE, model=ModelPart("random:llama", rank=0), optimiser=replace(RECIPE.optimiser, steps=1))
    t = trainer(tmp_path, recipe)
    before = {k: v.clone() for k, v in t.policy.state_dict().items()}
    finish(t)
    assert isinstance(t.policy, Policy)
    assert all(not math.isclose(float((v - before[k]).abs().sum()), 0.0) for k, v in t.policy.state_dict().items())
    assert (tmp_path / "best" / "model.safetensors").is_file()


def test_plans_are_compared_by_their_reward_not_as_answers(tmp_path: Path) -> None:
    recipe = replace(RECIPE, system="apex", loss="apex", optimiser=replace(RECIPE.optimiser, steps=2))
    source = tiny_source("llama", vocabulary=260)
    policy = make_policy(recipe.model, source, device=torch.device("cpu"), seed=0)
    engine = TorchEngine(source, device="cpu", cache_tokens=65_536)
    sampling = Sampling(max_tokens=8, temperature=1.0, logprobs=True)
    system = APEX(engine, None, sampling=sampling, prompts="compact", plan_only=True)
    greedy = APEX(engine, None, sampling=replace(sampling, temperature=0.0), prompts="compact", plan_only=True)
    planned = [replace(q, decomposition=(Step(q.question, q.answers[0]),), hops=1) for q in QUESTIONS[:2]]
    t = RLTrainer(
        TrainRun(tmp_path, recipe),
        policy,
        engine,
        system,
        greedy,
        Stream(QUESTIONS, 0),
        [*planned, QUESTIONS[3]],
        Lowercase(),
    )
    curves = finish(t)
    assert t.evaluator.dev == planned, "a plan can be held against a gold plan alone"
    assert curves[2].keys() >= {"dev_reward", "dev_reward_1hop"}
    assert not curves[2].keys() & {"em", "f1", "dev_em", "dev_f1"}
    best = json.loads((tmp_path / "best" / "dev.json").read_text())
    assert best["dev_reward"] == max(curves[step]["dev_reward"] for step in (0, 2))
