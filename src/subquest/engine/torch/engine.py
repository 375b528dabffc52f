"""The torch engine: sessions on the asyncio side, one worker thread that steps the device.

    engine = TorchEngine.load("model.gguf")
    session = await engine.open([Message("user", "…")])
    turn = await session.generate(Sampling(temperature=1.0, stop=("</task>",), logprobs=True))

Sessions of any number of tasks and event loops are batched together: a turn joins the running batch as soon as there is
room and leaves it at its own end, so searches and judges of some episodes overlap with the generation of others.
`refresh` replaces the weights between turns; each segment records the version that generated it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ContextOverflow, EngineError, UsageError
from ...models import default_adapter, resolve
from ...models.memory import check_memory
from ...process import collect_rarely, switch_often
from ..adapter import prompt_set_of, trained_prompt_set
from ..chat_format import ChatFormat, chat_format_of, encode_pieces
from ..interface import Message, Mode, Sampling
from . import prefix_groups
from .bare_engine import BareEngine
from .block_pool import BlockPool
from .gpu_memory import allocate, explain_out_of_memory, out_of_memory, wanted_share
from .loader import Source, from_model, load, load_adapter, memory_needed
from .model import Cache, Model
from .runner import MIXED_TOKENS, Pending, Runner
from .running_batch import Rows
from .scheduler import Context, Scheduler, Turn
from .scoring import Call, Scorer, score_choices
from .session import TorchSession
from .stop_strings import Stops
from .vocabulary import Vocabulary
from .waiters import Waiter, wake
from .weights import Adapter, Weights

EMBEDDED = "smollm2"
"""The name of the embedded model."""
BLOCK = 16
"""Tokens of a cache block."""
MOST = 1 << 30
"""Sampling settings must be below this: they are stored in 32 bits."""
SURROGATES = re.compile("[\ud800-\udfff]")
PATIENCE = 4
"""Steps that a single turn waits on a GPU for others: saves a prefill step at the price of two decode steps' delay."""


