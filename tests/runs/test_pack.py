from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.errors import DataError
from subquest.record import Document, Hit
from subquest.runs import pack

from ..strategies import json_values


class Store:
    """Pieces in a list, each stored once unless it is unique."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def intern(self, data: bytes, *, unique: bool = False) -> int:
        if unique or data not in self.pieces:
            self.pieces.append(data)
            return len(self.pieces) - 1
        return self.pieces.index(data)

    def fetch(self, numbers: Sequence[int]) -> list[bytes]:
        return [self.pieces[n] for n in numbers]


long_values = st.one_of(
    json_values,
    st.lists(st.integers(0, 2**32), min_size=10, max_size=80),
    st.lists(st.integers(-3, 3), min_size=10, max_size=30),
    st.lists(st.floats(allow_nan=False), min_size=10, max_size=30),
    st.lists(st.floats(width=32, allow_nan=False), min_size=10, max_size=30),
    st.lists(st.booleans(), min_size=16, max_size=20),
    st.lists(st.integers() | st.floats(allow_nan=False), min_size=16, max_size=20),
    st.text(st.sampled_from("ab<>\n. \0é\ud800"), min_size=30, max_size=200),
)


@pytest.fixture(scope="module", params=["json", "orjson"], autouse=True)
def encoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test with orjson and without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "json":
            patch.setattr(pack, "_orjson", None)
        else:
            pytest.importorskip("orjson")
        yield


@given(st.lists(st.dictionaries(st.text(max_size=3) | st.sampled_from(["$", "$n", "$$n"]), long_values), max_size=3))
def test_any_value_comes_back(value: object) -> None:
    store = Store()
    again = pack.load(pack.dump(value, store.intern), store.fetch)
    assert again == value
    assert repr(again) == repr(value)  # True is not 1, and 1 is not 1.0


def test_nan_comes_back() -> None:
    store = Store()
    values = [math.nan, *[0.25] * 20]
    again = pack.load(pack.dump(values, store.intern), store.fetch)
    assert math.isnan(again[0])
    assert again[1:] == values[1:]


def test_infinities_and_nan_among_a_few_numbers_come_back() -> None:
    store = Store()
    value = {"a": math.inf, "b": [-math.inf, 1.5], "c": None}
    assert pack.load(pack.dump(value, store.intern), store.fetch) == value
    assert math.isnan(pack.load(pack.dump({"a": math.nan}, store.intern), store.fetch)["a"])


def test_what_is_not_json_is_refused() -> None:
    for odd in (object(), date(2020, 1, 1), Hit(Document("1", "t", "x"), 1.0), {1, 2}):
        with pytest.raises(TypeError):
            pack.dump({"a": odd}, Store().intern)


def test_repeated_content_is_stored_once() -> None:
    store = Store()
    document = "The harbour of Lumo was founded by Ada and is known for its lights."
    first = {"text": f"<documents>\n{document}\nDoc 2 is another, and long enough to be stored.\n</documents>"}
    pack.dump(first, store.intern)
    before = len(store.pieces)
    pack.dump({"hits": [{"text": document}], "result": f"<result>{document}</result>"}, store.intern)
    assert len(store.pieces) == before + 1  # in the documents it ended with a line break
    pack.dump({"again": first}, store.intern)
    assert len(store.pieces) == before + 1


def test_token_ids_are_cut_by_content_not_by_position() -> None:
    store = Store()
    passage = [n * 7 + 1 for n in range(300)]
    pack.dump([9, 9, 9, 64, *passage], store.intern)
    size = sum(map(len, store.pieces))
    pack.dump([5] * 21 + [32] + passage, store.intern)
    added = sum(map(len, store.pieces)) - size
    assert added < size / 3


def test_small_numbers_take_two_bytes_and_short_floats_four() -> None:
    store = Store()
    pack.dump([[1001] * 50, [100_001] * 50, [0.25] * 50, [0.1] * 50], store.intern)
    assert [len(p) for p in store.pieces] == [101, 201, 201, 401]


def test_damage_is_noticed() -> None:
    store = Store()
    body = bytearray(pack.dump({"text": "word " * 50, "n": list(range(50))}, store.intern))
    block = bytearray(pack.dump_pieces(store.pieces))
    assert pack.load_pieces(bytes(block)) == store.pieces
    for data, read in ((body, lambda d: pack.load(d, store.fetch)), (block, pack.load_pieces)):
        data[len(data) // 2] ^= 0xFF
        with pytest.raises(DataError, match="damaged"):
            read(bytes(data))
    for nonsense in (b"\0", b"\0{", b"\1abc"):
        with pytest.raises(DataError, match="damaged"):
            pack.load(nonsense, store.fetch)
        with pytest.raises(DataError, match="damaged"):
            pack.load_pieces(nonsense)
