"""Prepared traces keep what they were made with: a model must not learn prompts that nobody uses any more."""

import json
import lzma
import shutil
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.systems.registry import get
from subquest.train import rerank_traces
from subquest.train.traces import TraceSet

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DATA = 'data=[{questions="world:seed=1,articles=160,questions=4"}]'
DEV = 'dev=[{questions="world:seed=2,articles=160,questions=2,split=dev"}]'
MINE = """
from subquest.systems.coda import CoDA
from subquest.systems.coda.teacher import CoDATeacher

class Mine(CoDA):
    name = "mine"

TEACHERS = {"mine": CoDATeacher}
"""


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's system with prompts of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    shutil.copytree(get("coda").prompt_folder(), tmp_path / "prompts")
    return tmp_path / "prompts" / "compact"


def train(*words: str, system: str = "mine.py:Mine") -> int:
    settings = [f"--set={pair}" for pair in (f"system={system}", DEV, "evaluate_questions=1")]
    return main(["train", str(RECIPES / "coda-sft-smoke.toml"), *words, *settings])


def learn(*words: str) -> int:
    """A slice without a step: it reads its traces and leaves a checkpoint."""
    return train("--out", "run", "--minutes=0", '--set=traces=["traces.xz"]', *words)


def prepare(*words: str, data: str = DATA) -> int:
    return train("--prepare", "traces.xz", f"--set={data}", *words)


def forget(key: str) -> None:
    """The file as it was made before it kept something."""
    head, _, body = lzma.decompress(Path("traces.xz").read_bytes()).partition(b"\n")
    known = json.loads(head)
    del known[key]
    with lzma.open("traces.xz", "wb") as file:
        file.write(json.dumps(known).encode() + b"\n" + body)


def test_traces_of_other_prompts_are_refused(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare() == 0
    (kept,) = TraceSet.load(Path("traces.xz")).prompts or ()
    assert {"planner", "executor"} <= kept.digests.keys()
    assert "outliner" not in kept.digests, "a prompt that was not read does not matter"
    assert learn() == 0
    planner = prompts / "planner.md"
    planner.write_text("Think hard.\n" + planner.read_text())
    capsys.readouterr()
    assert learn() == 2
    error = capsys.readouterr().err
    assert "traces.xz was prepared with other prompts: planner of mine.py:Mine (compact) has changed" in error
    assert "--prepare traces.xz" in error
    assert "coda-sft-smoke.toml" in error
    assert "executor" not in error
    planner.unlink()
    assert learn() == 2
    assert "planner of mine.py:Mine (compact)" in capsys.readouterr().err


def test_preparing_again_renews_stale_traces(prompts: Path) -> None:
    assert prepare() == 0
    executor = prompts / "executor.md"
    executor.write_text("Search well.\n" + executor.read_text())
    assert learn() == 2
    before = TraceSet.load(Path("traces.xz"))
    assert prepare() == 0
    after = TraceSet.load(Path("traces.xz"))
    assert len(after) == len(before)
    assert len(after.ids) > len(before.ids)
    assert learn() == 0


def test_a_prompt_that_is_not_read_may_change(prompts: Path) -> None:
    assert prepare() == 0
    unused = prompts / "unused.md"
    unused.write_text("Nothing.")
    (prompts.parent / "full" / "planner.md").write_text("Another set.\n--- user\n$question")
    (prompts / "planner.md").write_text((prompts / "planner.md").read_text() + "\n\n")
    assert learn() == 0


def test_traces_of_another_set_are_refused(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(prompts, prompts.parent / "full", dirs_exist_ok=True)  # short enough for a tiny model
    assert prepare("--set=prompts=full") == 0
    capsys.readouterr()
    assert learn() == 2
    error = capsys.readouterr().err
    assert "traces.xz was prepared with the full prompts of mine.py:Mine, and the recipe uses the compact" in error
    assert learn("--set=prompts=full") == 0


def test_a_system_that_is_gone_is_named(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare() == 0
    Path("mine.py").unlink()
    capsys.readouterr()
    assert train("--out", "run", '--set=traces=["traces.xz"]', system="coda") == 2
    error = capsys.readouterr().err
    assert "traces.xz was prepared with other prompts" in error
    assert "mine.py" in error


def test_older_files_are_read_with_a_note(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare() == 0
    forget("prompts")
    capsys.readouterr()
    assert learn() == 0
    assert "traces.xz does not say which prompts it was prepared with" in capsys.readouterr().err


def test_the_judge_of_passages_has_a_prompt_too(
    prompts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = 'data=[{questions="world:seed=1,articles=160,questions=4", systems=["rerank"]}]'
    assert prepare(data=data) == 0
    assert learn("--set=prompts=full") == 0
    shutil.rmtree("run")
    said = rerank_traces.judgement
    monkeypatch.setattr(rerank_traces, "judgement", lambda *of: [*said(*of), *said(*of)])
    capsys.readouterr()
    assert learn() == 2
    assert "judgement of rerank has changed" in capsys.readouterr().err


def test_traces_that_a_run_keeps_are_checked_too(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taught = ("--out", "run", "--minutes=0", f"--set={DATA}", '--set=instruct={teacher="rules"}')
    assert train(*taught) == 0
    planner = prompts / "planner.md"
    planner.write_text("Think hard.\n" + planner.read_text())
    capsys.readouterr()
    assert train(*taught) == 2
    error = capsys.readouterr().err
    assert "has changed" in error
    assert "begin a new run" in error


def test_a_failed_preparation_leaves_the_older_file(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare() == 0
    before = Path("traces.xz").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.packbits", full)
    with pytest.raises(OSError, match="No space"):
        TraceSet.load(Path("traces.xz")).save(Path("traces.xz"))
    assert Path("traces.xz").read_bytes() == before
