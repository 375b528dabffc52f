"""vLLM's side of `subquest bench rollout --peer vllm`: the same episodes through its asynchronous engine.

A process of its own (`_peer.py`). Every turn is a request with the whole context, whose earlier tokens vLLM finds in
its prefix cache. Lengths are forced by `max_tokens`; there are no stop strings and no text: vLLM does less than ours.
It rolls the episodes out once before it is measured, and of two runs the faster one counts, as with ours.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from _peer import Work
from _rollout_workload import Corpus, Totals, overlapped, scripts, tokenizer

from subquest.engine.chat_format import CHATML, encode_pieces
from subquest.engine.interface import Message, Sampling
from subquest.engine.torch.vocabulary import Vocabulary


class Session:
    """A context that grows turn by turn."""

    def __init__(
        self, engine: Any, vocabulary: Vocabulary, ids: list[int], *, logprobs: bool, counter: list[int]
    ) -> None:
        self._engine, self._vocabulary, self._ids = engine, vocabulary, ids
        self._logprobs, self._counter = logprobs, counter

    @property
    def context_tokens(self) -> int:
        return len(self._ids)

    async def generate(self, sampling: Sampling) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._counter[0] += 1
        wanted = SamplingParams(
            max_tokens=sampling.max_tokens, ignore_eos=True, temperature=sampling.temperature,
            logprobs=0 if self._logprobs else None, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip
        drawn: list[int] = []
        async for reply in self._engine.generate({"prompt_token_ids": self._ids}, wanted, f"turn-{self._counter[0]}"):
            drawn = list(reply.outputs[0].token_ids)
        self._ids = self._ids + drawn
        return SimpleNamespace(token_ids=drawn)

    async def append(self, text: str) -> None:
        self._ids = self._ids + encode_pieces(CHATML.environment(text, "chat", ended=False), self._vocabulary.encode)

    async def close(self) -> None:
        """vLLM knows requests, not sessions."""


class Engines:
    """One engine or several, which take the contexts in turn."""

    def __init__(self, engines: Sequence[Any], vocabulary: Vocabulary) -> None:
        self._engines, self._vocabulary = engines, vocabulary
        self._opened, self._counter = 0, [0]
        self.logprobs = True

    async def open(self, messages: Sequence[Message]) -> Session:
        engine = self._engines[self._opened % len(self._engines)]
        self._opened += 1
        ids = encode_pieces(CHATML.opening(messages), self._vocabulary.encode)
        return Session(engine, self._vocabulary, list(ids), logprobs=self.logprobs, counter=self._counter)

    async def forget(self) -> None:
        """Empty the prefix caches, as after new weights."""
        for engine in self._engines:
            await engine.reset_prefix_cache()


async def main() -> None:
    work = Work()  # first: vLLM prints while it is imported
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    task = work.task
    settings = dict(task["config"])
    count = settings.pop("engines", 1)
    arguments = AsyncEngineArgs(
        model=task["model"], skip_tokenizer_init=True, dtype=task["dtype"], load_format=task["load_format"],
        max_model_len=task["window"], kv_cache_memory_bytes=task["cache_bytes"] // count, gpu_memory_utilization=0.1,
        enable_prefix_caching=True, disable_log_stats=True, **settings,
    )  # fmt: skip
    running = [AsyncLLM.from_engine_args(arguments) for _ in range(count)]
    engines = Engines(running, Vocabulary(tokenizer(), task["vocabulary"]))
    corpus = Corpus(task["passages"])
    await overlapped(engines, corpus, scripts(*task["episodes"]))  # as ours: once to warm up
    work.wait()
    for name, logprobs in (("with log-probs", True), ("without log-probs", False)):
        engines.logprobs = logprobs
        totals: list[Totals] = []
        for _ in range(task["runs"]):
            await engines.forget()
            totals.append(await overlapped(engines, corpus, scripts(*task["episodes"])))
            work.answer({name: {"seconds": statistics.median_low(t.seconds for t in totals), **totals[0].counts()}})
    work.done()
    for engine in running:
        engine.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
