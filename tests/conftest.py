"""What holds for all tests: their order, how thorough properties are tried, how many threads a worker may use."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from subquest.models import smollm2_path

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one worker a core; read when torch and numpy are imported

pytest.register_assert_rewrite("tests.serve.browsing")  # so that a failing check there says what it found
SLOW = [HealthCheck.too_slow]
SAME = "SUBQUEST_FUZZ" not in os.environ
"""The examples of properties are the same in every run, so that a run never fails by chance."""
settings.register_profile("whole", deadline=None, suppress_health_check=SLOW, derandomize=SAME)
settings.register_profile("quick", max_examples=20, deadline=None, suppress_health_check=SLOW, derandomize=SAME)


def pytest_configure(config: pytest.Config) -> None:
    """`make quick` tries properties on fewer examples; a deadline, or how fast they come, would test the machine.

    Where no model is named, the smallest one runs, whatever others have been fetched.
    """
    os.environ.setdefault("SUBQUEST_SMOLLM2", str(smollm2_path()))
    settings.load_profile("quick" if "not slow" in config.getoption("-m") else "whole")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end: looking for garbage among them takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests go first: one of them at the very end would leave the other processes idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("embedded")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _searches_are_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that fails is tried again as often as ever, after a shorter wait."""
    monkeypatch.setattr("subquest.runtime.run.SEARCH_WAIT", 0.01)


@pytest.fixture(autouse=True)
def _forget_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that a test plants are not masked in the next one."""
    monkeypatch.setattr("subquest.masking._forms", (), raising=False)
