"""Checkpoints: small files, never half written, enough by themselves for a bare machine."""

import asyncio
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from subquest.cli import main
from subquest.errors import DataError
from subquest.train.checkpoints import Checkpoints, restore

from .test_rl import RECIPE, finish, trainer

WIDTH, INNER, KEYS, LAYERS, RANK = 576, 1536, 192, 30, 16
"""SmolLM2-135M."""


def smollm2_adapter() -> dict[str, torch.nn.Parameter]:
    sides = {
        "q_proj": (WIDTH, WIDTH), "k_proj": (WIDTH, KEYS), "v_proj": (WIDTH, KEYS), "o_proj": (WIDTH, WIDTH),
        "gate_proj": (WIDTH, INNER), "up_proj": (WIDTH, INNER), "down_proj": (INNER, WIDTH),
    }  # fmt: skip
    found = {}
    for layer in range(LAYERS):
        for name, (into, out) in sides.items():
            found[f"{layer}.{name}.lora_A"] = torch.nn.Parameter(torch.randn(RANK, into))
            found[f"{layer}.{name}.lora_B"] = torch.nn.Parameter(torch.randn(out, RANK))
    return found


def test_a_slice_of_smollm2_fits_sixteen_megabytes_a_file_and_sixty_together(tmp_path: Path) -> None:
    parameters = smollm2_adapter()
    adam = torch.optim.AdamW(list(parameters.values()), lr=1e-3)
    for p in parameters.values():
        p.grad = torch.ones_like(p)
    adam.step()
    policy: Any = SimpleNamespace(trained=lambda: parameters)
    optimiser: Any = SimpleNamespace(adam=adam, step_count=1)
    folder = Checkpoints(tmp_path).save(7, policy, optimiser, {"position": 3})
    sizes = [p.stat().st_size for p in folder.iterdir()]
    assert max(sizes) <= 16_000_000
    assert sum(sizes) < 60_000_000
    kept = {name: p.detach().clone() for name, p in parameters.items()}
    moments = {name: adam.state[p]["exp_avg_sq"].clone() for name, p in parameters.items()}
    with torch.no_grad():
        for p in parameters.values():
            p.zero_()
            adam.state[p]["exp_avg_sq"].zero_()
    assert restore(folder, policy, optimiser)["position"] == 3
    for name, p in parameters.items():
        assert torch.equal(p, kept[name])
        assert torch.equal(adam.state[p]["exp_avg_sq"], moments[name])


@pytest.mark.slow
def test_a_run_goes_on_from_recipe_and_checkpoint_alone(tmp_path: Path) -> None:
    """What a bare machine gets: `recipe.json` and the newest checkpoint; curves go on as if nothing had happened."""
    unbroken = finish(trainer(tmp_path / "a"))
    short = trainer(tmp_path / "b")

    async def two_steps() -> None:
        for _ in range(2):
            await short.one_step()
        short.save()
        await short.engine.close()

    asyncio.run(two_steps())
    short.run.close()
    (tmp_path / "c" / "checkpoints").mkdir(parents=True)
    shutil.copy(tmp_path / "b" / "recipe.json", tmp_path / "c")
    shutil.copytree(tmp_path / "b" / "checkpoints" / "step-000002", tmp_path / "c" / "checkpoints" / "step-000002")
    t = trainer(tmp_path / "c")
    assert t.step == 2
    resumed = finish(t)
    for step in (3, 4):
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "em"):
            assert resumed[step][name] == pytest.approx(unbroken[step][name], abs=1e-6), (step, name)


def test_old_checkpoints_go_and_half_written_ones_are_not_seen(tmp_path: Path) -> None:
    t = trainer(tmp_path, replace(RECIPE, keep=2))
    for t.step in (1, 2, 3):
        t.save()
    assert t.run.checkpoints.steps() == [2, 3]
    half = tmp_path / "checkpoints" / "step-000004.tmp"
    half.mkdir()
    (half / "shard-000.safetensors").write_bytes(b"half")
    asyncio.run(t.engine.close())
    t.run.close()
    again = trainer(tmp_path, replace(RECIPE, keep=2))
    assert again.step == 3
    assert not half.exists()
    asyncio.run(again.engine.close())
    again.run.close()


