"""The update's Triton kernels against the plain torch operations, values and gradients.

They need a GPU, or Triton's interpreter on the CPU: `TRITON_INTERPRET=1 pytest tests/train/test_kernels.py`.
"""

import os

import pytest
import torch

from subquest.train import logprobs, operations

pytest.importorskip("triton", reason="Triton is not installed")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and Triton does not interpret (TRITON_INTERPRET=1)", allow_module_level=True)

from subquest.train import logprob_kernels
from subquest.train.kernels import Gated, Turned

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def compare(kernel: object, plain: object, parts: list[torch.Tensor], dtype: torch.dtype) -> None:
    """Results and gradients of random slopes: the kernel in `dtype`, the plain one in float32 on the CPU."""
    rounded = [part.to(dtype) for part in parts]
    ours = [part.to(DEVICE).requires_grad_() for part in rounded]
    theirs = [part.float().requires_grad_() for part in rounded]
    found, wanted = kernel(*ours), plain(*theirs)  # type: ignore[operator]
    if isinstance(found, torch.Tensor):
        found, wanted = (found,), (wanted,)
    slopes = [torch.randn(x.shape).to(dtype) for x in wanted]
    found_slopes = torch.autograd.grad(found, ours, [s.to(DEVICE) for s in slopes])
    wanted_slopes = torch.autograd.grad(wanted, theirs, [s.float() for s in slopes])
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    for a, b in zip((*found, *found_slopes), (*wanted, *wanted_slopes), strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.float().cpu(), b, **tolerance)


DTYPES = [torch.float32] if DEVICE == "cpu" else [torch.float32, torch.bfloat16]
"""The interpreter computes with numpy, which has no bfloat16."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 64), (4, 4, 8), (4, 2, 80), (2, 1, 100)])
@pytest.mark.parametrize("fused", [True, False])
def test_turned(heads: int, kv_heads: int, size: int, fused: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    counts = (heads, kv_heads, kv_heads)
    angles = torch.arange(7.0)[:, None] * torch.linspace(1, 0.01, size // 2)
    rotary = (1.1 * angles.cos(), 1.1 * angles.sin())  # scaled, as long contexts are
    there = [x.to(DEVICE) for x in rotary]
    parts = [torch.randn(7, sum(counts), size)] if fused else [torch.randn(7, n, size) for n in counts[:2]]
    compare(
        lambda *x: Turned.apply(*there, counts, *x),
        lambda *x: operations.rotate_heads(rotary, counts, *x),
        parts,
        dtype,
    )


def test_turned_takes_heads_that_lie_apart() -> None:
    """Queries and keys cut out of one product, as they come where each head is normalised."""
    torch.manual_seed(0)
    rotary = (torch.randn(5, 4), torch.randn(5, 4))
    both = torch.randn(5, 6, 8)
    there = [x.to(DEVICE) for x in rotary]

    def cut(x: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.split(x, [4, 2], 1))

    compare(
        lambda x: Turned.apply(*there, (4, 2, 2), *cut(x)),
        lambda x: operations.rotate_heads(rotary, (4, 2, 2), *cut(x)),
        [both],
        torch.float32,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [48, 1536])
@pytest.mark.parametrize("fused", [True, False])
def test_gated(inner: int, fused: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    parts = [2 * torch.randn(5, 2 * inner)] if fused else [2 * torch.randn(5, inner), torch.randn(5, inner)]
    compare(Gated.apply, operations.swiglu, parts, dtype)


@pytest.mark.parametrize("vocabulary", [17, 5000, 8192])
@pytest.mark.parametrize("scale", [1.0, 0.6])
@pytest.mark.parametrize("on_entropy", [False, True])
def test_log_probs_and_their_slopes(vocabulary: int, scale: float, on_entropy: bool) -> None:
    """Logits as models have them, a row that is certain, and one with a word that cannot be."""
    rows = 6
    logits = torch.randn(rows, vocabulary) * 4
    logits[2, 3] = 90.0
    logits[4, 5] = float("-inf")
    targets = torch.randint(0, vocabulary, (rows,)).where(torch.arange(rows) != 2, 3).where(torch.arange(rows) != 4, 1)
    slopes = torch.randn(2, rows)

    def found(module: object, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        logprob, normaliser, entropy = torch.zeros(3, rows, dtype=dtype, device=device)
        mine, here = logits.to(device, dtype), targets.to(device)
        module.rows_of(mine.clone(), here, scale, logprob, normaliser, entropy, entropy=True)  # type: ignore[attr-defined]
        on = [x.to(device, dtype) for x in slopes]
        back = module.slopes_of(  # type: ignore[attr-defined]
            mine.clone(), here, scale, normaliser, entropy, on[0], on[1] if on_entropy else None, dtype
        )
        return [x.cpu().double() for x in (logprob, normaliser, entropy, back)]

    plain = logits.double().requires_grad_()
    log_p = (plain * scale).log_softmax(-1)
    chosen = log_p.gather(1, targets[:, None]).squeeze(1)
    entropy = -(log_p.exp() * log_p.clamp(min=-1e30)).sum(-1)
    loss = (chosen * slopes[0]).sum() + ((entropy * slopes[1]).sum() if on_entropy else 0.0)
    wanted = -torch.autograd.grad(loss, plain)[0]
    ours = found(logprob_kernels, DEVICE, torch.float32)
    back = ours[3] if on_entropy else ours[3] * (slopes[0] * scale)[:, None]
    torch.testing.assert_close(ours[0], chosen.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[2], entropy.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(back, wanted.nan_to_num(0.0), rtol=1e-4, atol=1e-5)
    finite = [n for n in range(rows) if n != 4]  # plain torch multiplies infinity by zero there
    for a, b in zip(ours, found(logprobs, "cpu", torch.float32), strict=True):
        torch.testing.assert_close(a[finite], b[finite], rtol=1e-4, atol=1e-5)
