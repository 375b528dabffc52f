"""The same numbers on a GPU; left out where there is none."""

import pytest
import torch

from subquest.train.batch import Batch, pack
from subquest.train.logprobs import token_logprobs
from subquest.train.lora import LoraSettings
from subquest.train.loss import LOSSES, policy_loss, sft_loss
from subquest.train.operations import Packing, attend
from subquest.train.optimiser import Optimiser, logprobs_of
from subquest.train.policy import Policy
from subquest.train.recipe import OptimiserPart

from .episodes import two_rollouts
from .test_merged_weights import Counting
from .test_policy import packed, source, tiny
from .test_prefixes import tree_of, with_common_prompts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_log_probs_and_gradients_in_float32() -> None:
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(50, 16, generator=g), torch.randn(97, 16, generator=g)
    targets = torch.randint(0, 97, (50,), generator=g)
    grads, values = [], []
    for device in ("cpu", "cuda"):
        h, w = (t.detach().clone().to(device).requires_grad_() for t in (hidden, weight))
        out = token_logprobs(h, w, targets.to(device), temperature=0.8, entropy=True, chunk=7)
        assert out.entropy is not None
        (out.logprobs.sum() + out.entropy.sum()).backward()
        values.append(out.logprobs.detach().cpu())
        assert h.grad is not None
        assert w.grad is not None
        grads.append((h.grad.cpu(), w.grad.cpu()))
    torch.testing.assert_close(values[1], values[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("entropy", [False, True])
def test_log_probs_and_gradients_in_bfloat16(entropy: bool) -> None:
    """Against float64 over the same rounded inputs: gradients are rounded once, to 2^-8 of their size."""
    g = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(96, 128, generator=g).bfloat16(), (torch.randn(700, 128, generator=g) / 8).bfloat16()
    targets = torch.randint(0, 700, (96,), generator=g)
    on_logprobs, on_entropy = torch.randn(2, 96, generator=g)

    h, w = (t.double().requires_grad_() for t in (hidden, weight))
    log_p = (h @ w.t() / 0.8).log_softmax(-1)
    chosen, spread = log_p.gather(1, targets[:, None]).squeeze(1), -(log_p.exp() * log_p).sum(-1)
    total = (chosen * on_logprobs).sum() + ((spread * on_entropy).sum() if entropy else 0.0)
    exact = torch.autograd.grad(total, (h, w))

    h, w = (t.cuda().requires_grad_() for t in (hidden, weight))
    out = token_logprobs(h, w, targets.cuda(), temperature=0.8, entropy=entropy, chunk=40)
    torch.testing.assert_close(out.logprobs.double().cpu(), chosen.detach(), atol=1e-4, rtol=0)
    total = (out.logprobs * on_logprobs.cuda()).sum()
    if out.entropy is not None:
        torch.testing.assert_close(out.entropy.double().cpu(), spread.detach(), atol=1e-4, rtol=0)
        total = total + (out.entropy * on_entropy.cuda()).sum()
    for found, wanted in zip(torch.autograd.grad(total, (h, w)), exact, strict=True):
        assert distance(found, wanted) < 0.01


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Length of the difference over the length of what is wanted."""
    found, wanted = found.detach().double().cpu(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(
    "batch",
    [
        with_common_prompts((300, 40), (300, 90), (270, 5), window=512),
        tree_of("pqab", "pqac", "pqad", "pre", "xtd", "xtd", "xt"),
    ],
)
def test_shared_prompts_give_the_gradients_of_whole_rows(batch: Batch) -> None:
    """bfloat16 on the GPU, common beginnings computed once, against float32 on the CPU with every token computed."""
    found = []
    for device, dtype, share in (("cpu", torch.float32, False), ("cuda", torch.bfloat16, True)):
        model = tiny("qwen2", max_position_embeddings=512, hidden_size=128, head_dim=32)
        policy = Policy(source(model), lora=LoraSettings(4, 8.0), device=device, dtype=dtype)
        torch.manual_seed(5)
        for parameter in policy.trained().values():
            parameter.data = torch.randn(parameter.shape).mul(0.05).to(parameter)
        part = batch.sharing(256) if share else batch
        assert (part.distinct is not None) == share
        logprobs = policy(part.to(device)).logprobs
        (logprobs * batch.weights.to(device)).sum().backward()
        grads = torch.cat([p.grad.flatten().float().cpu() for p in policy.trained().values() if p.grad is not None])
        found.append((logprobs.detach().float().cpu(), grads))
    assert (found[1][0] - found[0][0]).abs().mean() < 0.02
    assert distance(found[1][1], found[0][1].double()) < 0.05


def test_packed_attention_and_its_gradients() -> None:
    """The variable-length kernel against one trajectory at a time in float32 on the CPU, of the same rounded inputs."""
    g = torch.Generator().manual_seed(3)
    lengths = torch.tensor([300, 1, 50, 449, 200])
    shapes = ((1000, 9, 64), (1000, 3, 64), (1000, 3, 64))
    inputs = [torch.randn(shape, generator=g).bfloat16() for shape in shapes]
    upstream = torch.randn(1000, 9, 64, generator=g).bfloat16()
    plain = [t.float().requires_grad_() for t in inputs]
    wanted = attend(plain[0], plain[1], plain[2], Packing.of(lengths), 0.125)
    there = [t.cuda().requires_grad_() for t in inputs]
    found = attend(there[0], there[1], there[2], Packing.of(lengths, "cuda"), 0.125)
    assert found.dtype == torch.bfloat16
    assert distance(found, wanted) < 0.01
    slopes = torch.autograd.grad(found, there, upstream.cuda())
    expected = torch.autograd.grad(wanted, plain, upstream.float())
    assert all(distance(a, b) < 0.01 for a, b in zip(slopes, expected, strict=True))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_policy(family: str) -> None:
    """Log-probs, entropy and gradients of a packed batch, as on the CPU, in float32."""
    model = tiny(family)
    batch = packed(5, 1 + 17, 9)
    outcomes = []
    for device in ("cpu", "cuda"):
        policy = Policy(source(model), device=device)
        out = policy(batch.to(device), temperature=0.7, entropy=True)
        assert out.entropy is not None
        (out.logprobs.sum() + out.entropy.sum()).backward()
        gradients = [p.grad.cpu() for p in policy.trained().values() if p.grad is not None]
        outcomes.append((out.logprobs.detach().cpu(), out.entropy.detach().cpu(), gradients))
    torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_step_in_bfloat16(family: str, checkpointing: bool, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probs and an adapter's gradients over several micro-batches, against float32 on the CPU.

    The base weights are rounded on both sides; what is left is the rounding of activations. Where matrices count as
    `wide`, adapters stay beside them.
    """
    if wide:
        monkeypatch.setattr("subquest.train.lora.MERGED_UP_TO", 8)
    model = tiny(family, head_dim=64).bfloat16().float()
    batch = packed(5, 18, 9, 40, 33, 2)
    outcomes = []
    for device, dtype in (("cpu", torch.float32), ("cuda", torch.bfloat16)):
        policy = Policy(source(model), lora=LoraSettings(4), device=device, dtype=dtype, checkpointing=checkpointing)
        with torch.no_grad():
            for number, p in enumerate(policy.trained().values()):
                p.copy_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(number)))
        optimiser = Optimiser(policy, OptimiserPart(micro_tokens=48, clip=0.0), 10)
        logprobs = logprobs_of(policy, batch, temperature=1.0, micro_tokens=48)
        found = gradients_of_a_step(optimiser, batch)
        with policy.reference():
            base = logprobs_of(policy, batch, temperature=1.0, micro_tokens=48)
        before = [p.detach().clone() for p in policy.trained().values()]
        stepped = Optimiser(policy, OptimiserPart(micro_tokens=48), 10).sft_step(batch)
        assert stepped.gradient_norm > 0
        assert any(not torch.equal(a, b) for a, b in zip(before, policy.trained().values(), strict=True))
        outcomes.append((logprobs, base, found))
    (logprobs, base, found), (near, near_base, near_found) = outcomes
    assert (near - logprobs).abs().max() < 0.1
    assert (near_base - base).abs().max() < 0.1
    assert (base - logprobs).abs().max() > 0.1, "the adapter says something"
    assert distance(near_found, found) < 0.15  # 0.03, 0.09 and 0.05 where the CPU computes in bfloat16


