"""Continuous batching: one thread advances all running turns together.

Each step is one pass of llama.cpp over the next token of every turn that is generating, plus some prompt tokens of
every turn that is still reading, so concurrent sessions do not wait for each other's turns. When the cells of the
cache run out (`cell_cache`), the youngest running turn waits as a last resort.

Sequences share cells where their contexts begin alike: forks, k rollouts of one question, executors with one system
prompt. A turn whose beginning another turn is reading waits for it and then shares it, instead of reading it twice.
A role's prompt that an earlier process has read comes from the disk (`saved_prompts`). Where one or two turns are
being written and nothing is read, a pass also checks tokens that are guessed from the context (`lookup`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import EngineError, EngineRefused, EngineUnavailable
from ..interface import LOOP, LOOPS_EVERY, FinishReason, Sampling, loops
from .cell_cache import WORTH_SHARING, CacheEntry, CellCache, common_prefix
from .lookup import MOST, Guess, Lookup, look_up
from .model import Model, Stretch
from .sampling import Logits, choose, log_sum
from .saved_prompts import LEAST, SavedPrompts

Command = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished turn; for a job with choices, the choices and their log-probabilities."""

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
    """A turn to be generated after `ids`; `done` is called in the scheduler's thread, once, unless it is cancelled."""

    entry: CacheEntry
    ids: list[int]
    sampling: Sampling
    limit: int
    """Tokens the turn may have."""
    done: Callable[[Outcome | EngineError], None]
    prompt: int = 0
    """How many of the first tokens are the role's prompt, which every question shares."""
    on_text: Callable[[bytes], None] | None = None
    """Called in the scheduler's thread with the bytes of each token as it is written."""
    choices: tuple[int, ...] = ()
    """If given, only the log-probabilities of these tokens after `ids` are computed, and nothing is generated."""
    sampled: int = 0
    logprobs: list[float] = field(default_factory=list)
    text: bytearray = field(default_factory=bytearray)
    cached: int | None = None
    save: bool = False
    """The role's prompt is not on disk yet: it is read by itself and saved."""
    context: str = ""
    """`ids`, one character each, once they are looked up."""
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        seed = self.sampling.seed
        self.random = np.random.default_rng(None if seed is None else seed % (1 << 128))  # numpy refuses negative seeds

    def unread(self) -> int:
        return len(self.ids) - len(self.entry.ids)


