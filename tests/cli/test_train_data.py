"""Data that changes between two slices of a training is noticed."""

import json
import shutil
from pathlib import Path

import pytest

from subquest.cli import main

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DATA = ('data=[{questions="world"}]', 'dev=[{questions="held"}]')


def resumed(kind: str, *settings: str) -> int:
    """A slice without a step: it looks at its data and leaves a checkpoint."""
    recipe = RECIPES / ("coda-sft-smoke.toml" if kind == "sft" else "coda-peco-smoke.toml")
    changes = [f"--set={pair}" for pair in (*(settings or DATA), "evaluate_questions=1")]
    return main(["train", str(recipe), "--out", "run", "--minutes", "0", *changes])


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world to learn from and one to choose the best weights on, in folders."""
    monkeypatch.chdir(tmp_path)
    for name, seed, split in (("world", 1, "train"), ("held", 2, "dev")):
        size = ["--articles", "160", "--questions", "6", "--hops", "2"]
        assert main(["world", "make", "--seed", str(seed), *size, "--split", split, "--out", name]) == 0
    return tmp_path


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_changed_data_is_refused(kind: str, worlds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert resumed(kind) == 0
    for file, what in (("world/questions.jsonl", "questions"), ("world/corpus.jsonl", "passages")):
        place = worlds / file
        before = place.read_text()
        place.write_text("\n".join(before.splitlines()[:-1]))
        capsys.readouterr()
        assert resumed(kind) == 2
        assert f"the {what} of world have changed" in capsys.readouterr().err
        place.write_text(before.replace("\n", "\n\n"))  # the same in other lines
    held = worlds / "held" / "questions.jsonl"
    held.write_text(
        held.read_text().replace('"answers":["', '"answers":["Sir ').replace('"answers": ["', '"answers": ["Sir ')
    )
    assert resumed(kind) == 2
    assert "the questions of held have changed" in capsys.readouterr().err
    for place in (worlds / "run" / "checkpoints").glob("step-*/state.json"):  # as checkpoints were before
        state = json.loads(place.read_text())
        assert len(state.pop("sources")) == 4
        place.write_text(json.dumps(state))
    assert resumed(kind) == 0


def test_changed_traces_are_refused(worlds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(RECIPES / "coda-sft-smoke.toml")
    assert main(["train", recipe, "--prepare", "traces.xz", f"--set={DATA[0]}"]) == 0
    given = ('traces=["traces.xz"]', DATA[1])
    assert resumed("sft", *given) == 0
    assert resumed("sft", *given) == 0
    questions = worlds / "world" / "questions.jsonl"
    questions.write_text("\n".join(questions.read_text().splitlines()[:-1]))
    assert main(["train", recipe, "--prepare", "traces.xz", f"--set={DATA[0]}"]) == 0
    capsys.readouterr()
    assert resumed("sft", *given) == 2
    assert "the traces of traces.xz have changed" in capsys.readouterr().err


def test_as_many_epochs_as_the_steps_take(worlds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert resumed("sft", *DATA, "optimiser.epochs=inf") == 0
    assert "step 0" in capsys.readouterr().err


def test_the_adapter_that_a_kl_term_holds_on_to_stays(worlds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fine-tuning that it comes from may have gone on meanwhile."""
    assert resumed("rl") == 0
    (worlds / "run").rename(worlds / "first")
    start = (*DATA, 'model.adapter="first/last"')
    assert resumed("rl", *start) == 0
    assert resumed("rl", *start) == 0
    weights = worlds / "first" / "last" / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    capsys.readouterr()
    assert resumed("rl", *start) == 2
    assert "the weights of first/last have changed" in capsys.readouterr().err


def test_a_teacher_is_asked_once_a_run(
    worlds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taught = (*DATA, 'instruct={teacher="rules"}')
    assert resumed("sft", *taught) == 0
    (made,) = [line for line in capsys.readouterr().err.splitlines() if "gold traces (" in line]

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the teacher is asked again")

    monkeypatch.setattr("subquest.train.launch.gold_traces", asked)
    assert resumed("sft", *taught) == 0
    assert made in capsys.readouterr().err
    shutil.rmtree(worlds / "run" / "checkpoints")  # nothing is trained yet: the recipe may change
    assert resumed("sft", *taught, "seed=5") == 1
    assert "asked again" in capsys.readouterr().err
