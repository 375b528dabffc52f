"""The block pool: which cache blocks hold which tokens, and who uses them.

The cache is cut into blocks of `size` tokens. A context owns a list of blocks; a full block's content never changes, so
contexts with the same prefix share it. A full block is identified by its tokens and by the content of the block before
it (an exact key, not a hash), and stays known after its last user released it until its space is needed. So a role's
system prompt, the k rollouts of one question, forks and resumed contexts all find their prefix again.

    free      unused, content unknown
    kept      unused, content known: found again by `match`, reused oldest first
    in use    counted, once for each context that has it

Block 0 is never given out: padding rows of a batch write there.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence


class BlockPool:
    def __init__(self, blocks: int, size: int) -> None:
        self.size = size
        """Tokens a block."""
        self.blocks = blocks
        """Usable blocks."""
        self._free = list(range(blocks, 0, -1))
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._users = [0] * (blocks + 1)
        self._content = [0] * (blocks + 1)
        self._key: dict[int, tuple[int, bytes]] = {}
        self._known: dict[tuple[int, bytes], int] = {}
        self._next_content = 1

    @property
    def available(self) -> int:
        return len(self._free) + len(self._kept)

    @property
    def in_use(self) -> int:
        return self.blocks - self.available

    def count(self, tokens: int) -> int:
        """Blocks needed for a context of this length."""
        return -(-tokens // self.size)

    def take(self, number: int) -> list[int]:
        """New blocks for one user. The caller must have checked `available`."""
        taken: list[int] = []
        for _ in range(number):
            if self._free:
                block = self._free.pop()
            else:
                block, _ = self._kept.popitem(last=False)
                self._forget(block)
            self._users[block] = 1
            taken.append(block)
        return taken

    def release(self, blocks: Sequence[int]) -> None:
        """Release blocks of one user; of those kept, the later blocks of a context are reused first."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block] == 0:
                if block in self._key:
                    self._kept[block] = None
                else:
                    self._content[block] = 0
                    self._free.append(block)

    def match(self, ids: Sequence[int], limit: int, root: int = 0, held: Sequence[int] = ()) -> list[int]:
        """Known blocks that hold the prefix of `ids`, up to block `limit`; the caller becomes a user of them.

        Only contexts of the same `root` share blocks: with other weights the same tokens have other keys and values.
        `held` are the caller's own full blocks; only those behind them are looked for."""
        found: list[int] = []
        parent = self._content[held[-1]] if held else root
        if held and not parent:
            return []
        for content in self._contents(ids, len(held), limit):
            block = self._known.get((parent, content))
            if block is None:
                break
            if self._users[block] == 0:
                del self._kept[block]
            self._users[block] += 1
            found.append(block)
            parent = self._content[block]
        return found

    def publish(self, blocks: Sequence[int], first: int, last: int, ids: Sequence[int], root: int = 0) -> None:
        """Publish the full blocks of a context from `first` to before `last`, which hold their part of `ids`.

        If a block is computed twice at the same time, only the first is published.
        """
        content, known = self._content, self._known
        parent = content[blocks[first - 1]] if first else root
        for index, packed in enumerate(self._contents(ids, first, last), first):
            block = blocks[index]
            if not content[block] and (parent or not index):
                key = (parent, packed)
                twin = known.get(key)
                if twin is not None:
                    content[block] = content[twin]
                else:
                    known[key] = block
                    self._key[block] = key
                    content[block] = self._next_content
                    self._next_content += 1
            parent = content[block]

    def forget_all(self) -> None:
        """Forget all contents, because the weights changed."""
        for block in list(self._key):
            self._forget(block)
        for block in self._kept:
            self._free.append(block)
        self._kept.clear()
        self._content = [0] * (self.blocks + 1)

    def _contents(self, ids: Sequence[int], first: int, last: int) -> Iterator[bytes]:
        """The contents of a context's blocks, in order."""
        packed = array("i", ids[first * self.size : last * self.size]).tobytes()
        width = self.size * array("i").itemsize
        return (packed[at : at + width] for at in range(0, (last - first) * width, width))

    def _forget(self, block: int) -> None:
        key = self._key.pop(block)
        del self._known[key]
        self._content[block] = 0
