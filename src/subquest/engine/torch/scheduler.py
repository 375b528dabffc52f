"""Which turns run in the next step: admission, chunked prefill, growth, preemption.

    waiting ──admit──▶ filling ──prompt cached──▶ decoding ──end, stop, length──▶ done (context idle)
       ▲                  │                          │
       └──── preempted: blocks released, recomputed later ◀───────┘

A turn is admitted when a slot and the blocks for its whole context are free (on a GPU several turns together). Turns
are admitted in the order they were submitted, so long contexts do not starve. When a decoding context needs a block and
none is left, idle contexts lose theirs first (they find most of them again by content), then the turn that was admitted
last goes back to the head of the queue. The scheduler runs on one thread and does not touch the device.

A context runs with the model's adapter or without it (`Context.bare`). A step is of one kind; if there is work of both,
they alternate.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..interface import LOOP, LOOPS_EVERY, FinishReason, Sampling, loops
from .block_pool import BlockPool
from .running_batch import Array, Rows
from .stop_strings import Stops

CROWD = 8
"""Turns are admitted at once if there is at least one for this many that decode."""


@dataclass(eq=False, slots=True)
class Context:
    """A session's tokens, and which of them are in the cache."""

    ids: list[int]
    bare: bool = False
    """Computed without the adapter."""
    blocks: list[int] = field(default_factory=list)
    cached: int = 0
    """Leading tokens whose keys and values are in `blocks`."""
    published: int = 0
    """Leading blocks whose content the pool knows."""

    @property
    def root(self) -> int:
        """The root of its blocks' keys (`BlockPool.match`)."""
        return -1 if self.bare else 0


@dataclass(eq=False, slots=True)
class Turn:
    """A request to generate in a context."""

    context: Context
    sampling: Sampling
    seed: int
    limit: int
    """Tokens it may generate."""
    done: Callable[[Turn], None]
    """Called once, on the engine's thread."""
    base: int = 0
    """Length of the context when the turn began."""
    slot: int = -1
    order: int = 0
    cached: int | None = None
    """Tokens of the prompt that did not have to be computed."""
    logprobs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    stop: str = ""
    preempted: int = 0
    policy: int | None = None

    @property
    def drawn(self) -> list[int]:
        return self.context.ids[self.base :]


class Chunk(NamedTuple):
    """Tokens of one context that enter the cache in one step."""

    turn: Turn
    start: int
    tokens: int


class Plan(NamedTuple):
    chunks: list[Chunk]
    slots: Array
    """Slots that decode one token."""
    bare: bool = False
    """Whether the step goes without the adapter."""


