"""Trainings side by side: which are started, and what becomes of one that fails; and a slice from start to end."""

import subprocess
import sys
from pathlib import Path

import pytest
import run as lab
import trainers
from timing import keep_speed, speeds_of
from trainers import Trainings

from subquest.errors import DataError
from subquest.study import Study, Training, read_study
from subquest.study.results import Results, with_origins
from subquest.study.training import adapter_of, folder_of
from tests.study.test_training import BOOK, COLD, RECIPE


@pytest.fixture
def long(tmp_path: Path) -> tuple[Study, Training, Results]:
    """A training of 100 steps, of which one takes three seconds."""
    recipe = tmp_path / "rl.toml"
    recipe.write_text(RECIPE.replace("steps = 1", "steps = 100"))
    training = Training("rag", recipe, {"system": "rag"})
    results = Results(tmp_path / "results")
    keep_speed(results, "training rag, 2 rollouts", 1, 3.0)
    return Study("s", {}, {}, trainings={"rag": training}), training, results


def test_a_training_that_does_not_fit_is_not_begun(tmp_path: Path, long: tuple[Study, Training, Results]) -> None:
    study, training, results = long
    short = Trainings(study, [training], tmp_path / "runs", results, adapters={}, minutes=4.9, at_once=1).run()
    assert short == ["rag"]
    assert not (tmp_path / "runs").exists()


def test_a_training_goes_on_where_few_steps_are_missing(
    tmp_path: Path, long: tuple[Study, Training, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, training, results = long
    (folder_of(study, training, tmp_path / "runs") / "checkpoints" / "step-000010").mkdir(parents=True)
    begun: list[str] = []
    say = begun.append

    def started(*given: object, **more: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", ""])

    def finished(*given: object) -> tuple[int, int]:
        return 40, 100

    monkeypatch.setattr(trainers, "start_training", started)
    monkeypatch.setattr(trainers, "finish_training", finished)
    short = Trainings(
        study, [training], tmp_path / "runs", results, adapters={}, minutes=4.6, at_once=1, report=say
    ).run()
    assert begun[0] == "rag: training"  # 90 steps of 3 seconds are 4.5 minutes
    assert short == ["rag"]
    assert speeds_of(results)["training rag, 2 rollouts"][0] == 1 + 30  # what was done counts, though it did not end


def test_a_training_that_failed_is_tried_once_more(
    tmp_path: Path, long: tuple[Study, Training, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, training, results = long
    statuses = [1, 0]
    said: list[str] = []

    def started(*given: object, **more: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({statuses.pop(0)})"])

    def finished(*given: object) -> tuple[int, int]:
        if statuses:
            raise DataError("no memory was left")
        return 100, 100

    monkeypatch.setattr(trainers, "start_training", started)
    monkeypatch.setattr(trainers, "finish_training", finished)
    trainings = Trainings(
        study, [training], tmp_path / "runs", results, adapters={}, minutes=None, at_once=1, report=said.append
    )
    assert trainings.run() == []
    assert said[:3] == ["rag: training", "no memory was left", "rag: training"]
    statuses[:] = [1, 1]
    trainings = Trainings(study, [training], tmp_path / "runs", results, adapters={}, minutes=None, at_once=1)
    monkeypatch.setattr(trainers, "finish_training", lambda *given: (3, 100))
    assert trainings.run() == ["rag"]
    assert statuses == []


@pytest.mark.slow
def test_a_slice_trains_answers_and_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, text in (("book", BOOK), ("cold", COLD), ("rl", RECIPE)):
        (tmp_path / f"{name}.toml").write_text(text)
    where = ["--recipes", str(tmp_path), "--model", "random:llama", "--device", "cpu", "--runs"]
    out, runs = tmp_path / "out", tmp_path / "runs"
    assert lab.main(["--train", "--run", *where, str(runs), "--pack", str(out)]) == 0
    results = Results(tmp_path / "results")
    study = with_origins(read_study(tmp_path), results)
    assert speeds_of(results)["training rag, 2 rollouts"][0] == 1
    assert speeds_of(results)["fine-tuning"][0] == 2
    assert {f.name for f in (tmp_path / "results").glob("rag@*")} == {"rag@cold.json.xz", "rag@rag.json.xz"}
    # the rows are complete: the adapter is not packed, and the start is there for what may be asked of it
    assert sorted(f.name for f in out.iterdir()) == ["claims-results.tar", "claims-start.tar"]

    # on an empty machine: nothing is trained or asked again, although the adapter is not there
    elsewhere = ["--unpack", str(out), "--out", str(tmp_path / "elsewhere")]
    bare = tmp_path / "bare"
    assert lab.main(["--train", *where, str(bare), *elsewhere]) == 0
    assert [f.name for f in bare.iterdir()] == [adapter_of(study, study.trainings["cold"], bare).parent.name]
