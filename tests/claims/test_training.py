"""Trainings: the adapter and the curves that are kept of a run, and the whole way from a training to its arm."""

import json
from pathlib import Path

import pytest
import torch

from subquest.claims.book import Training, read_book
from subquest.claims.measure import file_digest, training_digest
from subquest.claims.results import Results
from subquest.claims.training import _toml, adapter_of, adapters_at_hand, export_adapter, train_all
from subquest.cli import main
from subquest.engine.torch.loader import load_adapter
from subquest.train.checkpoint import Checkpoints
from subquest.train.lora import adapter_of as lora_of
from subquest.train.optimise import Optimiser
from subquest.train.recipe import ModelPart, OptimiserPart
from subquest.train.setup import load_source, make_policy

BOOK = """
[[source]]
name = "world"
questions = "world:seed=7,articles=160,questions=2,split=test,hops=1"

[[arm]]
name = "rag"
system = "rag"
adapters = ["rag"]

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


def test_settings_travel_as_toml() -> None:
    assert _toml({"turns": 8, "refine": False}) == "{turns = 8, refine = false}"
    assert _toml("coda") == '"coda"'


def test_a_training_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    recipe = tmp_path / "rl.toml"
    recipe.write_text(RECIPE.replace("steps = 1", "steps = 100"))
    training = Training("rag", recipe, {"system": "rag"})
    results = Results(tmp_path / "results")
    results.keep_speed("training", 1, 3.0)
    short = train_all([training], tmp_path / "runs", results, start="", changes={}, minutes=4.9, workers=1)
    assert short == ["rag"]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_from_training_to_its_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "rl.toml").write_text(RECIPE)
    start = make_policy(
        ModelPart("random:llama", rank=2), load_source("random:llama"), device=torch.device("cpu"), seed=0
    )
    from subquest.train.export import save_trained

    save_trained(start, tmp_path / "sft", base="random:llama")
    where = ["--recipes", str(tmp_path), "--runs", str(tmp_path / "runs"), "--use", f"sft={tmp_path / 'sft'}"]
    command = ["study", "claims", "--train", "--run", "--model", "random:llama", "--device", "cpu", *where]
    out = tmp_path / "out"
    assert main([*command, "--pack", str(out)]) == 0
    book = read_book(tmp_path)
    (training,) = book.trainings.values()
    place = adapter_of(training, tmp_path / "runs", book.start)
    assert adapters_at_hand(book, tmp_path / "runs") == {"rag": str(place)}
    recipe = json.loads((place.parent / "recipe.json").read_text())
    assert recipe["model"]["adapter"] == str(tmp_path / "sft")
    results = Results(tmp_path / "results")
    kept = results.training("rag", training_digest(training, book.start))
    assert kept["adapter"] == file_digest(str(place))
    assert [step for step, _ in kept["figures"]["reward"]] == [1]
    assert results.speeds()["training"][0] == 1
    page = tmp_path / "claims.md"
    assert main(["study", "claims", *where, "--write", str(page)]) == 0
    assert (tmp_path / "results" / "rag@rag.json.xz").is_file()
    assert [f.name for f in out.iterdir()] == ["claims-results.tar"]  # its row is complete: the adapter stays

    # on a bare machine: nothing is trained or asked again, though the adapter is not there
    bare = ["--recipes", str(tmp_path), "--runs", str(tmp_path / "bare"), "--use", f"sft={tmp_path / 'sft'}"]
    again = ["study", "claims", "--train", "--model", "random:llama", "--device", "cpu", *bare, "--unpack", str(out)]
    assert main([*again, "--out", str(tmp_path / "elsewhere")]) == 0
    assert not (tmp_path / "bare").exists()
