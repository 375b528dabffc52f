"""Rollouts on a vLLM server as the trainer's engine: the same training, token for token."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subquest.engine import Message, Sampling
from subquest.engine.torch.loader import load, load_adapter
from subquest.errors import ConfigError, EngineRefused, EngineUnavailable
from subquest.train import served_rollouts
from subquest.train.components import make_policy, make_served
from subquest.train.launch import train
from subquest.train.lora import lora_layers
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart, load_recipe
from subquest.train.served_rollouts import ServedPolicy, write_adapter

from .test_rl import RECIPE, finish, trainer
from .vllm_server import BASE, VllmServer, serving

SOURCE = tiny_source("llama", vocabulary=260)


@pytest.fixture
def server() -> Iterator[VllmServer]:
    with serving(VllmServer(SOURCE)) as held:
        yield held


def policy_of(server: VllmServer, folder: Path) -> ServedPolicy:
    recipe = replace(RECIPE, rollout=replace(RECIPE.rollout, server=server.url))
    return make_served(recipe, SOURCE, folder)


@pytest.mark.slow
def test_training_takes_the_course_of_the_engine_in_the_process(server: VllmServer, tmp_path: Path) -> None:
    recipe = replace(RECIPE, optimiser=replace(RECIPE.optimiser, steps=3))
    inside = finish(trainer(tmp_path / "a", recipe))
    served = finish(trainer(tmp_path / "b", recipe, engine=policy_of(server, tmp_path / "adapters")))
    assert sorted(served) == sorted(inside)
    for step, figures in inside.items():
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "mismatch", "completion_tokens", "dev_f1"):
            if name in figures:
                assert served[step][name] == pytest.approx(figures[name], rel=1e-4, abs=1e-5), (step, name)
    # each update is a version of its own; what is no longer needed is gone
    assert [name.rpartition("-")[2] for name, _ in server.loads] == ["0", "1", "2", "3"]
    assert server.adapters == []
    assert not list((tmp_path / "adapters").iterdir())


async def test_turns_record_their_version_and_exact_ids(server: VllmServer, tmp_path: Path) -> None:
    engine = policy_of(server, tmp_path)
    policy = make_policy(RECIPE.model, SOURCE, device=torch.device("cpu"), seed=0)
    for version in (0, 1, 2):
        with torch.no_grad():
            for _, layer in lora_layers(policy):
                layer.lora_B += 0.1
        await asyncio.to_thread(lambda v=version: engine.refresh(**policy.engine_state(), policy=v))
        if version == 0:
            session = await engine.open([Message("user", "What now?")])
        else:
            await session.append("Go on.")
        await session.generate(Sampling(max_tokens=6, temperature=1.0, logprobs=True, seed=version))
    turns = [s for s in session.segments if s.kind == "agent"]
    assert [s.policy for s in turns] == [0, 1, 2]
    sent = [body["prompt"] for body in server.asked]
    ids = [s.token_ids for s in session.segments]
    assert sent == [list(sum(ids[: 2 * n + 1], ())) for n in range(3)]
    assert all(s.logprobs is not None and len(s.logprobs) == len(s.token_ids) for s in turns)
    names = [body["model"] for body in server.asked]
    assert len(set(names)) == 3
    assert server.adapters == names[1:], "the one before the last may still be writing"
    assert engine.context_window == 2048
    assert engine.count_tokens("What now?") == 9
    bare = await engine.without_adapter().open([Message("user", "What now?")])
    await bare.generate(Sampling(max_tokens=4, logprobs=True))
    assert server.asked[-1]["model"] == BASE
    await engine.close()
    assert server.adapters == []


def test_the_written_adapter_is_the_policy_s(tmp_path: Path) -> None:
    policy = make_policy(RECIPE.model, SOURCE, device=torch.device("cpu"), seed=0)
    adapter = policy.engine_state()["adapter"]
    write_adapter(adapter, tmp_path, base=BASE)
    read = load_adapter(tmp_path)
    assert read.scale == adapter.scale
    assert read.pairs.keys() == adapter.pairs.keys()
    for name, pair in adapter.pairs.items():
        assert all(map(torch.equal, pair, read.pairs[name]))


def test_an_overloaded_server_is_asked_again(
    server: VllmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_rollouts, "backoff", lambda attempt: 0.0)
    engine = policy_of(server, tmp_path)
    adapter = make_policy(RECIPE.model, SOURCE, device=torch.device("cpu"), seed=0).engine_state()["adapter"]
    server.failures = [503, 503]
    engine.refresh(adapter=adapter, policy=0)
    assert len(server.loads) == 1
    server.failures = [503] * served_rollouts.TRIES
    with pytest.raises(EngineUnavailable, match=r"load_lora_adapter cannot be used: 503 busy \(tried 5 times"):
        engine.refresh(adapter=adapter, policy=1)
    asyncio.run(engine.close())


def test_a_server_without_adapters_is_named(tmp_path: Path) -> None:
    with serving(VllmServer(SOURCE, lora=False)) as server:
        engine = policy_of(server, tmp_path)
        adapter = make_policy(RECIPE.model, SOURCE, device=torch.device("cpu"), seed=0).engine_state()["adapter"]
        with pytest.raises(EngineRefused, match=r"answered 404 .*start vLLM with --enable-lora and VLLM_ALLOW"):
            engine.refresh(adapter=adapter, policy=0)
        asyncio.run(engine.close())


def test_a_server_that_is_down_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_rollouts, "backoff", lambda attempt: 0.0)
    with pytest.raises(EngineUnavailable, match=r"/v1/models cannot be used: .*is the server up"):
        ServedPolicy("http://127.0.0.1:9/v1", SOURCE, tmp_path, concurrency=4)


def test_whole_models_cannot_be_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "x"\nkind = "rl"\n[model]\npath = "random:llama"\nrank = 0\n[[data]]\nquestions = "world:seed=1"\n'
        '[rollout]\nserver = "http://127.0.0.1:8000/v1"\n'
    )
    with pytest.raises(ConfigError, match=r"rollout\.server: a server takes over adapters"):
        load_recipe(path)


@pytest.mark.slow
def test_a_recipe_names_the_server(tmp_path: Path) -> None:
    """The whole command: a model folder here, the same model on the server."""
    from safetensors.torch import save_file

    folder = tmp_path / "model"
    SOURCE.config.save_pretrained(folder)
    SOURCE.tokenizer.save_pretrained(folder)
    save_file({n: t.clone() for n, t in SOURCE.state.items() if n != "lm_head.weight"}, folder / "model.safetensors")
    with serving(VllmServer(load(folder))) as server:
        recipe = replace(
            RECIPE,
            model=replace(RECIPE.model, path=str(folder)),
            data=(DataPart("world:seed=1,articles=160,questions=4"),),
            settings={"turns": 1, "force": False},
            prompts="compact",
            rollout=replace(RECIPE.rollout, questions=1, group=2, server=server.url),
            optimiser=replace(RECIPE.optimiser, steps=1),
        )
        run = asyncio.run(train(recipe, tmp_path / "run", device="cpu"))
        assert run.steps == 1
        assert [name.rpartition("-")[2] for name, _ in server.loads] == ["0", "1"]
        assert {body["model"] for body in server.asked} == {server.loads[0][0]}, "both rollouts, no dev questions"
        assert (tmp_path / "run" / "last" / "adapter_model.safetensors").is_file()
        assert not list((tmp_path / "run" / "served").iterdir())
