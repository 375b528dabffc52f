"""Tools of a recipe: opened for the run, offered to the roles of its rollouts, refused before anything is loaded."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

from subquest.errors import UsageError
from subquest.train import launch
from subquest.train.recipe import DataPart, GuardPart, ModelPart, OptimiserPart, Recipe, RolloutPart

HOSTILE = Path(__file__).parents[1] / "tools" / "mcp_hostile.py"
SAY = f"mcp:{shlex.join([sys.executable, str(HOSTILE), 'plain'])}"
RECIPE = Recipe(
    name="toy",
    kind="rl",
    model=ModelPart("random:llama", rank=4),
    data=(DataPart("world:seed=1,articles=160,questions=4"),),
    settings={"turns": 1, "executor_turns": 1},
    rollout=RolloutPart(questions=1, group=2, max_tokens=8),
    optimiser=OptimiserPart(steps=1),
    guards=GuardPart(cut_turns=2.0),
)


@pytest.mark.slow
async def test_rollouts_are_told_of_the_tools(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('def double(number: int) -> int:\n    "Twice a number."\n    return 2 * number\n')
    recipe = replace(RECIPE, tools=(f"{tmp_path}/mine.py:double", SAY))
    seen: list[str] = []
    made = launch.make_system

    def noted(*parts: object, **options: object) -> object:
        system = made(*parts, **options)  # type: ignore[arg-type]
        seen.append(",".join(tool.name for tool in system.tools))
        return system

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "make_system", noted)
        run = await launch.train(recipe, tmp_path / "run", device="cpu")
    assert seen == ["double,say", "double,say"]  # the one that samples, and the one for dev questions
    assert run.recipe.tools == recipe.tools


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": ("mcp:",)}, "names no server"),
        ({"tools": ("mcp:no-such-program",)}, "the program 'no-such-program' cannot be started"),
        ({"tools": (SAY,), "system": "decor", "settings": {}}, "decor has no role that calls tools"),
    ],
)
async def test_what_cannot_be_used_is_refused_first(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    missing = replace(RECIPE, model=ModelPart(str(tmp_path / "no-model")))
    with pytest.raises(UsageError, match=message):
        await launch.train(replace(missing, **changes), tmp_path / "run", device="cpu")  # type: ignore[arg-type]
