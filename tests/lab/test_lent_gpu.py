"""The scripts for trainings on a lent GPU: what is carried there, the schedule on a tiny model, what is handed back."""

import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from subquest.cli import main

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "model.path": "random:qwen2",
    "prompts": "compact",
    "traces": "[]",
    "data": '[{questions="world:seed=1,articles=160,questions=24,unanswerable=0.2"}]',
    "dev": '[{questions="world:seed=2,articles=160,questions=4,unanswerable=0.2"}]',
    "evaluate_questions": "4",
    "optimiser.batch": "2",
    "optimiser.steps": "2",
    "rollout.questions": "2",
    "rollout.group": "2",
    "rollout.max_tokens": "8",
    "guards.cut_turns": "2.0",
}


@pytest.mark.slow
def test_the_schedule_trains_twice_and_hands_its_results_over(tmp_path: Path) -> None:
    for name in ("src", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = " ".join(f"--set {key}={value}" for key, value in TINY.items())
    settings = {"SET": words, "PYTHON": sys.executable, "MODEL": "embedded", "RESERVE": "20", "PECO": "60"}
    schedule = ["bash", "recipes/lab/train.sh", "1.5b", "160"]
    subprocess.run(schedule, cwd=tmp_path, env=os.environ | settings, check=True, timeout=300)
    for run in ("sft", "peco"):
        assert (tmp_path / f"runs/qwen-1.5b-{run}/last/adapter_model.safetensors").is_file()
    recipe = (tmp_path / "runs/qwen-1.5b-peco/recipe.json").read_text()
    assert '"adapter":"runs/qwen-1.5b-sft/last"' in recipe.replace(" ", "")
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["bash", "recipes/lab/wait.sh", "1", str(home)], cwd=tmp_path, check=True)
    pieces = sorted(home.iterdir())
    assert pieces
    assert not [file for file in (tmp_path / "back").iterdir() if ".part-" in file.name], "each is handed over once"
    joined = tmp_path / "results.tar.xz"
    joined.write_bytes(b"".join(p.read_bytes() for p in pieces if p.name.startswith("results-all")))
    with tarfile.open(joined) as archive:
        names = archive.getnames()
    assert {"logs/qwen-1.5b-sft.log", "runs/qwen-1.5b-peco/run.sqlite", "runs/qwen-1.5b-peco/recipe.json"} <= set(names)


def test_parts_joined_are_the_model_and_a_kit(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    (out / "packages-3.12-x86_64" / "msgspec").mkdir(parents=True)
    (data / "train").mkdir(parents=True)
    (data / "train" / "q.jsonl").write_text("{}\n")
    model, cache = b"\x00\x01weights" * 300_000, tmp_path / "cache"
    (cache / "models").mkdir(parents=True)
    name = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    (cache / "models" / name).write_bytes(model)
    pack = [sys.executable, str(ROOT / "recipes/lab/pack.py"), str(out), "--data", str(data), "--sets", "train"]
    pack += ["--model", "qwen-0.5b", "--part-bytes", "1000000"]
    subprocess.run(pack, env=os.environ | {"SUBQUEST_CACHE": str(cache)}, check=True)
    parts = sorted(out.glob("part-*"))
    assert {part.stat().st_size for part in parts[:-1]} == {1_000_000}
    (tmp_path / "all.tar").write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(tmp_path / "all.tar") as archive:
        archive.extractall(tmp_path / "there", filter="data")
    assert (tmp_path / "there/subquest/cache/models" / name).read_bytes() == model
    with tarfile.open(tmp_path / "there" / "kit.tar.gz") as kit:
        names = set(kit.getnames())
    assert {"subquest/src/subquest/cli/train.py", "subquest/recipes/lab/train.sh", "shared/data/train/q.jsonl"} <= names
    assert "subquest/packages/msgspec" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".gguf") or "/claims/results" in name]
    gone = subprocess.run([*pack, "--model", "minilm", "--carry", "gone"], capture_output=True, text=True)
    assert gone.returncode == 1
    assert "not there: gone" in gone.stderr


def test_what_a_model_wrote_for_the_recipes_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three of the organisations, and the questions about the passages that belong to them."""
    papers, questions = tmp_path / "organisations", tmp_path / "asked"
    papers.mkdir()
    questions.mkdir()
    with lzma.open(ROOT / "recipes/qwen-1.5b/organisations.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = [line for line in file if any(f'"number": {n}, "seed": 0' in line[:200] for n in range(3))]
    (papers / "organisations.jsonl").write_text("".join(lines))
    assert main(["data", "organisations", str(papers), "--count", "3"]) == 0
    asked = lzma.decompress((ROOT / "recipes/qwen-1.5b/asked-office.jsonl.xz").read_bytes())
    (questions / "passages.jsonl").write_bytes(asked)
    assert main(["data", "questions", str(papers / "train" / "docs"), "--out", str(questions), "--count", "4000"]) == 0
    told = capsys.readouterr().err
    assert "organisations/train:" in told
    assert "asked/train:" in told
