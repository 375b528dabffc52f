"""Recipes: a training run as a TOML file.

A recipe names the model, the data, the system that rolls out, the reward and the objective. Everything has a default
except the model and the data; unknown keys are refused with a suggestion, so a misspelt setting cannot pass unnoticed.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from ..codec import AboveZero, Count, NonNegative, Positive, Record, Share, changed, checked, without_defaults
from ..errors import ConfigError, UsageError
from ..input_file import read_toml
from .advantage import Baseline, baselines_for
from .lora_settings import TARGETS, LoraSettings
from .loss_settings import LossSettings, losses_for

Beta = Annotated[float, Meta(ge=0, lt=1)]

TUNING = ("rollout.concurrency", "rollout.cache_tokens", "optimiser.micro_tokens")
"""Settings that change how fast a recipe runs and in how much memory, and not what it learns."""
_SEEDS = re.compile(r"(?<=[:,])seeds=(\d+)-(\d+)")


class ModelPart(Record):
    path: str
    """`smollm2`, a GGUF file, a folder with safetensors, or `random:llama` (tiny, for tests)."""
    adapter: str = ""
    """A LoRA adapter to start from: a folder in PEFT's format, a GGUF file, or `shipped` (the known model's)."""
    rank: Count = 16
    """LoRA rank; 0 trains all weights."""
    alpha: float = 32.0
    targets: tuple[str, ...] = TARGETS
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    checkpointing: bool = False
    """Keep only the layers' inputs and compute the rest again in the backward pass."""
    shard: bool = True
    """Of several processes, each holds a part of the policy (FSDP2); false leaves a whole copy on each."""


class DataPart(Record):
    """One source of questions and the passages they are asked of."""

    questions: str
    """A file, a registered set (`hotpotqa:train`), a world's folder, or `world:seed=1,articles=500,questions=1000`.

    `world:seeds=101-110,...` stands for ten sources, one a seed.
    """
    corpus: tuple[str, ...] = ()
    """JSONL corpora; a world brings its own."""
    types: tuple[str, ...] = ()
    """Use only questions of these types; all where empty."""
    limit: Count = 0
    """Use only the first so many questions; 0 uses all."""
    weight: AboveZero = 1.0
    """How often a question is asked: 2 asks each twice, 0.5 asks half of them, drawn by the recipe's seed."""
    systems: tuple[str, ...] = ()
    """SFT: the systems whose protocols are taught on this source (`rerank`: judging passages,
    `train/rerank_traces.py`); the recipe's where empty."""
    k: Count = 0
    """SFT: documents a search on this source; the recipe's where 0."""
    roles: tuple[str, ...] = ()
    """SFT: only these roles' contexts are learnt from; all where empty."""
    instruct: bool = True
    """SFT: whether the recipe's teacher words or plays this source (`InstructPart`); false leaves its gold as it is."""
    unanswerable: Share = 0.0
    """Share of the questions whose supporting passages are taken out of the search: `unknown` is the right answer to
    them. The recipe's `abstain` allows it."""


class RolloutPart(Record):
    questions: Positive = 48
    """Questions a step."""
    group: Positive = 8
    """Rollouts a question."""
    temperature: NonNegative = 1.0
    max_tokens: Positive = 192
    """Longest turn."""
    concurrency: Positive = 512
    """Episodes in flight."""
    server: str = ""
    """A vLLM server of the base model to roll out on, `http://HOST:8000/v1`; the engine in this process where empty."""
    cache_tokens: Count = 0
    """Size of the rollout engine's cache; 0 lets the engine choose."""
    window: Count = 0
    """Longest context; 0 for the model's own."""
    dynamic: bool = False
    """Drop groups without spread and ask new questions in their place (DECOR)."""
    overlap: bool = False
    """Roll out the next batch while this one is learnt from, by weights one step old."""
    ahead: Share = 0.0
    """Keep this share of a step's episodes running: when fewer are left, episodes of the next step begin in the places
    of those that ended. They go on with the new weights after the update; 0 waits for the last episode."""
    importance_cap: AboveZero = 2.0
    """Largest weight of a token that older weights sampled."""


