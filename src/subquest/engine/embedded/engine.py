"""The embedded engine and its sessions."""

from __future__ import annotations

import asyncio
import codecs
import itertools
import os
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...errors import ContextOverflow, EngineError, EngineRefused, UsageError
from ...input_file import check_input
from ...models import default_adapter, file_digest, is_language_model, resolve
from ...record import Segment, Usage
from ..adapter import prompt_set_of
from ..adapter_base import check_base
from ..chat_format import ChatFormat, Piece, chat_format, encode_pieces, text_of
from ..interface import FinishReason, Generation, Message, Mode, OnText, Sampling, shared_prefix
from .cell_cache import CacheEntry
from .llama_cpp import Build, open_library
from .lookup import Lookup
from .model import Model
from .quantised import embedded_files, merged_files
from .saved_prompts import SavedPrompts
from .scheduler import Job, Outcome, Scheduler

SEQUENCES = 64
"""Sessions whose caches are kept at the same time; more may be open."""
BATCH = 128
"""Tokens per pass at most: longer passes are not faster on a CPU, and all turns wait for the end of a pass."""
LONG_TEXT = 20_000
"""Texts of at least this many characters are tokenised in a thread, to keep the event loop free."""


def usable_cores() -> int:
    """Cores this process may use, by its affinity and its container's quota; small models gain nothing beyond eight."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no quota
        pass
    return min(cores, 8)


def _shown(path: str | os.PathLike[str] | None, file: Path) -> str:
    if path is None:
        return "embedded"
    return path if isinstance(path, str) and is_language_model(path) else f"gguf:{file.name}"


class EmbeddedEngine:
    """A GGUF model run by llama.cpp in this process: no key, no network, no server.

    `path` is any GGUF file of a decoder model with a chat template, or the name of a known model (`qwen-1.5b`); by
    default it is SmolLM2-135M-Instruct from the user's cache, in the faster form that `quantised` writes. `adapter` is
    a LoRA in GGUF form, or "default" for the one that ships with Subquest for this model (none if none does). `context`
    is the longest context of one session; `cells` (by default twice that for the embedded model, just that for other
    files) is the size of the cache that all sessions share. `build` chooses where llama.cpp comes from. `save_prompts`
    keeps what the model has read of roles' prompts on disk for later processes. `cpu_kernel=False` computes with
    llama.cpp's own kernels only (so does SUBQUEST_CPU_KERNEL=off). `prompt_lookup=False` checks no guessed tokens
    (`lookup`), for comparisons: what is written is the same.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        adapter: str | os.PathLike[str] | Literal["default"] | None = None,
        threads: int | None = None,
        context: int = 8192,
        cells: int | None = None,
        build: Build = "auto",
        save_prompts: bool = True,
        cpu_kernel: bool = True,
        prompt_lookup: bool = True,
    ) -> None:
        if context < 64 or (cells is not None and cells < context):
            raise UsageError(f"a context of {context} tokens in {cells} cells: use at least 64, and no fewer cells")
        if threads is not None and threads < 1:
            raise UsageError(f"{threads} threads: use at least 1")
        file = resolve(path if path is not None else "smollm2")
        shipped = default_adapter(path if path is not None else "smollm2") if adapter == "default" else None
        lora = shipped if adapter is None or adapter == "default" else Path(adapter)
        if lora is not None and lora.is_dir():
            raise UsageError(
                f"{lora} is a folder; make a GGUF of it: subquest model adapter convert {lora} adapter.gguf"
            )
        if lora is not None:
            check_base(check_input(lora, "the adapter"), file)
        weights, attached = embedded_files(lora) if path is None else merged_files(file, lora)
        room = cells or (context if path is not None else 2 * context)
        library = open_library(build)
        model = Model(
            library,
            weights,
            adapter=attached,
            cells=room,
            sequences=SEQUENCES,
            batch=min(BATCH, room),
            threads=threads or usable_cores(),
            cpu_kernel=cpu_kernel,
        )
        self.path = file
        self.adapter = lora
        self._weights = weights.name
        self.prompt_set = prompt_set_of(lora) if lora is not None else "compact" if path is None else "full"
        self._window = min(context, model.trained_context)
        self._name = f"{_shown(path, file)}{'+' + lora.stem if lora else ''}"
        self.vocabulary = model.vocabulary
        bos, eos = (self.vocabulary.decode([i]) if i >= 0 else "" for i in (self.vocabulary.bos, self.vocabulary.end))
        self.format: ChatFormat = chat_format(model.template, bos=bos, eos=eos)
        self._base: EmbeddedEngine | None = None
        self._make_base: Callable[[], EmbeddedEngine] = partial(
            EmbeddedEngine,
            path,
            threads=threads,
            context=context,
            cells=cells,
            build=build,
            save_prompts=save_prompts,
            cpu_kernel=cpu_kernel,
            prompt_lookup=prompt_lookup,
        )

        def identity() -> str:
            files = [file_digest(file) for file in (weights, attached) if file is not None]
            return " ".join([library.version, model.kernel, *files])

        saved, lookup = SavedPrompts(identity) if save_prompts else None, Lookup() if prompt_lookup else None
        self._scheduler: Scheduler | None = Scheduler(model, saved, lookup)
        self._exit = weakref.finalize(self, Scheduler.stop, self._scheduler)

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        return self._window

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the model's answers besides context and sampling; for the on-disk cache."""
        files = [(f.resolve(), f.stat()) for f in (self.path, self.adapter) if f is not None]
        return {
            "engine": "gguf",
            "files": [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in files],
            "weights": self._weights,
            "window": self._window,
        }

    @property
    def has_adapter(self) -> bool:
        return self.adapter is not None

    def without_adapter(self) -> EmbeddedEngine:
        """The same model with its base weights, loaded on first use; it closes with this one."""
        if self.adapter is None:
            return self
        if self._base is None:
            self._base = self._make_base()
        return self._base

    def count_tokens(self, text: str) -> int:
        return len(self.vocabulary.encode(text))

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> EmbeddedSession:
        segments: list[Segment] = []
        for message, pieces in zip(messages, self.format.opening_by_message(messages), strict=True):
            ids = await self.encode(pieces)
            if not segments and self.vocabulary.adds_bos and ids[:1] != (self.vocabulary.bos,):
                ids = (self.vocabulary.bos, *ids)
            segments.append(Segment("prompt", text_of(pieces), ids, role=message.role))
        shared = sum(1 for _ in itertools.takewhile(lambda message: message.shared, messages)) or len(messages) - 1
        prompt = sum(len(segment.token_ids) for segment in segments[:shared])
        session = EmbeddedSession(self, mode, tuple(segments), CacheEntry(), prompt)
        session.check_room(0)
        return session

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        """For each prompt the log-probability of each word as the reply's first token (`engine.interface.Choosing`).

        All prompts are read in parallel. Only the cache of their common prefix is kept, for the next call.
        """
        choices = tuple(self.vocabulary.encode(word)[0] for word in words)
        sessions = [await self.open(prompt) for prompt in prompts]
        ids = [[i for segment in session.segments for i in segment.token_ids] for session in sessions]
        shared = shared_prefix(ids)
        scheduler, nothing = self.scheduler, Sampling(max_tokens=1)

        async def odds(prompt: list[int]) -> tuple[float, ...]:
            entry = CacheEntry()
            try:
                outcome = await perform(scheduler, lambda done: Job(entry, prompt, nothing, 1, done, choices=choices))
            finally:
                scheduler.release(entry, shared)
            return outcome.logprobs

        return list(await asyncio.gather(*map(odds, ids)))

    async def encode(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        """Token ids of control and content pieces."""
        encode = self.vocabulary.encode
        if sum(len(piece.text) for piece in pieces) < LONG_TEXT:
            return tuple(encode_pieces(pieces, encode))
        return tuple(await asyncio.to_thread(encode_pieces, pieces, encode))

    @property
    def scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise EngineRefused("the embedded engine is closed")
        return self._scheduler

    async def close(self) -> None:
        await asyncio.to_thread(self.shut)

    def shut(self) -> None:
        """`close` for callers without an event loop; returns when the current step is done."""
        self._scheduler = None
        self._exit()
        if self._base is not None:
            self._base.shut()


async def perform(scheduler: Scheduler, job_with: Callable[[Callable[[Outcome | EngineError], None]], Job]) -> Outcome:
    """Submit a job and wait for its outcome; cancelling the caller cancels the job."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()

    def deliver(outcome: Outcome | EngineError) -> None:
        if future.done():
            return
        if isinstance(outcome, EngineError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def done(outcome: Outcome | EngineError) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, outcome)

    job = job_with(done)
    scheduler.submit(job)
    try:
        return await future
    except asyncio.CancelledError:
        scheduler.cancel(job)
        raise


class EmbeddedSession:
    """One context of the embedded model. Its cache is kept between turns, so only new text is read."""

    def __init__(
        self, engine: EmbeddedEngine, mode: Mode, segments: tuple[Segment, ...], entry: CacheEntry, prompt: int = 0
    ) -> None:
        """`prompt` is the number of tokens at its beginning that other questions begin with, too."""
        self._engine = engine
        self._mode: Mode = mode
        self._segments = segments
        self._ids = [i for segment in segments for i in segment.token_ids]
        self._entry = entry
        self._prompt = prompt
        self.on_text: OnText | None = None
        """Called with what the model writes while it writes it."""
        self._closed = False
        self._busy = False
        self._ended = False
        """The model's last token was the format's end-of-turn token."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    @property
    def context_tokens(self) -> int:
        return len(self._ids)

    async def generate(self, sampling: Sampling) -> Generation:
        self._check_usable()
        if sampling.max_tokens < 1:
            raise UsageError(f"max_tokens is {sampling.max_tokens}; a turn needs at least 1")
        if self._ended and self._mode == "chat":
            raise UsageError("the model has ended its turn: append text before it writes again")
        self.check_room(0)
        started = time.perf_counter()
        limit = min(sampling.max_tokens, self._engine.context_window - len(self._ids))
        self._busy = True
        try:
            outcome = await perform(
                self._engine.scheduler,
                lambda done: Job(self._entry, list(self._ids), sampling, limit, done, self._prompt, self._streaming()),
            )
        finally:
            self._busy = False
        return self._record(outcome, sampling, time.perf_counter() - started)

    def _streaming(self) -> Callable[[bytes], None] | None:
        """A callback for the scheduler's thread that passes whole characters on in the thread of the event loop."""
        if (on_text := self.on_text) is None:
            return None
        loop, decoder = asyncio.get_running_loop(), codecs.getincrementaldecoder("utf-8")("replace")

        def written(piece: bytes) -> None:
            if (text := decoder.decode(piece)) and not loop.is_closed():
                loop.call_soon_threadsafe(on_text, text)

        return written

    def _record(self, outcome: Outcome, sampling: Sampling, seconds: float) -> Generation:
        text = outcome.text.decode("utf-8", errors="replace")
        usage = Usage(
            prompt_tokens=len(self._ids),
            cached_tokens=outcome.cached,
            completion_tokens=len(outcome.ids),
            peak_context=len(self._ids) + len(outcome.ids),
            model_calls=1,
            seconds=round(seconds, 6),
        )
        self._segments += (Segment("agent", text, outcome.ids, outcome.logprobs, role="assistant"),)
        self._ids += outcome.ids
        self._ended = self._ends_turn(outcome.finish, outcome.ids)
        if outcome.stop:
            text = outcome.text[: outcome.stop_end].decode("utf-8", errors="replace")
        shown = outcome.logprobs if sampling.logprobs else None
        return Generation(text, outcome.finish, outcome.ids, shown, outcome.stop, usage)

    def resume(self, turn: Generation, segments: Sequence[Segment]) -> None:
        """Continue as if the model had just written `turn`; `segments` is the context including it."""
        self._check_usable()
        self._segments = tuple(segments)
        self._ids = [i for segment in segments for i in segment.token_ids]
        self._ended = self._ends_turn(turn.finish, turn.token_ids)

    async def append(self, text: str) -> None:
        self._check_usable()
        pieces = self._engine.format.environment(text, self._mode, ended=self._ended)
        ids = await self._engine.encode(pieces)
        self.check_room(len(ids))
        self._segments += (Segment("env", text_of(pieces), ids, role="user" if self._mode == "chat" else "assistant"),)
        self._ids += ids
        self._ended = False

    def fork(self) -> EmbeddedSession:
        self._check_usable()
        entry = self._engine.scheduler.fork(self._entry)
        child = EmbeddedSession(self._engine, self._mode, self._segments, entry, self._prompt)
        child._ended = self._ended
        return child

    def _ends_turn(self, finish: FinishReason, ids: Sequence[int]) -> bool:
        return finish == "end" and self._engine.vocabulary.piece(ids[-1]).decode() == self._engine.format.end

    async def close(self) -> None:
        self._release()

    def check_room(self, new: int) -> None:
        """Raise ContextOverflow if `new` tokens leave no room for a token of the model; the context is unchanged."""
        window = self._engine.context_window
        if len(self._ids) + new >= window:
            raise ContextOverflow(f"{len(self._ids) + new} tokens do not fit the model's window of {window}")

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("the session is closed")
        if self._busy:
            raise UsageError("the session is already writing a turn; fork it for a second one")

    def _release(self) -> None:
        if self._closed:
            return
        self._closed = True
        opening = sum(len(s.token_ids) for s in self._segments if s.kind == "prompt")
        try:
            self._engine.scheduler.release(self._entry, opening)
        except EngineError:  # a closed engine holds nothing
            return

    def __del__(self) -> None:
        self._release()
