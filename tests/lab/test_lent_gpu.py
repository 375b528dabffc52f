"""The scripts for a lent GPU: what is carried there, the schedules on tiny models, what is handed back."""

import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.models import smollm2_path

from ..test_benchmark_peers import peer_in

ROOT = Path(__file__).resolve().parents[2]
PLAN = re.findall(r'plan=\$\{PLAN:-"\n(.*?)"\}', (ROOT / "recipes/lab/speed.sh").read_text(), re.DOTALL)[0].splitlines()
"""The measurements of the schedule for speed, as it stands: name, two times, benchmark and options."""
TINY = {
    "model.path": "random:qwen2",
    "prompts": "compact",
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
    text = "Kelm is a port with a lighthouse that Ada Brandt built in 1831 for ninety pounds. " * 3
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "1", "title": "Kelm", "text": text}))
    settings |= {
        "WRITER": "embedded",
        "PASSAGES": "corpus.jsonl",
        "ASKED": "1",
        "SUBQUEST_CACHE": str(smollm2_path().parents[1]),
    }
    schedule = ["bash", "recipes/lab/train.sh", "1.5b", "160"]
    subprocess.run(schedule, cwd=tmp_path, env=os.environ | settings, check=True, timeout=300)
    for run in ("sft", "peco"):
        assert (tmp_path / f"runs/qwen-1.5b-{run}/last/adapter_model.safetensors").is_file()
    assert (tmp_path / "runs/asked/passages.jsonl").read_text(), (tmp_path / "logs/asked.log").read_text()
    sft, peco = (json.loads((tmp_path / f"runs/qwen-1.5b-{run}/recipe.json").read_text()) for run in ("sft", "peco"))
    assert sft["traces"] == ["runs/sft-asked.xz", "runs/sft-rest.xz"]
    assert peco["model"]["adapter"] == "runs/qwen-1.5b-sft/last"
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["bash", "recipes/lab/wait.sh", "1", str(home)], cwd=tmp_path, check=True)
    pieces = sorted(home.iterdir())
    assert pieces
    assert not [file for file in (tmp_path / "back").iterdir() if ".part-" in file.name], "each is handed over once"
    joined = tmp_path / "results.tar.xz"
    joined.write_bytes(b"".join(p.read_bytes() for p in pieces if p.name.startswith("results-1.5b.tar")))
    with tarfile.open(joined) as archive:
        names = archive.getnames()
    assert {"logs/qwen-1.5b-sft.log", "runs/qwen-1.5b-peco/run.sqlite", "runs/qwen-1.5b-peco/recipe.json"} <= set(names)


def test_trainings_run_at_once_and_their_best_weights_are_measured(tmp_path: Path) -> None:
    """The schedule of schedules, with others in the place of those that it starts."""
    lab = tmp_path / "recipes/lab"
    lab.mkdir(parents=True)
    for name in ("trainings.sh", "common.sh"):
        (lab / name).symlink_to(ROOT / "recipes/lab" / name)
    note = 'echo "$(basename $0) $* agent=$AGENT share=$SUBQUEST_GPU_SHARE$SHARE" >> called\n'
    ends = "mkdir -p runs\ncase $1-$AGENT in\n0.5b-coda) echo qwen-0.5b-peco > runs/qwen-0.5b.final ;;\n"
    ends += "1.5b-coda) echo qwen-1.5b-peco-2 > runs/qwen-1.5b.final ;;\n"
    ends += "*) echo qwen-1.5b-search-r1-rl > runs/qwen-1.5b-search-r1.final ;;\nesac\n"
    (lab / "train.sh").write_text(note + ends)
    (lab / "sets.sh").write_text(f"{note}mkdir -p runs && touch runs/$1.sqlite\n")
    settings = {"AGENT": "", "SHARE": "", "SUBQUEST_GPU_SHARE": ""}
    schedule = ["bash", "recipes/lab/trainings.sh", "900", "1.5b", "0.5b", "1.5b:search-r1"]
    subprocess.run(schedule, cwd=tmp_path, env=os.environ | settings, check=True, timeout=60)
    called = (tmp_path / "called").read_text().splitlines()
    assert [line.split()[0] for line in called] == ["train.sh"] * 3 + ["sets.sh"] * 3, "weights first"
    trained, measured = sorted(called[:3]), sorted(called[3:])
    assert [line.split()[1] + line.split()[3] for line in trained] == [
        "0.5bagent=coda",
        "1.5bagent=coda",
        "1.5bagent=search-r1",
    ]
    assert all(780 <= int(line.split()[2]) <= 790 for line in trained), "time is left for the evaluation sets"
    assert sum(float(line.rpartition("=")[2]) for line in trained) < 0.5
    assert [line.split()[-3] for line in measured] == [
        "runs/qwen-0.5b-peco/best",
        "runs/qwen-1.5b-peco-2/best",
        "runs/qwen-1.5b-search-r1-rl/best",
    ]
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "back/results-sets.tar.xz.part-00").read_bytes())) as archive:
        assert "runs/eval-1.5b-search-r1.sqlite" in archive.getnames()


