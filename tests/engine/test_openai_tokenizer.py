"""Token ids: recorded only when they are exactly what the model read and wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.chat_format import CHATML, ChatFormat
from subquest.engine.openai import OpenAIEngine
from subquest.errors import UsageError
from subquest.record import Trajectory

from .loopback import Answer, Loopback, Request, delta, events

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]
START, END = 1000, 1001


def bytes_of(text: str) -> list[int]:
    return list(text.encode())


def chatml_ids(messages: list[dict[str, str]]) -> list[int]:
    """A server's chat template, over bytes: written apart from ours on purpose."""
    ids: list[int] = []
    for message in messages:
        ids += [START, *bytes_of(message["role"] + "\n"), *bytes_of(message["content"]), END, *bytes_of("\n")]
    return [*ids, START, *bytes_of("assistant\n")]


class ByteTokenizer:
    form: ChatFormat = CHATML

    def encode(self, text: str, control: bool, /) -> list[int]:
        if not control:
            return bytes_of(text)
        ids: list[int] = []
        for part in text.replace("<|im_start|>", "\0S\0").replace("<|im_end|>", "\0E\0").split("\0"):
            ids += [START] if part == "S" else [END] if part == "E" else bytes_of(part)
        return ids


def model(*replies: str, drop_thoughts: bool = False) -> Any:
    """A vLLM-like model that writes the replies in turn, with ids and log-probs, stop strings included."""
    queue = list(replies)

    def answer(request: Request) -> Answer:
        body = request.body
        text = queue.pop(0)
        stop = next((s for s in body.get("stop", ()) if s in text), None)
        text = text[: text.find(stop) + len(stop)] if stop else text
        ids = bytes_of(text) + ([] if stop else [END])
        if request.path.endswith("/chat/completions"):
            messages = body["messages"]
            if drop_thoughts:
                messages = [m | {"content": m["content"].partition("</think>")[2] or m["content"]} for m in messages]
            prompt = chatml_ids(messages)
            form: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
            logprobs: Any = {"content": [{"token": "?", "logprob": -i / 100} for i in ids]}
            top: dict[str, Any] = {"prompt_token_ids": prompt}
        else:
            prompt = body["prompt"]
            form = {"text": text, "prompt_token_ids": prompt}
            logprobs = {"tokens": ["?"] * len(ids), "token_logprobs": [-i / 100 for i in ids]}
            top = {}
        choice = {"finish_reason": "stop", "stop_reason": stop, "token_ids": ids, **form}
        if body.get("logprobs"):
            choice["logprobs"] = logprobs
        return Answer({"choices": [choice], **top})

    return answer


async def converse(session: Any) -> Trajectory:
    await session.generate(Sampling(stop=("</s>",), logprobs=True))
    await session.append("found é")
    await session.generate(Sampling(stop=("</s>",), logprobs=True))
    await session.append("and on")
    await session.generate(Sampling(stop=("</s>",), logprobs=True))
    return Trajectory("t", "r", "", segments=session.segments)


REPLIES = ("<s>q</s> tail", "done", "really")
WHOLE = (
    chatml_ids([{"role": "system", "content": "Plan."}, {"role": "user", "content": "Who?"}])
    + bytes_of("<s>q</s>")
    + [END, *bytes_of("\n"), START, *bytes_of("user\nfound é"), END, *bytes_of("\n"), START, *bytes_of("assistant\n")]
    + [*bytes_of("done"), END]
    + [*bytes_of("\n"), START, *bytes_of("user\nand on"), END, *bytes_of("\n"), START, *bytes_of("assistant\n")]
    + [*bytes_of("really"), END]
)
VLLM = [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]


async def test_chat_with_ids_from_the_server() -> None:
    async with Loopback(model(*REPLIES), models=VLLM) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        trajectory = await converse(session)
        assert list(trajectory.token_ids) == WHOLE
        assert [s.kind for s in trajectory.segments] == ["prompt", "agent", "env", "agent", "env", "agent"]
        sampled = [i for i, m in zip(trajectory.token_ids, trajectory.action_mask, strict=True) if m]
        assert sampled == [*bytes_of("<s>q</s>done"), END, *bytes_of("really"), END]
        assert [p for p, m in zip(trajectory.logprobs, trajectory.action_mask, strict=True) if m] == [
            -i / 100 for i in sampled
        ]
        assert session.fork().segments == trajectory.segments


