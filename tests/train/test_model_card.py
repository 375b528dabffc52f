"""Model cards say what the folders of runs say."""

import json
from pathlib import Path

import pytest

from subquest import Index
from subquest.cli import main
from subquest.record import Document
from subquest.runs import RunStore
from subquest.train.recipe import DataPart, ModelPart, Recipe
from subquest.train.run import TrainRun


def trained(folder: Path, kind: str, **figures: list[float]) -> Path:
    data = (DataPart("train.jsonl", unanswerable=0.1),)
    model = ModelPart("qwen-1.5b", rank=8)
    recipe = Recipe(
        f"tiny-{kind}", kind, model, data, abstain=True, prompts="full", dev=(DataPart("dev.jsonl"),), seed=7
    )
    run = TrainRun(folder, recipe)
    for step in range(len(next(iter(figures.values())))):
        run.record(step + 1, {name: values[step] for name, values in figures.items()}, ())
    run.close()
    (folder / "best").mkdir()
    (folder / "best" / "dev.json").write_text(json.dumps({"step": 3, "dev_em": 0.4375, "dev_em_2hop": 0.25}))
    (folder / "commands.txt").write_text(f"subquest train {kind}.toml --out {folder.name}\n")
    return folder


def test_a_card_is_filled_from_the_runs(tmp_path: Path) -> None:
    sft = trained(tmp_path / "sft", "sft", loss=[2.0, 1.5, 1.25], seconds=[2.0, 2.0, 2.0], packed=[100.0, 300.0, 200.0])
    counts = {"traces": 31, "tokens": 9000, "learnt": 800, "made_by": {"coda": 31}, "rejected": {"not retrieved": 4}}
    (sft / "traces.json").write_text(json.dumps(counts))
    peco = trained(tmp_path / "peco", "rl", tasks=[1.5] * 40, one_task=[n / 100 for n in range(40)])
    out = tmp_path / "card.md"
    assert main(["model", "card", str(sft), str(peco), "--name", "tiny", "--out", str(out)]) == 0
    card = out.read_text()
    assert "Qwen2.5-Coder-1.5B-Instruct" in card
    assert "LoRA, rank 8" in card
    assert "subquest train sft.toml --out sft\n    subquest train rl.toml --out peco" in card
    assert "| tiny-sft | sft | 7 | 3 | 6 | 100 |" in card
    assert "31 gold traces (coda 31), 9,000 tokens, of which 800 are learnt" in card
    assert "not retrieved 4" in card
    assert "| 3 | 1.25 |" in card
    assert "| step | tasks | one task |\n| --- | --- | --- |\n| 1 | 1.5 | 0 |" in card
    assert "| 40 | 1.5 | 0.39 |" in card
    assert card.count("| 0.438 |") == 2
    assert "train.jsonl | 10% | 1 |" in card


@pytest.mark.parametrize("missing", ["recipe", "figures"])
def test_what_is_no_run_is_named(missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if missing == "figures":
        TrainRun(folder, Recipe("x", "sft", ModelPart("random:llama"), ())).close()
    assert main(["model", "card", str(folder), "--name", "x"]) == 2
    assert ("no recipe.json" if missing == "recipe" else "no training figures yet") in capsys.readouterr().err


def test_a_card_shows_what_evaluations_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sft = trained(tmp_path / "sft", "sft", loss=[2.0, 1.5, 1.25])
    asked = [("Kestel", "single"), ("Kestel", "bridge"), ("unknown", "not answerable")]
    questions, replies = tmp_path / "office.jsonl", tmp_path / "replies.jsonl"
    rows = [
        {"id": f"q{n}", "question": f"Which town {n}?", "answers": [a], "type": kind}
        for n, (a, kind) in enumerate(asked)
    ]
    questions.write_text("\n".join(json.dumps(row) for row in rows))
    told = ("Kestel", "Ys", "unknown")
    replies.write_text("\n".join(json.dumps({"role": "planner", "reply": f"<answer>{t}</answer>"}) for t in told))
    measured = tmp_path / "measured"
    Index.build(tmp_path / "docs.sq", [Document("a", "Kestel", "Kestel is a town.")]).close()
    command = ["eval", str(questions), "--model", f"scripted:{replies}", "--index", str(tmp_path / "docs.sq")]
    assert main([*command, "--out", str(measured), "--abstain", "--judge", "rules", "--concurrency", "1"]) == 0
    capsys.readouterr()
    assert main(["model", "card", str(sft), "--name", "tiny", "--eval", str(measured)]) == 0
    card = capsys.readouterr().out
    assert "| questions | system | type | n | EM | F1 | judged right | unknown | unknown, wrongly | forced |" in card
    assert "| office | coda | all | 3 | 0.667 | 0.667 | 0.667 | 1.000 | 0.000 | 0.000 |" in card
    assert "| office | coda | not answerable | 1 | 1.000 | 1.000 | 1.000 | 1.000 |  | 0.000 |" in card
    assert "--model qwen-1.5b --abstain --judge rules --by type --out RUN" in card
    with RunStore.create(tmp_path / "empty"):
        pass
    assert main(["model", "card", str(sft), "--name", "tiny", "--eval", str(tmp_path / "empty")]) == 2
    assert "holds no answers" in capsys.readouterr().err
