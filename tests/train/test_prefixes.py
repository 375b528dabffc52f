"""Common beginnings computed once, against every token of every trajectory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subquest.train.batch import Batch
from subquest.train.lora import LoraSettings
from subquest.train.loss import Layout
from subquest.train.optimiser import Optimiser, logprobs_of
from subquest.train.policy import Policy
from subquest.train.prefixes import LEAST_WORTH, Beginnings, share_prefixes
from subquest.train.recipe import OptimiserPart

from .test_policy import packed, source, tiny


def with_common_prompts(*parts: tuple[int, int], window: int) -> Batch:
    """Trajectories of so many tokens of one prompt and so many of their own, of which all but the first are actions."""
    g = torch.Generator().manual_seed(1)
    prompt = torch.randint(0, 61, (window,), generator=g)
    ids = [torch.cat([prompt[:common], torch.randint(0, 61, (own,), generator=g)]) for common, own in parts]
    starts = torch.tensor([0, *map(len, ids)]).cumsum(0)[:-1].tolist()
    pairs = list(zip(starts, parts, strict=True))
    rows = torch.cat([torch.arange(s + common, s + common + own - 1) for s, (common, own) in pairs])
    trajectory = torch.cat([torch.full((own - 1,), n) for n, (_, own) in enumerate(parts)])
    layout = Layout(trajectory, trajectory, torch.zeros_like(trajectory))
    lengths = torch.tensor([len(i) for i in ids])
    worth = torch.randn(rows.numel(), generator=g)
    return Batch(torch.cat(ids), lengths, rows, layout, worth, None, layout.weights("token-mean") * worth)


def tree_of(*paths: str, size: int = 40) -> Batch:
    """Trajectories as paths in a tree: each letter is a stretch of `size` tokens, the last token of each an action."""
    g = torch.Generator().manual_seed(2)
    stretches = {letter: torch.randint(0, 61, (size,), generator=g) for letter in sorted(set("".join(paths)))}
    ids = [torch.cat([stretches[letter] for letter in path]) for path in paths]
    starts = torch.tensor([0, *map(len, ids)]).cumsum(0)[:-1].tolist()
    ends = [torch.arange(1, len(path) + 1) * size for path in paths]
    rows = torch.cat([start + end - 2 for start, end in zip(starts, ends, strict=True)])
    trajectory = torch.cat([torch.full((len(path),), n) for n, path in enumerate(paths)])
    layout = Layout(trajectory, trajectory, torch.zeros_like(trajectory))
    worth = torch.randn(rows.numel(), generator=g)
    lengths = torch.tensor([len(i) for i in ids])
    return Batch(torch.cat(ids), lengths, rows, layout, worth, None, layout.weights("token-mean") * worth)


def policy_of(family: str) -> Policy:
    model = tiny(family, max_position_embeddings=512)
    policy = Policy(source(model), lora=LoraSettings(4, 8.0))
    torch.manual_seed(5)
    for parameter in policy.trained().values():
        parameter.data = torch.randn_like(parameter) * 0.1
    return policy


PARTS = ((300, 40), (300, 90), (10, 60), (270, 5), (300, 2))


def results(part: Batch, family: str, merged: bool) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    policy = policy_of(family)
    weights = policy.merge() if merged else None
    logprobs = policy(part, merged=weights).logprobs
    (logprobs * part.weights).sum().backward()
    if weights is not None:
        weights.backward()
    return logprobs.detach(), [p.grad for p in policy.trained().values()]


def assert_the_same(batch: Batch, shared: Batch, family: str, merged: bool) -> None:
    whole, found = (results(part, family, merged) for part in (batch, shared))
    torch.testing.assert_close(found[0], whole[0], rtol=1e-4, atol=1e-5)
    for a, b in zip(found[1], whole[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("merged", [False, True])
def test_log_probs_and_gradients_are_those_of_whole_rows(family: str, merged: bool) -> None:
    batch = with_common_prompts(*PARTS, window=512)
    shared = batch.sharing(64)
    assert shared.distinct is not None
    assert shared.distinct.token_ids.numel() == -(-(10 + 260 + 30 + 40 + 90 + 2 + 60 + 5) // 64) * 64
    assert_the_same(batch, shared, family, merged)


def test_beginnings_are_shared_at_every_branch() -> None:
    """Two roles, groups of one question, the same task and documents: 9 stretches of 19, and the last token of a
    trajectory that is the beginning of another one or equal to it."""
    paths = ("pqab", "pqac", "pqad", "pre", "xtd", "xtd", "xt")
    batch = tree_of(*paths)
    shared = batch.sharing()
    assert shared.distinct is not None
    distinct = {path[:n] for path in paths for n in range(1, len(path) + 1)}
    assert shared.computed == 40 * len(distinct) + 2
    assert_the_same(batch, shared, "qwen2", True)


def test_short_stretches_are_shared_where_many_trajectories_have_them() -> None:
    """Rollouts of one question have its few tokens in common beyond the role's prompt. Eight of them share these; two
    compute them twice, because a stretch costs as much as they would save."""
    rollouts = [f"prq{letter}" for letter in "abcdefgh"]
    for own, computed in ((rollouts, 3 + 8), ([*rollouts[:2], "prx", "pry"], 2 + 2 * 2 + 2)):
        batch = tree_of(*own, size=20)
        shared = batch.sharing()
        assert shared.distinct is not None
        assert shared.computed == 20 * computed
        assert_the_same(batch, shared, "qwen2", True)


def test_the_tree_of_random_trajectories() -> None:
    """What stands for each token is that token at its position; every stretch sees all before it and itself; the tokens
    are no more than `join` says, in whatever order the trajectories come together."""
    chance = np.random.default_rng(0)
    for number in range(60):
        paths = ["".join(chance.choice(list("abc"), chance.integers(1, 6))) for _ in range(chance.integers(1, 12))]
        batch = tree_of(*paths, size=int(chance.integers(2, 70)))
        found = share_prefixes(batch.token_ids, batch.lengths, batch.rows)
        beginnings = Beginnings(batch.token_ids, batch.lengths)
        bound, inside = 0, list[int]()
        for trajectory in chance.permutation(len(paths)).tolist():
            size, inside = beginnings.join([trajectory], inside)
            bound += size
        assert inside == list(range(len(paths)))
        if found is None:
            continue
        assert found.token_ids.numel() <= bound <= batch.token_ids.numel(), number
        assert torch.equal(found.token_ids[found.where], batch.token_ids)
        assert torch.equal(found.positions[found.where], batch.position_ids)
        packing = found.packing
        assert packing.keys is not None
        assert packing.of_keys is not None
        queries = torch.arange(found.token_ids.numel()).split(list(packing.sizes))
        keys = packing.keys.split(list(packing.of_keys.sizes))
        for own, seen in zip(queries, keys, strict=True):
            assert torch.equal(seen[-len(own) :], own)
            assert found.positions[seen].tolist() == list(range(len(seen)))
        assert torch.equal(found.rows[found.actions], found.where[batch.rows])
        assert torch.equal(found.targets[found.actions], batch.targets)
        assert len(set(zip(found.rows.tolist(), found.targets.tolist(), strict=True))) == found.rows.numel()
        ways = {seen[-1].item(): seen for seen in keys}
        for places in found.where.split(batch.lengths.tolist()):
            assert torch.equal(ways[places[-1].item()], places)


def test_actions_within_the_common_part_count_for_each_trajectory() -> None:
    """Rollouts of one question may write the same turns: their tokens are computed once and weigh twice."""
    batch = with_common_prompts((300, 4), (300, 9), window=512)
    first = torch.arange(290, 299)
    rows = torch.cat([first, first + 304])
    trajectory = torch.tensor([0] * 9 + [1] * 9)
    layout = Layout(trajectory, trajectory, torch.zeros_like(trajectory))
    batch = replace(batch, rows=rows, layout=layout, advantages=torch.ones(18), weights=torch.ones(18))
    policy = policy_of("llama")
    torch.testing.assert_close(policy(batch.sharing()).logprobs, policy(batch).logprobs, rtol=1e-4, atol=1e-5)


def test_an_optimiser_step_is_the_same() -> None:
    batch = with_common_prompts(*PARTS, window=512)
    ends = []
    for share in (False, True):
        policy = policy_of("qwen2")
        settings = OptimiserPart(learning_rate=1e-2, micro_tokens=800, share_prompts=share)
        Optimiser(policy, settings, 1).sft_step(batch)
        ends.append(logprobs_of(policy, batch, temperature=1.0, micro_tokens=800, share=share))
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "batch", [packed(300, 300), packed(20, 30), with_common_prompts((LEAST_WORTH, 900), (LEAST_WORTH, 900), window=512)]
)
def test_where_little_is_saved_nothing_changes(batch: Batch) -> None:
    assert share_prefixes(batch.token_ids, batch.lengths, batch.rows) is None


def test_trajectories_that_are_equal_keep_a_token_of_their_own() -> None:
    ids = torch.arange(300) % 61
    found = share_prefixes(torch.cat([ids, ids]), torch.tensor([300, 300]), torch.tensor([298, 598]))
    assert found is not None
    assert found.token_ids.numel() == 301
    assert torch.equal(found.token_ids[found.where], torch.cat([ids, ids]))
    assert found.positions[found.where].tolist() == [*range(300)] * 2