class OptimiserPart(Record):
    steps: Positive = 100
    learning_rate: NonNegative = 1e-5
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: Share = 0.0
    """Share of the steps over which the learning rate rises from 0."""
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    weight_decay: NonNegative = 0.0
    clip: NonNegative = 1.0
    """Largest gradient norm."""
    minibatches: Positive = 1
    """Optimiser steps taken on each batch of rollouts."""
    old_logprobs: Literal["trainer", "engine"] = "trainer"
    """Where the old policy's log-probs come from at the second mini-batch and those after it: a pass of the trainer
    before the first update, or what the rollout engine computed while sampling, which saves that pass and differs from
    it by rounding (the figure `mismatch`)."""
    batch: Positive = 64
    """Episodes an optimiser step (SFT)."""
    epochs: AboveZero = 1.0
    """Passes over the traces (SFT); `steps` counts where it is smaller."""
    micro_tokens: Positive = 32_768
    """Tokens that go through the model at once, which decides the memory of an update. What trajectories begin with
    alike counts once (`share_prompts`)."""
    share_prompts: bool = True
    """Compute what trajectories of a micro-batch begin with alike, such as a role's instructions, or the same task and
    documents in several rollouts of a question, once; exact."""
    skip_flat: bool = False
    """Leave trajectories with the advantage zero (groups without spread) out of the update. The policy gradient stays
    the same; KL term and entropy bonus are then those of the other trajectories. A loss with neither term leaves them
    out anyway."""


class GuardPart(Record):
    """When to stop with the last good checkpoint."""

    kl: float = 1.0
    """Mean KL to the reference policy."""
    ratio: float = 100.0
    """Largest ratio of new to old policy in a step."""
    entropy: float = 0.01
    """Least mean entropy, in nats."""
    reward_drop: float = 0.5
    """Fall of the mean reward (over 10 steps) below its best, as a share of the range of rewards seen."""
    cut_turns: float = 0.5
    """Share of turns that ran into `max_tokens`."""
    failed_searches: float = 0.5
    """Share of a step's searches that failed: nothing can be learnt without the server that is searched."""


class InstructPart(Record):
    """SFT: a teacher words seed tasks anew before they are traced (APEX's pipeline, `train/instruct.py`)."""

    teacher: str = ""
    """A model as `ask --model` takes it, or `rules` for wording by rule; empty learns from the seeds as they are."""
    adapter: str = ""
    """The teacher's adapter, as `ask --adapter` takes it: `none` for the model as it came."""
    plans: bool = True
    """Word questions and plans anew; those that do not survive the filters are left out."""
    turns: bool = False
    """Word the turns of traces anew; those that do not survive the filters stay as they were."""
    plays: tuple[str, ...] = ()
    """Roles that the teacher plays itself, as `["executor", "synthesizer"]`: its own turns are learnt, where the answer
    is right and, under a gold plan, every sub-answer too."""
    attempts: Positive = 1
    """Times that it plays a question until that is so."""
    max_tokens: Positive = 512
    """Longest reply of the teacher."""
    concurrency: Positive = 16
    """Questions that the teacher is asked about at once."""


