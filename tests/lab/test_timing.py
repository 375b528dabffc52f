"""What is left, and how it is cut into slices."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from timing import (
    DEFAULTS,
    describe,
    evaluation_seconds,
    guess,
    keep_speed,
    left_by_kind,
    slices_of,
    speed_kind,
    training_seconds,
)

from subquest.study import Claim, Row, Source, Study, Training, Variant
from subquest.study.results import Progress, Results, unit_of
from subquest.study.stamps import Stamps

SOURCES = {"world": Source("world", "world:seeds=1-2,questions=300"), "real": Source("real", "real.jsonl.gz")}
CODA = Variant("coda@shipped", "coda", {"": "shipped"})
BARE = Variant("coda@none", "coda", {"": "none"})
PECO = Variant("coda@peco", "coda", {"": "peco"})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    recipe = tmp_path / "rl.toml"
    recipe.write_text('kind = "rl"\nsystem = "coda"\n[rollout]\nquestions = 32\n[optimiser]\nsteps = 10\n')
    variants = {v.name: v for v in (CODA, BARE, PECO)}
    claim = Claim("c", "CoDA", "T", "s", row=tuple(Row(name, name) for name in variants))
    trainings = {"peco": Training("peco", recipe)}
    return Study("s", SOURCES, variants, (claim,), trainings, tmp_path, shipped="one", origins={"": "start"})


def opened(study: Study, folder: Path) -> Progress:
    return Progress(study, Results(folder), Stamps(study))


def test_sizes_and_kinds(study: Study, tmp_path: Path) -> None:
    progress = opened(study, tmp_path)
    assert [progress.expected(CODA, source) for source in ("world", "real")] == [600, 485]
    pooled = replace(study, claims=(Claim("c", "P", "T", "s", row=(Row("both", variants=(CODA.name, BARE.name)),)),))
    assert [opened(pooled, tmp_path).expected(CODA, source) for source in ("world", "real")] == [300, 485]
    assert speed_kind(CODA) == "coda adapter k=3"
    assert speed_kind(BARE) == "coda bare k=3"
    assert guess(BARE) < guess(CODA)
    assert guess(Variant("x", "coda", {"": "shipped"}, {"k": 30})) < guess(CODA)


def test_measured_speeds_take_the_place_of_guesses(study: Study) -> None:
    speeds = {"coda adapter k=3": [1000.0, 50.0], "training coda, 256 rollouts": [20.0, 100.0]}
    assert evaluation_seconds(CODA, 200, speeds) == ("coda adapter k=3", 10.0, True)
    assert evaluation_seconds(CODA, 200, {}).seconds == 200 / guess(CODA)
    peco = study.trainings["peco"]
    assert training_seconds(peco, speeds) == ("training coda, 256 rollouts", 50.0, True)
    assert training_seconds(peco, speeds, done=8).seconds == 10.0
    assert training_seconds(replace(peco, set={"system": "rag", "optimiser.steps": 20}), speeds).measured is False


def test_what_a_recipe_does_not_say_is_what_the_trainer_takes() -> None:
    recipe = pytest.importorskip("subquest.train.recipe")
    rollout = recipe.RolloutPart()
    system = next(f.default for f in fields(recipe.Recipe) if f.name == "system")
    assert {"system": system, "rollout.questions": rollout.questions, "rollout.group": rollout.group} == DEFAULTS


def test_rows_count_what_is_complete_and_fresh(study: Study, tmp_path: Path) -> None:
    progress, variants = opened(study, tmp_path), list(study.variants.values())
    assert progress.rows(variants) == (0, 6, 0)
    unit = unit_of("real", "real.jsonl.gz", "q", [1] * 485, [{"em": 1.0}] * 485)
    progress.results.add(CODA.name, progress.stamps.of(CODA), "real", unit)
    assert progress.rows(variants) == (1, 5, 0)
    assert opened(replace(study, shipped="another"), tmp_path).rows(variants) == (0, 6, 2)


def test_slices_train_first_and_hold_everything(study: Study, tmp_path: Path) -> None:
    progress = opened(study, tmp_path)
    keep_speed(progress.results, "coda adapter k=3", 100, 100)  # one per second: 1,085 take 4.5 minutes of 4 processes
    keep_speed(progress.results, "coda bare k=3", 100, 100)
    keep_speed(progress.results, "training coda, 256 rollouts", 10, 120)
    variants = list(study.variants.values())
    slices = slices_of(progress, variants, minutes=6, workers=4)
    assert [t.name for t in slices[0].trainings] == ["peco"]
    assert slices[0].training == 2
    assert all(s.minutes <= 6.01 for s in slices)
    assert sum(sum(s.questions.values()) for s in slices) == pytest.approx(3 * 1085, abs=3)
    assert "coda bare k=3" not in slices[0].questions | slices[1].questions  # the bare model is asked last
    assert describe(slices)[-1] == f"together: {sum(s.minutes for s in slices):.0f} min"
    left = {kind: (round(minutes, 2), known) for kind, minutes, known in left_by_kind(progress, variants, workers=4)}
    asked = {"coda adapter k=3": (9.04, True), "coda bare k=3": (4.52, True)}
    assert left == asked | {"training coda, 256 rollouts": (0.5, True)}


def test_nothing_left(tmp_path: Path) -> None:
    assert describe(slices_of(opened(Study("s", {}, {}), tmp_path), [], minutes=9, workers=1)) == ["nothing is left"]