def gradients_of_a_step(optimiser: Optimiser, batch: Batch) -> torch.Tensor:
    """What the optimiser would step by, end to end on the CPU."""
    found: list[torch.Tensor] = []

    def keep() -> float:
        trained = optimiser.policy.trained().values()
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in trained)
        found.extend(p.grad.flatten().cpu() for p in trained if p.grad is not None)
        optimiser.adam.zero_grad(set_to_none=True)
        return 0.0

    step, optimiser._step = optimiser._step, keep  # type: ignore[method-assign]
    optimiser.sft_step(batch)
    optimiser._step = step  # type: ignore[method-assign]
    return torch.cat(found)


@pytest.mark.parametrize("wide", [False, True])
def test_micro_batches_run_without_waiting_for_the_device(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the first micro-batch and the last nothing is read back, so the host stays ahead of the GPU."""
    if wide:
        monkeypatch.setattr("subquest.train.lora.MERGED_UP_TO", 8)
    policy = Policy(source(tiny("llama", head_dim=64)), lora=LoraSettings(4), device="cuda", dtype=torch.bfloat16)
    batch = packed(5, 18, 9, 40, 33, 2)
    optimiser = Optimiser(policy, OptimiserPart(micro_tokens=48), 10)
    optimiser.sft_step(batch)  # libraries are set up and kernels compiled by it
    optimiser._step = lambda: 0.0  # type: ignore[method-assign]
    merged = policy.merge()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for part, _ in optimiser._parts(batch, "trajectory"):
            sft_loss(policy(part, merged=merged).logprobs, part.weights).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_layer_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wide model with adapters, over trajectories that share their beginnings: two more layers cost no copies, no
    casts of activations and no gathered keys; what is put together is the input of the output matrix."""
    monkeypatch.setattr("subquest.train.lora.MERGED_UP_TO", 8)
    batch = tree_of("pqa", "pqb", "pr", "xtd", "xt").sharing().to("cuda")
    counts = []
    for layers in (2, 4):
        model = tiny("qwen2", num_hidden_layers=layers, head_dim=64)
        policy = Policy(source(model), lora=LoraSettings(4), device="cuda", dtype=torch.bfloat16)
        merged = policy.merge()
        with Counting() as counted:
            (policy(batch, merged=merged).logprobs * batch.weights).sum().backward()
        counts.append(counted.times)
    more = counts[1] - counts[0]
    assert more["aten::cat"] == 2
    moved = ("copy_", "clone", "_to_copy", "index_select", "index_add_", "index.Tensor", "add.Tensor", "zeros")
    assert {name: more[f"aten::{name}"] for name in moved} == dict.fromkeys(moved, 0)


def test_bfloat16_products_are_kept_in_float32() -> None:
    g = torch.Generator().manual_seed(1)
    hidden, weight = torch.randn(64, 256, generator=g).bfloat16(), torch.randn(500, 256, generator=g).bfloat16()
    targets = torch.randint(0, 500, (64,), generator=g)
    exact = (hidden.double() @ weight.double().t()).log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
    ours = token_logprobs(hidden.cuda(), weight.cuda(), targets.cuda()).logprobs.cpu()
    assert (ours - exact).abs().max() < 1e-4


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses(name: str) -> None:
    settings = LOSSES[name]
    batch = pack(two_rollouts(), aggregation=settings.aggregation, length=settings.length)
    totals = []
    for device in ("cpu", "cuda"):
        b = batch.to(device)
        assert b.behaviour is not None
        loss = policy_loss(
            b.behaviour + 0.1,
            b.behaviour,
            b.advantages,
            b.weights,
            settings,
            units=b.layout.units(settings.level),
            reference=b.behaviour,
            entropy=b.behaviour,
        )
        totals.append(loss.total.item())
        assert len(b.split(7)) > 1
    assert totals[1] == pytest.approx(totals[0], rel=1e-5)