class Scheduler:
    """Runs jobs on a model in a thread of its own."""

    def __init__(self, model: Model, saved: SavedPrompts | None = None, lookup: Lookup | None = None) -> None:
        self._model = model
        self._saved = saved
        self._lookup = lookup if model.checks_cheaply else None
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._cache = CellCache(model)
        self._crowded = False
        """A turn was sent back because there were too few cells: nothing new starts until one has finished."""
        self._stopping = self._ended = False
        self._ending = threading.Lock()
        self._reason = "the embedded engine was closed during a turn"
        self._thread = threading.Thread(target=self._run, name="subquest-embedded", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """Turns being generated now."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        self._commands.put(lambda: self._waiting.append(job))
        if self._ended:
            with self._ending:
                self._fail_all()

    def cancel(self, job: Job) -> None:
        """Stop a job; its `done` will not be called. A finished job is left as it is."""
        self._commands.put(lambda: self._remove(job))

    def fork(self, entry: CacheEntry) -> CacheEntry:
        """A second entry with the same cells."""
        child = CacheEntry()

        def share() -> None:
            if entry.slot is not None and self._cache.has_slot:
                self._cache.take_slot(child)
                self._cache.share(entry, child, len(entry.ids))
                self._cache.idle.append(child)

        self._commands.put(share)
        return child

    def release(self, entry: CacheEntry, keep: int) -> None:
        """Close a session: the first `keep` tokens of its cache stay for others, as long as there is room."""

        def close() -> None:
            for job in (*self._running, *self._waiting):
                if job.entry is entry:
                    self._finish(job, EngineRefused("the session was closed during a turn"))
            if entry.slot is not None:
                self._cache.close(entry, keep)
                self._crowded = False

        self._commands.put(close)

    def stop(self) -> None:
        """End the thread and free the model; jobs that run or wait fail."""

        def end() -> None:
            self._stopping = True

        self._commands.put(end)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._run_commands()
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
        """Fail all jobs: the thread has ended."""
        while not self._commands.empty():
            self._commands.get()()
        for job in (*self._running, *self._waiting):
            job.done(EngineUnavailable(self._reason))
        self._running, self._waiting = [], []

    def _run_commands(self) -> None:
        """Run the queued commands; wait for one when there is nothing to compute."""
        if not self._running and not self._waiting:
            self._commands.get()()
        while not self._stopping:
            try:
                self._commands.get_nowait()()
            except queue.Empty:
                return

    def _admit(self) -> None:
        while self._waiting and not (self._crowded and self._running):
            job = self._waiting[0]
            if job.entry.slot is None and not self._cache.has_slot and not self._cache.evict_idle():
                return
            self._waiting.pop(0)
            if job.entry.slot is None:
                self._cache.take_slot(job.entry)
            else:
                self._cache.idle.remove(job.entry)
            # The last token is always read again: the turn begins with its logits.
            self._cache.truncate(job.entry, min(common_prefix(job.entry.ids, job.ids), len(job.ids) - 1))
            self._running.append(job)

    def _step(self) -> None:
        self._cache.clock += 1
        stretches: list[Stretch] = []
        moved: list[Job] = []
        guesses = self._guesses()
        room = self._model.batch
        for job in sorted(self._running, key=Job.unread):
            if job.cached is None and self._must_wait(job):
                continue
            if job.cached is None:
                self._restore_prompt(job)
                job.cached = len(job.entry.ids)
            start = len(job.entry.ids)
            end = job.prompt if job.save and start < job.prompt else start + room
            tokens = job.ids[start : min(end, start + room)]
            if not tokens:
                break
            assert job.entry.slot is not None
            wanted = int(start + len(tokens) == len(job.ids))
            if self._lookup is not None and job in guesses:
                ahead = guesses[job].tokens[: self._lookup.allowed(guesses[job], len(guesses))]
                ahead = ahead[: max(0, job.limit - job.sampled - 1)]
                tokens, wanted = [*tokens, *ahead], 1 + len(ahead)
            stretches.append(Stretch(job.entry.slot, start, tokens, wanted))
            moved.append(job)
            room -= len(tokens)
        try:
            rows = self._model.step(stretches)
            if rows is None and guesses:  # a guess is not worth another session's cache
                stretches = [_without_guess(stretch) for stretch in stretches]
                rows = self._model.step(stretches)
        except EngineError as error:
            for job in list(self._running):
                self._finish(job, error)
                self._cache.evict(job.entry)
            return
        if rows is None:
            self._make_room()
            return
        logits = iter(rows)
        for job, stretch in zip(moved, stretches, strict=True):
            job.entry.ids += stretch.tokens
            job.entry.used = self._cache.clock
            if job.save and len(job.entry.ids) == job.prompt and self._saved is not None:
                job.save = False
                self._saved.save(job.entry.ids, self._model.state(stretch.sequence))
            if stretch.wanted:
                checked = stretch.tokens[len(stretch.tokens) - stretch.wanted + 1 :]
                self._write(job, [next(logits) for _ in range(stretch.wanted)], checked, guesses.get(job))

    def _guesses(self) -> dict[Job, Guess]:
        """What each turn may write next, if the pass writes few turns and reads nothing."""
        jobs = self._running
        if self._lookup is None or len(jobs) > MOST // 2 or any(job.unread() > 1 or job.choices for job in jobs):
            return {}
        for job in jobs:
            job.context += "".join(map(chr, job.ids[len(job.context) :]))
        return {job: look_up(job.context) for job in jobs}

    def _must_wait(self, job: Job) -> bool:
        """Share the longest prefix that others have read. True: another turn is about to read a longer one."""
        entry = job.entry
        own = len(entry.ids)
        best, length = None, own + WORTH_SHARING - 1
        for other in (*(j.entry for j in self._running if j is not job), *self._cache.idle):
            shared = min(common_prefix(other.ids, job.ids), len(job.ids) - 1)
            if shared > length:
                best, length = other, shared
        for ahead in self._running:
            if ahead is job:
                break
            if ahead.unread() > 1 and min(common_prefix(ahead.ids, job.ids), len(job.ids) - 1) > length + WORTH_SHARING:
                return True
        if best is not None:
            self._cache.share(best, entry, length)
        return False

    def _restore_prompt(self, job: Job) -> None:
        """Take the role's prompt from the disk unless most of it is in the cache; if it is new, have it saved."""
        entry = job.entry
        if self._saved is None or min(job.prompt, len(job.ids) - 1) - len(entry.ids) < LEAST:
            return
        prompt = job.ids[: job.prompt]
        state = self._saved.load(prompt)
        job.save = True
        if state is None:
            return
        assert entry.slot is not None
        self._cache.truncate(entry, 0)
        if self._model.restore(entry.slot, state):
            entry.ids = prompt
            job.save = False
        else:  # too few free cells, or not a state of this model
            self._model.drop(entry.slot)
            self._saved.forget(prompt)

    def _write(self, job: Job, rows: Sequence[Logits], checked: Sequence[int], guess: Guess | None) -> None:
        """Sample the next token; if it was guessed, the one after it too, and so on. Finish the turn if one ends it."""
        if job.choices:
            total = log_sum(rows[0])
            found = tuple(float(rows[0][token]) - total for token in job.choices)
            self._finish(job, Outcome(job.choices, found, b"", "length", "", 0, job.cached or 0))
            return
        before = len(job.ids)
        outcome = None
        for row, guessed in zip(rows, (*checked, None), strict=True):
            outcome = self._next_token(job, row)
            if outcome is not None or job.ids[-1] != guessed:
                break
        if self._lookup is not None and guess is not None:
            self._lookup.note(guess, job.ids[before])
        self._cache.truncate(job.entry, len(job.ids) - 1)
        if outcome is not None:
            self._finish(job, outcome)

    def _next_token(self, job: Job, logits: Logits) -> Outcome | None:
        """Sample the next token; the outcome if that ends the turn."""
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
            if job.on_text is not None:
                job.on_text(bytes(job.text[before:]))
            stop, stop_end = find_stop(job.text, before, job.sampling.stop)
            if stop:
                finish = "stop"
            elif job.sampled >= job.limit or _loops(job):
                finish = "length"
        if not finish:
            return None
        ids = tuple(job.ids[len(job.ids) - job.sampled :])
        return Outcome(ids, tuple(job.logprobs), bytes(job.text), finish, stop, stop_end, job.cached or 0)

    def _finish(self, job: Job, outcome: Outcome | EngineError) -> None:
        self._remove(job)
        job.done(outcome)

    def _remove(self, job: Job) -> None:
        if job in self._running:
            self._running.remove(job)
            self._cache.idle.append(job.entry)
            self._crowded = False
        elif job in self._waiting:
            self._waiting.remove(job)

    def _make_room(self) -> None:
        if self._cache.evict_idle():
            return
        job = self._running[-1]
        self._remove(job)
        self._cache.evict(job.entry)
        if self._running:
            self._crowded = True
            job.cached = None
            self._waiting.insert(0, job)
        else:
            job.done(EngineUnavailable("the embedded engine's cache has too few cells for this context"))


def _loops(job: Job) -> bool:
    return job.sampling.temperature <= 0 and job.sampled % LOOPS_EVERY == 0 and loops(bytes(job.text[-LOOP:]))


def _without_guess(stretch: Stretch) -> Stretch:
    more = max(0, stretch.wanted - 1)
    return stretch._replace(tokens=stretch.tokens[: len(stretch.tokens) - more], wanted=stretch.wanted - more)


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
