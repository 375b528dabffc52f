"""Chunked log-probs against plain log_softmax and autograd."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.errors import UsageError
from subquest.train.logprobs import token_logprobs


def inputs(seed: int, rows: int = 13, width: int = 8, vocabulary: int = 31) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, width, generator=g).requires_grad_(),
        torch.randn(vocabulary, width, generator=g).requires_grad_(),
        torch.randn(vocabulary, generator=g).requires_grad_(),
        torch.randint(0, vocabulary, (rows,), generator=g),
        torch.randn(2, rows, generator=g),
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.sampled_from([1, 4, 5, 13, 100]),
    st.sampled_from([0.3, 1.0, 1.7]),
    st.booleans(),
    st.booleans(),
)
def test_values_and_gradients(seed: int, chunk: int, temperature: float, with_bias: bool, with_entropy: bool) -> None:
    hidden, weight, bias, targets, upstream = inputs(seed)
    used_bias = bias if with_bias else None
    leaves = [hidden, weight, *([bias] if with_bias else [])]

    logits = (hidden @ weight.t() + (bias if with_bias else 0)) / temperature
    plain = logits.log_softmax(-1)
    expected = plain.gather(1, targets[:, None]).squeeze(1)
    expected_entropy = -(plain.exp() * plain).sum(-1)
    loss = (expected * upstream[0]).sum() + ((expected_entropy * upstream[1]).sum() if with_entropy else 0)
    expected_grads = torch.autograd.grad(loss, leaves)

    out = token_logprobs(
        hidden, weight, targets, bias=used_bias, temperature=temperature, entropy=with_entropy, chunk=chunk
    )
    torch.testing.assert_close(out.logprobs, expected, rtol=1e-5, atol=1e-5)
    loss = (out.logprobs * upstream[0]).sum()
    if with_entropy:
        assert out.entropy is not None
        torch.testing.assert_close(out.entropy, expected_entropy, rtol=1e-5, atol=1e-5)
        loss = loss + (out.entropy * upstream[1]).sum()
    else:
        assert out.entropy is None
    for got, wanted in zip(torch.autograd.grad(loss, leaves), expected_grads, strict=True):
        scale = max(1.0, float(wanted.abs().max()))  # float32 rounding is relative to the largest terms that cancel
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5 * scale)


def test_tied_and_frozen_output_layer() -> None:
    """A tied layer gets the gradient of both uses; a frozen one gets none and costs none."""
    table = torch.randn(31, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    ids = torch.tensor([3, 7, 7])
    targets = torch.tensor([7, 7, 0])
    token_logprobs(table[ids] * 2, table, targets, chunk=2).logprobs.sum().backward()
    tied = table.grad
    table.grad = None
    (table[ids] * 2 @ table.t()).log_softmax(-1).gather(1, targets[:, None]).sum().backward()
    assert tied is not None
    torch.testing.assert_close(tied, table.grad, rtol=1e-4, atol=1e-5)

    hidden, weight, _, targets, _ = inputs(0)
    token_logprobs(hidden, weight.detach(), targets).logprobs.sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_bfloat16_states_are_summed_in_float32() -> None:
    hidden, weight, _, targets, _ = inputs(3, rows=64, width=256, vocabulary=500)
    low, heavy = hidden.detach().bfloat16(), weight.detach().bfloat16()
    exact = (low.double() @ heavy.double().t()).log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
    ours = token_logprobs(low, heavy, targets).logprobs
    naive = (low @ heavy.t()).log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
    assert ours.dtype == torch.float32
    assert (ours - exact).abs().max() < 1e-4
    assert (naive.double() - exact).abs().max() > 1e-2, "the pitfall this avoids"


def test_autocast_does_not_lower_the_precision() -> None:
    hidden, weight, _, targets, _ = inputs(5)
    plain = token_logprobs(hidden, weight, targets).logprobs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = token_logprobs(hidden, weight, targets).logprobs
        assert (hidden @ weight.t()).dtype == torch.bfloat16
    assert torch.equal(plain, under)


def test_memory_stays_within_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of rows x vocabulary is ever made, forward or backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, tuple | list) else (out,):
                if isinstance(t, torch.Tensor):
                    largest = max(largest, t.numel())
            return out

    hidden, weight, _, targets, _ = inputs(0, rows=400, width=4, vocabulary=100)
    with Watch():
        out = token_logprobs(hidden, weight, targets, entropy=True, chunk=10)
        assert out.entropy is not None
        (out.logprobs.sum() + out.entropy.sum()).backward()
    assert largest == 400 * 4, "the hidden states are larger than any chunk of logits"


def test_greedy_rollouts_are_refused() -> None:
    hidden, weight, _, targets, _ = inputs(0)
    with pytest.raises(UsageError, match="temperature"):
        token_logprobs(hidden, weight, targets, temperature=0.0)


def test_no_rows() -> None:
    out = token_logprobs(torch.zeros(0, 4), torch.zeros(5, 4), torch.zeros(0, dtype=torch.long))
    assert out.logprobs.shape == (0,)
