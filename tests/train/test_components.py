"""Parts of a run from what a recipe names."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subquest import models
from subquest.assemble import open_search
from subquest.engine.adapter import Shape, read_peft, write_gguf
from subquest.engine.scripted import ScriptedEngine
from subquest.engine.torch import TorchEngine
from subquest.errors import ConfigError, DataError
from subquest.judge.model import ModelJudge
from subquest.judge.rules import RuleJudge
from subquest.models import smollm2_path
from subquest.record import Document
from subquest.retrieval.index import Index
from subquest.retrieval.remote import RemoteSearch
from subquest.systems.decor.reward import DECORReward
from subquest.train.components import make_engine, make_frozen, make_policy, make_reward, make_system
from subquest.train.launch import _without_gpu
from subquest.train.lora import LoraSettings, save_adapter
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import ModelPart, load_recipe

from .episodes import rollouts_of
from .test_rl import RECIPE


async def test_a_judge_is_a_model_or_rules(tmp_path: Path) -> None:
    decor = replace(RECIPE, system="decor", reward="decor")
    reward, engine = make_reward(decor, tmp_path / "verdicts.sqlite")
    assert isinstance(reward, DECORReward)
    assert isinstance(reward.step_judge, RuleJudge)
    assert engine is None
    script = tmp_path / "judge.jsonl"
    script.write_text('{"reply": "yes"}\n')
    reward, engine = make_reward(replace(decor, judge=f"scripted:{script}"), tmp_path / "verdicts.sqlite")
    assert isinstance(reward, DECORReward)
    assert isinstance(reward.answer_judge, ModelJudge)
    assert reward.answer_judge.instruction == "decor"  # appendix B.1
    assert engine is not None
    await engine.close()
    with pytest.raises(ConfigError, match="a judge is one model"):
        make_reward(replace(decor, judge=f"a=scripted:{script},b=scripted:{script}"), tmp_path / "verdicts.sqlite")


def test_what_is_searched_is_an_index_or_a_server(tmp_path: Path) -> None:
    Index.build(tmp_path / "a.sq", [Document("1", "Blue", "Ada Vale made Blue.")]).close()
    with open_search(str(tmp_path / "a.sq")) as index:  # type: ignore[attr-defined]
        assert isinstance(index, Index)
    server = open_search("http://127.0.0.1:8000/retrieve")
    assert isinstance(server, RemoteSearch)
    assert server.url == "http://127.0.0.1:8000/retrieve"


def test_a_policy_starts_from_an_adapter(tmp_path: Path) -> None:
    source, settings = tiny_source("llama", vocabulary=260), LoraSettings(4, 16.0)
    trained = Policy(source, lora=settings)
    with torch.no_grad():
        for p in trained.trained().values():
            p.copy_(torch.randn(p.shape))
    save_adapter(trained, settings, tmp_path, half=False)
    part = ModelPart("random:llama", adapter=str(tmp_path), rank=4, alpha=16.0)
    policy = make_policy(part, source, device=torch.device("cpu"), seed=0)
    assert all(torch.equal(p, trained.trained()[name]) for name, p in policy.trained().items())
    with pytest.raises(ConfigError, match=r"was made with alpha 16: set model.alpha = 16"):
        make_policy(replace(part, alpha=32.0), source, device=torch.device("cpu"), seed=0)
    with pytest.raises(ConfigError, match="train it first"):
        make_policy(replace(part, adapter=str(tmp_path / "none")), source, device=torch.device("cpu"), seed=0)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"half")
    with pytest.raises(DataError, match="is not a safetensors file"):
        make_policy(part, source, device=torch.device("cpu"), seed=0)
    with pytest.raises(ConfigError, match="rank = 0"):
        make_policy(replace(part, rank=0), source, device=torch.device("cpu"), seed=0)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_policy_starts_from_an_adapter_in_gguf(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model that is not the embedded one: rows are put back by its own number of heads."""
    source, settings = tiny_source(family, vocabulary=260), LoraSettings(4, 16.0)
    trained = Policy(source, lora=settings)
    with torch.no_grad():
        for p in trained.trained().values():
            p.copy_(torch.randn(p.shape))
    save_adapter(trained, settings, tmp_path, half=False)
    a = source.architecture
    write_gguf(read_peft(tmp_path), tmp_path / "a.gguf", Shape(family, a.heads, a.kv_heads))
    part = ModelPart(f"random:{family}", adapter=str(tmp_path / "a.gguf"), rank=4, alpha=16.0)
    policy = make_policy(part, source, device=torch.device("cpu"), seed=0)
    assert all(torch.equal(p, trained.trained()[name]) for name, p in policy.trained().items())
    monkeypatch.setattr(models, "ADAPTERS", tmp_path)
    shipped = ModelPart("qwen-0.5b", adapter="shipped", rank=4, alpha=16.0)
    with pytest.raises(ConfigError, match=r"ships no adapter for qwen-0\.5b"):
        make_policy(shipped, source, device=torch.device("cpu"), seed=0)
    (tmp_path / "a.gguf").rename(tmp_path / "qwen-0.5b-subquest.gguf")
    policy = make_policy(shipped, source, device=torch.device("cpu"), seed=0)
    assert all(torch.equal(p, trained.trained()[name]) for name, p in policy.trained().items())