class Scheduler:
    def __init__(
        self,
        pool: BlockPool,
        rows: Rows,
        stops: Stops,
        *,
        prefill_tokens: int,
        mixed_tokens: int = 0,
        patience: int = 0,
    ) -> None:
        self.pool = pool
        self.rows = rows
        self.stops = stops
        self.prefill_tokens = prefill_tokens
        """Prompt tokens per step at most; decoding rows wait for them."""
        self.mixed_tokens = mixed_tokens
        """Prompt tokens per step while rows decode, for a runner that computes both together; 0: it does not."""
        self.patience = patience
        """Steps that a turn waits for others while many decode; see `_is_time`."""
        self.waiting: deque[Turn] = deque()
        self.filling: list[Turn] = []
        self.decoding: dict[int, Turn] = {}
        self.idle: OrderedDict[Context, None] = OrderedDict()
        self.held = False
        """Whether admission is stopped, so that running turns end before the weights change."""
        self.preemptions = 0
        self._bare = False
        """The kind of the last step."""
        self._slots = list(range(rows.slots - 1, -1, -1))
        self._order = 0
        self._waited = 0
        """Steps since a turn could have been admitted and was not."""

    @property
    def busy(self) -> bool:
        return bool(self.filling or self.decoding or (self.waiting and not self.held))

    def submit(self, turn: Turn) -> None:
        turn.base = len(turn.context.ids)
        self.waiting.append(turn)

    def cancel(self, turn: Turn) -> None:
        """Cancel a turn at any moment, even after its end; its context is restored."""
        context = turn.context
        if turn.slot >= 0:
            self._leave(turn)
        elif turn.finish is None:
            self.waiting.remove(turn)
        del context.ids[turn.base :]
        self._trim(context, min(context.cached, turn.base))
        self._rest(context)

    def drop(self, context: Context) -> None:
        """A session was closed."""
        self.idle.pop(context, None)
        self._release(context)

    def forget(self) -> None:
        """The weights changed; nothing cached is valid. Only called when no turn runs."""
        for context in list(self.idle):
            self.drop(context)
        self.pool.forget_all()

    def plan(self) -> Plan:
        """The next step. Its chunks and then its rows count as launched."""
        self._grow()
        self._bare = self._kind()
        chunks = list(self._fill())
        slots = self.rows.ready()
        if self.rows.bare.any():
            slots = slots[self.rows.bare[slots] == self._bare]
        return Plan(chunks, slots, self._bare)

    def _kind(self) -> bool:
        """Whether the next step runs without the adapter: kinds alternate while both have work."""
        other, bare = not self._bare, int(np.count_nonzero(self.rows.bare))
        begun = bare if other else len(self.decoding) + len(self.filling) - bare
        begins = bool(self.waiting) and not self.held and not self._is_next(self.waiting[0])
        return other if begun or begins else self._bare

    def commit(self, slots: Array, epochs: Array, ids: Array, logprobs: Array) -> None:
        """Store the tokens of a decode step and finish the turns that ended."""
        alive = self.rows.epoch[slots] == epochs
        slots, ids, logprobs = slots[alive], ids[alive], logprobs[alive]
        if not slots.size:
            return
        self.rows.store(slots, ids, logprobs)
        full = self.rows.count[slots] >= self.rows.limit[slots]
        looked_at = (self.rows.temperature[slots] == 0) & (self.rows.count[slots] % LOOPS_EVERY == 0)
        for slot in slots[full | looked_at | self.stops.may_end(self.rows.stop_kind[slots], ids)].tolist():
            self._check(self.decoding[slot])

    def _check(self, turn: Turn) -> None:
        """Finish the turn if its last token ends it."""
        rows, slot = self.rows, turn.slot
        count = int(rows.count[slot])
        last = int(rows.ids[slot, count - 1])
        if self.stops.ends[last]:
            turn.finish = "end"
        elif turn.sampling.stop:
            longest = self.stops.longest(turn.sampling.stop)
            recent: list[int] = rows.ids[slot, max(0, count - longest - 1) : count].tolist()
            if count <= longest and turn.preempted:
                recent = turn.drawn[-longest:] + recent
            turn.stop = self.stops.completed(turn.sampling.stop, recent)
            if turn.stop:
                turn.finish = "stop"
        if turn.finish is None and (
            len(turn.context.ids) - turn.base + count >= turn.limit or self._loops(turn, count)
        ):
            turn.finish = "length"
        if turn.finish is not None:
            self._leave(turn)
            self._rest(turn.context)
            turn.done(turn)

    def _loops(self, turn: Turn, count: int) -> bool:
        if turn.sampling.temperature > 0 or count % LOOPS_EVERY:
            return False
        recent: list[int] = self.rows.ids[turn.slot, max(0, count - LOOP) : count].tolist()
        return loops(self.stops.text_of((turn.drawn[-LOOP:] if turn.preempted else []) + recent))

    def _fill(self) -> Iterator[Chunk]:
        budget = (self.decoding and self.mixed_tokens) or self.prefill_tokens
        for turn in list(filter(self._is_next, self.filling)):
            if budget <= 0:
                return
            chunk = self._chunk(turn, budget)
            budget -= chunk.tokens
            yield chunk
        if (self.waiting and not self._is_next(self.waiting[0])) or not self._is_time():
            return
        while budget > 0 and self.waiting and self._slots and not self.held and self._admit(self.waiting[0]):
            turn = self.waiting.popleft()
            if turn.context.cached < len(turn.context.ids) - 1:
                self.filling.append(turn)
                chunk = self._chunk(turn, budget)
                budget -= chunk.tokens
                yield chunk
            else:
                self._begin(turn)

    def _is_next(self, turn: Turn) -> bool:
        return turn.context.bare == self._bare

    def _is_time(self) -> bool:
        """Whether to admit turns now. On a GPU a prefill step takes about as long for one prompt as for ten, and all
        rows wait for it; so a single turn waits a few steps for others, unless only few rows would benefit, or prompts
        are computed beside them."""
        few = self.waiting and not self.filling and CROWD * len(self.waiting) < len(self.decoding)
        if few and not self.mixed_tokens and self._waited < self.patience:
            self._waited += 1
            return False
        self._waited = 0
        return True

    def _admit(self, turn: Turn) -> bool:
        """Give the turn a slot and blocks for its whole context, if they are free and the step is of its kind."""
        context, pool = turn.context, self.pool
        if not self._is_next(turn):
            return False
        self.idle.pop(context, None)
        self._find(context)
        missing = pool.count(len(context.ids)) - len(context.blocks)
        spare = len(self.decoding) + len(self.filling)
        if not self._make_room(missing + spare) and not (spare == 0 and self._make_room(missing)):
            self._rest(context)
            return False
        if turn.cached is None:
            turn.cached = context.cached
        self._order += 1
        turn.slot, turn.order = self._slots.pop(), self._order
        context.blocks += pool.take(missing)
        self.rows.bare[turn.slot] = context.bare
        self.rows.set_blocks(turn.slot, context.blocks)
        return True

    def _find(self, context: Context) -> None:
        """Take over what another context has computed of the tokens that this one lacks: often those of documents that
        a rollout of the same question was shown after the same words."""
        pool, full = self.pool, context.published
        found = pool.match(context.ids, (len(context.ids) - 1) // pool.size, context.root, context.blocks[:full])
        if found:
            pool.release(context.blocks[full:])  # the last one, which is not full
            context.blocks[full:] = found
            context.published = len(context.blocks)
            context.cached = context.published * pool.size

    def _chunk(self, turn: Turn, budget: int) -> Chunk:
        """The next piece of a prompt. Its full blocks are published now: readers run in later steps."""
        context = turn.context
        start = context.cached
        count = min(budget, len(context.ids) - 1 - start)
        context.cached = start + count
        self._publish(context)
        if context.cached == len(context.ids) - 1:
            self.filling.remove(turn)
            self._begin(turn)
        return Chunk(turn, start, count)

    def _begin(self, turn: Turn) -> None:
        ids = turn.context.ids
        self.decoding[turn.slot] = turn
        self.rows.begin(
            turn.slot,
            token=ids[-1],
            position=len(ids) - 1,
            left=turn.limit - (len(ids) - turn.base),
            sampling=turn.sampling,
            seed=turn.seed,
            kind=self.stops.kind(turn.sampling.stop),
        )

    def _grow(self) -> None:
        """Give every decoding context the block for its next token."""
        short = self.rows.short(self.rows.ready(), self.pool.size)
        if not short.size:
            return
        if not self._make_room(short.size):
            self._grow_one_by_one(short)
            return
        blocks = self.pool.take(short.size)
        self.rows.add_block(short, blocks)
        for slot, block in zip(short.tolist(), blocks, strict=True):
            self.decoding[slot].context.blocks.append(block)

    def _grow_one_by_one(self, short: Array) -> None:
        """Blocks are short: the turns admitted last give up theirs, possibly including those served here."""
        for slot in short.tolist():
            turn = self.decoding.get(slot)
            if turn is None:
                continue
            while turn.slot >= 0 and not self._make_room(1):
                self._preempt(max((*self.filling, *self.decoding.values()), key=lambda t: t.order))
            if turn.slot >= 0:
                block = self.pool.take(1)
                self.rows.add_block(np.array([slot], np.int32), block)
                turn.context.blocks += block

    def _make_room(self, number: int) -> bool:
        while self.pool.available < number and self.idle:
            context, _ = self.idle.popitem(last=False)
            self._release(context)
        return self.pool.available >= number

    def _preempt(self, turn: Turn) -> None:
        self._leave(turn)
        self._release(turn.context)
        turn.preempted += 1
        self.preemptions += 1
        self.waiting.appendleft(turn)

    def _leave(self, turn: Turn) -> None:
        """Remove a turn from the batch and collect its tokens."""
        context, rows, slot = turn.context, self.rows, turn.slot
        if self.decoding.pop(slot, None) is not None:
            count = int(rows.count[slot])
            if count:
                context.cached = len(context.ids) - 1 + count
                context.ids += rows.ids[slot, :count].tolist()
                turn.logprobs += rows.logprobs[slot, :count].tolist()
        else:
            self.filling.remove(turn)
        rows.end(slot)
        self._slots.append(slot)
        turn.slot = -1
        self._publish(context)

    def _publish(self, context: Context) -> None:
        full = context.cached // self.pool.size
        if full > context.published:
            self.pool.publish(context.blocks, context.published, full, context.ids, context.root)
            context.published = full

    def _rest(self, context: Context) -> None:
        """Between turns a context keeps its blocks until another needs them."""
        self._trim(context, context.cached)
        self.idle.pop(context, None)
        if context.blocks:
            self.idle[context] = None

    def _trim(self, context: Context, cached: int) -> None:
        """Drop what is cached beyond a length. A published block is never written to again."""
        if cached < context.published * self.pool.size:
            cached -= cached % self.pool.size
        keep = self.pool.count(cached)
        context.cached = cached
        context.published = min(context.published, cached // self.pool.size)
        self.pool.release(context.blocks[keep:])
        del context.blocks[keep:]

    def _release(self, context: Context) -> None:
        self.pool.release(context.blocks)
        context.blocks = []
        context.cached = context.published = 0
