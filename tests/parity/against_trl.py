"""Loss and gradient against TRL's GRPOTrainer, from records to parameter gradients of a small Llama.

TRL gets padded rows and its own log-probs; ours gets packed records, one forward a trajectory without padding, and the
chunked log-probs. Equal parameter gradients therefore speak for packing, masks, log-probs and loss at once.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from batches import VOCABULARY, Ledger, ours, padded, random_rollouts
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from subquest.train.batch import Batch
from subquest.train.logprobs import token_logprobs
from subquest.train.loss import LOSSES, LossSettings, policy_loss

BATCHES = 200
LENGTH = 24

CASES: dict[str, tuple[dict[str, Any], LossSettings]] = {
    "grpo": ({"loss_type": "grpo"}, LOSSES["grpo"]),
    "grpo, k3": ({"loss_type": "grpo", "beta": 0.3}, replace(LOSSES["grpo"], kl=0.3)),
    "grpo, k3 with ratio correction": (
        {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": True},
        replace(LOSSES["grpo"], kl=0.3, kl_correction=True),
    ),
    "grpo, asymmetric clip, two-sided clip 3": (
        {"loss_type": "grpo", "epsilon_high": 0.28, "delta": 3.0},
        replace(LOSSES["grpo"], clip_high=0.28, dual_clip=3.0),
    ),
    "bnpo": ({"loss_type": "bnpo"}, LOSSES["bnpo"]),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, LOSSES["dapo"]),
    "dapo, temperature 0.7": ({"loss_type": "dapo", "temperature": 0.7}, LOSSES["bnpo"]),
    "dr_grpo": ({"loss_type": "dr_grpo"}, replace(LOSSES["dr-grpo"], length=LENGTH)),
    "sequence level (GSPO)": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.08},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.08),
    ),
    "sequence level, k3": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "beta": 0.3, "epsilon": 0.05},
        replace(LOSSES["gspo"], clip_low=0.05, clip_high=0.05, kl=0.3),
    ),
}


def tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = {f"w{i}": i for i in range(VOCABULARY)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0")), pad_token="w0", eos_token="w1"
    )


def small_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config)


def our_logprobs(model: LlamaForCausalLM, batch: Batch, temperature: float) -> torch.Tensor:
    states = [model.model(ids[None]).last_hidden_state[0] for ids in batch.token_ids.split(batch.lengths.tolist())]
    hidden = torch.cat(states)[batch.rows]
    return token_logprobs(hidden, model.lm_head.weight, batch.targets, temperature=temperature, chunk=7).logprobs


def gradients(model: LlamaForCausalLM, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def main() -> int:
    torch.set_num_threads(1)
    ledger = Ledger("TRL")
    model = small_llama()
    data = Dataset.from_dict({"prompt": ["w2"] * 8})
    with tempfile.TemporaryDirectory() as folder:
        for name, (options, settings) in CASES.items():
            options = {"use_bias_correction_kl": False, "beta": 0.0, "epsilon": 0.2, **options}
            beta = options.pop("beta")
            args = GRPOConfig(
                output_dir=folder,
                report_to=[],
                use_cpu=True,
                bf16=False,
                max_completion_length=LENGTH,
                per_device_train_batch_size=8,
                num_generations=8,
                gradient_checkpointing=False,
                **options,
            )
            trainer = GRPOTrainer(model, lambda **_: [0.0], args=args, train_dataset=data, processing_class=tokenizer())
            trainer.beta = beta  # the reference's log-probs are given below, no reference model is needed
            trainer.current_gradient_accumulation_steps = 1
            model.train()
            for seed in range(BATCHES):
                rollouts = random_rollouts(seed)
                rows, batch = padded(rollouts), ours(rollouts, settings)
                noise = torch.Generator().manual_seed(seed)
                new = our_logprobs(model, batch, args.temperature)
                old = new.detach() + 0.3 * torch.randn(new.shape, generator=noise)
                reference = new.detach() + 0.5 * torch.randn(new.shape, generator=noise)
                mine = policy_loss(
                    new,
                    old,
                    batch.advantages,
                    batch.weights,
                    settings,
                    units=batch.layout.units(settings.level),
                    reference=reference,
                ).total
                theirs = trainer._compute_loss(
                    model,
                    {
                        "prompt_ids": rows.prompts,
                        "prompt_mask": rows.prompt_mask,
                        "completion_ids": rows.completions,
                        "completion_mask": rows.completion_mask,
                        "tool_mask": rows.actions,
                        "advantages": rows.advantages,
                        "old_per_token_logps": rows.spread(old),
                        "ref_per_token_logps": rows.spread(reference),
                        "num_items_in_batch": rows.actions.sum(),
                    },
                )
                ledger.compare(f"{name}: loss", mine, theirs)
                ledger.compare(f"{name}: gradient", gradients(model, mine), gradients(model, theirs))
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main())