@pytest.mark.skipif(not smollm2_path().is_file(), reason="needs the embedded model: subquest model get smollm2")
def test_the_shipped_adapter_is_read_from_its_gguf() -> None:
    from subquest.train.components import adapter_state

    state, alpha = adapter_state("shipped", Shape("llama", 9, 3), "smollm2")
    assert alpha == 32.0
    assert len(state) == 30 * 7 * 2
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    assert state[name].shape == (16, 576)


async def test_a_term_of_the_users_own_counts_in_training(tmp_path: Path) -> None:
    term = tmp_path / "brief.py"
    term.write_text("def brevity(episode):\n    return 1 / max(1, len(episode.answer.split()))\n")
    recipe = replace(RECIPE, reward="coda-answer-only", reward_terms={f"{term}:brevity": 0.2})
    reward, _ = make_reward(recipe, tmp_path / "verdicts.sqlite")
    (scored,) = await reward.score([replace(rollouts_of("a", {"planner": 1}), answer="two words")])
    assert scored.terms == {"answer": -3.0, "brevity": 0.1}
    assert scored.total == scored.roles["planner"] == pytest.approx(-2.9)


@pytest.mark.parametrize("name", ["direct", "coda"])
def test_a_system_that_does_not_search_is_trained_too(name: str) -> None:
    system = make_system(replace(RECIPE, system=name, k=7, settings={}), ScriptedEngine(["x"]), None, temperature=1.0)
    assert getattr(system.settings, "k", None) == (7 if name == "coda" else None)
    given = replace(RECIPE, system="coda", settings={"k": 2})
    assert make_system(given, ScriptedEngine(["x"]), None, temperature=1.0).settings.k == 2


@pytest.mark.parametrize("name", ["decor-marl-paper", "decor-marl-small", "decor-marl-smoke"])
def test_decors_recipes_judge_answers_by_its_own_instruction(name: str) -> None:
    assert load_recipe(Path(__file__).parents[2] / "recipes" / f"{name}.toml").judge_instruction == "decor"


async def test_what_compresses_memory_is_never_what_is_trained(tmp_path: Path) -> None:
    source = tiny_source("llama", vocabulary=260)
    recipe = replace(RECIPE, system="decor", settings={})
    engine = make_engine(recipe, source, device=torch.device("cpu"))
    assert (
        make_frozen(recipe, source, device=engine.device, window=engine.context_window) is None
    )  # the adapter is switched off
    whole = replace(recipe, model=replace(recipe.model, rank=0))
    frozen = make_frozen(whole, source, device=engine.device, window=engine.context_window)
    assert isinstance(frozen, TorchEngine)
    engine.refresh({name: torch.zeros_like(tensor) for name, tensor in source.state.items()})
    assert all(torch.equal(frozen.weights.parts[name], source.state[name]) for name in frozen.weights.parts)
    script = tmp_path / "facts.jsonl"
    script.write_text('{"reply": "facts"}\n')
    named = make_frozen(
        replace(whole, compressor=f"scripted:{script}"), source, device=engine.device, window=engine.context_window
    )
    system = make_system(recipe, {"": engine, "compressor": named}, None, temperature=1.0)
    assert system.setup("compressor").engine.name == getattr(named, "name", "")
    assert system.setup("planner").engine is engine
    assert (
        make_frozen(replace(whole, system="coda"), source, device=engine.device, window=engine.context_window) is None
    )
    for one in (engine, frozen):
        await one.close()


def test_a_compressor_is_decors_alone(tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "coda-peco-smoke.toml"
    with pytest.raises(ConfigError, match="coda has no memory to compress"):
        load_recipe(recipe, {"compressor": "embedded"})


def test_a_gpu_that_torch_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken driver makes torch fall back silently, to a run a thousand times slower."""
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self / "nvidia0"]))
    assert "although there is a GPU" in _without_gpu()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert _without_gpu() == "the CPU"
