from dataclasses import fields
from pathlib import Path

import pytest

from subquest.assemble import EngineOptions, engines, open_engine, open_engines
from subquest.config import EngineConfig, load_config
from subquest.engine import Message, Sampling
from subquest.engine.openai import OpenAIEngine
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError

from ..engine.loopback import Loopback, chat


@pytest.mark.parametrize(
    ("spec", "name", "url"),
    [
        ("openai:gpt-4o", "gpt-4o", "https://api.openai.com/v1"),
        ("openai:claude@20240229", "claude@20240229", "https://api.openai.com/v1"),
        ("openai:ours@1.5.0", "ours@1.5.0", "https://api.openai.com/v1"),
        ("openai:@cf/meta/llama-3.1", "@cf/meta/llama-3.1", "https://api.openai.com/v1"),
        ("openai:qwen@http://localhost:8000/v1", "qwen", "http://localhost:8000/v1"),
        ("openai:@http://localhost:8000/v1/", "http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("openai:@cf/meta/llama@https://x.example/v1", "@cf/meta/llama", "https://x.example/v1"),
        ("openai:org/model:free@https://x.example/v1", "org/model:free", "https://x.example/v1"),
        ("http://localhost:8000/v1#qwen", "qwen", "http://localhost:8000/v1"),
        ("https://x.example/v1", "https://x.example/v1", "https://x.example/v1"),
    ],
)
def test_endpoints(spec: str, name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    engine = open_engine(spec)
    assert isinstance(engine, OpenAIEngine)
    assert (engine.name, engine.endpoint.base_url) == (name, url)


def test_the_environment_gives_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    engine = open_engine("openai:m")
    assert isinstance(engine, OpenAIEngine)
    assert engine.endpoint.base_url == "http://localhost:9/v1"


def test_roles_share_what_they_can(tmp_path: Path) -> None:
    script = tmp_path / "a,b.jsonl"
    script.write_text('"x"\n')
    engines = open_engines(
        f"scripted:{script},planner=http://h:1/v1#big,executor=http://h:1/v1#small,judge=http://h:1/v1#big"
    )
    assert set(engines) == {"", "planner", "executor", "judge"}
    assert isinstance(engines[""], ScriptedEngine)
    assert engines["planner"] is engines["judge"]
    assert engines["planner"] is not engines["executor"]
    assert isinstance(engines["planner"], OpenAIEngine)
    assert isinstance(engines["executor"], OpenAIEngine)
    assert engines["planner"].endpoint is engines["executor"].endpoint


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("embeded", "did you mean embedded"),
        ("opena:x", "did you mean openai:NAME"),
        ("gpt-4o", "openai:gpt-4o or openai:gpt-4o@BASE_URL"),
        ("models/x.gguf", "did you mean gguf:models/x.gguf"),
        ("gguf:absent.gguf", "no such model file: absent.gguf"),
        ("qwen-1.5", "did you mean qwen-1.5b?"),
        ("gguf:", "Known forms"),
        ("", "Known forms"),
        ("openai:", "name the model"),
        ("openai:qwen@localhost:8000/v1", "as in openai:qwen@http://localhost:8000/v1"),
        ("openai:qwen@10.0.0.7", "as in openai:qwen@http://10.0.0.7"),
        ("openai:qwen@x.example/v1", "as in openai:qwen@http://x.example/v1"),
        ("openai:qwen@box:8000", "as in openai:qwen@http://box:8000"),
        ("scripted:absent.jsonl", "cannot read the script"),
        ("a=openai:x,a=openai:y", "'a' is given two models"),
        ("planner=openia:x", "did you mean openai"),
    ],
)
def test_mistakes_are_named(spec: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match=says):
        open_engines(spec)


def test_a_home_folder_behind_the_kind_of_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell expands `gguf:~/model.gguf`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "replies.jsonl").write_text('"hello"\n')
    assert isinstance(open_engine("scripted:~/replies.jsonl"), ScriptedEngine)
    with pytest.raises(UsageError, match=f"no such model file: {tmp_path}/m.gguf"):
        open_engine("gguf:~/m.gguf")


async def test_options_arrive() -> None:
    async with Loopback(chat("hi")) as server:
        options = EngineOptions(
            api_key="k",
            concurrency=3,
            requests_per_minute=7,
            tokens_per_minute=9,
            timeout=60,
            context=99,
            extra={"a": 1},
        )
        engine = open_engine(f"{server.url}#m", options)
        assert isinstance(engine, OpenAIEngine)
        await (await engine.open([Message("user", "x")])).generate(Sampling())
        assert server.requests[-1].headers["authorization"] == "Bearer k"
        assert server.posts[0]["a"] == 1
        assert engine.context_window == 99
        limits = engine.endpoint.limits
        assert (limits.concurrency, limits.requests_per_minute, limits.tokens_per_minute) == (3, 7, 9)
    with pytest.raises(UsageError, match="tool calls need an endpoint"):
        open_engine("embedded", EngineOptions(protocol="tools"))
    with pytest.raises(UsageError, match="unknown protocol 'tool'"):
        open_engine("openai:m", EngineOptions(protocol="tool"))


def test_the_settings_file_has_these_options(tmp_path: Path) -> None:
    file = tmp_path / "subquest.toml"
    file.write_text('[engine]\nconcurrency = 4\ntimeout = 9\nserver = "vllm"\nadapter = "lora.gguf"\n')
    engine = load_config(file, env={"SUBQUEST_ENGINE_RETRIES": "2"}).engine
    assert (engine.concurrency, engine.timeout, engine.retries) == (4, 9.0, 2)
    assert engine.adapter == str(tmp_path / "lora.gguf")
    assert {f.name for f in fields(EngineConfig)} <= {f.name for f in fields(EngineOptions)}
    file.write_text('[engine]\nadapter = "none"\n')
    assert load_config(file, env={}).engine.adapter == "none"
    file.write_text("[engine]\nconcurrency = 0\n")
    with pytest.raises(UsageError, match="a whole number from 1"):
        load_config(file, env={})


@pytest.mark.parametrize("model", ["qwen-1.5b", "gguf:qwen-1.5b", "torch:qwen-1.5b", "qwen-0.5b,planner=scripted:x"])
def test_a_known_model_that_is_not_here_says_how_to_get_it(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"is not on this machine yet.*subquest model get qwen-(1|0).5b"):
        open_engines(model)


@pytest.mark.parametrize(
    ("model", "part", "adapter", "opened"),
    [
        ("qwen-1.5b", "model", None, None),
        ("qwen-1.5b", "judge", None, "none"),
        ("torch:qwen-1.5b", "writer", None, "none"),
        ("torch:qwen-1.5b", "writer", "own.gguf", "own.gguf"),
        ("smollm2", "judge", None, None),
        ("embedded", "writer", None, None),
        ("openai:gpt@http://localhost:1/v1", "judge", None, None),
    ],
)
def test_an_adapter_is_for_the_roles_of_systems(
    model: str, part: str, adapter: str | None, opened: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ships for a known model has learnt their prompts and no others; SmolLM2 follows none without it."""
    seen: list[str | None] = []
    monkeypatch.setattr(engines._Opener, "_make", lambda self, name: seen.append(self.options.adapter))
    open_engine(model, EngineOptions(adapter=adapter), part=part)
    assert seen == [opened]