class Killed(Exception):
    """Stands for kill -9: nothing after it runs."""


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving a step anew (a slice that ended on a checkpoint, a run resumed at 0), then the next one, keeping one."""
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    policy: Any = SimpleNamespace(trained=lambda: {"w": weight})
    optimiser: Any = SimpleNamespace(adam=torch.optim.AdamW([weight], fused=True), step_count=1)
    Checkpoints(tmp_path, keep=1).save(1, policy, optimiser, {})
    done = 0

    def dying(work: Any) -> Any:
        def one(*args: Any, **settings: Any) -> Any:
            nonlocal done
            done += 1
            if done == moment:
                raise Killed
            return work(*args, **settings)

        return one

    def one_file_after_the_other(folder: Path) -> None:
        for file in sorted(folder.iterdir()):
            os.unlink(file)
        folder.rmdir()

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink", "fsync"):
            patched.setattr(os, name, dying(getattr(os, name)))
        patched.setattr(shutil, "rmtree", one_file_after_the_other)
        checkpoints = Checkpoints(tmp_path, keep=1)
        try:
            for step in (1, 2):
                checkpoints.save(step, policy, optimiser, {})
        except Killed:
            pass
    again = Checkpoints(tmp_path, keep=1)
    state = again.load_latest(policy, optimiser)
    assert state is not None
    assert state["step"] == again.steps()[-1]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    t = trainer(tmp_path)
    t.save()
    (shard,) = (tmp_path / "checkpoints" / "step-000000").glob("shard-*")
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DataError, match=r"step-000000 cannot be read.*the one before"):
        t.run.checkpoints.load_latest(t.policy, t.optimiser)
    asyncio.run(t.engine.close())
    t.run.close()


def test_a_checkpoint_of_something_else_is_named(tmp_path: Path) -> None:
    t = trainer(tmp_path)
    t.save()
    checkpoints = t.run.checkpoints
    (tmp_path / "checkpoints" / "step-backup").mkdir()
    assert checkpoints.steps() == [0], "a folder of the user's is no checkpoint"
    state = tmp_path / "checkpoints" / "step-000000" / "state.json"
    kept = state.read_text()
    state.write_text("{}")
    with pytest.raises(DataError, match=r"step-000000 cannot be read \(state.json has no 'optimiser_steps'\)"):
        checkpoints.load_latest(t.policy, t.optimiser)
    state.write_text(kept)
    name, parameter = next(iter(t.policy.trained().items()))
    wider = torch.nn.Parameter(torch.cat([parameter.detach(), parameter.detach()]))
    other: Any = SimpleNamespace(trained=lambda: {name: wider})
    with pytest.raises(DataError, match=rf"of another model or adapter: it has {name} with the shape"):
        checkpoints.load_latest(other, t.optimiser)
    asyncio.run(t.engine.close())
    t.run.close()


def test_a_kill_leaves_the_best_weights_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of many gigabytes take minutes to write; those that did best before stay until the new ones are there."""
    import safetensors.torch

    t = trainer(tmp_path)
    t.run.save_best(t.policy, {"step": 0})
    best = tmp_path / "best"
    before = {path.name: path.read_bytes() for path in best.iterdir()}
    (best / "adapter.gguf").write_bytes(b"made by the user")
    save = safetensors.torch.save_file

    def killed(state: dict[str, torch.Tensor], path: Path, **more: Any) -> None:
        save(state, path, **more)
        path.write_bytes(path.read_bytes()[:100])
        raise KeyboardInterrupt

    with torch.no_grad():
        for parameter in t.policy.trained().values():
            parameter.add_(1.0)
    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            t.run.save_best(t.policy, {"step": 1})
    assert {name: (best / name).read_bytes() for name in before} == before
    t.run.save_best(t.policy, {"step": 1})
    assert (best / "adapter_model.safetensors").read_bytes() != before["adapter_model.safetensors"]
    assert '"step": 1' in (best / "dev.json").read_text()
    assert (best / "adapter.gguf").exists()
    assert not (tmp_path / "best.tmp").exists()
    asyncio.run(t.engine.close())
    t.run.close()


OLD_RUN = Path(__file__).parent / "run-0.1"
OLD_LOSSES = {2: (7.604657, 4460), 3: (7.563803, 3222)}
"""Loss and learned tokens of the steps after the checkpoint in `OLD_RUN`. Version 0.1 took (7.610809, 4438) and
(7.566320, 3205): its gold traces were worded otherwise."""


@pytest.mark.slow
def test_a_run_of_version_0_1_goes_on_as_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "run")
    assert main(["train", str(OLD_RUN / "recipe.toml"), "--out", str(tmp_path / "run"), "--json"]) == 0
    steps = {row["step"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    found = {step: (row["loss"], row["learned_tokens"]) for step, row in steps.items()}
    assert found == {step: pytest.approx(expected, rel=1e-3) for step, expected in OLD_LOSSES.items()}
