"""The one thread that computes: it advances all running turns together, and decides whose cache stays.

Each step is one pass of llama.cpp over the next token of every turn that is writing plus a stretch of every turn that
is still reading (continuous batching), so concurrent sessions are not served turn by turn. The cache has a fixed number
of cells. When they run out, the caches of closed and then of idle sessions are dropped, longest unused first, and as a
last resort the youngest running turn waits; what was dropped is read again when it is needed.

Sequences share cells where their contexts begin alike: forks, k rollouts of one question, executors with one system
prompt. A turn whose beginning another turn is just reading waits for it and then shares, instead of reading it twice.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import EngineError, EngineRefused, EngineUnavailable
from ..interface import FinishReason, Sampling
from .model import Model, Stretch
from .sampling import choose, log_sum

WORTH_SHARING = 16
"""Shorter common beginnings are read again rather than waited for or copied."""

KEPT = 4
"""Prompts of closed sessions that stay in the cache: about one a role, for each used cell slows every pass."""

Order = Callable[[], None]


@dataclass(eq=False, slots=True)
class Tape:
    """What the cache holds of one session. Only the worker changes it."""

    ids: list[int] = field(default_factory=list)
    """Tokens in the cache, from the first on."""
    slot: int | None = None
    """Number of the llama.cpp sequence, None while nothing is cached."""
    used: int = 0
    """Step of the last use."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished turn, or for a job with choices those and their log-probabilities."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: bytes
    """Without the end-of-turn token."""
    finish: FinishReason
    stop: str
    stop_end: int
    """Where in `text` the stop string ends."""
    cached: int
    """Tokens of the context that were in the cache when the turn began."""


@dataclass(eq=False, slots=True)
class Job:
    """A turn to be written after `ids`; `done` is called in the worker's thread, exactly once unless cancelled."""

    tape: Tape
    ids: list[int]
    sampling: Sampling
    limit: int
    """Tokens the turn may have."""
    done: Callable[[Outcome | EngineError], None]
    choices: tuple[int, ...] = ()
    """Tokens whose log-probabilities after `ids` are all that is wanted; nothing is written then."""
    sampled: int = 0
    logprobs: list[float] = field(default_factory=list)
    text: bytearray = field(default_factory=bytearray)
    cached: int | None = None
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        seed = self.sampling.seed
        self.random = np.random.default_rng(None if seed is None else seed % (1 << 128))  # numpy takes none below 0

    def unread(self) -> int:
        return len(self.ids) - len(self.tape.ids)


