"""One stretch of time after another: what is left, what is begun, and how a killed store goes on elsewhere."""

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import run as lab
import torch
from safetensors.torch import load_file

from subquest.runs import RunStore
from subquest.study import find_study, read_study
from subquest.study.page import Page
from subquest.study.results import Results
from subquest.study.stamps import known_as
from subquest.study.training import adapter_of, curves_of, folder_of, last_step, open_progress

from ..study.small_study import BOOK, write_small_study

RECIPE = """
name = "claims"
kind = "rl"
system = "rag"
reward = "autorefine"
loss = "coda"
advantage = "coda"
evaluate_every = 100
checkpoint_every = 1
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
steps = 3
[guards]
cut_turns = 1.0
"""
SHOWN = 'says = "so"\ncosts = ["completion_tokens"]\nexpect = [["rag, rl", "rag, none"]]'
CURVE = '[[claim.curve]]\ntraining = "rl"\nfigures = ["loss", "reward", "completion_tokens"]\n'


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The recipes of a small study."""
    folder = tmp_path / "small"
    folder.mkdir()
    write_small_study(folder)
    return folder


def unpack(back: Path, store: Path) -> None:
    """As the README says."""
    with tarfile.open(back / "results.tar.xz") as tar:
        tar.extractall(store, filter="data")
    for first in back.glob("*.tar.00"):
        pieces = sorted(back.glob(f"{first.stem}.*"))
        with tarfile.open(fileobj=io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))) as tar:
            tar.extractall(store, filter="data")


def opened(*options: object) -> lab.Lab:
    return lab.Lab(lab.options().parse_args(list(map(str, options))))


def test_what_is_left_is_listed(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main([str(small), "--store", str(tmp_path / "store")]) == 0
    seconds = opened(small).seconds
    answers = 2 * seconds.question["other"] + seconds.start
    training = 3 * seconds.step["other"] + seconds.start
    assert capsys.readouterr().out.splitlines() == [
        f"{'CoDA':<26}{(2 * answers - seconds.start) / 60:>6.1f} min       4 questions  ",
        f"{'rl':<26}{(answers + training) / 60:>6.1f} min       2 questions  rl",
        f"{(3 * answers - seconds.start + training) / 60:.0f} minutes are left, one part after the other",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--only", "nothing"], "--only: there is no part nothing"), (["--at-once", "0"], "--at-once: give a number")],
)
def test_what_is_refused(small: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert lab.main([str(small), *options]) == 2
    assert words in capsys.readouterr().err


def test_the_parts_of_the_claims_are_all_of_them_and_need_nothing_of_each_other() -> None:
    study = find_study("claims-1.5b")
    parts = lab.parts_of(study)
    assert sorted(t.name for p in parts for t in p.trainings) == sorted(study.trainings)
    assert sorted(v.name for p in parts for v in p.variants) == sorted(study.variants)
    for part in parts:
        made = {t.name for t in part.trainings}
        assert {a for v in part.variants for a in v.adapters.values()} <= {*made, "none"}
        if part.trainings:  # its command answers with all of them
            assert {v.name for v in study.using(made)} == {v.name for v in part.variants}
    names = [p.name for p in parts]
    assert names[:6] == ["CoDA", "peco", "autorefine", "peco-2", "autorefine-2", "HiRA"]
    assert names.index("search-r1-2") < names.index("apex-exec") < names.index("decor-f1")


def test_the_claims_take_less_than_three_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened("claims-1.5b", "--store", tmp_path).run()
    left = re.search(r"^(\d+) minutes are left", capsys.readouterr().out, re.MULTILINE)
    assert left is not None
    at_once = 26 / 33  # measured: minutes that parts of 33 by the estimates took with `--at-once 4` (the lab's README)
    assert int(left[1]) * at_once < 180


def test_parts_are_begun_while_there_is_time(small: Path, tmp_path: Path) -> None:
    def begun(seconds: float) -> list[str]:
        made = opened(small, "--store", tmp_path / "store", "--minutes", "10", "--at-once", "2")
        made.end += seconds - 600
        return [part.name for _ in range(3) if (part := made._next()) is not None]

    start = opened(small).seconds.start
    assert begun(lab.TRAINING_SECONDS + 60) == ["CoDA", "rl"]
    assert begun(lab.TRAINING_SECONDS - 1) == ["CoDA"]  # answers may be cut off at any time
    assert begun(start - 1) == []


def test_adapters_are_taken_home_in_pieces_while_rows_need_them(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, store, back, there = read_study(small), tmp_path / "store", tmp_path / "back", tmp_path / "there"
    monkeypatch.setattr(lab, "PIECE", 20_000)
    adapter = adapter_of(study, study.trainings["rl"], store / "runs")
    adapter.mkdir(parents=True)
    (adapter / "adapter_model.safetensors").write_bytes(os.urandom(50_000))
    Results(store / "results").keep_training("rl", known_as(study, study.trainings["rl"]), "x", {})
    opened(small, "--store", store, "--pack", back)._pack()
    pieces = sorted(back.glob(f"{adapter.parent.name}-adapter.tar.*"))
    assert len(pieces) > 2
    assert all(file.stat().st_size <= 20_000 for file in pieces)
    unpack(back, there)
    moved = there / adapter.relative_to(store) / "adapter_model.safetensors"
    assert moved.read_bytes() == (adapter / "adapter_model.safetensors").read_bytes()
    progress = open_progress(study, Results(there / "results"), there / "runs")
    assert not progress.untrained(study.trainings.values())
    adapter.rename(adapter.with_name("gone"))  # as where all rows are complete
    opened(small, "--store", store, "--pack", back)._pack()
    assert [file.name for file in back.iterdir()] == ["results.tar.xz"]


def test_of_the_parts_at_once_some_train(tmp_path: Path) -> None:
    made = opened("claims-1.5b", "--store", tmp_path, "--minutes", "100", "--at-once", "5")
    begun = [made._next() for _ in range(5)]
    assert [part and part.name for part in begun] == ["CoDA", "peco", "autorefine", "peco-2", "HiRA"]


def test_a_training_that_fails_is_begun_once_more_when_fewer_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened("claims-1.5b", "--store", tmp_path, "--minutes", "100", "--only", "peco", "--only", "autorefine")
    tried: list[str] = []

    def fails(part: lab.Part) -> int:
        tried.append(part.name)
        if len(tried) == 1:  # while another one trains
            made._training_now += 1
            assert made._next() is not None
        return 1

    monkeypatch.setattr(made, "_carry_out", fails)
    made._work()
    assert tried == ["peco"], "two trained, and now as many as the other one"
    made._training_now = 0
    made._work()
    assert tried == ["peco", "peco"]


def test_a_training_is_estimated_by_its_own_steps(small: Path, tmp_path: Path) -> None:
    made = opened(small, "--store", tmp_path / "store", "--only", "rl")
    (part,), progress = made.parts, made._progress()
    folder = folder_of(made.study, part.trainings[0], made.store / "runs")
    folder.mkdir(parents=True)
    assert made._training(part, progress) == 3 * made.seconds.step["other"] + made.seconds.start
    (folder / "run.sqlite").write_bytes(b"")  # begun, and not yet a store
    assert made._training(part, progress) == 3 * made.seconds.step["other"] + made.seconds.start
    (folder / "run.sqlite").unlink()
    with RunStore.create(folder / "run.sqlite") as store:
        store.add_metrics(1, {"seconds": 40.0})
        store.add_metrics(2, {"seconds": 20.0})
    assert made._training(part, progress) == 3 * 30.0 + made.seconds.start


@pytest.mark.slow
def test_a_killed_store_is_packed_and_goes_on_elsewhere_to_the_same_table(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (small / "book.toml").write_text(BOOK.replace('"shipped", ', "").replace('says = "so"', SHOWN) + CURVE)
    (small / "rl.toml").write_text(RECIPE)
    study, training = read_study(small), read_study(small).trainings["rl"]
    once, here, there, back = (tmp_path / name for name in ("once", "here", "there", "back"))
    options = [str(small), "--model", "random:llama", "--device", "cpu", "--minutes", "10"]

    def page(store: Path) -> str:
        return Page(open_progress(study, Results(store / "results"), store / "runs", model="random:llama")).text()

    def trained(store: Path) -> Path:
        return folder_of(study, training, store / "runs")

    def figures(store: Path) -> dict[str, list[tuple[int, float]]]:
        return Results(store / "results").training("rl", known_as(study, training))["figures"]

    assert lab.main([*options, "--store", str(once), "--at-once", "2", "--pack", str(back)]) == 0
    assert "nothing is left" in capsys.readouterr().out
    assert [file.name for file in back.iterdir()] == ["results.tar.xz"]  # no row needs the adapter any more

    started = subprocess.Popen(
        [sys.executable, lab.__file__, *options, "--store", str(here)], start_new_session=True, stdout=subprocess.PIPE
    )
    until = time.monotonic() + 300
    try:
        while last_step(trained(here)) < 1 and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
    last = last_step(trained(here))
    assert 1 <= last < 3
    assert not Results(here / "results").stored("rag@rl")
    # the figures of its steps, as a stretch that ends in time leaves them behind
    Results(here / "results").keep_training(
        "rl", known_as(study, training), "", {name: made[:last] for name, made in figures(once).items()}
    )
    assert lab.main([*options[:5], "--store", str(here), "--pack", str(back)]) == 0
    unpack(back, there)
    checkpoint = trained(here) / "checkpoints" / f"step-{last:06d}"
    packed = there / checkpoint.relative_to(here)
    assert sum(f.stat().st_size for f in packed.iterdir()) < 0.8 * sum(f.stat().st_size for f in checkpoint.iterdir())

    assert lab.main([*options, "--store", str(there)]) == 0
    assert [step for step, _ in figures(there)["reward"]] == [1, 2, 3]
    assert set(curves_of(trained(there))["reward"]) == set(range(last + 1, 4))  # no step was made again
    adapters = [load_file(trained(store) / "adapter" / "adapter_model.safetensors") for store in (once, there)]
    for name, tensor in adapters[0].items():
        assert torch.allclose(tensor, adapters[1][name], atol=1e-4)
    assert page(there) == page(once)
    assert "not yet measured" not in page(there)
