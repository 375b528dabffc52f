"""Worlds made side by side are the worlds made here."""

import subprocess
import sys

import pytest

from subquest.errors import ConfigError
from subquest.train import world_sources
from subquest.train.data import load_material
from subquest.train.recipe import DataPart
from subquest.train.world_sources import WorldSources, make_source

SOURCES = [f"world:seed={seed},articles=160,questions=12" for seed in (3, 4)]


@pytest.fixture
def worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_sources, "WORTHWHILE", 100)


@pytest.mark.usefixtures("worthwhile")
def test_made_elsewhere_and_here(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [make_source(source) for source in SOURCES]
    assert [len(questions) for questions, _ in expected] == [12, 12]
    assert expected[0][1][0].id.startswith("world-3/")
    worlds = WorldSources([*SOURCES, "file.jsonl", "world:seed=5,articles=40"], workers=2)
    assert set(worlds._making) == set(SOURCES), "small worlds and files are not worth a process"
    monkeypatch.setattr(world_sources, "make_source", lambda source: pytest.fail("made here"))
    assert [worlds.get(source) for source in SOURCES] == expected
    material = load_material([DataPart(source) for source in SOURCES], worlds=worlds)
    assert material.questions == [*expected[0][0], *expected[1][0]]


@pytest.mark.usefixtures("worthwhile")
def test_errors_are_those_of_making_it_here() -> None:
    worlds = WorldSources([*SOURCES, "world:articles=200,seed"], workers=2)
    with pytest.raises(ConfigError, match="write it as in world:seed=1"):
        worlds.get("world:articles=200,seed")


def test_the_processes_start_without_torch() -> None:
    program = "import subquest.train.world_sources, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("world:sed=1,articles=160", "a world has no 'sed'; it has seed, articles"),
        ("world:seed=1,articles=abc", "articles=abc is not of the kind int"),
        ("world:seed=1,hops=two", "hops=two is not of the kind"),
    ],
)
def test_slips_are_named(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_source(source)


def test_settings_may_be_fractions() -> None:
    plain, bare = (make_source(f"world:seed=3,articles=160,questions=4,noise={noise}") for noise in ("1.0", "0.5"))
    assert sum(len(d.text) for d in bare[1]) < sum(len(d.text) for d in plain[1])
    assert plain == make_source("world:seed=3,articles=160,questions=4")
