"""One slice of time after another: what is left, what is begun, and how an interrupted training goes on elsewhere."""

import asyncio
from pathlib import Path

import pytest
import run as lab

from subquest.runs import RunStore
from subquest.study import read_study
from subquest.study.results import Results
from subquest.study.stamps import known_as
from subquest.study.training import folder_of, last_step
from subquest.train.launch import train
from subquest.train.recipe import load_recipe

from ..study.small_study import BOOK, write_small_study

RECIPE = """
name = "claims"
kind = "rl"
system = "rag"
reward = "autorefine"
loss = "coda"
advantage = "coda"
evaluate_every = 100
checkpoint_every = 1
[model]
path = "random:llama"
rank = 2
[[data]]
questions = "world:seed=1,articles=160,questions=4,hops=1"
[rollout]
questions = 1
group = 2
max_tokens = 8
[optimiser]
steps = 3
[guards]
cut_turns = 1.0
"""
PLAN = """
study = "small"
recipes = "."
[[part]]
name = "rl"
seconds = 60
train = ["rl"]
run = ["rag@rl"]
[[part]]
name = "prompting"
seconds = 10
run = ["rag@none"]
[[part]]
name = "later"
seconds = 10
run = ["rag@none"]
after = ["rl"]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    write_small_study(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "plan.toml").write_text(PLAN.replace('recipes = "."', 'recipes = ".."'))
    return tmp_path / "lab" / "plan.toml"


def test_what_is_left_is_listed(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main([str(plan), "--runs", str(tmp_path / "runs")]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        f"{'rl':<20}{60:>6} s  train rl; 2 questions",
        "together 1 minutes, one after the other",
    ]
    assert "rows: 1 done, 2 left, 0 of them stale" in shown.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--unpack", "nowhere"], "--unpack: there is no folder nowhere"),
        (["--at-once", "2", "--trainers", "3"], "--trainers must be from 1 to --at-once, 2"),
        (["--only", "nothing"], "--only: there is no part nothing"),
    ],
)
def test_what_is_refused(plan: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert lab.main([str(plan), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_plan_names_what_there_is(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(plan.read_text().replace('run = ["rag@rl"]', 'run = ["nothing"]'))
    assert lab.main([str(plan)]) == 2
    assert "no variant or claim is called nothing" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["1.5b", "0.5b"])
def test_the_plans_of_the_claims_carry_out_every_row_and_training(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(lab.__file__).parent / f"{size}.toml"
    made = lab.Lab(lab.options().parse_args([str(place)]))
    study = made.study
    trained = [t.name for part in made.parts if part.train for t in study.select_trainings(part.train)]
    assert sorted(trained) == sorted(study.trainings)
    answered = {v.name for part in made.parts if part.run for v in study.select(part.run)}
    assert answered == set(study.variants)
    seen: set[str] = set()
    for part in made.parts:
        seen |= set(part.train)
        assert set(part.after) <= seen, part.name


def test_a_training_that_fits_into_no_slice_is_begun_in_its_turn(plan: Path, tmp_path: Path) -> None:
    parts = "".join(
        f'[[part]]\nname = "{n}"\nseconds = {s}\ntrain = ["rl"]\n' for n, s in (("big", 500), ("small", 60))
    )
    plan.write_text('study = "small"\nrecipes = ".."\n' + parts)

    def first(seconds: int, passed: float) -> str | None:
        made = lab.Lab(
            lab.options().parse_args([str(plan), "--seconds", str(seconds), "--runs", str(tmp_path / "runs")])
        )
        made.began -= passed
        part = made._next([], prepared=False)
        return part and part.name

    assert first(100, 0) == "big"  # it goes on in the next slice
    assert first(600, 0) == "big"
    assert first(600, 300) == "small"  # the next slice has room for the other


@pytest.mark.slow
def test_an_interrupted_slice_goes_on_elsewhere(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "rl.toml").write_text(RECIPE)
    study = read_study(tmp_path)
    training = study.trainings["rl"]
    here, there = tmp_path / "here", tmp_path / "there"
    command = [str(plan), "--model", "random:llama", "--device", "cpu", "--at-once", "2", "--trainers", "1"]

    def places(machine: Path) -> list[str]:
        return ["--runs", str(machine / "runs"), "--out", str(machine / "results")]

    def steps(machine: Path) -> list[int]:
        with RunStore.open(folder_of(study, training, machine / "runs") / "run.sqlite") as store:
            return [step for step, name, _ in store.metrics() if name == "reward"]

    folder = folder_of(study, training, here / "runs")
    stopped = train(load_recipe(training.recipe), folder, device="cpu", stop=lambda: last_step(folder) > 0)
    asyncio.run(stopped)  # the time is up after a step
    assert steps(here) == [1]
    assert lab.main([*command, *places(here), "--pack", str(tmp_path / "packed")]) == 0
    shown = capsys.readouterr()
    assert "1 checkpoints" in shown.err
    assert f"{'rl':<20}{40:>6} s" in shown.out  # one of three steps is done

    # a slice that does not come to it hands its checkpoint on
    between = [*places(tmp_path / "between"), "--unpack", str(tmp_path / "packed"), "--pack", str(tmp_path / "again")]
    assert lab.main([*command, *between]) == 0
    assert "1 checkpoints" in capsys.readouterr().err

    assert lab.main([*command, *places(there), "--unpack", str(tmp_path / "again"), "--seconds", "600"]) == 0
    assert steps(there) == [2, 3]
    results = Results(there / "results")
    kept = results.training("rl", known_as(study, training))
    assert kept["adapter"]
    assert [step for step, _ in kept["figures"]["reward"]] == [1, 2, 3]
    assert results.stored("rag@rl") is not None
    assert results.stored("rag@none") is not None