class Recipe(Record):
    name: str
    kind: Literal["sft", "rl"]
    model: ModelPart
    data: tuple[DataPart, ...]
    system: str = "coda"
    settings: Mapping[str, Any] = {}
    """Settings of the system."""
    abstain: bool = False
    """Allow the answer `unknown` (`ask --abstain`); rewards count it as right where the documents lack the answer."""
    prompts: Literal["", "full", "compact"] = ""
    """The set of prompts; where empty, `compact` for the embedded model and for tiny random ones, `full` for others."""
    systems: tuple[str, ...] = ()
    """SFT: the systems whose protocols are taught; `system` alone where empty."""
    detours: Share = 0.0
    """SFT: share of the steps whose first search misses its fact, and of the questions with several steps that CoDA's
    planner first hands on whole, so that what to do then is learnt (`train/detours.py`)."""
    traces: tuple[str, ...] = ()
    """SFT: files of prepared traces (`subquest train RECIPE --prepare FILE`), read instead of making them anew."""
    dev: tuple[DataPart, ...] = ()
    """Held-out questions; the best checkpoint is chosen on them."""
    sample: Count = 0
    """Train on so many questions (SFT: traces), drawn uniformly from all sources together; 0 takes all."""
    index: str = ""
    """What is searched: an index (`wiki.sq`) or a server's URL; where empty, the passages of the sources."""
    tools: tuple[str, ...] = ()
    """Tools that rollouts can call, as `ask --tools` takes them."""
    reward: str = ""
    """Reward preset; the system's own where empty."""
    reward_options: Mapping[str, Any] = {}
    """Settings of the reward that differ from its preset's, as `alpha = 0.4` (DECOR)."""
    reward_terms: Mapping[str, float] = {}
    """Terms of one's own that are added to the reward, with their weights: `"brief.py:brevity" = 0.2`, or by the name
    of an entry point."""
    judge: str = ""
    """The model that judges answers and steps (DECOR), as `ask --model` takes it; rules judge where empty."""
    judge_instruction: Literal["decor", "equivalence", "core"] = "decor"
    """What the model is told to judge answers by (`judge/prompts/`); `decor` follows DECOR's appendix B.1."""
    compressor: str = ""
    """The frozen model that compresses DECOR's memory, as `ask --model` takes it; where empty, the base model."""
    loss: str = ""
    """Loss preset; the system's own where empty."""
    loss_options: Mapping[str, Any] = {}
    """Settings of the loss that differ from its preset's, as `kl = 0.01` or `clip_high = 0.28`."""
    advantage: str = ""
    """Baseline preset; the system's own where empty."""
    advantage_options: Mapping[str, Any] = {}
    """Settings of the baseline that differ from its preset's, as `std = "none"`."""
    by: Literal["", "rollout", "role", "step"] = ""
    """What shares a baseline; where empty, the role for losses with a ratio a role, else the rollout."""
    instruct: InstructPart = InstructPart()
    rollout: RolloutPart = RolloutPart()
    optimiser: OptimiserPart = OptimiserPart()
    guards: GuardPart = GuardPart()
    k: Positive = 3
    """Documents a search."""
    evaluate_every: Positive = 10
    evaluate_questions: Count = 200
    """Dev questions asked at each evaluation: the first so many, or alike from all sources where there are several."""
    checkpoint_every: Positive = 10
    keep: Positive = 3
    """Checkpoints kept beside the best."""
    seed: int = 0

    @property
    def prompt_set(self) -> str:
        tiny = self.model.path == "smollm2" or self.model.path.startswith("random:")
        return self.prompts or ("compact" if tiny else "full")

    @property
    def objective(self) -> LossSettings:
        """The loss with its options."""
        return changed(
            losses_for(self.system)[self.loss or self.system], self.loss_options, "loss_options", error=ConfigError
        )

    @property
    def baseline(self) -> Baseline:
        """The baseline with its options."""
        return changed(
            baselines_for(self.system)[self.advantage or self.system],
            self.advantage_options,
            "advantage_options",
            error=ConfigError,
        )

    def as_dict(self) -> dict[str, Any]:
        return without_defaults(self)


