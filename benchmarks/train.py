"""Training: packed updates against padded ones, where a step's time goes, and a GRPO step against TRL's.

    subquest bench train --adapter runs/coda-sft-small/best          on a GPU: SmolLM2-135M, PECO steps of 48 × 8
    subquest bench train --only update,step --model random:llama     on a CPU: a tiny model, to try the script
    subquest bench train --only trl --trl ENVIRONMENT/bin/python     on a CPU: TRL in an environment of its own
    subquest bench train --peer trl --shape 1.5b --peer-path FOLDER  on a GPU: GRPO steps with LoRA beside TRL and vLLM

`step`    whole PECO steps of the recipe coda-peco-small on a generated world: seconds, the share of each phase, and of
          what the device can compute. A token counts as packed for each trajectory that it is in, and as computed once
          where trajectories share it.
`update`  the rollouts of the last step once more: one optimiser step on packed trajectories and on padded rows through
          the plain transformers model with the same objective; tokens a second count real tokens only.
`trl`     GRPO steps of a tiny model, all weights trained, one thread each: ours and TRL's GRPOTrainer, same prompts,
          same lengths, same reward. `tests/parity/run.sh` builds an environment with TRL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _options import COUNT, at_least, existing_device
from _results import Results, add_options
from _shapes import SHAPES
from _timing import device_name, products_a_second
from _train_peer import ENGINES, Size, compare
from _train_tiny import compare_tiny

from subquest.record import Episode, Question
from subquest.rewards import Reward
from subquest.rewards import load as load_reward
from subquest.train.advantage import trajectory_advantages
from subquest.train.batch import Rollout
from subquest.train.components import load_source, make_engine, make_policy, make_system
from subquest.train.data import Stream, load_material, open_search
from subquest.train.loss import LOSSES
from subquest.train.recipe import DataPart, GuardPart, ModelPart, OptimiserPart, Recipe, RolloutPart
from subquest.train.rl import RLTrainer
from subquest.train.run import TrainRun

PARTS = ("step", "update", "trl")
TRIAL_SECONDS = 60.0
"""A PECO step of 48 × 8 with lock-step `generate` and full fine-tuning, timed on an H200 before this code existed."""
PHASES = ("rollout", "reward", "update", "waiting", "sync")


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


class Keeping:
    """A reward function that keeps what it scored, so that the update can be repeated on it."""

    reads_quotes = False

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.episodes: list[Episode] = []
        self.rewards: list[Reward] = []

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        self.episodes, self.rewards = list(episodes), await self.inner.score(episodes)
        return self.rewards


class Bench:
    def __init__(self, args: argparse.Namespace, results: Results) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.results, self.figures, self.ratios = results, results.figures, results.ratios
        results.keep(device=device_name(self.device), model=args.model)
        self.kept: Keeping | None = None
        self.peak = 0.0
        """TFLOP/s of a large product."""
        self.recipe = Recipe(
            name="bench",
            kind="rl",
            model=ModelPart(args.model, adapter=args.adapter),
            data=(DataPart(f"world:seed=201,articles={args.articles},questions={8 * args.questions}"),),
            loss="coda",
            advantage="coda",
            rollout=RolloutPart(
                args.questions,
                args.group,
                max_tokens=args.max_tokens,
                concurrency=args.concurrency,
                overlap=args.overlap,
                ahead=args.ahead,
            ),
            optimiser=OptimiserPart(
                steps=args.steps + 1,
                learning_rate=1e-6,
                micro_tokens=args.micro_tokens,
                minibatches=args.minibatches,
                skip_flat=args.skip_flat,
                old_logprobs=args.old_logprobs,
            ),
            guards=GuardPart(),
            checkpoint_every=1000,
        )

    def step(self) -> None:
        """Whole steps of PECO; the first one, which captures graphs, is reported separately."""
        recipe = self.recipe
        self.peak = products_a_second(self.device) / 1e12
        say(f"a large product reaches {self.peak:,.1f} TFLOP/s")
        with tempfile.TemporaryDirectory() as folder:
            material = load_material(recipe.data)
            search = open_search(material.documents, Path(folder))
            source = load_source(recipe.model.path, [d.text for d in material.documents[:200]])
            policy = make_policy(recipe.model, source, device=self.device, seed=0)
            engine = make_engine(recipe, source, device=self.device, policy=policy)
            system = make_system(recipe, engine, search, temperature=1.0)
            self.kept = Keeping(load_reward("coda"))
            run = TrainRun(Path(folder) / "run", recipe)
            trainer = RLTrainer(run, policy, engine, system, system, Stream(material.questions, 0), (), self.kept)
            steps: list[dict[str, float]] = []

            async def train(trainer: RLTrainer) -> None:
                for number in range(recipe.optimiser.steps):
                    figures, _ = await trainer.one_step()
                    steps.append(figures)
                    say(f"step {number}{'' if number else ' (warm-up)'}: {self._words(figures)}")
                    if number:
                        self._keep_steps(steps)
                await trainer.engine.close()

            try:
                asyncio.run(train(trainer))
            finally:
                search.close()
                run.close()
        say(f"a step of {recipe.rollout.questions} × {recipe.rollout.group}: {self.figures['step_s']:.2f} s, shares "
            + ", ".join(f"{p} {share:.0%}" for p, share in self.figures["share"].items()))  # fmt: skip
        self.source = source
        del engine, policy, trainer
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _words(self, step: Mapping[str, float]) -> str:
        times = ", ".join(f"{p} {step.get(f'seconds_{p}', 0.0):.2f}" for p in PHASES)
        rate = step["tflop"] / step["seconds_update"]
        return (
            f"{step['seconds']:.2f} s ({times}); {step['packed']:,.0f} tokens packed, {step['tokens_s_update']:,.0f} a"
            f" second; {step['computed']:,.0f} of them computed and {step['computed_before']:,.0f} in passes before,"
            f" {step['tflop']:,.0f} TFLOP, {rate:,.0f} a second, {rate / self.peak:.0%} of the peak;"
            f" {step['completion_tokens']:,.0f} written, {step['tokens_s_rollout']:,.0f} a second, after"
            f" {step['prefilled']:,.0f} prompt tokens computed,"
            f" {step.get('older', 0.0):.0%} by older weights, {step['tasks']:.2f} tasks, reward {step['reward']:.2f}"
        )

    def _keep_steps(self, steps: Sequence[Mapping[str, float]]) -> None:
        """The median of the steps so far, the first one left out."""
        middle = {name: statistics.median(s.get(name, 0.0) for s in steps[1:]) for name in steps[1]}
        seconds, size = middle["seconds"], self.recipe.rollout
        phases = {p: middle.get(f"seconds_{p}", 0.0) for p in PHASES}
        if self.device.type == "cuda" and (size.questions, size.group) == (48, 8):
            self.ratios["PECO step 48 × 8, trial / ours"] = TRIAL_SECONDS / seconds
        self.results.keep(
            first_step_s=steps[0]["seconds"],
            steps=len(steps) - 1,
            step_s=seconds,
            phase_s=phases,
            share={p: took / seconds for p, took in phases.items()},
            tokens={
                "packed": middle["packed"],
                "computed": middle["computed"],
                "computed in passes before": middle["computed_before"],
                "written": middle["completion_tokens"],
                "prefilled": middle["prefilled"],
            },
            update={
                "tflop": middle["tflop"],
                "peak_tflop_s": self.peak,
                "peak_share": middle["tflop"] / phases["update"] / self.peak,
                "least_s": middle["tflop"] / self.peak,
            },
            rollouts=size.questions * size.group,
        )

    def update(self) -> None:
        """One optimiser step on the same rollouts, packed and padded."""
        from _train_padded import PaddedUpdate, plain_model, rows_of

        if self.kept is None:
            self.step()
        assert self.kept is not None
        recipe = self.recipe
        advantages = trajectory_advantages(self.kept.episodes, self.kept.rewards)
        rollouts = [Rollout(e, a) for e, a in zip(self.kept.episodes, advantages, strict=True)]
        rows = rows_of(rollouts)
        tokens = sum(len(r.ids) for r in rows)
        policy = make_policy(recipe.model, self.source, device=self.device, seed=0)
        with tempfile.TemporaryDirectory() as folder:
            run = TrainRun(folder, recipe)
            trainer = RLTrainer(run, policy, _NoEngine(), None, None, Stream([Question("0", "?")], 0), (), self.kept)  # type: ignore[arg-type]
            packed = self._seconds(lambda: trainer._update(rollouts))
            run.close()
        say(f"packed: {tokens / packed:,.0f} tokens/s ({packed:.2f} s for {tokens} tokens of {len(rows)} trajectories)")
        found: dict[str, Any] = {"packed": {"seconds": packed, "tokens_s": tokens / packed}}
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        assert policy.lora is not None
        settings = policy.lora
        model = plain_model(self.source, settings, self.device, dtype)
        for name, by_length in (("padded", False), ("padded, sorted by length", True)):
            peer = PaddedUpdate(model, LOSSES["coda"], micro_tokens=self.args.padded_tokens, by_length=by_length)
            seconds = self._seconds(lambda peer=peer: peer.step(rows))  # type: ignore[misc]
            found[name] = {"seconds": seconds, "tokens_s": tokens / seconds, "padding": peer.padding}
            say(f"{name}: {tokens / seconds:,.0f} tokens/s ({seconds:.2f} s, {peer.padding:.0%} of it padding)")
            self.ratios[f"update tokens/s, packed / {name}"] = seconds / packed
        self.results.keep(padded={"tokens": tokens, "trajectories": len(rows), **found})

    def _seconds(self, work: Callable[[], object]) -> float:
        """Median of a few calls after one to warm up."""
        times = []
        for repeat in range(1 + self.args.repeats):
            self._synchronise()
            start = time.perf_counter()
            work()
            self._synchronise()
            if repeat:
                times.append(time.perf_counter() - start)
        return statistics.median(times)

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def trl(self) -> None:
        """A GRPO step of a tiny model on one thread: ours, then TRL's."""
        compare_tiny(self.recipe, self.args.trl, self.args.trl_steps, self.results, say)


