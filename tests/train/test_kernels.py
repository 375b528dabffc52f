"""The update's Triton kernels against the plain torch operations, values and gradients.

They need a GPU, or Triton's interpreter on the CPU: `TRITON_INTERPRET=1 pytest tests/train/test_kernels.py`.
"""

import os
from dataclasses import replace

import pytest
import torch

from subquest.train import operations

pytest.importorskip("triton", reason="Triton is not installed")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and Triton does not interpret (TRITON_INTERPRET=1)", allow_module_level=True)

from subquest.train.kernels import AddedNorm, Gated, Turned
from subquest.train.operations import Packing

from .test_lora_products import wide
from .test_merged_weights import Counting
from .test_prefixes import tree_of

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


PLAIN = Packing.of(torch.tensor([7]))
TREE = replace(PLAIN, keys=torch.tensor([0, 1, 2, 0, 1, 3, 4, 0, 5, 6]))
"""Ten keys of seven tokens, the first read three times."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 64), (4, 4, 8), (4, 2, 80), (2, 1, 100)])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("packing", [PLAIN, TREE])
def test_turned(heads: int, kv_heads: int, size: int, whole: bool, packing: Packing, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    counts = (heads, kv_heads, kv_heads)
    angles = torch.arange(7.0)[:, None] * torch.linspace(1, 0.01, size // 2)
    rotary = (1.1 * angles.cos(), 1.1 * angles.sin())  # scaled, as long contexts are
    there = rotary[0].to(DEVICE), rotary[1].to(DEVICE)
    readers = packing.to(DEVICE).with_readers().readers
    parts = [torch.randn(7, sum(counts), size)] if whole else [torch.randn(7, n, size) for n in counts]
    if not (whole or readers):
        parts = parts[:2]
    compare(
        lambda *x: Turned.apply(there, readers, counts, *x),
        lambda *x: plainly_turned(rotary, counts, packing, *x),
        parts,
        dtype,
    )


def plainly_turned(
    rotary: tuple[torch.Tensor, torch.Tensor], counts: tuple[int, int, int], packing: Packing, *x: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    q, k, *v = x[0].split(counts, 1) if len(x) == 1 else x
    q, k = (operations.rotate(part, *rotary) for part in (q, k))
    return q, *(part if packing.keys is None else part[packing.keys] for part in (k, *v))


def test_turned_takes_heads_that_lie_apart() -> None:
    """Queries and keys cut out of one product, as they come where each head is normalised."""
    torch.manual_seed(0)
    rotary = (torch.randn(7, 4), torch.randn(7, 4))
    there = rotary[0].to(DEVICE), rotary[1].to(DEVICE)

    def cut(x: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.split(x, [4, 2], 1))

    compare(
        lambda x: Turned.apply(there, (), (4, 2, 2), *cut(x)),
        lambda x: plainly_turned(rotary, (4, 2, 2), PLAIN, *cut(x)),
        [torch.randn(7, 6, 8)],
        torch.float32,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [48, 1536])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("columns", [0, 1600])
def test_gated(inner: int, whole: bool, columns: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    parts = [2 * torch.randn(5, 2 * inner)] if whole else [2 * torch.randn(5, inner), torch.randn(5, inner)]
    compare(lambda *x: Gated.apply(columns, *x), operations.swiglu, parts, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [0, 112])
@pytest.mark.parametrize("added", [True, False])
def test_added_norm(columns: int, added: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weight = torch.randn(96)

    def kernel(x: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, ...]:
        other = more[0] if more else None
        found: tuple[torch.Tensor, ...] = AddedNorm.apply(x, other, weight.to(DEVICE), 1e-5, columns)
        return found

    def plain(x: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = x + more[0] if more else x
        normed = torch.nn.functional.rms_norm(total, (96,), weight, 1e-5)
        return (total, normed) if more else (normed,)

    compare(kernel, plain, [torch.randn(5, 96), torch.randn(5, 96)][: 1 + added], dtype)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.skipif(DEVICE == "cuda", reason="tests/train/test_cuda.py compares the whole policy there")
def test_the_whole_policy(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probs and gradients of a tree of trajectories by the kernels, against the plain operations. Norms, positions
    and gates put their results where they are read: no additions, no keys gathered, no inputs copied."""
    batch = tree_of("pqa", "pqb", "pr", "xtd", "xt").sharing()

    def results() -> tuple[torch.Tensor, dict[str, torch.Tensor | None], Counting]:
        policy = wide(family)
        merged = policy.merge()
        with Counting() as counted:
            logprobs = policy(batch, merged=merged).logprobs
            (logprobs * batch.weights).sum().backward()
        return logprobs.detach(), {name: p.grad for name, p in policy.trained().items()}, counted

    wanted = results()
    monkeypatch.setattr(operations, "fused", lambda x: True)
    monkeypatch.setattr("subquest.train.policy.fused", lambda x: True)
    found = results()
    torch.testing.assert_close(found[:2], wanted[:2], rtol=1e-3, atol=1e-5)
    times, layers = found[2].times, 2
    assert times["aten::mm.out"] == 3 * layers, "thin products are written beside the input of three products of four"
    assert times["aten::index_add_"] == times["aten::index_select"] == 2, "the last layer's rows alone are picked"
    assert family == "qwen3" or not times["aten::add.Tensor"]
