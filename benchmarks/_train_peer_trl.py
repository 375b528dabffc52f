"""TRL's side of `subquest bench train --peer trl`: GRPO steps with vLLM in the same process, or with transformers.

A process of its own (`_peer.py`). The phases are those that TRL itself times, with the device waited for. TRL's
correction for the log-probs of vLLM is off, since it takes a pass before the update that ours does not make.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from _peer import Work

PHASES = {
    "vLLM.generate": "rollout",
    "transformers.generate": "rollout",
    "sync_weights": "hand-over",
    "_calculate_rewards": "reward",
    "_get_per_token_logps_and_entropies": "old log-probs",
}
"""What TRL calls them; the update is what is left of a step."""


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Laps:
    """Seconds of the steps and of their phases."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.phases: dict[str, float] = defaultdict(float)
        self.learning = False
        """Whether a loss is being computed: its log-probs are those of the update."""
        self._last = 0.0

    def begin(self) -> None:
        synchronise()
        self._last = time.perf_counter()

    def end(self) -> None:
        synchronise()
        now = time.perf_counter()
        self.steps.append({"seconds": now - self._last, **self.phases})
        self.phases.clear()
        self._last = now


def watch(laps: Laps) -> None:
    """Let TRL's own timers report to `laps`."""
    from trl.extras import profiling

    def enter(timer: Any) -> Any:
        synchronise()
        timer._start_time = time.perf_counter()
        if timer.name.endswith(".compute_loss"):
            laps.learning = True
        return timer

    def leave(timer: Any, *_: Any) -> bool:
        synchronise()
        name = timer.name.partition(".")[2]  # without the trainer's
        phase = PHASES.get(name)
        if name == "compute_loss":
            laps.learning = False
        elif phase and not (phase == "old log-probs" and laps.learning):
            laps.phases[phase] += time.perf_counter() - timer._start_time
        return False

    profiling.ProfilingContext.__enter__ = enter
    profiling.ProfilingContext.__exit__ = leave


def main() -> None:
    work = Work()
    task = work.task
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from subquest.train.random_model import SPECIAL

    laps = Laps()
    watch(laps)

    class Steps(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            if not laps.steps:
                laps.begin()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            laps.end()
            if laps.steps[1:]:
                work.answer(_row(laps.steps[1:]))

    def reward(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        import zlib

        if {len(ids) for ids in completion_ids} != {task["max_tokens"]}:
            raise RuntimeError(f"completions of {min(map(len, completion_ids))} tokens and more: nothing to compare")
        return [zlib.crc32(text.encode()) / (1 << 32) for text in completions]

    gpu = task["device"] == "cuda"
    vllm = task["engine"] == "vllm"
    rollouts = task["questions"] * task["group"]
    batch = min(task["peer_batch"], rollouts)
    forced = {"ignore_eos": True} if vllm else {"min_new_tokens": task["max_tokens"]}
    tokenizer = AutoTokenizer.from_pretrained(task["model"])
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or SPECIAL[1]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, report_to=[], use_cpu=not gpu, bf16=gpu, beta=0.0, loss_type="grpo", temperature=1.0,
            max_completion_length=task["max_tokens"], num_generations=task["group"], learning_rate=1e-6,
            per_device_train_batch_size=batch, gradient_accumulation_steps=rollouts // batch,
            max_steps=task["steps"] + 1, logging_strategy="no", save_strategy="no", gradient_checkpointing=False,
            disable_tqdm=True, model_init_kwargs={"dtype": "bfloat16" if gpu else "float32"}, use_vllm=vllm,
            vllm_mode="colocate", vllm_gpu_memory_utilization=0.3, vllm_max_model_length=task["window"],
            vllm_importance_sampling_correction=False, generation_kwargs=forced,
        )  # fmt: skip
        adapter = LoraConfig(r=task["rank"], lora_alpha=2 * task["rank"], target_modules=list(task["targets"]))
        trainer = GRPOTrainer(
            task["model"], reward, args=config, train_dataset=Dataset.from_dict({"prompt": task["prompts"]}),
            processing_class=tokenizer, callbacks=[Steps()], peft_config=adapter,
        )  # fmt: skip
        work.wait()
        trainer.train()
    work.done()


def _row(steady: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of the steps so far, the first one left out."""
    row = {name: statistics.median(step.get(name, 0.0) for step in steady) for name in ("seconds", *PHASES.values())}
    row["update"] = row["seconds"] - sum(row[phase] for phase in set(PHASES.values()))
    if torch.cuda.is_available():
        row["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
    return row


if __name__ == "__main__":
    main()
