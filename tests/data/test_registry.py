"""The registry of question sets: what each set may be used for."""

import pytest

from subquest.data.registry import REGISTRY, find_set, match_set, measured_only
from subquest.record import Question


@pytest.mark.parametrize(
    ("dataset", "split", "measured"),
    [
        ("hotpotqa", "train", False),
        ("hotpotqa", "test", True),
        ("2wiki", "", False),
        ("gaia", "validation", True),
        ("bamboogle", "", True),
        ("world-1-train", "train", False),
        ("world-1-test", "test", True),
        ("", "", False),
    ],
)
def test_what_is_only_measured(dataset: str, split: str, measured: bool) -> None:
    assert measured_only(Question("q", "Who?", dataset=dataset, split=split)) is measured


def test_only_sets_with_a_training_split_may_be_trained_on() -> None:
    for entry in REGISTRY.values():
        splits = [file.split for file in entry.files]
        assert entry.training or "train" not in splits, entry.name


def test_names_and_aliases() -> None:
    assert find_set("2wiki") is REGISTRY["2wikimultihopqa"]
    assert find_set("gaia_validation") is None
    assert match_set("gaia_validation") is REGISTRY["gaia"]
    assert match_set("gaiax") is None
