"""The scheduler with a device that is a table: no model, so ten thousand sessions take seconds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from subquest.engine.interface import Sampling
from subquest.engine.torch.block_pool import BlockPool
from subquest.engine.torch.running_batch import Rows
from subquest.engine.torch.scheduler import Context, Plan, Scheduler, Turn
from subquest.engine.torch.stop_strings import Stops
from subquest.engine.torch.vocabulary import Vocabulary

from .conftest import byte_tokenizer

END = 257


class Device:
    """Draws the token that follows from the whole context, which it reads through the block tables alone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        pool = scheduler.pool
        self.cache = np.full((pool.blocks + 1, pool.size), -1)
        self.last: dict[int, int] = {}
        self.prefilled = 0

    def run(self, plan: Plan) -> tuple[Any, ...] | None:
        rows, size = self.scheduler.rows, self.scheduler.pool.size
        for turn, start, count in plan.chunks:
            for position in range(start, start + count):
                self.cache[rows.tables[turn.slot, position // size], position % size] = turn.context.ids[position]
            self.prefilled += count
        if not plan.slots.size:
            return None
        drawn = []
        for slot in plan.slots.tolist():
            position = int(rows.position[slot])
            token = int(rows.given[slot]) if rows.given[slot] >= 0 else self.last[slot]
            self.cache[rows.tables[slot, position // size], position % size] = token
            seen = [int(self.cache[rows.tables[slot, p // size], p % size]) for p in range(position + 1)]
            self.last[slot] = follow(seen)
            drawn.append(self.last[slot])
        epochs = rows.epoch[plan.slots]
        rows.advance(plan.slots)
        return plan.slots, epochs, np.array(drawn), np.zeros(len(drawn), np.float32)


def follow(ids: list[int]) -> int:
    """A made-up model: any change anywhere in the context changes the next token."""
    mixed = 17
    for i in ids:
        mixed = (mixed * 31 + i + 1) % 65_521
    return mixed % 250 if mixed % 23 else END


def make(blocks: int, slots: int = 8, size: int = 4, prefill: int = 24) -> Scheduler:
    vocabulary = Vocabulary(byte_tokenizer(), 264)
    pool = BlockPool(blocks, size)
    return Scheduler(pool, Rows(slots, 64), Stops(vocabulary, [END]), prefill_tokens=prefill)


def expected(ids: list[int], limit: int) -> list[int]:
    ids, out = list(ids), []
    while len(out) < limit and (not out or out[-1] != END):
        out.append(follow(ids))
        ids.append(out[-1])
    return out


def drive(scheduler: Scheduler, device: Device, ahead: int) -> None:
    """Run until nothing is left to do, reading results `ahead` steps late."""
    pending: list[tuple[Any, ...]] = []
    for _ in range(100_000):
        if not scheduler.busy and not pending:
            return
        step = device.run(scheduler.plan())
        if step is not None:
            pending.append(step)
        if pending and (len(pending) > ahead or step is None):
            scheduler.commit(*pending.pop(0))
    raise AssertionError("the scheduler makes no progress")


@pytest.mark.slow
def test_thousands_of_sessions_leave_nothing_behind() -> None:
    """Turns, forks, closings and cancellations at random, under memory pressure, results one step late."""
    chance = random.Random(3)
    scheduler = make(blocks=40)
    device = Device(scheduler)
    opened = finished = cancelled = 0
    living: list[Context] = []
    pending: list[tuple[Any, ...]] = []
    running: dict[Turn, list[int]] = {}

    def done(turn: Turn) -> None:
        nonlocal finished
        finished += 1
        assert turn.drawn == expected(running.pop(turn), turn.limit)
        assert len(turn.logprobs) == len(turn.drawn)

    while opened < 4_000 or running or pending:
        if opened < 4_000 and len(running) < 24:
            shared = [chance.randrange(3)] * 9
            context = Context(shared + [chance.randrange(250) for _ in range(chance.randrange(1, 12))])
            if living and chance.random() < 0.4:
                context = living.pop(chance.randrange(len(living)))
                if chance.random() < 0.3:
                    living.append(context)
                    context = Context(list(context.ids))
                context.ids += [chance.randrange(250) for _ in range(chance.randrange(6))]
                del context.ids[60:]
                if context.cached >= len(context.ids):
                    scheduler.drop(context)
            opened += 1
            turn = Turn(context, Sampling(), 0, chance.randrange(1, 40), done)
            running[turn] = list(context.ids)
            scheduler.submit(turn)
        if running and chance.random() < 0.1:
            turn = chance.choice(list(running))
            before = running.pop(turn)
            scheduler.cancel(turn)
            cancelled += 1
            assert turn.context.ids == before
            living.append(turn.context)
        if len(living) > 6:
            scheduler.drop(living.pop(0))
        step = device.run(scheduler.plan())
        if step is not None:
            pending.append(step)
        if pending and (len(pending) > 1 or step is None):
            before_commit = set(running)
            scheduler.commit(*pending.pop(0))
            living += [turn.context for turn in before_commit - set(running) if chance.random() < 0.5]
    assert finished + cancelled == opened
    assert scheduler.preemptions > 100
    scheduler.forget()
    for context in living:
        scheduler.drop(context)
    assert scheduler.pool.in_use == 0
    assert not scheduler.idle
    assert sorted(scheduler._slots) == list(range(8))


def test_rollouts_of_one_prompt_share_it_from_the_first_step() -> None:
    scheduler = make(blocks=200)
    device = Device(scheduler)
    prompt = [n % 50 for n in range(41)]
    for _ in range(8):
        scheduler.submit(Turn(Context(list(prompt)), Sampling(), 0, 3, lambda turn: None))
    drive(scheduler, device, ahead=1)
    assert device.prefilled == 40  # forty tokens in ten full blocks once; the last token of each is fed by decoding


@pytest.mark.parametrize("ahead", [0, 1])
def test_rollouts_that_go_on_alike_share_what_they_are_shown(ahead: int) -> None:
    """Eight contexts write the same and read the same documents, one reads others: these are computed once each."""
    scheduler = make(blocks=200, prefill=1000)
    device = Device(scheduler)
    contexts = [Context([n % 50 for n in range(41)]) for _ in range(8)]
    shown = [[99] * 30] * 7 + [[88] * 30]
    found: dict[int, list[int]] = {}

    def ask(limit: int) -> None:
        for number, context in enumerate(contexts):
            scheduler.submit(
                Turn(context, Sampling(), 0, limit, lambda turn, n=number: found.update({n: list(turn.drawn)}))
            )
        drive(scheduler, device, ahead)

    ask(3)
    for context, documents in zip(contexts, shown, strict=True):
        context.ids += documents
    before, device.prefilled = [list(context.ids) for context in contexts], 0
    ask(20)
    # 73 of 74 tokens have to be cached, 43 are; six then find 18 blocks of 4, the eighth the one with the last word
    assert device.prefilled == (73 - 43) + 6 * (73 - 72) + (73 - 44)
    assert found == {n: expected(ids, 20) for n, ids in enumerate(before)}
    for context in contexts:
        scheduler.drop(context)
    assert scheduler.pool.in_use == 0


def test_turns_are_admitted_in_order_and_a_long_one_is_not_overtaken() -> None:
    scheduler = make(blocks=12)
    device = Device(scheduler)
    order: list[int] = []
    for number, length in enumerate((10, 40, 4, 4, 4)):
        prompt = [number] * length
        scheduler.submit(Turn(Context(prompt), Sampling(), 0, 5, lambda turn, n=number: order.append(n)))
    drive(scheduler, device, ahead=0)
    assert order[:2] == [0, 1]
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_a_long_episode_is_served_while_short_ones_never_stop_coming() -> None:
    """Two short turns a step, more than can be served; three turns of a context that does not fit beside four short."""
    scheduler = make(blocks=20, slots=4)
    device = Device(scheduler)
    long = Context([7] * 50)
    served: list[int] = []
    queue: list[int] = []
    pending: list[tuple[Any, ...]] = []

    def long_done(turn: Turn) -> None:
        served.append(step)
        turn.context.ids += [7] * 4
        if len(served) < 3:
            ask()

    def ask() -> None:
        scheduler.submit(Turn(long, Sampling(), 0, 6, long_done))
        queue.append(len(scheduler.waiting))

    for step in range(600):
        for number in range(2):
            short = Context([step % 250, 1, number, step // 250])
            scheduler.submit(Turn(short, Sampling(), 0, 4, lambda turn: None))
        if step == 10:
            ask()
        done = device.run(scheduler.plan())
        if done is not None:
            pending.append(done)
        if pending and (len(pending) > 1 or done is None):
            scheduler.commit(*pending.pop(0))
        if len(served) == 3:
            break
    assert len(served) == 3
    assert len(scheduler.waiting) > 50, "short turns pile up: the load is more than can be served"
    waits = np.diff([10, *served])
    late_by = [int(wait) - 2 * ahead for wait, ahead in zip(waits, queue, strict=True)]
    assert max(late_by) <= 20, "it waits only for those before it"


def test_no_more_is_running_than_the_cache_holds() -> None:
    """Admission by free blocks: thirty prompts of six blocks in a cache of twenty-one are never all there at once."""
    scheduler = make(blocks=21, slots=30, prefill=1000)
    device = Device(scheduler)
    most, finished = 0, 0

    def done(turn: Turn) -> None:
        nonlocal finished
        finished += 1

    for number in range(30):
        scheduler.submit(Turn(Context([number] * 23), Sampling(), 0, 8, done))
    while scheduler.busy:
        step = device.run(scheduler.plan())
        most = max(most, len(scheduler.decoding))
        assert scheduler.pool.in_use <= 21
        if step is not None:
            scheduler.commit(*step)
    assert finished == 30
    assert most == 3


def test_long_prompts_are_cut_into_chunks_between_decode_steps() -> None:
    scheduler = make(blocks=60, prefill=8)
    device = Device(scheduler)
    scheduler.submit(Turn(Context([1, 2, 3]), Sampling(), 0, 30, lambda turn: None))
    device.run(scheduler.plan())
    scheduler.submit(Turn(Context([9] * 30), Sampling(), 0, 1, lambda turn: None))
    plan = scheduler.plan()
    assert [chunk.tokens for chunk in plan.chunks] == [8]
    assert plan.slots.size == 1


def test_idle_contexts_give_way_before_running_ones() -> None:
    scheduler = make(blocks=12)
    device = Device(scheduler)
    first = Context([1] * 20)
    scheduler.submit(Turn(first, Sampling(), 0, 1, lambda turn: None))
    drive(scheduler, device, ahead=0)
    assert first.cached == 20
    scheduler.submit(Turn(Context([2] * 40), Sampling(), 0, 2, lambda turn: None))
    drive(scheduler, device, ahead=0)
    assert scheduler.preemptions == 0
    assert (first.cached, first.blocks) == (0, [])


def test_single_turns_wait_for_company_while_many_decode() -> None:
    scheduler = make(blocks=400, slots=32, prefill=1000)
    scheduler.patience = 3
    device = Device(scheduler)

    def ask(number: int) -> None:
        scheduler.submit(Turn(Context([number] * 9), Sampling(), 0, 40, lambda turn: None))

    def step() -> int:
        plan = scheduler.plan()
        device.run(plan)
        return len(plan.chunks)

    for number in range(17):
        ask(number)
    assert step() == 17, "nobody decodes: all at once"
    ask(50)
    assert [step(), step()] == [0, 0]
    ask(51)
    assert [step(), step()] == [0, 2], "together, after three steps"
    ask(52)
    ask(53)
    ask(54)
    assert step() == 3, "three of twenty-two need not wait"
    assert step() == 0


def test_what_waiting_for_company_does_to_no_turn() -> None:
    """The same tokens, whoever waited for whom. Turns of many lengths end one by one, so the last to ask wait alone."""

    def run(patience: int) -> tuple[dict[int, list[int]], int]:
        scheduler = make(blocks=120, slots=24)
        scheduler.patience = patience
        found: dict[int, list[int]] = {}
        for number in range(40):
            context = Context([number, 3, number % 7])
            scheduler.submit(
                Turn(context, Sampling(), 0, 12 + number, lambda turn, n=number: found.update({n: turn.drawn}))
            )
        device, waits, plan = Device(scheduler), 0, scheduler.plan

        def planned() -> Plan:
            nonlocal waits
            made = plan()
            waits += scheduler._waited > 0
            return made

        scheduler.plan = planned  # type: ignore[method-assign]
        drive(scheduler, device, ahead=1)
        return found, waits

    at_once, waits = run(0)
    assert waits == 0
    together, waits = run(5)
    assert waits > 0
    assert at_once == together == {n: expected([n, 3, n % 7], 12 + n) for n in range(40)}


@pytest.mark.parametrize(("temperature", "blocks", "least"), [(0.0, 600, 800), (0.0, 300, 800), (0.5, 600, 1000)])
def test_a_greedy_turn_that_only_repeats_itself_is_cut(
    temperature: float, blocks: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After eight times 100 characters, also where a turn was sent back and begins again. Sampled ones may leave it."""
    sentence = list(b"The board met in the old mill on Tuesday and decided nothing at all, says its clerk. ".rjust(100))
    assert len(sentence) == 100
    monkeypatch.setattr(f"{__name__}.follow", lambda ids: sentence[(len(ids) - 3) % 100])
    vocabulary = Vocabulary(byte_tokenizer(), 264)
    scheduler = Scheduler(BlockPool(blocks, 4), Rows(8, 512), Stops(vocabulary, [END]), prefill_tokens=24)
    done: list[Turn] = []
    for first in range(2):
        scheduler.submit(Turn(Context([first, 2, 3]), Sampling(temperature=temperature), 0, 1000, done.append))
    drive(scheduler, Device(scheduler), ahead=1)
    assert bool(scheduler.preemptions) == (blocks == 300)
    for turn in done:
        assert (turn.finish, least <= len(turn.drawn) < least + 16) == ("length", True)
        assert turn.drawn == (sentence * 10)[: len(turn.drawn)]
        assert len(turn.logprobs) == len(turn.drawn)