class Worker:
    """Runs jobs on a model in a thread of its own."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._idle: list[Tape] = []
        """Tapes with a slot and no running job, open or closed."""
        self._closed: set[Tape] = set()
        self._slots = list(range(model.sequences))
        self._crowded = False
        """A turn was sent back for want of cells: nothing new starts until one has finished."""
        self._clock = 0
        self._stopping = self._ended = False
        self._ending = threading.Lock()
        self._reason = "the embedded engine was closed while it wrote"
        self._thread = threading.Thread(target=self._run, name="subquest-embedded", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """Turns being written at the moment."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        self._orders.put(lambda: self._waiting.append(job))
        if self._ended:
            with self._ending:
                self._fail_all()

    def cancel(self, job: Job) -> None:
        """Stop a job; its `done` will not be called. A finished job is left as it is."""
        self._orders.put(lambda: self._remove(job))

    def fork(self, tape: Tape) -> Tape:
        """A second tape with the same cells."""
        child = Tape()

        def share() -> None:
            if tape.slot is not None and self._slots:
                self._take_slot(child)
                self._share(tape, child, len(tape.ids))
                self._idle.append(child)

        self._orders.put(share)
        return child

    def release(self, tape: Tape, keep: int) -> None:
        """The session is closed: of its cache the first `keep` tokens stay for others, as long as there is room."""

        def close() -> None:
            for job in (*self._running, *self._waiting):
                if job.tape is tape:
                    self._finish(job, EngineRefused("the session was closed while it wrote"))
            if tape.slot is None:
                return
            self._truncate(tape, keep)
            others = [other for other in self._idle if other is not tape]
            if len(tape.ids) < WORTH_SHARING or any(other.ids[: len(tape.ids)] == tape.ids for other in others):
                self._evict(tape)
            else:
                self._closed.add(tape)
                if len(self._closed) > KEPT:
                    self._evict(min(self._closed, key=lambda kept: kept.used))
            self._crowded = False

        self._orders.put(close)

    def stop(self) -> None:
        """End the thread and free the model; jobs that run or wait fail."""

        def end() -> None:
            self._stopping = True

        self._orders.put(end)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._obey()
                self._admit()
                if self._running:
                    self._step()
        except Exception as error:
            self._reason = f"the embedded engine has failed: {error!r}"
            raise
        finally:
            with self._ending:
                self._ended = True
                self._fail_all()
                self._model.free()

    def _fail_all(self) -> None:
        """Let no job wait for a thread that has ended."""
        while not self._orders.empty():
            self._orders.get()()
        for job in (*self._running, *self._waiting):
            job.done(EngineUnavailable(self._reason))
        self._running, self._waiting = [], []

    def _obey(self) -> None:
        """Carry out what was ordered; wait for an order when there is nothing to compute."""
        if not self._running and not self._waiting:
            self._orders.get()()
        while not self._stopping:
            try:
                self._orders.get_nowait()()
            except queue.Empty:
                return

    def _admit(self) -> None:
        while self._waiting and not (self._crowded and self._running):
            job = self._waiting[0]
            if job.tape.slot is None and not self._slots and not self._evict_idle():
                return
            self._waiting.pop(0)
            if job.tape.slot is None:
                self._take_slot(job.tape)
            else:
                self._idle.remove(job.tape)
            # The last token is always read anew: its logits are what the turn begins with.
            self._truncate(job.tape, min(self._common(job.tape.ids, job.ids), len(job.ids) - 1))
            self._running.append(job)

    def _step(self) -> None:
        self._clock += 1
        stretches: list[Stretch] = []
        moved: list[Job] = []
        room = self._model.batch
        for job in sorted(self._running, key=Job.unread):
            if job.cached is None and self._must_wait(job):
                continue
            if job.cached is None:
                job.cached = len(job.tape.ids)
            start = len(job.tape.ids)
            tokens = job.ids[start : start + room]
            if not tokens:
                break
            assert job.tape.slot is not None
            stretches.append(Stretch(job.tape.slot, start, tokens, start + len(tokens) == len(job.ids)))
            moved.append(job)
            room -= len(tokens)
        try:
            rows = self._model.step(stretches)
        except EngineError as error:
            for job in list(self._running):
                self._finish(job, error)
                self._evict(job.tape)
            return
        if rows is None:
            self._make_room()
            return
        logits = iter(rows)
        for job, stretch in zip(moved, stretches, strict=True):
            job.tape.ids += stretch.tokens
            job.tape.used = self._clock
            if stretch.wanted:
                self._write(job, next(logits))

    def _must_wait(self, job: Job) -> bool:
        """Share the longest beginning that others have read. True: another turn is about to read a longer one."""
        tape = job.tape
        own = len(tape.ids)
        best, length = None, own + WORTH_SHARING - 1
        for other in (*(j.tape for j in self._running if j is not job), *self._idle):
            common = min(self._common(other.ids, job.ids), len(job.ids) - 1)
            if common > length:
                best, length = other, common
        for ahead in self._running:
            if ahead is job:
                break
            if ahead.unread() > 1 and min(self._common(ahead.ids, job.ids), len(job.ids) - 1) > length + WORTH_SHARING:
                return True
        if best is not None:
            self._share(best, tape, length)
        return False

    def _write(self, job: Job, logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        """Sample the turn's next token and end the turn where it ends."""
        if job.choices:
            total = log_sum(logits)
            found = tuple(float(logits[token]) - total for token in job.choices)
            self._finish(job, Outcome(job.choices, found, b"", "length", "", 0, job.cached or 0))
            return
        token, logprob = choose(logits, job.sampling, job.random)
        job.ids.append(token)
        job.sampled += 1
        job.logprobs.append(logprob)
        finish: FinishReason | None = None
        stop, stop_end = "", 0
        if self._model.vocabulary.ends(token):
            finish = "end"
        else:
            before = len(job.text)
            job.text += self._model.vocabulary.piece(token)
            stop, stop_end = find_stop(job.text, before, job.sampling.stop)
            if stop:
                finish = "stop"
            elif job.sampled >= job.limit:
                finish = "length"
        if finish:
            ids = tuple(job.ids[len(job.ids) - job.sampled :])
            cached = job.cached or 0
            outcome = Outcome(ids, tuple(job.logprobs), bytes(job.text), finish, stop, stop_end, cached)
            self._finish(job, outcome)

    def _finish(self, job: Job, outcome: Outcome | EngineError) -> None:
        self._remove(job)
        job.done(outcome)

    def _remove(self, job: Job) -> None:
        if job in self._running:
            self._running.remove(job)
            self._idle.append(job.tape)
            self._crowded = False
        elif job in self._waiting:
            self._waiting.remove(job)

    def _make_room(self) -> None:
        if self._evict_idle():
            return
        job = self._running[-1]
        self._remove(job)
        self._evict(job.tape)
        if self._running:
            self._crowded = True
            job.cached = None
            self._waiting.insert(0, job)
        else:
            job.done(EngineUnavailable("the embedded engine's cache has too few cells for this context"))

    def _evict_idle(self) -> bool:
        """Drop the cache that is least likely to be needed: closed sessions first, longest unused first."""
        if not self._idle:
            return False
        self._evict(min(self._idle, key=lambda tape: (tape not in self._closed, tape.used)))
        return True

    def _evict(self, tape: Tape) -> None:
        assert tape.slot is not None
        self._model.drop(tape.slot)
        self._slots.append(tape.slot)
        tape.slot = None
        tape.ids = []
        self._idle.remove(tape)
        self._closed.discard(tape)

    def _take_slot(self, tape: Tape) -> None:
        tape.slot = self._slots.pop()
        tape.ids = []

    def _truncate(self, tape: Tape, length: int) -> None:
        if length < len(tape.ids):
            assert tape.slot is not None
            self._model.drop(tape.slot, length)
            del tape.ids[length:]

    def _share(self, source: Tape, target: Tape, length: int) -> None:
        assert source.slot is not None
        assert target.slot is not None
        self._model.drop(target.slot)
        self._model.copy(source.slot, target.slot, length)
        target.ids = source.ids[:length]
        source.used = target.used = self._clock

    @staticmethod
    def _common(a: Sequence[int], b: Sequence[int]) -> int:
        """Length of the common beginning."""
        n = min(len(a), len(b))
        if a[:n] == b[:n]:
            return n
        low, high = 0, n  # a[:low] == b[:low], a[:high] != b[:high]
        while high - low > 1:
            middle = (low + high) // 2
            if a[low:middle] == b[low:middle]:
                low = middle
            else:
                high = middle
        return low


def find_stop(text: bytes | bytearray, before: int, stops: Iterable[str]) -> tuple[str, int]:
    """The stop string that ends first in what was added to `text` after `before`, and where it ends; "" for none."""
    found: list[tuple[int, int, str]] = []
    for stop in stops:
        raw = stop.encode()
        at = text.find(raw, max(0, before - len(raw) + 1)) if raw else -1
        if at >= 0:
            found.append((at + len(raw), -len(raw), stop))
    end, _, stop = min(found, default=(0, 0, ""))
    return stop, end
