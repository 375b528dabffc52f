from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.engine.torch.block_pool import BlockPool


def test_a_published_prefix_is_shared_and_found_again() -> None:
    pool = BlockPool(6, 4)
    ids = list(range(10))
    mine = pool.take(3)
    pool.publish(mine, 0, 2, ids)
    assert pool.match(ids, 2) == mine[:2]
    assert pool.match([*ids[:4], 99, 99, 99, 99], 2) == mine[:1]
    pool.release(mine[:2])
    pool.release(mine[:1])
    pool.release(mine)
    assert pool.in_use == 0
    assert pool.match(ids, 2) == mine[:2]
    assert pool.in_use == 2


def test_the_same_tokens_after_another_beginning_are_other_content() -> None:
    pool = BlockPool(6, 2)
    first, second = pool.take(2), pool.take(2)
    for blocks, ids in ((first, [1, 2, 7, 7]), (second, [3, 4, 7, 7])):
        pool.publish(blocks, 0, 1, ids)
        pool.publish(blocks, 1, 2, ids)
    assert pool.match([3, 4, 7, 7], 2) == second


def test_kept_blocks_are_given_out_oldest_and_deepest_first() -> None:
    pool = BlockPool(3, 2)
    old, new = pool.take(2), pool.take(1)
    for index in range(2):
        pool.publish(old, index, index + 1, [1, 2, 3, 4])
    pool.publish(new, 0, 1, [5, 6])
    pool.release(old)
    pool.release(new)
    assert pool.take(1) == [old[1]]
    assert pool.match([1, 2, 3, 4], 2) == [old[0]]
    assert pool.match([5, 6], 1) == new


def test_content_computed_twice_has_one_known_block_and_children_find_it() -> None:
    pool = BlockPool(4, 2)
    first, twin = pool.take(1), pool.take(2)
    pool.publish(first, 0, 1, [1, 2])
    pool.publish(twin, 0, 2, [1, 2, 3, 4])
    assert pool.match([1, 2, 3, 4], 2) == [first[0], twin[1]]


def test_only_what_follows_the_blocks_one_holds_is_looked_for() -> None:
    pool = BlockPool(8, 2)
    first, twin = pool.take(3), pool.take(2)
    pool.publish(first, 0, 3, [1, 2, 3, 4, 5, 6])
    pool.publish(twin, 0, 1, [1, 2])
    assert pool.match([1, 2, 3, 4, 5, 6, 7], 3, held=twin[:1]) == first[1:]
    assert pool.match([1, 2, 3, 9, 5, 6, 7], 3, held=twin[:1]) == []
    assert pool.match([1, 2, 3, 4], 2, held=twin[1:]) == [], "a block of unknown content is no beginning"


def test_new_weights_make_all_content_unknown() -> None:
    pool = BlockPool(3, 2)
    mine, other = pool.take(1), pool.take(1)
    pool.publish(mine, 0, 1, [1, 2])
    pool.publish(other, 0, 1, [3, 4])
    pool.release(mine)
    pool.forget_all()
    assert pool.match([1, 2], 1) == pool.match([3, 4], 1) == []
    pool.release(other)
    assert pool.in_use == 0
    assert sorted(pool.take(3)) == [1, 2, 3]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=9), st.booleans()), max_size=40))
def test_blocks_are_never_lost_nor_given_out_twice(steps: list[tuple[list[int], bool]]) -> None:
    """Contexts come and go; a model of the pool keeps what each block should hold."""
    pool = BlockPool(12, 2)
    living: list[tuple[list[int], list[int]]] = []
    for ids, leave in steps:
        if leave and living:
            pool.release(living.pop(0)[1])
            continue
        blocks = pool.match(ids, len(ids) // 2)
        missing = pool.count(len(ids)) - len(blocks)
        if missing > pool.available:
            pool.release(blocks)
            continue
        taken = pool.take(missing)
        assert not set(taken) & {b for _, used in living for b in used}
        blocks += taken
        for index in range(len(ids) // 2):
            pool.publish(blocks, index, index + 1, ids)
        living.append((ids, blocks))
        for context, used in living:
            for index in range(len(context) // 2):
                sharers = [c for c, u in living if len(u) > index and u[index] == used[index] and len(c) // 2 > index]
                assert all(c[: 2 * index + 2] == context[: 2 * index + 2] for c in sharers)
    for _, blocks in living:
        pool.release(blocks)
    assert pool.in_use == 0