class _NoEngine:
    """The update is measured alone: nothing is rolled out."""

    def refresh(self, **_: Any) -> None:
        """There is nothing to refresh."""


def main(argv: list[str]) -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="subquest bench train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="step,update" if cuda else "trl", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--device", type=existing_device, default="cuda" if cuda else "cpu")
    parser.add_argument(
        "--model", default="", help="a model's name or folder; smollm2, or random weights beside a peer"
    )
    parser.add_argument("--peer", choices=("trl",), help="compare whole GRPO steps with this library, and nothing else")
    parser.add_argument("--peer-path", default="", help="where the peer's packages are, as PYTHONPATH takes it")
    parser.add_argument(
        "--peer-engines", default="vllm,transformers", help=f"what it generates with, of {', '.join(ENGINES)}"
    )
    parser.add_argument("--peer-batch", type=COUNT, default=8, help="sequences in the peer's model at once")
    parser.add_argument("--peer-seconds", type=float, default=900, help="the longest wait for the peer")
    parser.add_argument("--peer-logs", type=Path, help="an existing folder for the peer's logs")
    parser.add_argument("--shape", default="1.5b", choices=SHAPES, help="the shape of random weights, beside a peer")
    parser.add_argument("--rank", type=COUNT, default=16, help="LoRA rank, beside a peer")
    parser.add_argument("--prompt-words", type=COUNT, default=500, help="mean words of a prompt, beside a peer")
    parser.add_argument("--adapter", default="", help="a LoRA adapter in PEFT's format to roll out with")
    parser.add_argument("--questions", type=COUNT, default=48)
    parser.add_argument("--group", type=at_least(2), default=8)
    parser.add_argument("--steps", type=COUNT, default=3, help="steps measured, after one more to warm up")
    parser.add_argument("--articles", type=COUNT, default=900)
    parser.add_argument("--max-tokens", type=COUNT, default=160)
    parser.add_argument("--concurrency", type=COUNT, default=384)
    parser.add_argument("--micro-tokens", type=COUNT, default=65_536)
    parser.add_argument("--minibatches", type=COUNT, default=1)
    parser.add_argument("--skip-flat", action="store_true", help="as recipes/qwen-1.5b/peco.toml has it")
    parser.add_argument("--old-logprobs", choices=("trainer", "engine"), default="trainer", help="as recipes have it")
    parser.add_argument("--overlap", action="store_true", help="roll out the next step during the update")
    parser.add_argument("--ahead", type=float, default=0.0, help="fill the tail of a step (rollout.ahead)")
    parser.add_argument("--padded-tokens", type=COUNT, default=32_768, help="tokens of a padded micro-batch")
    parser.add_argument("--repeats", type=COUNT, default=2)
    parser.add_argument("--trl", default=f"{tempfile.gettempdir()}/subquest-parity/trl/bin/python")
    parser.add_argument("--trl-steps", type=COUNT, default=20)
    add_options(parser)
    args = parser.parse_args(argv)
    unknown = set(args.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    results = Results("train", args)
    with results.limited():
        if args.peer:
            _beside_peer(args, results)
        else:
            args.model = args.model or "smollm2"
            bench = Bench(args, results)
            for part in PARTS:
                if part in args.only.split(","):
                    getattr(bench, part)()
    for name, ratio in results.ratios.items():
        say(f"{name}: {ratio:.2f}")
    return results.as_dict()


def _beside_peer(args: argparse.Namespace, results: Results) -> None:
    size = Size(
        args.questions, args.group, args.prompt_words, args.max_tokens, args.rank, args.steps, args.micro_tokens,
        args.peer_batch,
    )  # fmt: skip
    compare(
        shape=args.shape,
        model=args.model or None,
        path=args.peer_path,
        engines=args.peer_engines.split(","),
        device=torch.device(args.device),
        size=size,
        seconds=args.peer_seconds,
        logs=args.peer_logs,
        results=results,
        say=say,
    )


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