def measured(folder: Path, plan: str, *words: str, **settings: str) -> tuple[str, dict[str, bytes]]:
    """What the schedule for speed says, and the files that it hands over."""
    for name in ("src", "recipes", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    schedule = ["bash", "recipes/lab/speed.sh", *words]
    subprocess.run(schedule, cwd=folder, env=os.environ | {"PLAN": plan} | settings, check=True, timeout=270)
    assert not list((folder / "back").glob("busy-*"))
    joined = folder / "results.tar.xz"
    joined.write_bytes(
        b"".join(piece.read_bytes() for piece in sorted(folder.glob("back/results-speed.tar.xz.part-*")))
    )
    with tarfile.open(joined) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
        found = {name: file.read() for name, file in files if file is not None}
    return found["logs/speed.log"].decode(), found


BENCHMARK = """
import json, os, signal, subprocess, sys, time
if sys.argv[1] == "-":
    os.execv(sys.executable, [sys.executable, "-"])
options = sys.argv[sys.argv.index("bench") + 1 :]
with open("called", "a") as file:
    file.write(json.dumps(options) + "\\n")
rows = {"vLLM 8k, with log-probs": 2.0, "vLLM wide, with log-probs": 1.0, "vLLM wide-two, with log-probs": 0.5}
with open(options[options.index("--save") + 1], "w") as file:
    json.dump({"figures": {"vllm": {name: {"seconds": seconds} for name, seconds in rows.items()}}}, file)
if "--hangs" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open("child", "w") as file:
        file.write(str(child.pid))
    time.sleep(300)
sys.exit("--fails" in options)
"""


def test_a_schedule_measures_what_it_has_time_for(tmp_path: Path) -> None:
    """One fails, one hangs and is ended with all that it started, one needs more time than there is."""
    (tmp_path / "benchmark.py").write_text(BENCHMARK)
    plan = """
    fails         9  1 fits --fails
    rollout-1.5b  9  1 rollout --peer vllm --shape 1.5b
    hangs         1  1 rollout --hangs
    long        900 60 rollout
    best         90  1 rollout --peer vllm --peer-configs fastest,wide-two
    """
    said, files = measured(tmp_path, plan, "40", PYTHON=f"{sys.executable} benchmark.py", PEERS="peers", GRACE="1")
    for words in ("fails ended with status 1", "hangs ended with status 137", "hangs left process", "long needs 60 s"):
        assert words in said
    child = Path("/proc") / (tmp_path / "child").read_text() / "cmdline"
    assert not child.exists() or not child.read_bytes(), "it is over"
    called = [json.loads(line) for line in (tmp_path / "called").read_text().splitlines()]
    saved = {"logs/fails.json", "logs/rollout-1.5b.json", "logs/hangs.json", "logs/best.json", "logs/packages.txt"}
    assert saved <= set(files)
    assert called[0] == ["fits", "--fails", "--seconds", "9", "--save", "logs/fails.json"]
    peer = ["--peer-path", "peers", "--peer-logs", "logs/rollout-1.5b", "--peer-seconds", "240"]
    assert called[1][5:11] == peer
    assert called[3][3:5] == ["--peer-configs", "wide,wide-two"], "the best single engine at 1.5b, and two"
    assert 1 < int(called[3][called[3].index("--seconds") + 1]) < 40, "no longer than there is"


@pytest.mark.slow
def test_a_schedule_measures_beside_a_stand_in(tmp_path: Path) -> None:
    size = "--shape tiny --device cpu --questions 1 --rollouts 1 --runs 1"
    plan = f"one 200 1 rollout {size} --peer vllm --peer-configs v2\ntwo 60 1 fits"
    newer = "__import__('os').environ['VLLM_USE_V2_MODEL_RUNNER'] != '1'"
    peers = str(peer_in(tmp_path / "peers", hangs=newer))
    _, files = measured(tmp_path, plan, "240", "one", PYTHON=sys.executable, PEERS=peers)
    found = json.loads(files["logs/one.json"])
    assert found["figures"]["ours"]["written"] == found["figures"]["vllm"]["vLLM v2, with log-probs"]["written"]
    assert {"logs/one.log", "logs/one/vllm-v2.log"} <= set(files)
    assert "logs/two.json" not in files, "only what was named is measured"


@pytest.mark.slow
@pytest.mark.parametrize("line", PLAN)
def test_benchmarks_take_the_options_of_the_plan(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    _, limit, least, *command = line.replace("fastest", "v2").split()
    assert int(limit) >= int(least)
    peer = (
        ["--peer-path", "peers", "--peer-logs", str(tmp_path), "--peer-seconds", "240"] if "--peer" in command else []
    )
    assert main(["bench", *command, *peer, "--save", str(tmp_path / "found.json"), "--seconds", "-1"]) == 2
    assert "--seconds -1 is not a time" in capsys.readouterr().err, "which is looked at after all options"
    if "--peer-configs" in command:
        from _rollout_peer import CONFIGS  # type: ignore[import-not-found]

        assert set(command[command.index("--peer-configs") + 1].split(",")) <= set(CONFIGS)


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
    pack += ["--model", "qwen-0.5b", "--part-bytes", "1000000", "--peers", str(tmp_path / "peers")]
    for file in ("vllm/__init__.py", "vllm/__pycache__/__init__.pyc", "pandas/tests/test_all.py"):
        (tmp_path / "peers" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "peers" / file).write_text("")
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
    with tarfile.open(tmp_path / "there" / "peers.tar.gz") as peers:
        assert {name for name in peers.getnames() if "." in name} == {"subquest/peers/vllm/__init__.py"}
        assert not [name for name in peers.getnames() if "tests" in name or "__pycache__" in name]
    gone = subprocess.run([*pack, "--model", "minilm", "--carry", "gone"], capture_output=True, text=True)
    assert gone.returncode == 1
    assert "gone (models: " in gone.stderr


def test_what_a_model_wrote_for_the_recipes_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three of the organisations, and the questions about the passages that belong to them."""
    papers, questions = tmp_path / "organisations", tmp_path / "asked"
    papers.mkdir()
    questions.mkdir()
    with lzma.open(ROOT / "recipes/qwen-1.5b/organisations.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = [line for line in file if any(f'"number": {n}, "seed": 0' in line[:200] for n in range(3))]
    (papers / "organisations.jsonl").write_text("".join(lines))
    assert main(["data", "organisations", str(papers), "--count", "3"]) == 0
    for packed, name in (("asked-office", "passages.jsonl"), ("asked-office-reworded", "reworded.jsonl")):
        written = lzma.decompress((ROOT / f"recipes/qwen-1.5b/{packed}.jsonl.xz").read_bytes())
        (questions / name).write_bytes(written)
    assert main(["data", "questions", str(papers / "train" / "docs"), "--out", str(questions), "--count", "4000"]) == 0
    told = capsys.readouterr().err
    assert "organisations/train:" in told
    assert "asked/train:" in told
    types = {json.loads(line)["type"] for line in (questions / "train" / "questions.jsonl").open()}
    assert {"single", "told", "double", "reworded"} <= types
