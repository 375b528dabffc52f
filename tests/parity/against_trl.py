"""Loss and gradient against TRL's GRPOTrainer, from records to parameter gradients of a small Llama.

TRL gets padded rows and its own log-probs; ours gets packed records, one forward a trajectory without padding, and the
chunked log-probs. Equal parameter gradients therefore speak for packing, masks, log-probs and loss at once.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from .batches import VOCABULARY
from .ledger import Ledger
from .trials import LENGTH, TRL, Trial, gradients, small_llama, trl_trials

BATCHES = 200


def tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = {f"w{i}": i for i in range(VOCABULARY)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0")), pad_token="w0", eos_token="w1"
    )


def inputs(trial: Trial) -> dict[str, torch.Tensor]:
    rows = trial.rows
    return {
        "prompt_ids": rows.prompts,
        "prompt_mask": rows.prompt_mask,
        "completion_ids": rows.completions,
        "completion_mask": rows.completion_mask,
        "tool_mask": rows.actions,
        "advantages": rows.advantages,
        "old_per_token_logps": rows.spread(trial.old),
        "ref_per_token_logps": rows.spread(trial.reference),
        "num_items_in_batch": rows.actions.sum(),
    }


def main() -> int:
    torch.set_num_threads(1)
    ledger = Ledger("TRL")
    model = small_llama()
    data = Dataset.from_dict({"prompt": ["w2"] * 8})
    with tempfile.TemporaryDirectory() as folder:
        for name, (given, _) in TRL.items():
            options = {"use_bias_correction_kl": False, "beta": 0.0, "epsilon": 0.2, **given}
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
            trainer.beta = beta  # the reference's log-probs are given, no reference model is needed
            trainer.current_gradient_accumulation_steps = 1
            model.train()
            for trial in trl_trials(name, model, range(BATCHES)):
                theirs = trainer._compute_loss(model, inputs(trial))
                ledger.compare(f"{name}: loss", trial.mine[f"{name}: loss"], theirs)
                ledger.compare(f"{name}: gradient", trial.mine[f"{name}: gradient"], gradients(model, theirs))
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main())