class TorchEngine:
    """A Llama, Qwen2 or Qwen3 model in this process."""

    @explain_out_of_memory()
    def __init__(
        self,
        source: Source,
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        cache_tokens: int | None = None,
        memory_share: float | None = None,
        max_batch: int | None = None,
        prefill_tokens: int | None = None,
        window: int | None = None,
        seed: int | None = None,
        graphs: bool = True,
        shared_prefixes: bool | None = None,
    ) -> None:
        """`cache_tokens` limits the cache; on a GPU it is cut to the free memory, of which the default is
        `memory_share` (`SUBQUEST_GPU_SHARE`, else 0.4); on a CPU the default is 32k tokens. `max_batch` limits the
        contexts that decode at once, `prefill_tokens` the prompt tokens per step, `window` the length of a context.
        Turns without a seed get one from `seed`. With `shared_prefixes` (`SUBQUEST_SHARED_PREFIXES`, else off) decode
        steps on a GPU read a prefix that many contexts share once for all of them."""
        self.device, dtype = _chosen(device, dtype)
        on_gpu = self.device.type == "cuda"
        self.architecture = a = source.architecture
        self.context_window = min(window or a.window, a.window)
        self.name = source.name
        self.policy: int | None = None
        self.prompt_set = "full"
        """The set of prompts that its weights were trained on."""
        self.weights = Weights(a, dtype=dtype, device=self.device)
        self.weights.load(source.state)
        self.vocabulary = Vocabulary(source.tokenizer, a.vocabulary)
        self.chat: ChatFormat = chat_format_of(source.tokenizer)
        ends = (*source.end_ids, *self.vocabulary.encode(self.chat.end, True)[:1])
        max_batch = max_batch or (1024 if on_gpu else 64)
        prefill_tokens = prefill_tokens or (8192 if on_gpu else 1024)
        if memory_share is not None and not 0 < memory_share <= 1:
            raise UsageError(f"memory_share={memory_share}: use a number above 0 and up to 1")
        cache, blocks = self._make_cache(cache_tokens, memory_share)
        pool = BlockPool(blocks, BLOCK)
        rows = Rows(max_batch, -(-self.context_window // BLOCK))
        self.scheduler = Scheduler(
            pool,
            rows,
            Stops(self.vocabulary, ends),
            prefill_tokens=prefill_tokens,
            patience=PATIENCE if on_gpu else 0,
        )
        self._model = Model(self.weights, cache)
        self._scorer = Scorer(self._model)
        self.runner = Runner(
            self._model,
            rows,
            prefill_tokens=prefill_tokens,
            graphs=graphs,
            shared_prefixes=prefix_groups.wanted() if shared_prefixes is None else shared_prefixes,
        )
        if self.runner.mixes:
            self.scheduler.mixed_tokens = min(MIXED_TOKENS, prefill_tokens)
        self._seeds = random.Random(seed)
        self._changes: list[Callable[[], None]] = []
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._turns: dict[Turn, Waiter] = {}
        self._woken: list[tuple[Waiter, BaseException | None]] = []
        self._failure: EngineError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="subquest-torch-engine", daemon=True)
        self._thread.start()

    @classmethod
    @explain_out_of_memory()
    def load(cls, name: str | Path, *, adapter: str | Path | None = None, **settings: Any) -> TorchEngine:
        """From a folder with safetensors, a GGUF file, or the name of a known model (`smollm2`, `qwen-1.5b`).

        `adapter` is a LoRA as PEFT's folder or as a GGUF file; `default` is the one that ships for a known model,
        where one does. `settings` are the constructor's.
        """
        path = resolve(name)
        device, dtype = _chosen(settings.get("device"), settings.get("dtype"))
        if device.type == "cpu" and path.exists():
            check_memory(path.name, memory_needed(path, dtype))
        source = load(path, device=device, dtype=dtype)
        file = default_adapter(name) if adapter == "default" else adapter and Path(adapter).expanduser()
        lora = load_adapter(file, path) if file else None
        engine = cls(source, **settings)
        engine.prompt_set = trained_prompt_set(path) or ("compact" if name == EMBEDDED else "full")
        if file and lora:
            engine.refresh(adapter=lora)
            engine.prompt_set = prompt_set_of(file)
        return engine

    @classmethod
    def from_model(cls, model: nn.Module, tokenizer: Any, *, share: bool = False, **settings: Any) -> TorchEngine:
        """From a transformers model in memory. `share` moves the model's parameters into the engine's storage (same
        dtype and device needed), so that an optimiser step needs no copy, only `refresh`."""
        parameter = next(model.parameters())
        settings.setdefault("device", parameter.device)
        settings.setdefault("dtype", parameter.dtype)
        engine = cls(from_model(model, tokenizer), **settings)
        if share:
            engine.weights.share(model)
        return engine

    def _make_cache(self, tokens: int | None, share: float | None) -> tuple[Cache, int]:
        """The cache and the number of its usable blocks; one more is for padding."""

        def make(tokens: int) -> Cache:
            return Cache(self.weights, max(1, tokens // BLOCK) + 1, BLOCK)

        if self.device.type != "cuda":
            tokens = tokens or 32_768
            cache = make(tokens)
        else:
            token = self.architecture.cache_values() * self.weights.dtype.itemsize
            cache, tokens = allocate(self.device, token, make, share=share or wanted_share(), wanted=tokens or None)
        return cache, max(1, tokens // BLOCK)

    @property
    def failure(self) -> EngineError | None:
        """The error that ended the engine; None while it works."""
        return self._failure

    def count_tokens(self, text: str) -> int:
        return len(self.vocabulary.encode(text, False))

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> TorchSession:
        return TorchSession(self, self.vocabulary.prompt_segments(self.chat, messages), mode)

    @property
    def has_adapter(self) -> bool:
        return self.weights.adapted

    def without_adapter(self) -> TorchEngine | BareEngine:
        """The same model with its base weights, in the same batches and cache; it closes with this one."""
        return BareEngine(self) if self.weights.adapted else self

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._inbox.put(lambda: None)
            await asyncio.to_thread(self._thread.join)

    def refresh(
        self,
        state: Mapping[str, Tensor] | None = None,
        *,
        adapter: Adapter | None = None,
        merged: bool = True,
        policy: int | None = None,
    ) -> None:
        """Replace the weights, the adapter, or both, and name the version.

        Waits for running turns to end, so that every turn has one version; waiting turns run with the new one. With
        neither `state` nor `adapter`, the weights changed in place (`share`) and only the cache is invalidated.
        """
        ready = torch.cuda.current_stream(self.device).record_event() if self.device.type == "cuda" else None
        over = threading.Event()
        errors: list[BaseException] = []

        def change() -> None:
            try:
                if ready is not None:
                    torch.cuda.current_stream(self.device).wait_event(ready)
                if state is not None:
                    self.weights.load(state)
                if (adapter is not None or state is not None) and self.weights.adapt(adapter, merged=merged):
                    self.runner.forget_graphs()
                if ready is not None:
                    torch.cuda.current_stream(self.device).synchronize()
                self.scheduler.forget()
                self.policy = policy
            except BaseException as error:
                errors.append(error)
            over.set()

        self._send(lambda: self._changes.append(change))
        while not over.wait(0.2):
            self._must_run()
        if errors:
            raise errors[0]

    async def run(self, context: Context, sampling: Sampling) -> Turn:
        """Generate one turn in a context. Cancelling the caller cancels the turn."""
        self._check(context, sampling)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        seed = sampling.seed if sampling.seed is not None else self._seeds.getrandbits(32)
        room = self.context_window - len(context.ids)
        turn = Turn(context, sampling, seed, min(sampling.max_tokens, room), self._done)

        def submit() -> None:
            self._turns[turn] = Waiter(loop, future)
            self.scheduler.submit(turn)

        self._send(submit)
        try:
            await future
        except asyncio.CancelledError:
            back: asyncio.Future[None] = loop.create_future()
            with contextlib.suppress(EngineError, UsageError):  # an engine that has ended holds nothing
                self._send(lambda: self._cancel(turn, Waiter(loop, back)))
                await back
            raise
        return turn

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        """For each prompt the log-probability of each word as the reply's first token (`engine.interface.Choosing`)."""

        def submit(call: Call) -> None:
            self._send(lambda: self._scorer.submit(call))

        encode = self.vocabulary.encode
        ids = [encode_pieces(self.chat.opening(prompt), encode) for prompt in prompts]
        longest = max(map(len, ids), default=0)
        if longest >= self.context_window:
            raise ContextOverflow(f"a prompt of {longest} tokens does not fit a window of {self.context_window}")
        return await score_choices(submit, ids, [encode(word, False)[0] for word in words]) if ids else []

    def drop(self, context: Context) -> None:
        """Free what a closed session holds."""
        if not self._closed:
            self._inbox.put(lambda: self.scheduler.drop(context))

    def _check(self, context: Context, sampling: Sampling) -> None:
        length, pool = len(context.ids), self.scheduler.pool
        if sampling.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {sampling.max_tokens}")
        for name in ("temperature", "top_p", "min_p", "top_k"):
            value = getattr(sampling, name)
            if not -MOST < value < MOST:
                raise UsageError(f"{name} must be a number of ordinary size, not {value}")
        if any(SURROGATES.search(stop) for stop in sampling.stop):
            raise UsageError("a stop string is not valid UTF-8 text")
        if length >= self.context_window:
            raise ContextOverflow(f"a context of {length} tokens leaves no room in a window of {self.context_window}")
        longest = min(length + sampling.max_tokens, self.context_window)
        if pool.count(longest) > pool.blocks:
            raise ContextOverflow(
                f"a turn of up to {longest} tokens does not fit a cache of {pool.blocks * pool.size} tokens:"
                " raise cache_tokens or lower max_tokens"
            )

    def _send(self, command: Callable[[], None]) -> None:
        self._must_run()
        self._inbox.put(command)
        self._must_run()  # if it ended in between, nobody reads the command

    def _must_run(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise UsageError("the engine is closed")

    def _done(self, turn: Turn) -> None:
        turn.policy = None if turn.context.bare else self.policy
        self._woken.append((self._turns.pop(turn), None))

    def _cancel(self, turn: Turn, waiter: Waiter) -> None:
        self._turns.pop(turn, None)
        self._woken.append((waiter, None))
        self.scheduler.cancel(turn)

    def _wake(self) -> None:
        """Wake the tasks whose turns are over."""
        woken, self._woken = self._woken, []
        wake(woken)

    def _work(self) -> None:
        """The worker thread. It releases the interpreter several times per step, to wait for the device or to launch
        kernels, and must get it back quickly although systems keep the other threads busy."""
        with switch_often(), collect_rarely():
            self._serve()

    def _serve(self) -> None:
        try:
            with torch.inference_mode():
                if self.device.type == "cuda":
                    torch.cuda.set_device(self.device)
                    stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
                    with torch.cuda.stream(stream):
                        self._loop()
                else:
                    self._loop()
        except Exception as error:
            self._failure = out_of_memory(error) or EngineError(f"the torch engine failed: {error!r}")
            self._failure.__cause__ = error
        failure = self._failure or EngineError("the engine was closed")
        while not self._inbox.empty():  # turns that were submitted meanwhile must fail too
            with contextlib.suppress(Exception):  # the failure may have left things inconsistent
                self._inbox.get()()
        self._woken += [(waiter, failure) for waiter in self._turns.values()]
        self._turns.clear()
        self._wake()
        self._scorer.fail(failure)

    def _loop(self) -> None:
        pending: list[Pending] = []
        ahead = 1 if self.device.type == "cuda" else 0
        while True:
            scheduler, scorer = self.scheduler, self._scorer
            self._receive(wait=not (scheduler.busy or pending or self._changes or scorer.busy))
            if self._closed:
                return
            scheduler.held = bool(self._changes)
            plan = scheduler.plan()
            if plan.slots.size:
                pending.append(self.runner.decode(plan.slots, chunks=plan.chunks, bare=plan.bare))
            else:
                self.runner.prefill(plan.chunks, bare=plan.bare)
            if pending and (len(pending) > ahead or not plan.slots.size):
                step = pending.pop(0)
                scheduler.commit(step.slots, step.epochs, *step.read())
            if self._woken:
                self._wake()
            if scorer.busy:
                scorer.step(begun_only=bool(self._changes))
            if self._changes and not (pending or scheduler.filling or scheduler.decoding or scorer.begun):
                for change in self._changes:
                    change()
                self._changes.clear()

    def _receive(self, *, wait: bool) -> None:
        if wait:
            self._inbox.get()()
        while not self._inbox.empty():
            self._inbox.get()()


def _chosen(device: str | torch.device | None, dtype: torch.dtype | None) -> tuple[torch.device, torch.dtype]:
    """The device, with its number, and the precision: a GPU and bf16 where there is one and nothing else was said."""
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    on_gpu = chosen.type == "cuda"
    if on_gpu:
        chosen = torch.empty(0, device=chosen).device
    return chosen, dtype or (torch.bfloat16 if on_gpu else torch.float32)
