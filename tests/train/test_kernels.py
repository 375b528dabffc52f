"""The update's Triton kernels against the plain torch operations, values and gradients.

They need a GPU, or Triton's interpreter on the CPU: `TRITON_INTERPRET=1 pytest tests/train/test_kernels.py`.
"""

import os

import pytest
import torch

from subquest.train import operations

pytest.importorskip("triton", reason="Triton is not installed")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and Triton does not interpret (TRITON_INTERPRET=1)", allow_module_level=True)

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
