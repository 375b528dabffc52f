"""Trainings: the adapter and the curves that are kept of a run, and the whole way from a training to its variant."""

import json
import tomllib
from pathlib import Path

import pytest
import torch

from subquest.cli import main
from subquest.engine.torch.loader import load_adapter
from subquest.study import Training, find_study, read_study
from subquest.study.results import Results, with_origins
from subquest.study.stamps import file_digest, known_as
from subquest.study.training import adapter_of, export_adapter, to_toml, trained_adapters
from subquest.train.checkpoints import Checkpoints
from subquest.train.components import load_source, make_policy
from subquest.train.lora import adapter_of as lora_of
from subquest.train.optimiser import Optimiser
from subquest.train.recipe import ModelPart, OptimiserPart

BOOK = """
start = "cold"

[[source]]
name = "world"
dataset = "world:seed=7,articles=160,questions=2,split=test,hops=1"

[[variant]]
name = "rag"
system = "rag"
adapters = ["cold", "rag"]

[[training]]
name = "cold"
recipe = "cold.toml"

[[training]]
name = "rag"
recipe = "rl.toml"
set = { system = "rag", reward = "autorefine", k = 1 }
"""
RECIPE = """
name = "claims"
kind = "rl"
loss = "coda"
advantage = "coda"
evaluate_every = 100
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
steps = 1
[guards]
cut_turns = 1.0
"""
COLD = """
name = "cold"
kind = "sft"
system = "rag"
evaluate_every = 100
[model]
path = "random:llama"
rank = 2
[[data]]
questions = "world:seed=1,articles=160,questions=4,hops=1"
[optimiser]
steps = 2
epochs = 9.0
batch = 2
"""


def test_an_adapter_comes_out_of_a_checkpoint(tmp_path: Path) -> None:
    part = ModelPart("random:llama", rank=2)
    policy = make_policy(part, load_source(part.path), device=torch.device("cpu"), seed=3)
    optimiser = Optimiser(policy, OptimiserPart(), 1)
    folder = Checkpoints(tmp_path / "checkpoints").save(1, policy, optimiser, {"position": 0})
    export_adapter(folder, tmp_path / "adapter", part)
    found, wanted = load_adapter(tmp_path / "adapter"), lora_of(policy)
    assert found.scale == wanted.scale
    assert found.pairs.keys() == wanted.pairs.keys()
    for name, (a, b) in wanted.pairs.items():
        assert torch.equal(found.pairs[name][0], a.to(torch.bfloat16))
        assert torch.equal(found.pairs[name][1], b.to(torch.bfloat16))


@pytest.mark.parametrize("training", find_study("claims").trainings.values(), ids=lambda t: t.name)
def test_settings_travel_as_toml(training: Training) -> None:
    for key, value in training.set.items():
        assert tomllib.loads(f"value = {to_toml(value)}")["value"] == value, key


@pytest.mark.slow
def test_from_training_to_its_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "cold.toml").write_text(COLD)
    (tmp_path / "rl.toml").write_text(RECIPE)
    where = ["--recipes", str(tmp_path), "--model", "random:llama", "--device", "cpu", "--runs"]
    runs = tmp_path / "runs"
    assert main(["study", "claims", "--train", "--only", "cold", *where, str(runs)]) == 0
    results = Results(tmp_path / "results")
    study = with_origins(read_study(tmp_path), results)
    cold, rag = study.trainings.values()
    assert study.origins["cold"] == file_digest(str(adapter_of(study, cold, runs)))

    assert main(["study", "claims", "--train", "--run", *where, str(runs)]) == 0
    place = adapter_of(study, rag, runs)
    assert trained_adapters(study, runs) == {"cold": str(adapter_of(study, cold, runs)), "rag": str(place)}
    recipe = json.loads((place.parent / "recipe.json").read_text())
    assert recipe["model"]["adapter"] == str(adapter_of(study, cold, runs))
    results = Results(tmp_path / "results")
    kept = results.training("rag", known_as(study, rag))
    assert kept["adapter"] == file_digest(str(place))
    assert [step for step, _ in kept["figures"]["reward"]] == [1]
    assert [step for step, _ in results.training("cold", known_as(study, cold))["figures"]["loss"]] == [1, 2]
    assert {f.name for f in (tmp_path / "results").glob("rag@*")} == {"rag@cold.json.xz", "rag@rag.json.xz"}

    # another training from a start that was made and is gone: it cannot be made again as it was
    changed = RECIPE.replace("max_tokens = 8", "max_tokens = 9")
    (tmp_path / "rl.toml").write_text(changed)
    assert main(["study", "claims", "--train", *where, str(tmp_path / "nothing")]) == 2
    assert not (tmp_path / "nothing").exists()
