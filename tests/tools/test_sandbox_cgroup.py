"""Where control groups are made, on copies of what the kernel shows."""

from pathlib import Path

import pytest

from subquest.tools.sandbox import cgroup


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """Version 2 as systemd lays it out: our group has processes, so it passes on no controllers; its slice does."""
    ours = tmp_path / "user.slice" / "app.slice" / "terminal.scope"
    ours.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/user.slice/app.slice/terminal.scope\n")
    (ours / "cgroup.subtree_control").write_text("")
    (ours / "memory.max").write_text("max\n")
    (ours.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "OURS", tmp_path / "own")
    return ours


def parents() -> list[Path]:
    return [place for place, _ in cgroup._parents({"memory": "1000", "pids": "9"})]


def test_a_group_is_made_beside_ours_where_ours_cannot_have_any(unified):
    assert parents() == [unified.parent]


def test_a_group_with_a_memory_limit_is_never_left(unified):
    (unified / "memory.max").write_text("1000000\n")
    assert parents() == []


def test_a_group_that_passes_on_its_controllers_is_used_itself(unified):
    (unified / "memory.max").write_text("1000000\n")
    (unified / "cgroup.subtree_control").write_text("memory pids\n")
    assert parents() == [unified]


def test_there_is_none_without_the_controllers(unified):
    (unified.parent / "cgroup.subtree_control").write_text("cpu\n")
    assert parents() == []
