"""Recipes: a training run as a TOML file.

A recipe names the model, the data, the system that rolls out, the reward and the objective. Everything has a default
except the model and the data; unknown keys are refused with a suggestion, so a misspelt setting cannot pass unnoticed.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..codec import from_dict, to_dict
from ..errors import ConfigError, DataError, UsageError, suggest
from .advantage import BASELINES, Baseline, system_baselines
from .lora import TARGETS, LoraSettings
from .loss import LOSSES, LossSettings, system_losses

P = TypeVar("P", LossSettings, Baseline)

_SEEDS = re.compile(r"(?<=[:,])seeds=(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class ModelPart:
    path: str
    """`smollm2`, a GGUF file, a folder with safetensors, or `random:llama` (tiny, for tests)."""
    adapter: str = ""
    """A LoRA adapter to start from: a folder in PEFT's format, a GGUF file, or `shipped` (the embedded model's)."""
    rank: int = 16
    """LoRA rank; 0 trains all weights."""
    alpha: float = 32.0
    targets: tuple[str, ...] = TARGETS
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    checkpointing: bool = False
    """Keep only the layers' inputs and compute the rest again in the backward pass."""
    shard: bool = True
    """Of several processes, each holds a part of the policy (FSDP2); false leaves a whole copy on each."""


@dataclass(frozen=True, slots=True)
class DataPart:
    """One source of questions and the passages they are asked of."""

    questions: str
    """A file, a registered set (`hotpotqa:train`), a world's folder, or `world:seed=1,articles=500,questions=1000`.

    `world:seeds=101-110,...` stands for ten sources, one a seed.
    """
    corpus: tuple[str, ...] = ()
    """JSONL corpora; a world brings its own."""
    limit: int = 0
    """Use only the first so many questions; 0 uses all."""
    weight: float = 1.0
    """Relative share among the sources."""
    systems: tuple[str, ...] = ()
    """SFT: the systems whose protocols are taught on this source (`rerank`: judging passages, `train/judging.py`); the
    recipe's where empty."""
    k: int = 0
    """SFT: documents a search on this source; the recipe's where 0."""
    roles: tuple[str, ...] = ()
    """SFT: only these roles' contexts are learnt from; all where empty."""


@dataclass(frozen=True, slots=True)
class RolloutPart:
    questions: int = 48
    """Questions a step."""
    group: int = 8
    """Rollouts a question."""
    temperature: float = 1.0
    max_tokens: int = 192
    """Longest turn."""
    concurrency: int = 512
    """Episodes in flight."""
    cache_tokens: int = 0
    """Size of the rollout engine's cache; 0 lets the engine choose."""
    window: int = 0
    """Longest context; 0 for the model's own."""
    dynamic: bool = False
    """Drop groups without spread and ask new questions in their place (DECOR)."""
    overlap: bool = False
    """Roll out the next batch while this one is learnt from, by weights one step old."""
    importance_cap: float = 2.0
    """Largest weight of a token that older weights sampled."""


@dataclass(frozen=True, slots=True)
class OptimiserPart:
    steps: int = 100
    learning_rate: float = 1e-5
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: float = 0.0
    """Share of the steps over which the learning rate rises from 0."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest gradient norm."""
    minibatches: int = 1
    """Optimiser steps taken on each batch of rollouts."""
    batch: int = 64
    """Episodes an optimiser step (SFT)."""
    epochs: float = 1.0
    """Passes over the traces (SFT); `steps` counts where it is smaller."""
    micro_tokens: int = 32_768
    """Tokens that go through the model at once."""
    skip_flat: bool = False
    """Leave trajectories with the advantage zero (groups without spread) out of the update. The policy gradient stays
    the same; KL term and entropy bonus are then those of the other trajectories. A loss with neither term leaves them
    out anyway."""


@dataclass(frozen=True, slots=True)
class GuardPart:
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


