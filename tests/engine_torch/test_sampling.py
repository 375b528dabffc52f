import math

import pytest
import torch

from subquest.engine.torch import reference_operations as reference
from subquest.engine.torch.reference_operations import mix, uniform
from subquest.engine.torch.running_batch import fold_seed
from subquest.engine.torch.step import Draw

LOGITS = (2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, 1.2, 0.3)


def draws(rows: int, temperature: float, *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Draw:
    return Draw(
        torch.full((rows,), temperature),
        torch.arange(rows, dtype=torch.int32),
        torch.full((rows,), top_k, dtype=torch.int32),
        torch.full((rows,), top_p),
        torch.full((rows,), min_p),
        bool(top_k or top_p < 1 or min_p),
    )


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({}, range(9)),
        ({"top_k": 3}, (0, 1, 7)),
        ({"top_p": 0.6}, (0, 1, 7)),  # at 0.8: 0.358, 0.192, 0.132, ... of 1; the third passes 0.6
        ({"min_p": 0.3}, (0, 1, 2, 7)),  # at least 0.3 of the highest: logits from 2 + 0.8 ln 0.3 = 1.04 ... see below
    ],
)
def test_drawn_tokens_follow_the_distribution(how: dict[str, float], kept: tuple[int, ...]) -> None:
    """Chi-square with 20,000 draws; the limit is exceeded once in 1,000 at 8 degrees of freedom, less at fewer."""
    rows = 20_000
    scaled = torch.tensor(LOGITS, dtype=torch.float64) / 0.8
    if "min_p" in how:
        kept = tuple(i for i, x in enumerate(LOGITS) if x >= 2.0 + 0.8 * math.log(0.3))
    ids, logprobs = reference.draw(torch.tensor(LOGITS).repeat(rows, 1), draws(rows, 0.8, **how), torch.arange(rows))  # type: ignore[arg-type]
    expected = torch.zeros(9, dtype=torch.float64)
    expected[list(kept)] = scaled[list(kept)].softmax(0) * rows
    counts = torch.bincount(ids.long(), minlength=9)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert float(((counts - expected)[possible] ** 2 / expected[possible]).sum()) < 26.1
    torch.testing.assert_close(logprobs.double(), scaled.log_softmax(0)[ids.long()], atol=1e-5, rtol=0)


def test_greedy_rows_and_sampled_rows_in_one_batch() -> None:
    how = draws(2, 1.0)
    how.temperature[0] = 0
    ids, logprobs = reference.draw(torch.tensor(LOGITS).repeat(2, 1), how, torch.tensor([0, 0]))
    assert ids[0] == 0
    assert float(logprobs[0]) == pytest.approx(float(torch.tensor(LOGITS).log_softmax(0)[0]), abs=1e-6)


def test_filters_work_one_after_the_other() -> None:
    """Of probabilities 0.4, 0.3, 0.2, 0.1, top-k 3 leaves 4/9, 3/9, 2/9, of which top-p 0.7 keeps the first two."""
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert float(reference.floor(logits, draws(1, 1.0, top_k=3, top_p=0.7))) == pytest.approx(math.log(0.3))
    assert float(reference.floor(logits, draws(1, 1.0, top_p=0.75))) == pytest.approx(math.log(0.2))


def test_the_hash_is_a_bijection_on_a_sample_and_spreads() -> None:
    hashed = mix(torch.arange(100_000))
    assert len(set(hashed.tolist())) == 100_000
    assert abs(float((hashed.double() / 2**32).mean()) - 0.5) < 0.005


def test_uniform_numbers_depend_on_both_seed_and_position() -> None:
    seeds, positions = torch.tensor([1, 1, 2, -1], dtype=torch.int32), torch.tensor([5, 6, 5, 5], dtype=torch.int32)
    values = uniform(seeds, positions)
    assert len(set(values.tolist())) == 4
    assert bool(((values > 0) & (values < 1)).all())


def test_seeds_of_any_size_fit() -> None:
    assert fold_seed(5) == 5
    assert fold_seed(-1) == fold_seed(-1)
    assert all(-(2**31) <= fold_seed(s) < 2**31 for s in (0, -1, 2**31, 2**64 + 3, -(2**70)))
