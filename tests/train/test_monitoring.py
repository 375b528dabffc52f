"""What people watch: the table, TensorBoard's files, trackers, and sample episodes in the run store."""

import asyncio
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subquest.errors import UsageError
from subquest.runs import RunStore
from subquest.train.monitoring import Table, TensorBoardFiles, Tracker, number, open_monitors
from subquest.train.rollouts import tokens_per_second

from .test_rl import RECIPE, trainer


def test_table_has_a_row_a_step_and_a_heading_every_twenty() -> None:
    out = io.StringIO()
    table = Table("rl", out, live=False)
    for step in range(21):
        table.status("rolling out")  # not a terminal: nothing is drawn over
        table.log(step, {"reward": 0.5 * step, "tokens_s_rollout": 54_321.0})
    lines = out.getvalue().splitlines()
    assert len(lines) == 23
    assert lines[0] == lines[21]
    assert lines[0].split()[:3] == ["step", "reward", "f1"]
    assert lines[3].split()[:3] == ["2", "1", "-"]
    assert "54k" in lines[3]


def test_a_live_table_draws_its_status_over() -> None:
    out = io.StringIO()
    table = Table("sft", out, live=True)
    table.status("rolling out: 1 of 8 episodes")
    table.log(1, {"loss": 2.0})
    text = out.getvalue()
    assert text.startswith("\r\x1b[2Krolling out: 1 of 8")
    assert text.index("\r\x1b[2K", 10) < text.index("step")


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (0.12345, "0.123"), (1234.5, "1234"), (1.5e6, "1500k")])
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_curves_for_tensorboard_are_readable(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    files = TensorBoardFiles(tmp_path / "tensorboard")
    files.log(1, {"a": 1.0})
    files.log(2, {"a": 2.0, "reward/answer": 0.5})
    files.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    data, found = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        record, checksum = data[12 : 12 + length], data[12 + length : 16 + length]
        assert int.from_bytes(checksum, "little") == masked_crc32c(record)
        event = Event.FromString(record)
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        data = data[16 + length :]
    assert found == [(1, "a", 1.0), (2, "a", 2.0), (2, "reward/answer", 0.5)]


def test_without_tensorboardx_a_run_has_no_such_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monitors = open_monitors(RECIPE, tmp_path, io.StringIO())
    monitors.log(1, {"reward": 1.0})
    monitors.close()
    assert not list(tmp_path.iterdir())


def test_trackers_get_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    fake = SimpleNamespace(
        init=lambda **how: told.append(how["name"]),
        log=lambda figures, step: told.append((step, figures)),
        finish=lambda: told.append("finished"),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    watching = open_monitors(RECIPE, tmp_path, io.StringIO(), as_json=True, trackers=["trackio"])
    watching.log(3, {"reward": 1.0})
    watching.close()
    assert told == [f"toy-{tmp_path.name}", (3, {"reward": 1.0}), "finished"]


def test_a_tracker_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="pip install wandb"):
        Tracker("wandb", RECIPE, tmp_path)
    with pytest.raises(UsageError, match="wandb, trackio"):
        Tracker("mlflow", RECIPE, tmp_path)


def test_speeds_by_phase() -> None:
    figures = {"completion_tokens": 100.0, "packed": 300.0, "seconds_rollout": 4.0, "seconds_update": 2.0}
    assert tokens_per_second(figures) == {"tokens_s_rollout": 25.0, "tokens_s_update": 150.0}
    assert tokens_per_second({"packed": 1.0}) == {}


def test_sample_episodes_carry_what_was_learnt(tmp_path: Path) -> None:
    """A group's siblings, their rewards and advantages, masks and log-probs, as docs/training.md says."""
    t = trainer(tmp_path)

    async def two_steps() -> None:
        for _ in range(2):
            figures, episodes = await t.one_step()
            t.run.record(t.step, figures, episodes[: RECIPE.rollout.group])
            t.run.record(t.step, figures, episodes[: RECIPE.rollout.group])  # a repeated step changes nothing
        await t.engine.close()

    asyncio.run(two_steps())
    t.run.close()
    with RunStore.open(tmp_path) as store:
        summaries = list(store.summaries())
        assert len(summaries) == 2 * RECIPE.rollout.group
        first = [s for s in summaries if s.attempt == 1]
        assert [s.id for s in first] == [f"step-00001-000-{n}" for n in range(4)]
        assert len({s.question for s in first}) == 1
        episodes = [store.episode(s.id) for s in first]
        advantages = []
        for e in episodes:
            planner = e.trajectories[0]
            assert e.rewards["total"] == e.rewards["lowercase"] == e.rewards["role/planner"]
            advantages.append(e.rewards[f"advantage/{planner.id}"])
            assert len(planner.action_mask) == len(planner.token_ids) == len(planner.logprobs)
            assert {s.policy for s in planner.segments if s.kind == "agent"} == {0}
        assert sum(advantages) == pytest.approx(0.0, abs=1e-6)
        mean = sum(e.rewards["total"] for e in episodes) / 4
        assert all((e.rewards["total"] > mean) == (a > 0) for e, a in zip(episodes, advantages, strict=True))
        assert {m.metric for m in store.scores(first[0].id)} == {"em", "f1"}
        names = {m.name for m in store.metrics() if m.step == 1}
    wanted = {"reward", "reward/lowercase", "f1", "turns", "tasks", "idle_executors", "length_planner", "clip_fraction"}
    assert wanted | {"kl", "entropy", "tokens_s_rollout", "tokens_s_update", "seconds_reward", "seconds_sync"} <= names
