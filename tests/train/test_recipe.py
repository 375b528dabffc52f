"""Recipes: every one in the repository loads, slips are named, and each smoke recipe runs."""

from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import ConfigError
from subquest.train.optimise import Schedule
from subquest.train.recipe import OptimiserPart, load_recipe
from subquest.train.stream import Stream

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
ALL = sorted(RECIPES.glob("*.toml"))
SMOKE = [path for path in ALL if path.stem.endswith("-smoke")]


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_every_recipe_loads(path: Path) -> None:
    assert load_recipe(path).name == path.stem


@pytest.mark.slow
@pytest.mark.parametrize("path", SMOKE, ids=lambda p: p.stem)
def test_every_smoke_recipe_runs_and_resumes(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(path), "--out", str(tmp_path), "--device", "cpu", "--minutes", "0"]) == 0
    assert main(["train", str(path), "--out", str(tmp_path), "--device", "cpu"]) == 0
    steps = load_recipe(path).optimiser.steps
    out, err = capsys.readouterr()
    assert f"step {steps}" in err or "step 3" in err
    assert "step " in out
    assert (tmp_path / "best").is_dir()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'\nkind = 'rl'\nmodle = {}", "unknown key 'modle'; did you mean 'model'"),
        ("name = 'x'\nkind = 'rl'\ndata = []\n[model]\npath = 'p'\nrnak = 3", "did you mean 'rank'"),
        ("name = 'x'\nkind = 'xx'\ndata = []\n[model]\npath = 'p'", "expected one of 'sft', 'rl'"),
        ("name = 'x'\nkind = 'rl'\ndata = []\n[model]\npath = 3", "expected str"),
        ("name = ", "not TOML"),
    ],
)
def test_slips_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(path)


def test_overrides(tmp_path: Path) -> None:
    recipe = load_recipe(RECIPES / "coda-peco-smoke.toml", {"optimiser.steps": 7, "seed": 3})
    assert (recipe.optimiser.steps, recipe.seed) == (7, 3)


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
