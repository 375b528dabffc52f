"""Trainings: the adapter and the curves that are kept of a run, and the whole way from a training to its arm."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from subquest.claims import training as claims_training
from subquest.claims.book import Book, Training, default_folder, read_book
from subquest.claims.measure import begun, file_digest, known_as
from subquest.claims.results import Results
from subquest.claims.training import (
    Trainings,
    _toml,
    adapter_of,
    adapters_at_hand,
    export_adapter,
    folder_of,
    train_all,
)
from subquest.cli import main
from subquest.engine.torch.loader import load_adapter
from subquest.errors import DataError
from subquest.train.checkpoints import Checkpoints
from subquest.train.components import load_source, make_policy
from subquest.train.lora import adapter_of as lora_of
from subquest.train.optimiser import Optimiser
from subquest.train.recipe import ModelPart, OptimiserPart

BOOK = """
start = "cold"

[[source]]
name = "world"
questions = "world:seed=7,articles=160,questions=2,split=test,hops=1"

[[arm]]
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


@pytest.mark.parametrize("training", read_book(default_folder()).trainings.values(), ids=lambda t: t.id)
def test_settings_travel_as_toml(training: Training) -> None:
    for key, value in training.set.items():
        assert tomllib.loads(f"value = {_toml(value)}")["value"] == value, key


@pytest.fixture
def long(tmp_path: Path) -> tuple[Book, Training, Results]:
    """A training of 100 steps, of which one takes three seconds."""
    recipe = tmp_path / "rl.toml"
    recipe.write_text(RECIPE.replace("steps = 1", "steps = 100"))
    training = Training("rag", recipe, {"system": "rag"})
    results = Results(tmp_path / "results")
    results.keep_speed("training rag, 2 rollouts", 1, 3.0)
    return Book({}, {}, {"rag": training}, (), tmp_path), training, results


def test_a_training_that_does_not_fit_is_not_begun(tmp_path: Path, long: tuple[Book, Training, Results]) -> None:
    book, training, results = long
    short = train_all(Trainings(book, [training], tmp_path / "runs", results, adapters={}, minutes=4.9, at_once=1))
    assert short == ["rag"]
    assert not (tmp_path / "runs").exists()


def test_a_training_goes_on_where_few_steps_are_missing(
    tmp_path: Path, long: tuple[Book, Training, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    book, training, results = long
    (folder_of(book, training, tmp_path / "runs") / "checkpoints" / "step-000010").mkdir(parents=True)
    begun: list[str] = []
    say = begun.append

    def started(*given: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", ""])

    def finished(*given: object) -> tuple[int, int]:
        return 40, 100

    monkeypatch.setattr(claims_training, "_started", started)
    monkeypatch.setattr(claims_training, "finish", finished)
    short = train_all(
        Trainings(book, [training], tmp_path / "runs", results, adapters={}, minutes=4.6, at_once=1, say=say)
    )
    assert begun[0] == "rag: training"  # 90 steps of 3 seconds are 4.5 minutes
    assert short == ["rag"]
    assert results.speeds()["training rag, 2 rollouts"][0] == 1 + 30  # what was done counts, though it did not end


def test_a_training_that_failed_is_tried_once_more(
    tmp_path: Path, long: tuple[Book, Training, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    book, training, results = long
    statuses = [1, 0]
    said: list[str] = []

    def started(*given: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({statuses.pop(0)})"])

    def finished(*given: object) -> tuple[int, int]:
        if statuses:
            raise DataError("no memory was left")
        return 100, 100

    monkeypatch.setattr(claims_training, "_started", started)
    monkeypatch.setattr(claims_training, "finish", finished)
    trainings = Trainings(
        book, [training], tmp_path / "runs", results, adapters={}, minutes=None, at_once=1, say=said.append
    )
    assert train_all(trainings) == []
    assert said[:3] == ["rag: training", "no memory was left", "rag: training"]
    statuses[:] = [1, 1]
    trainings = Trainings(book, [training], tmp_path / "runs", results, adapters={}, minutes=None, at_once=1)
    monkeypatch.setattr(claims_training, "finish", lambda *given: (3, 100))
    assert train_all(trainings) == ["rag"]
    assert statuses == []


@pytest.mark.slow
def test_from_training_to_its_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "cold.toml").write_text(COLD)
    (tmp_path / "rl.toml").write_text(RECIPE)
    where = ["--recipes", str(tmp_path), "--model", "random:llama", "--device", "cpu", "--runs"]
    out, runs = tmp_path / "out", tmp_path / "runs"
    assert main(["study", "claims", "--train", "--only", "cold", *where, str(runs), "--pack", str(out)]) == 0
    results = Results(tmp_path / "results")
    book = begun(read_book(tmp_path), results)
    cold, rag = book.trainings.values()
    assert book.origins["cold"] == file_digest(str(adapter_of(book, cold, runs)))

    assert main(["study", "claims", "--train", "--run", *where, str(runs), "--pack", str(out)]) == 0
    place = adapter_of(book, rag, runs)
    assert adapters_at_hand(book, runs) == {"cold": str(adapter_of(book, cold, runs)), "rag": str(place)}
    recipe = json.loads((place.parent / "recipe.json").read_text())
    assert recipe["model"]["adapter"] == str(adapter_of(book, cold, runs))
    results = Results(tmp_path / "results")
    kept = results.training("rag", known_as(book, rag))
    assert kept["adapter"] == file_digest(str(place))
    assert [step for step, _ in kept["figures"]["reward"]] == [1]
    assert [step for step, _ in results.training("cold", known_as(book, cold))["figures"]["loss"]] == [1, 2]
    assert results.speeds()["training rag, 2 rollouts"][0] == 1
    assert results.speeds()["fine-tuning"][0] == 2
    assert {f.name for f in (tmp_path / "results").glob("rag@*")} == {"rag@cold.json.xz", "rag@rag.json.xz"}
    # the rows are complete: the adapter stays, and the start is at hand for what may be asked of it
    assert sorted(f.name for f in out.iterdir()) == ["claims-results.tar", "claims-start.tar"]

    # on a bare machine: nothing is trained or asked again, though the adapter is not there
    elsewhere = ["--unpack", str(out), "--out", str(tmp_path / "elsewhere")]
    bare = tmp_path / "bare"
    assert main(["study", "claims", "--train", *where, str(bare), *elsewhere]) == 0
    assert [f.name for f in bare.iterdir()] == [adapter_of(book, cold, bare).parent.name]

    # another training from a start that was made and is gone: it cannot be made again as it was
    changed = RECIPE.replace("max_tokens = 8", "max_tokens = 9")
    (tmp_path / "rl.toml").write_text(changed)
    assert main(["study", "claims", "--train", *where, str(tmp_path / "nothing")]) == 2
    assert not (tmp_path / "nothing").exists()
