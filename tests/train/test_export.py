"""What a run leaves behind can be used: a model folder or an adapter, loaded again by others and by ourselves."""

import asyncio
import hashlib
from pathlib import Path

import pytest
import torch
import transformers

from subquest.engine.adapter import base_of
from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import TorchEngine
from subquest.engine.torch.loader import load
from subquest.errors import DataError
from subquest.train.checkpoints import save_trained
from subquest.train.lora import LoraSettings
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source


def written(engine: TorchEngine) -> tuple[str, tuple[int, ...]]:
    async def one() -> tuple[str, tuple[int, ...]]:
        session = await engine.open([Message("system", "Be brief."), Message("user", "Who?")])
        turn = await session.generate(Sampling(max_tokens=12))
        await engine.close()
        return session.segments[0].text, turn.token_ids

    return asyncio.run(one())


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_all_weights_are_a_model_of_their_own(family: str, tmp_path: Path) -> None:
    source = tiny_source(family, ["some words to make a vocabulary of"], vocabulary=300)
    policy = Policy(source)
    with torch.no_grad():
        for number, p in enumerate(policy.parameters()):
            p += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(number))
            p.copy_(p.bfloat16())
    save_trained(policy, tmp_path)
    again = load(tmp_path)
    assert again.end_ids == source.end_ids
    trained = TorchEngine(source, device="cpu", cache_tokens=1024)
    trained.refresh(**policy.engine_state())
    wanted = written(trained)
    assert written(TorchEngine(again, device="cpu", cache_tokens=1024)) == wanted
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([tokenizer.encode("words of a vocabulary")])
    assert ids[0].tolist() == source.tokenizer.encode("words of a vocabulary")
    ours = Policy(again).lm_head.weight
    torch.testing.assert_close(model.lm_head.weight, ours)


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_a_whole_model_names_the_prompts_that_it_was_trained_on(prompts: str, tmp_path: Path) -> None:
    policy = Policy(tiny_source("llama", vocabulary=300))
    save_trained(policy, tmp_path, prompts=prompts)
    engine = TorchEngine.load(tmp_path, device="cpu", cache_tokens=1024)
    assert engine.prompt_set == prompts
    asyncio.run(engine.close())


def test_a_folder_that_is_no_whole_model_is_named(tmp_path: Path) -> None:
    save_trained(Policy(tiny_source("llama", vocabulary=300)), tmp_path)
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).unlink()
        with pytest.raises(DataError, match="holds no whole model"):
            load(tmp_path)


def test_a_trained_adapter_names_its_base_by_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    policy = Policy(tiny_source("llama", ["some words"], vocabulary=300), lora=LoraSettings(2, 4.0))
    base = tmp_path / "base.gguf"
    base.write_bytes(b"GGUF weights")
    save_trained(policy, tmp_path / "adapter", base=str(base))
    assert base_of(tmp_path / "adapter") == hashlib.sha256(b"GGUF weights").hexdigest()
    save_trained(policy, tmp_path / "tiny", base="random:llama")
    assert base_of(tmp_path / "tiny") == ""