def load_recipe(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from a TOML file, or two (`like`), with `a.b = value` overrides on top."""
    path = Path(path)
    table = read_recipe(path)
    for key, value in (overrides or {}).items():
        _override(table, key, value)
    recipe = checked(Recipe, table, str(path), error=ConfigError)
    try:
        recipe = replace(recipe, data=expanded(recipe.data), dev=expanded(recipe.dev))
        _check_together(recipe)
    except UsageError as error:
        raise ConfigError(f"{path}: {error}") from None
    return recipe


def read_recipe(path: Path, readers: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A recipe's table. With `like`, the path of another recipe from this one, it is that one's with what this one
    changes: tables key by key, everything else as a whole."""
    if (place := path.resolve()) in readers:
        raise ConfigError(f"{readers[-1]}: like leads back to {path.name}; a recipe cannot be like itself")
    table = read_toml(path, "the recipe", error=ConfigError)
    like = table.pop("like", None)
    if like is None:
        return table
    if not isinstance(like, str) or not like:
        raise ConfigError(f"{path}: like must be the path of another recipe, not {like!r:.80}")
    return _changed_by(read_recipe(path.parent / Path(like).expanduser(), (*readers, place)), table)


def _changed_by(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    both = [name for name in changes if isinstance(table.get(name), dict) and isinstance(changes[name], dict)]
    return {**table, **changes, **{name: _changed_by(table[name], changes[name]) for name in both}}


def _override(table: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a key such as `optimiser.steps`."""
    place: Any = table
    *parents, last = key.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
        if isinstance(place, list):
            raise ConfigError(f"{key}: {parent} is a list; give the whole list, as data=[{{questions='...'}}]")
        if not isinstance(place, dict):
            raise ConfigError(f"{key}: {parent} is not a table")
    place[last] = value


def _check_together(recipe: Recipe) -> None:
    """Refuse settings that are fine one by one, but would break the run long after it began."""
    if recipe.model.rank:
        LoraSettings(recipe.model.rank, recipe.model.alpha, recipe.model.targets)
    for guard, bound in dataclasses.asdict(recipe.guards).items():
        if math.isnan(bound):
            raise ConfigError(f"guards.{guard} = nan: nothing is above or below it; inf or -inf switch it off")
    if recipe.compressor and recipe.system != "decor":
        raise ConfigError(f"compressor: {recipe.system} has no memory to compress; decor has")
    if recipe.instruct.plays and recipe.instruct.teacher in ("", "rules"):
        raise ConfigError("instruct.plays: roles are played by a model; name it, as instruct.teacher = 'openai:…'")
    if recipe.detours and recipe.instruct.teacher:
        raise ConfigError("detours: gold traces that a teacher words or plays take none; leave out one of the two")
    if not recipe.abstain and any(part.unanswerable for part in (*recipe.data, *recipe.dev)):
        raise ConfigError("unanswerable: the answer unknown is not allowed; set abstain = true beside it")
    if recipe.rollout.server and not recipe.model.rank:
        raise ConfigError("rollout.server: a server takes over adapters, not whole models; set model.rank above 0")
    if recipe.kind == "rl":
        _check_rl(recipe)


def _check_rl(recipe: Recipe) -> None:
    named: tuple[tuple[str, str, Collection[str]], ...] = (
        ("loss", recipe.loss, losses_for(recipe.system)),
        ("advantage", recipe.advantage, baselines_for(recipe.system)),
    )
    for key, name, known in named:
        if name and name not in known:
            raise ConfigError(f"{key}: there is no {name!r}; choose from: {', '.join(known)}")
        if not name and recipe.system not in known:
            raise ConfigError(f"{key}: the system {recipe.system!r} has none of its own; choose: {', '.join(known)}")
    _ = recipe.objective, recipe.baseline
    rollout, minibatches = recipe.rollout, recipe.optimiser.minibatches
    if not rollout.temperature:
        raise ConfigError("rollout.temperature = 0: greedy rollouts are all alike and cannot be learnt from")
    if rollout.group == 1:
        raise ConfigError("rollout.group = 1: rollouts are compared with others of their question; give 2 or more")
    older = "ahead" if rollout.ahead else "overlap" if rollout.overlap else ""
    if older and recipe.optimiser.old_logprobs == "engine":
        raise ConfigError(
            f"rollout.{older} samples with older weights, whose log-probs are not those before the update: leave out"
            ' optimiser.old_logprobs = "engine"'
        )
    if rollout.ahead and (rollout.overlap or rollout.dynamic):
        other = "overlap" if rollout.overlap else "dynamic"
        raise ConfigError(f"rollout.ahead and rollout.{other} exclude each other: leave one of them out")
    if minibatches > rollout.questions * rollout.group:
        raise ConfigError(
            f"optimiser.minibatches = {minibatches}: a step has only {rollout.questions * rollout.group} rollouts"
        )


def expanded(parts: tuple[DataPart, ...]) -> tuple[DataPart, ...]:
    """Sources with a range of seeds as one source a seed."""
    out: list[DataPart] = []
    for part in parts:
        found = _SEEDS.search(part.questions)
        if found is None:
            out.append(part)
            continue
        first, last = int(found[1]), int(found[2])
        if not first <= last:
            raise ConfigError(
                f"{part.questions}: the range of seeds {first}-{last} is empty; write the smaller one first"
            )
        before, after = part.questions[: found.start()], part.questions[found.end() :]
        out += [replace(part, questions=f"{before}seed={seed}{after}") for seed in range(first, last + 1)]
    return tuple(out)
