"""The approximate companion of large vector files: near the truth, honest about removed documents, and repairable."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index, ann
from subquest.retrieval.encoder import EncoderSpec
from subquest.retrieval.settings import Entry, Settings

np = pytest.importorskip("numpy", reason="dense search needs the extra `dense`")
pytest.importorskip("faiss", reason="the approximate index needs the extra `dense`")

from subquest.retrieval.dense import Dense, VectorPart  # noqa: E402
from subquest.retrieval.vectors import VectorFile, write_vectors  # noqa: E402

ROWS, WIDTH = 6000, 32


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(rows: int, seed: int) -> np.ndarray:
    """Unit rows around 60 centres, as passages lie around their subjects."""
    generator = np.random.default_rng(seed)
    centres = unit(np.random.default_rng(0).normal(size=(60, WIDTH)))
    return unit(centres[generator.integers(0, 60, rows)] + 0.1 * generator.normal(size=(rows, WIDTH)))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> VectorFile:
    path = tmp_path_factory.mktemp("ann") / "a.vec"
    half = clustered(ROWS, 1).astype(np.float16)
    write_vectors(path, range(1, ROWS + 1), (row.tobytes() for row in half), WIDTH)
    ann.build(VectorFile(path), path.with_suffix(".ann"))
    return VectorFile(path)


def truth(file: VectorFile, queries: np.ndarray, gone: set[int]) -> list[list[int]]:
    """The ten nearest documents by sorting all scores."""
    scores = queries.astype(np.float64) @ np.asarray(file.vectors).astype(np.float64).T
    scores[:, [number - 1 for number in sorted(gone)]] = -2
    return [(np.argsort(-row)[:10] + 1).tolist() for row in scores]


def test_nearly_all_of_the_nearest_are_found(file: VectorFile) -> None:
    assert ann.open_companion(file.path.with_suffix(".ann")) is not None
    queries = clustered(200, 2)
    found = Dense([VectorPart(file, None)]).top(queries, 10)
    true = truth(file, queries, set())
    same = sum(len({hit.number for hit in a} & set(b)) for a, b in zip(found, true, strict=True))
    assert same / 2000 >= 0.97


def test_removed_documents_are_made_up_for(file: VectorFile) -> None:
    """With half of a query's neighbourhood gone, and with all of it, there are still ten."""
    query = clustered(1, 3)
    for count in (5, 60):
        order = np.argsort(-(query[0] @ np.asarray(file.vectors).astype(np.float32).T))
        gone = {int(place) + 1 for place in order[:count]}
        (found,) = Dense([VectorPart(file, file.hide(sorted(gone)))]).top(query, 10)
        assert len(found) == 10
        assert not gone & {hit.number for hit in found}
        assert len({hit.number for hit in found} & set(truth(file, query, gone)[0])) >= 9


def test_a_damaged_companion_is_named_replaced_and_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ann, "ROWS", 1000)
    rows = clustered(1500, 4)
    spec = EncoderSpec(kind="endpoint", model="m", url="http://127.0.0.1:9")
    with Index.create(tmp_path / "i", Settings(encoder=spec, width=WIDTH)) as index:
        index.load(Entry(Document(str(i), "", f"word{i}"), row) for i, row in enumerate(rows))
        (companion,) = (tmp_path / "i").glob("*.ann")
        assert index.verify() == []
        assert index.info().bytes_dense > 2 * 2 * WIDTH * 1500
        written = companion.read_bytes()
        for damaged in (written[: len(written) // 2], written[:-100] + bytes([written[-100] ^ 1]) + written[-99:]):
            companion.write_bytes(damaged)
            assert index.verify() == [f"vectors {companion.name}: the checksum does not fit; its bytes were changed"]
        companion.write_bytes(written[:1000])
        (path,) = (tmp_path / "i").glob("*.vec")
        assert ann.open_companion(path.with_suffix(".ann")) is None
        (found,) = Dense([VectorPart(VectorFile(path), None)]).top(rows[7:8], 1)
        assert found[0].number == 8


def test_a_vector_file_of_other_documents_is_named(tmp_path: Path) -> None:
    spec = EncoderSpec(kind="endpoint", model="m", url="http://127.0.0.1:9")
    with Index.create(tmp_path / "i", Settings(encoder=spec, width=WIDTH)) as index:
        index.load(Entry(Document(str(i), "", f"word{i}"), row) for i, row in enumerate(clustered(20, 5)))
        assert index.verify() == []
        (path,) = (tmp_path / "i").glob("*.vec")
        half = clustered(19, 5).astype(np.float16)
        write_vectors(path, range(1, 20), (row.tobytes() for row in half), WIDTH)
        assert index.verify() == [f"segment {path.name}: it is another file than the one that was written"]
