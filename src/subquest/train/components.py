"""From a recipe to the parts of a run: weights, policy, rollout engine, system."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..assemble import AgentSpec, Resources, build_agent, open_engine
from ..engine import Engine, Sampling
from ..engine.adapter import Shape, read_gguf, read_peft, write_peft
from ..engine.torch.engine import TorchEngine
from ..engine.torch.loader import Source, load
from ..errors import ConfigError
from ..limits import Limits
from ..models import default_adapter, resolve
from ..retrieval.search import Search
from ..rewards import RewardFunction
from ..rewards import load as load_reward
from ..runtime.system import System
from ..tools.function_tool import FunctionTool
from .distributed import ALONE, Ranks, is_sharded
from .lora import LoraSettings, load_adapter_into
from .policy import Policy
from .recipe import ModelPart, Recipe
from .served_rollouts import ServedPolicy


def load_source(
    path: str,
    texts: Sequence[str] = (),
    *,
    weights: bool = True,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Source:
    """The base model a recipe names. `random:FAMILY` is a tiny untrained one whose tokenizer fits `texts`."""
    if path.startswith("random:"):
        from .random_model import tiny_source

        return tiny_source(path.removeprefix("random:"), texts)
    return load(resolve(path), weights=weights, device=device, dtype=dtype)


def make_policy(part: ModelPart, source: Source, *, device: torch.device, seed: int) -> Policy:
    """The policy to train, from the base model or from an adapter."""
    lora = LoraSettings(part.rank, part.alpha, part.targets) if part.rank else None
    torch.manual_seed(seed)
    dtype = precision(part, device)
    policy = Policy(source, lora=lora, device=device, dtype=dtype, checkpointing=part.checkpointing)
    if part.adapter:
        if lora is None:
            raise ConfigError("a recipe that trains all weights (rank = 0) cannot start from an adapter")
        a = source.architecture
        state, alpha = adapter_state(part.adapter, Shape(a.family, a.heads, a.kv_heads), part.path)
        load_adapter_into(policy, state)
        # W + (alpha / rank) B A: with another alpha it would be another adapter
        if not math.isclose(alpha, part.alpha, rel_tol=1e-6):
            raise ConfigError(f"the adapter {part.adapter} was made with alpha {alpha:g}: set model.alpha = {alpha:g}")
    return policy


def precision(part: ModelPart, device: torch.device) -> torch.dtype:
    """What a model computes in."""
    name = ("bfloat16" if device.type == "cuda" else "float32") if part.dtype == "auto" else part.dtype
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def adapter_state(place: str, shape: Shape, model: str) -> tuple[dict[str, torch.Tensor], float]:
    """An adapter's parameters by PEFT's names and its alpha, wherever it comes from; `shape` is the model's,
    `model` what the recipe calls it."""
    from safetensors.torch import load_file

    path = Path(place).expanduser()
    if place == "shipped":
        shipped = default_adapter(model)
        if shipped is None:
            raise ConfigError(f"this installation ships no adapter for {model}; name a folder or a file")
        path = shipped
    if path.suffix != ".gguf":
        if not (path / "adapter_model.safetensors").is_file():
            raise ConfigError(f"{path} holds no adapter_model.safetensors: train it first, or name another adapter")
        lora = read_peft(path)  # which also says what is wrong with the files
        return load_file(path / "adapter_model.safetensors"), lora.alpha
    lora = read_gguf(path, shape)
    with tempfile.TemporaryDirectory() as folder:
        write_peft(lora, Path(folder))
        return load_file(Path(folder) / "adapter_model.safetensors"), lora.alpha


def make_reward(recipe: Recipe, verdicts: Path) -> tuple[RewardFunction, Engine | None]:
    """The reward, and the judge's engine where it has one; verdicts are kept in a file, so none is paid for twice."""
    name = recipe.reward or recipe.system
    if not recipe.judge:
        return load_reward(name, options=recipe.reward_options, terms=recipe.reward_terms), None
    from ..judge.model import ModelJudge

    engine = open_engine(recipe.judge, part="judge")
    judge = ModelJudge(engine, instruction=recipe.judge_instruction, cache=verdicts)
    return load_reward(name, options=recipe.reward_options, terms=recipe.reward_terms, judge=judge), engine


def make_served(recipe: Recipe, source: Source, folder: Path, *, ranks: Ranks = ALONE) -> ServedPolicy:
    """The policy on the server that the recipe names; adapters are written to the folder."""
    r = recipe.rollout
    return ServedPolicy(r.server, source, folder, concurrency=r.concurrency, window=r.window or None, ranks=ranks)


def make_engine(recipe: Recipe, source: Source, *, device: torch.device, policy: Policy | None = None) -> TorchEngine:
    """The rollout engine in this process. Where it can, it holds the base weights together with the `policy`."""
    r = recipe.rollout
    engine = TorchEngine(source, device=device, cache_tokens=r.cache_tokens or None, window=r.window or None)
    if policy is not None and _can_share(policy, engine, recipe):
        policy.merge()  # moves wide matrices to where they stay
        engine.weights.share(policy)
    return engine


def _can_share(policy: Policy, engine: TorchEngine, recipe: Recipe) -> bool:
    """Whether both want the same numbers: trained weights must not change under rollouts that are under way."""
    if is_sharded(policy) or (policy.lora is None and (recipe.rollout.overlap or recipe.rollout.ahead)):
        return False
    parameter = policy.model.embed_tokens.weight
    return (parameter.dtype, parameter.device) == (engine.weights.dtype, engine.device)


def make_frozen(recipe: Recipe, source: Source, *, device: torch.device, window: int | None) -> Engine | None:
    """The model that compresses DECOR's memory and is not trained (4.2); None where the engine has it within itself.

    An adapter can be switched off. Where all weights are trained, the base model gets an engine of its own, with room
    for one context at a time.
    """
    if recipe.compressor:
        return open_engine(recipe.compressor, part="compressor")
    if recipe.system != "decor" or recipe.model.rank:
        return None
    return TorchEngine(source, device=device, cache_tokens=window, window=window)


def make_system(
    recipe: Recipe,
    engine: Any,
    search: Search | None,
    *,
    temperature: float,
    tools: Sequence[FunctionTool] = (),
) -> System[Any]:
    """The system that rolls out; the same class that users run."""
    engines = engine if isinstance(engine, Mapping) else {"": engine}
    return build_agent(rollout_spec(recipe, temperature=temperature), Resources(engines, search, tools=tools))


def rollout_spec(recipe: Recipe, *, temperature: float) -> AgentSpec:
    """The agent that a recipe trains."""
    return AgentSpec(
        system=recipe.system,
        settings=recipe.settings,
        k=recipe.k,
        tools=recipe.tools,
        sampling=Sampling(max_tokens=recipe.rollout.max_tokens, temperature=temperature, logprobs=True),
        limits=Limits(thought=0),  # a turn is what one sampling gives
        prompts=recipe.prompt_set,
        abstain=recipe.abstain,
    )