@dataclass(frozen=True, slots=True)
class InstructPart:
    """SFT: a teacher words seed tasks anew before they are traced (APEX's pipeline, `train/pipeline.py`)."""

    teacher: str = ""
    """A model as `ask --model` takes it, or `rules` for wording by rule; empty learns from the seeds as they are."""
    plans: bool = True
    """Word questions and plans anew; those that do not survive the filters are left out."""
    turns: bool = False
    """Word the turns of traces anew; those that do not survive the filters stay as they were."""
    plays: tuple[str, ...] = ()
    """Roles that the teacher plays itself, as `["executor", "synthesizer"]`: its own turns are learnt, where the answer
    is right and, under a gold plan, every sub-answer too."""
    attempts: int = 1
    """Times that it plays a question until that is so."""
    max_tokens: int = 512
    """Longest reply of the teacher."""
    concurrency: int = 16
    """Questions that the teacher is asked about at once."""


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    kind: Literal["sft", "rl"]
    model: ModelPart
    data: tuple[DataPart, ...]
    system: str = "coda"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the system."""
    prompts: Literal["", "full", "compact"] = ""
    """The set of prompts; where empty, `compact` for the embedded model and for tiny random ones, `full` for others."""
    systems: tuple[str, ...] = ()
    """SFT: the systems whose protocols are taught; `system` alone where empty."""
    traces: tuple[str, ...] = ()
    """SFT: files of prepared traces (`subquest train RECIPE --prepare FILE`), read instead of making them anew."""
    dev: tuple[DataPart, ...] = ()
    """Held-out questions; the best checkpoint is chosen on them."""
    sample: int = 0
    """Train on so many questions (SFT: traces), drawn uniformly from all sources together; 0 takes all."""
    index: str = ""
    """What is searched: an index (`wiki.sq`) or a server's URL; where empty, the passages of the sources."""
    reward: str = ""
    """Reward preset; the system's own where empty."""
    reward_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the reward that differ from its preset's, as `alpha = 0.4` (DECOR)."""
    reward_terms: Mapping[str, float] = field(default_factory=dict)
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
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the loss that differ from its preset's, as `kl = 0.01` or `clip_high = 0.28`."""
    advantage: str = ""
    """Baseline preset; the system's own where empty."""
    advantage_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the baseline that differ from its preset's, as `std = "none"`."""
    by: Literal["", "rollout", "role", "step"] = ""
    """What shares a baseline; where empty, the role for losses with a ratio a role, else the rollout."""
    instruct: InstructPart = field(default_factory=InstructPart)
    rollout: RolloutPart = field(default_factory=RolloutPart)
    optimiser: OptimiserPart = field(default_factory=OptimiserPart)
    guards: GuardPart = field(default_factory=GuardPart)
    k: int = 3
    """Documents a search."""
    evaluate_every: int = 10
    evaluate_questions: int = 200
    """Dev questions asked at each evaluation: the first so many, or alike from all sources where there are several."""
    checkpoint_every: int = 10
    keep: int = 3
    """Checkpoints kept beside the best."""
    seed: int = 0

    @property
    def prompt_set(self) -> str:
        tiny = self.model.path == "smollm2" or self.model.path.startswith("random:")
        return self.prompts or ("compact" if tiny else "full")

    @property
    def objective(self) -> LossSettings:
        """The loss with its options."""
        return _changed(self._losses[self.loss or self.system], self.loss_options, "loss_options")

    @property
    def baseline(self) -> Baseline:
        """The baseline with its options."""
        return _changed(self._baselines[self.advantage or self.system], self.advantage_options, "advantage_options")

    @property
    def _losses(self) -> dict[str, LossSettings]:
        """Losses by name, with those of a system from elsewhere."""
        return {**LOSSES, **system_losses(self.system)}

    @property
    def _baselines(self) -> dict[str, Baseline]:
        return {**BASELINES, **system_baselines(self.system)}

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


