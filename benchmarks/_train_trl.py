"""The TRL side of `benchmarks/train.py`, run in an environment that has TRL: seconds of GRPO steps of a tiny model.

python benchmarks/_train_trl.py SPEC.json      prints {"seconds": [...], "cpu_seconds": [...], "tokens": n}
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import LlamaForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from subquest.train.random_model import tiny_source


def lowercase(completions: list[str], **_: Any) -> list[float]:
    """The share of lower-case letters: cheap, and with spread on random text."""
    return [sum("a" <= c <= "z" for c in text) / max(len(text), 1) for text in completions]


class Laps(TrainerCallback):  # type: ignore[misc]
    """Wall-clock and CPU seconds between the ends of steps; the first step, with all that it sets up, is left out."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self._last: tuple[float, float] | None = None

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        now = time.perf_counter(), time.process_time()
        if self._last is not None:
            self.seconds.append(now[0] - self._last[0])
            self.cpu.append(now[1] - self._last[1])
        self._last = now


def main(path: str) -> dict[str, Any]:
    spec = json.loads(Path(path).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    source = tiny_source("llama", spec["texts"])
    model = LlamaForCausalLM(source.config)
    model.load_state_dict(source.state)
    source.tokenizer.pad_token = source.tokenizer.eos_token
    laps = Laps()
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            output_dir=folder, report_to=[], use_cpu=True, bf16=False, beta=0.0, loss_type="grpo", temperature=1.0,
            max_completion_length=spec["max_tokens"], num_generations=spec["group"], learning_rate=1e-6,
            per_device_train_batch_size=spec["group"] * spec["questions"], max_steps=spec["steps"] + 1,
            logging_strategy="no", save_strategy="no", gradient_checkpointing=False, disable_tqdm=True,
        )  # fmt: skip
        data = Dataset.from_dict({"prompt": spec["prompts"]})
        trainer = GRPOTrainer(
            model, lowercase, args=args, train_dataset=data, processing_class=source.tokenizer, callbacks=[laps]
        )
        trainer.train()
    return {"seconds": laps.seconds, "cpu_seconds": laps.cpu}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
