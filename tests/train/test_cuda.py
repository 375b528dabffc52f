"""The same numbers on a GPU; left out where there is none."""

import pytest
import torch

from subquest.train.batch import pack
from subquest.train.logprobs import token_logprobs
from subquest.train.loss import LOSSES, policy_loss

from .test_batch import two_rollouts

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
