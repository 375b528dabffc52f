"""Recipes: every one in the repository loads, slips are named, and each smoke recipe runs."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data.registry import REGISTRY
from subquest.engine.adapter import prompt_set_of
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import ConfigError, DataError, UsageError
from subquest.rewards import load as load_reward
from subquest.runs import RunStore
from subquest.train.advantage import BASELINES
from subquest.train.batch import minibatches
from subquest.train.components import make_system
from subquest.train.data import Stream, draw_sample
from subquest.train.launch import prepare, train
from subquest.train.loss import LOSSES, LossSettings
from subquest.train.optimiser import Schedule
from subquest.train.recipe import ModelPart, OptimiserPart, Recipe, load_recipe

from ..systems.fakes import FakeSearch

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
ALL = [*sorted(RECIPES.glob("*.toml")), *sorted(RECIPES.glob("qwen-*/*.toml"))]
SMOKE = [path for path in ALL if path.stem.endswith("-smoke")]


OBJECTIVES: tuple[str, ...] = (
    "coda-sft",
    "coda-peco",
    "decor-marl",
    "apex-plan",
    "apex-exec",
    "search-r1",
    "autorefine",
    "rag",
)
OBJECTIVES += ("direct-sft", "cot-r1")


@pytest.mark.parametrize("path", ALL, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_recipe_loads_and_its_names_are_known(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == "-".join(path.relative_to(RECIPES).with_suffix("").parts)
    system = make_system(recipe, ScriptedEngine([]), FakeSearch(), temperature=1.0)
    assert system.name == recipe.system
    if recipe.kind == "rl":
        assert load_reward(recipe.reward or recipe.system)
        assert (recipe.loss or recipe.system) in LOSSES
        assert (recipe.advantage or recipe.system) in BASELINES
    for part in (*recipe.data, *recipe.dev):
        name, _, split = part.questions.partition(":")
        if name == "world" or name.startswith("runs/"):  # made with its passages
            continue
        assert name.endswith(".jsonl.gz") or split in REGISTRY[name].splits
        assert recipe.index or part.corpus


def test_every_objective_has_three_sizes() -> None:
    names = {path.stem for path in ALL}
    assert {f"{objective}-{size}" for objective in OBJECTIVES for size in ("smoke", "small", "paper")} <= names


PAPERS: dict[str, tuple[str, int, int, int, int, float, int, int]] = {
    # model, questions a step, group, mini-batches, steps, learning rate, longest turn, documents a search
    "coda-peco": ("Qwen2.5-3B", 256, 8, 8, 300, 1e-6, 512, 3),
    "autorefine": ("Qwen2.5-3B", 256, 5, 5, 300, 1e-6, 512, 3),
    "search-r1": ("Qwen2.5-3B", 512, 5, 10, 1005, 1e-6, 500, 3),
    "decor-marl": ("Qwen3-8B", 64, 8, 8, 200, 2e-6, 4096, 5),
    "apex-plan": ("Qwen2.5-7B-Instruct", 512, 8, 4, 3 * (10_473 // 512), 5e-6, 1024, 3),
}


@pytest.mark.parametrize("objective", PAPERS)
def test_the_papers_settings_of_reinforcement_learning(objective: str) -> None:
    r = load_recipe(RECIPES / f"{objective}-paper.toml")
    found = (
        r.model.path.rpartition("/")[2], r.rollout.questions, r.rollout.group, r.optimiser.minibatches,
        r.optimiser.steps, r.optimiser.learning_rate, r.rollout.max_tokens, r.k,
    )  # fmt: skip
    assert found == PAPERS[objective]
    assert r.model.rank == 0
    assert r.rollout.temperature == 1.0
    assert not r.rollout.overlap
    assert r.optimiser.minibatches > 1, "with one step a batch of rollouts every ratio is 1, and nothing is clipped"


def test_the_papers_other_settings() -> None:
    def settings(objective: str) -> tuple[Recipe, LossSettings]:
        recipe = load_recipe(RECIPES / f"{objective}-paper.toml")
        return recipe, LOSSES.get(recipe.loss or recipe.system, LOSSES["coda"])

    coda, loss = settings("coda-peco")
    assert (loss.kl, loss.entropy, loss.clip_low, loss.dual_clip) == (1e-3, 1e-3, 0.2, 3.0)
    assert (coda.settings["turns"], coda.settings["executor_turns"], coda.settings["force"]) == (6, 6, False)
    assert coda.rollout.window == 6656
    assert settings("autorefine")[0].settings["turns"] == 5
    assert settings("search-r1")[0].optimiser.warmup == 0.285
    decor, loss = settings("decor-marl")
    assert (decor.optimiser.schedule, decor.optimiser.betas, decor.sample) == ("cosine", (0.9, 0.95), 20_000)
    assert (loss.clip_low, loss.clip_high, loss.level, loss.kl) == (3e-4, 4e-4, "role", 0.0)
    assert (decor.settings["turns"], decor.settings["memory_tokens"], decor.rollout.dynamic) == (4, 4096, True)
    assert [p.questions for p in decor.data] == [
        f"{name}:train" for name in ("nq", "triviaqa", "hotpotqa", "musique", "2wikimultihopqa")
    ]
    plan, loss = settings("apex-plan")
    assert (plan.sample, loss.kl, loss.entropy) == (10_473, 0.01, 0.01)
    executor, _ = settings("apex-exec")
    o = executor.optimiser
    assert (executor.sample, o.epochs, o.learning_rate, o.schedule, o.warmup) == (14_604, 2.0, 5e-6, "cosine", 0.03)
    assert o.batch == 1 * 2 * 8 // 2  # a device, accumulated, devices, devices that share a sequence
    assert executor.instruct.plays == ("executor", "synthesizer")


@pytest.mark.parametrize("objective", PAPERS)
def test_a_minibatch_has_as_many_rollouts_as_in_the_papers(objective: str) -> None:
    """Today's verl counts questions and multiplies by the group (APEX); Search-R1's fork of it and what was made from
    that repeat the questions first, and count rollouts."""
    r = load_recipe(RECIPES / f"{objective}-paper.toml")
    wanted = {"coda-peco": 256, "autorefine": 256, "search-r1": 256, "decor-marl": 64, "apex-plan": 128 * 8}
    rollouts = list(range(r.rollout.questions * r.rollout.group))
    assert {len(part) for part in minibatches(rollouts, r.optimiser.minibatches)} == {wanted[objective]}


@pytest.mark.parametrize("size", ["smoke", "small", "paper"])
def test_apex_exec_trains_the_executor_alone(size: str) -> None:
    recipe = load_recipe(RECIPES / f"apex-exec-{size}.toml")
    assert {part.roles for part in recipe.data} == {("executor", "synthesizer")}


def test_a_range_of_seeds_is_one_source_a_seed(tmp_path: Path) -> None:
    text = "name = 'x'\nkind = 'sft'\n[model]\npath = 'p'\n[[data]]\nquestions = 'world:{},articles=9'\nlimit = 4"
    path = tmp_path / "r.toml"
    path.write_text(text.format("seeds=9-11"))
    parts = load_recipe(path).data
    assert [p.questions for p in parts] == [f"world:seed={n},articles=9" for n in (9, 10, 11)]
    assert {p.limit for p in parts} == {4}
    path.write_text(text.format("seeds=11-9"))
    with pytest.raises(ConfigError, match="smaller one first"):
        load_recipe(path)


def test_a_sample_is_uniform_and_the_same_for_a_seed() -> None:
    taken = draw_sample(range(1000), 100, 3)
    assert taken == sorted(set(taken)) == draw_sample(range(1000), 100, 3)
    assert len(taken) == 100
    assert 350 < sum(taken) / 100 < 650
    assert taken != draw_sample(range(1000), 100, 4)
    assert draw_sample([1, 2], 0, 0) == draw_sample([1, 2], 5, 0) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("path", SMOKE, ids=lambda p: p.stem)
def test_every_smoke_recipe_runs_and_resumes(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--set", "optimiser.batch=2"]
    assert main(["train", str(path), "--out", str(tmp_path), "--device", "cpu", "--minutes", "0", *few]) == 0
    assert main(["train", str(path), "--out", str(tmp_path), "--device", "cpu", *few]) == 0
    steps = load_recipe(path).optimiser.steps
    out, err = capsys.readouterr()
    assert f"step {steps}" in err or "step 3" in err
    assert "step " in out
    assert (tmp_path / "best").is_dir()


SMALL = {
    "model.path": '"random:qwen2"',
    "prompts": '"compact"',  # the tiny model's window is 2,048 bytes
    "data": '[{questions = "world:seed=1,articles=160,questions=24,unanswerable=0.2"}]',
    "dev": '[{questions = "world:seed=2,articles=160,questions=4,unanswerable=0.2"}]',
    "evaluate_questions": "4",
    "optimiser.batch": "2",
    "optimiser.steps": "2",
    "rollout.questions": "2",
    "rollout.group": "2",
    "rollout.max_tokens": "8",
    "guards.cut_turns": "2.0",  # never: an untrained model does not end its turns
}
"""What makes a recipe for a GPU run on a CPU."""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("sft", "peco"), ("search-r1-sft", "search-r1-rl")])
def test_the_recipes_of_the_larger_models_follow_each_other(first: str, then: str, tmp_path: Path) -> None:
    def run(name: str, *more: str, **changed: str) -> None:
        pairs = [f"{key}={value}" for key, value in (SMALL | changed).items()]
        options = [word for pair in pairs for word in ("--set", pair)]
        path = RECIPES / "qwen-1.5b" / f"{name}.toml"
        assert main(["train", str(path), "--out", str(tmp_path / name), "--device", "cpu", *options, *more]) == 0

    run(first)
    start = {"model.adapter": f'"{tmp_path / first / "last"}"'}
    run(then, "--minutes", "0", **start)
    run(then, **start)  # goes on
    with RunStore.open(tmp_path / then) as store:
        told = {name for _, name, _ in store.metrics()}
    assert {"tasks", "one_task", "unknown", "forced", "entropy", "dev_em"} <= told
    assert (tmp_path / then / "best" / "adapter_model.safetensors").is_file()
    ways = "+abstain+no-refine+look-first" if first == "sft" else "+abstain"
    assert prompt_set_of(tmp_path / then / "best") == f"compact{ways}", "as it was trained here"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'\nkind = 'rl'\nmodle = {}", "unknown key 'modle'; did you mean 'model'"),
        ("name = 'x'\nkind = 'rl'\ndata = []\n[model]\npath = 'p'\nrnak = 3", "did you mean 'rank'"),
        ("name = 'x'\nkind = 'xx'\ndata = []\n[model]\npath = 'p'", "kind must be one of rl, sft, not 'xx'"),
        ("name = 'x'\nkind = 'rl'\ndata = []\n[model]\npath = 3", "model.path must be text, not 3"),
        ("name = ", "not TOML"),
    ],
)
def test_slips_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(path)


def write(folder: Path, **recipes: str) -> Path:
    """Recipes in a folder; the first one."""
    for name, text in recipes.items():
        (folder / f"{name}.toml").write_text(text)
    return folder / f"{next(iter(recipes))}.toml"


def test_a_recipe_is_like_another_but_for_what_it_says(tmp_path: Path) -> None:
    first = """
    name = "first"
    kind = "sft"
    [model]
    path = "random:llama"
    rank = 8
    [[data]]
    questions = "a.jsonl"
    [[data]]
    questions = "b.jsonl"
    """
    second = 'like = "first.toml"\nname = "second"\nk = 5\n[model]\nrank = 4\n'
    third = 'like = "second.toml"\nname = "third"\n[[data]]\nquestions = "c.jsonl"\n'
    recipe = load_recipe(write(tmp_path, third=third, second=second, first=first), {"model.alpha": 9.0})
    assert (recipe.name, recipe.kind, recipe.k) == ("third", "sft", 5)
    assert recipe.model == ModelPart("random:llama", rank=4, alpha=9.0), "tables key by key"
    assert [part.questions for part in recipe.data] == ["c.jsonl"], "lists as a whole"


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        ({"a": 'like = "b.toml"', "b": 'like = "a.toml"'}, "like leads back to a.toml"),
        ({"a": 'like = "a.toml"'}, "like leads back to a.toml"),
        ({"a": "like = 3"}, "a.toml: like must be the path of another recipe, not 3"),
        ({"a": 'like = "gone.toml"'}, "gone.toml"),
    ],
)
def test_a_recipe_that_is_like_none_is_refused(recipes: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(write(tmp_path, **recipes))


def test_a_recipe_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes("name = 'é'".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_recipe(path)


def test_overrides(tmp_path: Path) -> None:
    recipe = load_recipe(RECIPES / "coda-peco-smoke.toml", {"optimiser.steps": 7, "seed": 3})
    assert (recipe.optimiser.steps, recipe.seed) == (7, 3)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("evaluate_every", 0, "evaluate_every must be a whole number from 1, not 0"),
        ("checkpoint_every", -1, "checkpoint_every must be a whole number from 1, not -1"),
        ("keep", 0, "keep must be .* not 0"),
        ("k", 0, "k must be .* not 0"),
        ("rollout.group", 0, "rollout.group must be .* not 0"),
        ("rollout.concurrency", 0, "rollout.concurrency must be .* not 0"),
        ("rollout.temperature", 0.0, "greedy rollouts are all alike"),
        ("rollout.temperature", -0.5, "rollout.temperature must be a number from 0, not -0.5"),
        ("optimiser.batch", 0, "optimiser.batch must be .* not 0"),
        ("optimiser.steps", 0, "optimiser.steps must be .* not 0"),
        ("optimiser.clip", float("nan"), "optimiser.clip must be a number from 0, not nan"),
        ("optimiser.betas", [0.9], r"optimiser.betas must be a list of 2, each a number .* not \[0.9\]"),
        ("optimiser.betas", [0.9, 1.0], r"optimiser.betas\[2\] must be a number from 0 to below 1, not 1.0"),
        ("optimiser.warmup", 5.0, "optimiser.warmup must be a number from 0 to 1, not 5.0"),
        ("optimiser.minibatches", 9, "optimiser.minibatches = 9: a step has only 8 rollouts"),
        ("loss", "nope", "loss: there is no 'nope'; choose from: apex, "),
        ("advantage", "nope", "advantage: there is no 'nope'; choose from: coda, "),
        ("rollout.group", 1, "rollout.group = 1: rollouts are compared with others of their question"),
        ("loss_options.cliphigh", 0.3, "loss_options: unknown key 'cliphigh'; did you mean 'clip_high'"),
        ("loss_options.kl", -1.0, "coefficients are numbers, 0 or more"),
        ("loss_options.kl", float("nan"), "coefficients are numbers, 0 or more"),
        ("loss_options.kl_limit", -1.0, "kl_limit=-1.0 must lie above 0"),
        ("loss_options.aggregation", "constant", "needs `length`"),
        ("loss_options", {"aggregation": "constant", "length": -3.0}, "needs `length`"),
        ("guards.kl", float("nan"), "guards.kl = nan"),
        ("model.targets", [], "LoRA needs targets"),
        ("model.targets", ["qproj"], "LoRA targets are q_proj, .* not 'qproj'"),
        ("model.alpha", float("nan"), "a LoRA alpha of nan"),
        ("model.alpha", 0.0, "a LoRA alpha of 0.0"),
        ("loss_options.kl", "much", "kl"),
        ("advantage_options.std", "some", "std"),
        ("data", [{"questions": "x.jsonl", "limit": -1}], r"data\[1\].limit must be a whole number from 0, not -1"),
        ("dev", [{"questions": "x.jsonl", "weight": 0.0}], r"dev\[1\].weight must be a number above 0, not 0.0"),
        ("model.rank", -1, "model.rank must be a whole number from 0, not -1"),
        ("optimiser.steps.more", 1, "steps is not a table"),
        ("data.questions", "foo", "data is a list; give the whole list"),
    ],
)
def test_what_cannot_run_is_refused_before_it_begins(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(RECIPES / "coda-peco-smoke.toml", {key: value})


def test_settings_of_the_objective_can_be_changed_one_by_one() -> None:
    made = load_recipe(
        RECIPES / "coda-peco-smoke.toml",
        {"loss": "coda", "loss_options.kl": 0.01, "loss_options.dual_clip": 5, "advantage_options": {"std": "none"}},
    )
    assert made.objective == replace(LOSSES["coda"], kl=0.01, dual_clip=5.0)
    assert made.baseline == replace(BASELINES["coda"], std="none")
    assert load_recipe(RECIPES / "coda-peco-smoke.toml").objective == LOSSES["coda"]


def test_a_system_without_a_loss_of_its_own_needs_one() -> None:
    slips = {"system": "direct", "loss": "", "advantage": ""}
    with pytest.raises(ConfigError, match="loss: the system 'direct' has none of its own; choose: "):
        load_recipe(RECIPES / "coda-peco-smoke.toml", slips)
    load_recipe(RECIPES / "coda-peco-smoke.toml", slips | {"loss": "grpo", "advantage": "verl"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "nope"], "there is no device 'nope'; say cuda or cpu"),
        (["--device", "cuda:99"], "torch finds no GPU"),
        (["--minutes", "-1"], "--minutes -1: give a number of minutes"),
        (["--minutes", "nan"], "--minutes nan: give a number of minutes"),
    ],
)
def test_options_that_cannot_be(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["train", str(RECIPES / "coda-peco-smoke.toml"), "--out", str(tmp_path / "run"), *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("name", "gold"), [("coda-peco", "answer"), ("apex-plan", "plan")])
def test_questions_that_no_reward_can_score_are_left_out(name: str, gold: str, tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "question": "Who made Blue?",
            "answers": ["Ada"],
            "decomposition": [{"question": "Who made Blue?"}],
        },
        {"id": "b", "question": "Who made Red?", "answers": ["Bo"] if gold == "plan" else [" "]},
    ]
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "title": "Blue", "text": "Ada made Blue."}\n')
    source = {"questions": str(tmp_path / "questions.jsonl"), "corpus": [str(tmp_path / "corpus.jsonl")]}
    recipe = load_recipe(RECIPES / f"{name}-smoke.toml", {"data": [source], "dev": []})
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(map(json.dumps, rows)))
    said: list[str] = []
    asyncio.run(train(recipe, tmp_path / "run", minutes=0, device="cpu", say=said.append))
    assert f"without a gold {gold} are left out: 1" in said[0]
    assert said[1].startswith("1 training")
    questions.write_text(json.dumps(rows[1]))
    with pytest.raises(DataError, match=f"none of the 1 training questions has a gold {gold}"):
        asyncio.run(train(recipe, tmp_path / "other", device="cpu"))


@pytest.mark.parametrize("slip", [{"model.adapter": "/nowhere"}, {"reward": "none"}, {"index": "/nowhere.sq"}])
def test_a_run_that_could_not_begin_can_be_put_right(slip: dict[str, object], tmp_path: Path) -> None:
    recipes = [load_recipe(RECIPES / "coda-peco-smoke.toml", {"dev": [], **more}) for more in (slip, {})]
    with pytest.raises(UsageError) as kept:  # holds all that the failed call held, as a notebook does
        asyncio.run(train(recipes[0], tmp_path, device="cpu"))
    asyncio.run(train(recipes[1], tmp_path, minutes=0, device="cpu"))
    assert "another process" not in str(kept.value)


def test_traces_are_prepared_into_a_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        prepare(load_recipe(RECIPES / "coda-sft-smoke.toml"), tmp_path)


def test_schedule() -> None:
    rising = Schedule(OptimiserPart(learning_rate=1.0, schedule="cosine", warmup=0.2), 10)
    assert [round(rising.rate(s), 4) for s in (0, 1, 2, 6)] == [0.5, 1.0, 1.0, 0.5]
    assert Schedule(OptimiserPart(learning_rate=1.0), 10).rate(9) == 1.0


def test_stream_is_the_same_for_a_seed_and_resumes() -> None:
    first = Stream(range(5), 1)
    taken = first.take(12)
    assert sorted(taken[:5]) == list(range(5))
    assert sorted(taken[5:10]) == list(range(5))
    assert taken[:5] != taken[5:10]
    assert Stream(range(5), 1, position=7).take(5) == taken[7:]
    assert Stream(range(5), 2).take(12) != taken


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("coda-peco", "dev", "the best weights are chosen on dev questions"),
        ("coda-peco", "data", "nothing is learnt from it"),
        ("coda-sft", "dev", "the best weights are chosen on dev questions"),
        ("coda-sft", "data", "nothing is learnt from it"),
    ],
)
def test_test_questions_are_for_measuring_alone(name: str, part: str, message: str, tmp_path: Path) -> None:
    source = [{"questions": "world:seed=3,articles=160,questions=8,split=test"}]
    recipe = load_recipe(RECIPES / f"{name}-smoke.toml", {part: source})
    with pytest.raises(ConfigError, match=f"is of a test split: {message}"):
        asyncio.run(train(recipe, tmp_path, device="cpu"))