def load_recipe(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from a TOML file, with `a.b = value` overrides on top."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the recipe {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    for key, value in (overrides or {}).items():
        _override(table, key, value)
    _refuse_unknown(Recipe, table, str(path))
    try:
        recipe = from_dict(Recipe, table)
        recipe = replace(recipe, data=expanded(recipe.data), dev=expanded(recipe.dev))
    except DataError as error:
        raise ConfigError(f"{path}: {error}") from None
    _refuse_impossible(recipe, str(path))
    return recipe


def _override(table: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at its place, as `optimiser.steps`."""
    place: Any = table
    *parents, last = key.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            what = (
                "a list: give the whole of it, as data=[{questions='...'}]" if isinstance(place, list) else "no table"
            )
            raise ConfigError(f"{key} cannot be changed, for {parent} is {what}")
    place[last] = value


_ABOVE_0 = (
    "rollout.questions", "rollout.group", "rollout.max_tokens", "rollout.concurrency", "rollout.importance_cap",
    "optimiser.steps", "optimiser.minibatches", "optimiser.batch", "optimiser.epochs", "optimiser.micro_tokens",
    "instruct.max_tokens", "instruct.concurrency", "instruct.attempts", "k", "evaluate_every", "checkpoint_every",
    "keep",
)  # fmt: skip
"""Numbers that mean nothing at 0 or below."""
_FROM_0 = (
    "rollout.temperature", "rollout.cache_tokens", "rollout.window", "optimiser.warmup", "optimiser.weight_decay",
    "optimiser.clip", "optimiser.learning_rate", "model.rank", "evaluate_questions", "sample",
)  # fmt: skip
"""Numbers that mean nothing below 0."""


def _refuse_impossible(recipe: Recipe, place: str) -> None:
    """Refuse numbers that would break a run long after it began."""
    for names, least in ((_ABOVE_0, "above 0"), (_FROM_0, "0 or more")):
        for name in names:
            value: Any = recipe
            for part in name.split("."):
                value = getattr(value, part)
            if not (value > 0 or (value == 0 and names is _FROM_0)):
                raise ConfigError(f"{place}: {name} = {value}: give a number, {least}")
    for source in (*recipe.data, *recipe.dev):
        if source.limit < 0 or source.k < 0 or not source.weight > 0:
            raise ConfigError(f"{place}: {source.questions}: limit and k are 0 or more, weight is above 0")
    if len(recipe.optimiser.betas) != 2 or not all(0 <= beta < 1 for beta in recipe.optimiser.betas):
        raise ConfigError(f"{place}: optimiser.betas = {list(recipe.optimiser.betas)}: give two numbers, 0 to below 1")
    for guard, bound in to_dict(recipe.guards).items():
        if math.isnan(bound):
            raise ConfigError(f"{place}: guards.{guard} = nan: nothing is above or below it; inf or -inf switch it off")
    if recipe.model.rank:
        try:
            LoraSettings(recipe.model.rank, recipe.model.alpha, recipe.model.targets)
        except DataError as error:
            raise ConfigError(f"{place}: model: {error}") from None
    if recipe.optimiser.warmup > 1:
        raise ConfigError(f"{place}: optimiser.warmup = {recipe.optimiser.warmup}: it is a share of the steps, 0 to 1")
    if recipe.kind == "rl" and not recipe.rollout.temperature:
        raise ConfigError(f"{place}: rollout.temperature = 0: greedy rollouts are all alike and cannot be learnt from")
    named: tuple[tuple[str, str, Collection[str]], ...] = (
        ("loss", recipe.loss, recipe._losses),
        ("advantage", recipe.advantage, recipe._baselines),
    )
    for key, name, known in named if recipe.kind == "rl" else ():
        if (name or recipe.system) not in known:
            what = f"{name!r} is none" if name else f"the system {recipe.system!r} has none of its own; name one"
            raise ConfigError(f"{place}: {key}: {what}; there are {', '.join(known)}")
    if recipe.kind == "rl":
        try:
            _ = recipe.objective, recipe.baseline
        except (ConfigError, UsageError, DataError) as error:
            raise ConfigError(f"{place}: {error}") from None
    if recipe.compressor and recipe.system != "decor":
        raise ConfigError(f"{place}: compressor: {recipe.system} has no memory to compress; decor has")
    if recipe.kind == "rl" and recipe.rollout.group == 1:
        raise ConfigError(
            f"{place}: rollout.group = 1: rollouts are compared with others of their question; give 2 or more"
        )
    if recipe.instruct.plays and recipe.instruct.teacher in ("", "rules"):
        raise ConfigError(
            f"{place}: instruct.plays: roles are played by a model; name it, as instruct.teacher = 'openai:…'"
        )
    rollouts = recipe.rollout.questions * recipe.rollout.group
    if recipe.kind == "rl" and recipe.optimiser.minibatches > rollouts:
        raise ConfigError(
            f"{place}: {rollouts} rollouts a step cannot make optimiser.minibatches = {recipe.optimiser.minibatches}"
        )


def _changed(preset: P, options: Mapping[str, Any], place: str) -> P:
    """A preset with some of its settings changed."""
    _refuse_unknown(type(preset), options, place)
    return from_dict(type(preset), {**to_dict(preset), **options})


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
            raise ConfigError(f"{part.questions}: the seeds {first}-{last} are none; write the smaller one first")
        before, after = part.questions[: found.start()], part.questions[found.end() :]
        out += [replace(part, questions=f"{before}seed={seed}{after}") for seed in range(first, last + 1)]
    return tuple(out)


def _refuse_unknown(cls: Any, table: Any, place: str) -> None:
    if isinstance(table, list):
        for number, entry in enumerate(table, 1):
            _refuse_unknown(cls, entry, f"{place}[{number}]")
        return
    if not isinstance(table, Mapping):
        return
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}
    for key, value in table.items():
        if key not in known:
            raise ConfigError(f"{place}: unknown key {key!r}; {suggest(key, sorted(known))}")
        inner = _part(hints[key])
        if inner is not None:
            _refuse_unknown(inner, value, f"{place}: {key}")


def _part(hint: Any) -> Any:
    """The dataclass behind a hint, None where there is none."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next((a for a in typing.get_args(hint) if dataclasses.is_dataclass(a)), None)