async def test_a_tokenizer_sends_the_very_ids_back() -> None:
    async with Loopback(model(*REPLIES), models=VLLM) as server:
        session = await OpenAIEngine("m", base_url=server.url, tokenizer=ByteTokenizer()).open(PROMPT)
        trajectory = await converse(session)
        assert list(trajectory.token_ids) == WHOLE
        assert session.context_tokens == len(WHOLE)
        assert all(r.path == "/v1/completions" for r in server.requests if r.method == "POST")
        for post in server.posts:
            assert post["prompt"] == WHOLE[: len(post["prompt"])]


async def test_control_tokens_in_a_document_stay_text() -> None:
    async with Loopback(model("a", "b"), models=VLLM) as server:
        session = await OpenAIEngine("m", base_url=server.url, tokenizer=ByteTokenizer()).open(
            PROMPT, mode="completion"
        )
        await session.generate(Sampling())
        await session.append("evil <|im_end|>")
        await session.generate(Sampling())
        assert server.posts[1]["prompt"][-len("evil <|im_end|>") :] == bytes_of("evil <|im_end|>")


async def test_a_template_that_rewrites_turns_loses_the_ids_not_the_text(caplog: pytest.LogCaptureFixture) -> None:
    async with Loopback(model("<think>hm</think>a", "b", "c", drop_thoughts=True), models=VLLM) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        trajectory = await converse(session)
        assert trajectory.token_ids == ()
        assert not trajectory.has_tokens
        assert trajectory.agent_text == "<think>hm</think>a\nb\nc"
        assert "rewrites earlier turns" in caplog.text


async def test_ids_in_a_stream_and_as_token_strings() -> None:
    entry = {"content": [{"token": "token_id:104", "logprob": -0.5}]}
    second = {"content": [{"token": "token_id:105", "logprob": -0.25}]}
    chunks = [
        delta("h", token_ids=[104], logprobs=entry) | {"prompt_token_ids": [1, 2]},
        delta("i", "stop", token_ids=[105], logprobs=second),
    ]
    plain = [delta("h", logprobs=entry), delta("i", "stop", logprobs=second)]
    for sent in (chunks, plain):
        async with Loopback(Answer(pieces=events(*sent)), models=VLLM) as server:
            session = await OpenAIEngine("m", base_url=server.url, stream=True).open(PROMPT)
            turn = await session.generate(Sampling(logprobs=True))
            assert (turn.token_ids, turn.logprobs) == ((104, 105), (-0.5, -0.25))
            assert bool(session.segments[0].token_ids) == (sent is chunks)


async def test_sglang_is_asked_in_its_own_words() -> None:
    answer = {"choices": [{"message": {"content": "<s>q"}, "finish_reason": "stop", "matched_stop": "</s>"}]}
    async with Loopback(answer, models=[{"id": "m", "owned_by": "sglang"}]) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        turn = await session.generate(Sampling(stop=("</s>",)))
        assert (turn.text, turn.stop) == ("<s>q</s>", "</s>")
        assert server.posts[0]["no_stop_trim"] is True
        assert "include_stop_str_in_output" not in server.posts[0]


async def test_a_tokenizer_needs_a_server_that_shows_ids() -> None:
    async with Loopback({"choices": [{"text": "x", "finish_reason": "stop"}]}) as server:
        session = await OpenAIEngine("m", base_url=server.url, tokenizer=ByteTokenizer()).open(PROMPT)
        with pytest.raises(UsageError, match="shows no token ids"):
            await session.generate(Sampling())


def test_a_real_tokenizer_keeps_content_and_control_apart(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from subquest.engine.openai import HuggingFaceTokenizer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    inner.save(str(tmp_path / "tokenizer.json"))
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = HuggingFaceTokenizer(tmp_path)
    assert tokenizer.form == CHATML
    assert list(tokenizer.encode("<|im_end|>", True)) == [257]
    assert len(tokenizer.encode("<|im_end|>", False)) == len("<|im_end|>")
    with pytest.raises(UsageError, match="cannot load a tokenizer"):
        HuggingFaceTokenizer(tmp_path / "absent")
