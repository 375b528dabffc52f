"""Vectors: exact nearest neighbours, encoders, hybrid search, updates, filters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.errors import DataError, SearchError, UsageError
from subquest.record import Document
from subquest.retrieval import Fusion, Index, kernel
from subquest.retrieval.bm25 import Scored
from subquest.retrieval.encoder import EncoderSpec, open_encoder, parse
from subquest.retrieval.ingest import ingest
from subquest.retrieval.writer import Writer

from .embeddings import embeddings_server

np = pytest.importorskip("numpy", reason="dense search needs the extra `dense`")

from subquest.retrieval.dense import Dense, VectorPart  # noqa: E402
from subquest.retrieval.vectors import VECTOR_HEADER, VectorFile, write_vectors  # noqa: E402


def unit(rows: int, width: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("width", [384, 70, 3])
@pytest.mark.parametrize("way", ["kernel", "numpy", "batch"])
def test_nearest_is_exact(tmp_path: Path, width: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "numpy":
        monkeypatch.setenv("SUBQUEST_KERNEL", "off")
    rows = unit(20_000, width, 1).astype(np.float16)
    for i, part in enumerate((rows[:15_000], rows[15_000:])):
        numbers = range(1 + 15_000 * i, 1 + 15_000 * i + len(part))
        write_vectors(tmp_path / f"{i}.vec", list(numbers), (row.tobytes() for row in part), width)
    files = [VectorFile(tmp_path / f"{i}.vec") for i in range(2)]
    removed = [3, 17, 16_000]
    dense = Dense([VectorPart(file, file.hide(removed)) for file in files])
    queries = unit(8 if way == "batch" else 2, width, 2)
    exact = queries.astype(np.float64) @ rows.astype(np.float64).T
    exact[:, [number - 1 for number in removed]] = -2
    for found, scores in zip(dense.top(queries, 12), exact, strict=True):
        assert [hit.score for hit in found] == pytest.approx(np.sort(scores)[::-1][:12].tolist(), abs=1e-5)
        assert [scores[hit.number - 1] for hit in found] == pytest.approx([hit.score for hit in found], abs=1e-5)


@pytest.mark.parametrize("plain", [False, True])
def test_many_queries_at_once_find_what_each_finds_alone(
    tmp_path: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, and equal vectors in the order they were added, also where the best k end among them."""
    if plain:
        monkeypatch.setenv("SUBQUEST_KERNEL", "off")
    rows = np.tile(unit(300, 70, 3), (8, 1)).astype(np.float16)
    write_vectors(tmp_path / "a.vec", list(range(len(rows))), (row.tobytes() for row in rows), 70)
    dense = Dense([VectorPart(VectorFile(tmp_path / "a.vec"), None)])
    queries = unit(9, 70, 4)
    for k in (1, 5, 20):
        together = dense.top(queries, k)
        assert together == [dense.top(query[None], k)[0] for query in queries]
        for found in together:
            assert found == sorted(found, key=lambda hit: (-hit.score, hit.number))
            first = [hit.number for hit in found[:8]]
            assert first == [first[0] % 300 + 300 * n for n in range(len(first))]


@pytest.mark.skipif(kernel.library() is None, reason="no compiler here")
def test_kernel_takes_odd_numbers(tmp_path: Path) -> None:
    """Zeros, the smallest and largest half-precision numbers, and negative scores keep their order."""
    values = np.array([0.0, -0.0, 6e-8, -6e-8, 65504.0, -65504.0, 1.0, -1.0], np.float16).reshape(-1, 1)
    write_vectors(tmp_path / "a.vec", list(range(8)), (row.tobytes() for row in values), 1)
    (found,) = Dense([VectorPart(VectorFile(tmp_path / "a.vec"), None)]).top(np.ones((1, 1), np.float32), 8)
    assert [hit.number for hit in found] == [4, 6, 2, 0, 1, 3, 7, 5]


def test_fusion_by_hand() -> None:
    lexical, dense = [Scored(1, 10.0), Scored(2, 6.0), Scored(3, 2.0)], [Scored(3, 0.9), Scored(1, 0.5)]
    assert Fusion("weighted", 0.25).fuse(lexical, dense, 3) == [Scored(1, 0.75), Scored(2, 0.375), Scored(3, 0.25)]
    rrf = Fusion("rrf", 0.5).fuse(lexical, dense, 2)
    assert [hit.number for hit in rrf] == [1, 3]
    assert rrf[0].score == pytest.approx(0.5 / 61 + 0.5 / 62)
    assert Fusion().fuse([], [], 5) == []
    assert Fusion("weighted", 0.0).fuse([Scored(7, 3.0)], [], 5) == [Scored(7, 1.0)]
    with pytest.raises(UsageError, match="fusion"):
        Fusion("weighted", 1.5)


TEXTS = ["red apple pie", "green apple tart", "blue whale song", "grey whale calf", "fast car"]


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[dict[str, object]]]]:
    with embeddings_server() as found:
        yield found


def test_of_a_huge_text_only_the_beginning_is_encoded(endpoint: tuple[str, list[dict[str, object]]]) -> None:
    url, seen = endpoint
    words = " ".join(f"word{n}" for n in range(200_000))
    open_encoder(parse(f"test-e5-small@{url}")).encode([words], query=False)
    (sent,) = seen[-1]["input"]  # type: ignore[misc]
    assert words.startswith(sent.removeprefix("passage: "))
    assert 512 * 10 < len(sent) < 512 * 101
    spec = EncoderSpec()
    (short, long) = spec.prepare(["short", words], query=False)
    assert short == "short"
    assert len(long.split()) > 4 * spec.max_tokens  # far more words than it reads tokens


def test_what_is_no_vector_is_told(
    endpoint: tuple[str, list[dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_encoder(parse(f"test@{endpoint[0]}"))
    for rows in ([[1.0, 2.0], [1.0]], [["a", "b"], ["c", "d"]]):
        monkeypatch.setattr(type(encoder), "_ask", lambda self, texts, rows=rows: rows)
        with pytest.raises(SearchError, match="something else than vectors"):
            encoder.encode(["one", "two"], query=False)


def test_an_index_with_vectors(tmp_path: Path, endpoint: tuple[str, list[dict[str, object]]]) -> None:
    url, seen = endpoint
    documents = [Document(str(i), "", text, {"n": i % 2}) for i, text in enumerate(TEXTS)]
    with Index.build(tmp_path / "i", documents, encoder=f"test-e5-small@{url}") as index:
        assert seen[0]["input"][0].startswith("passage: ")  # type: ignore[index]
        assert [hit.document.id for hit in index.search("whale calf", 2, mode="dense")] == ["3", "2"]
        assert seen[-1]["input"] == ["query: whale calf"]
        assert index.search("whale calf", 2)[0].document.id == "3"
        index.add([Document("5", "", "whale calf whale calf"), Document("3", "", "grey squirrel")])
        index.remove(["2"])
        assert [hit.document.id for hit in index.search("whale calf", 1, mode="dense")] == ["5"]
        for _ in range(2):
            found = {hit.document.id for hit in index.search("grey whale", 10, mode="dense")}
            assert found == {"0", "1", "3", "4", "5"}
            assert index.info().vectors == 5
            assert index.verify() == []
            index.compact()
        asked = len(seen)
        with Index.open(tmp_path / "i") as again:
            assert again.search("whale calf", 1, mode="hybrid")[0].document.id == "5"
            assert again.embed(f"test-e5-small@{url}") == 0
            with pytest.raises(UsageError, match="cannot be mixed"):
                again.embed(f"other@{url}")
        assert len(seen) == asked + 1
        found = [hit.document.id for hit in index.search("apple", mode="hybrid", where={"n": 1})]
        assert set(found) == {"1"}
        assert {hit.document.id for hit in index.search("apple whale", where={"n": [0, 1]}, mode="bm25")} == {"0", "1"}
        with pytest.raises(UsageError, match="filter"):
            index.search("apple", where={})


def test_many_small_adds_merge_their_vectors(tmp_path: Path, endpoint: tuple[str, list[dict[str, object]]]) -> None:
    with Index.build(tmp_path / "i", [], encoder=f"m@{endpoint[0]}") as index:
        for i in range(12):
            index.add([Document(str(i), "", f"word{i} thing")])
        assert len(list((tmp_path / "i").glob("*.vec"))) < 12
        assert len(index.search("thing", 20, mode="dense")) == 12
        assert index.verify() == []


def test_the_key_of_the_language_model_goes_to_its_own_address_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index says itself where its encoder is: one from a stranger must not be told the key by being searched."""
    keys: list[str] = []
    monkeypatch.delenv("SUBQUEST_EMBEDDINGS_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with embeddings_server(keys=keys) as (url, _):
        with Index.build(tmp_path / "i", [Document("a", "", "fine")], encoder=f"m@{url}") as index:
            index.search("fine", mode="dense")
            with pytest.raises(SearchError, match="SUBQUEST_EMBEDDINGS_KEY"):
                index.add([Document("b", "", "locked")])
        assert set(keys) == {""}
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        with Index.open(tmp_path / "i") as index:
            index.search("fine", mode="dense")
        monkeypatch.setenv("SUBQUEST_EMBEDDINGS_KEY", "other")
        with Index.open(tmp_path / "i") as index:
            index.search("fine", mode="dense")
        assert keys[-2:] == ["Bearer secret", "Bearer other"]


def test_a_failing_encoder_loses_no_document(tmp_path: Path, endpoint: tuple[str, list[dict[str, object]]]) -> None:
    with Index.build(tmp_path / "i", [Document("a", "", "fine")], encoder=f"m@{endpoint[0]}") as index:
        with pytest.raises(SearchError, match="embeddings was refused"):
            index.add([Document("b", "", "fail here")])
        assert index.search("fail", mode="bm25")[0].document.id == "b"
        assert index.verify() == []


def test_what_a_killed_add_left_without_vectors_gets_them_with_the_next(
    tmp_path: Path, endpoint: tuple[str, list[dict[str, object]]]
) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "c", "text": "whale calf"}')
    with Index.build(tmp_path / "i", [Document("a", "", "grey squirrel")], encoder=f"m@{endpoint[0]}") as index:
        with Writer.open(tmp_path / "i") as writer:  # the documents are stored; the kill comes before their vectors
            writer.add([Document("b", "", "blue whale")])
        assert index.add([Document("b", "", "blue whale")]).unchanged == 1
        assert {hit.document.id for hit in index.search("whale", mode="dense")} == {"a", "b"}
        ingest(index, [tmp_path / "c.jsonl"])
        with Writer.open(tmp_path / "i") as writer:
            writer.add([Document("d", "", "red whale")])
        assert ingest(index, [tmp_path / "c.jsonl"]).files_unchanged == 1
        assert {hit.document.id for hit in index.search("whale", mode="dense")} == {"a", "b", "c", "d"}
        assert index.verify() == []


def test_no_vectors_no_dense_search(tmp_path: Path) -> None:
    with Index.build(tmp_path / "i", [Document("a", "", "x")]) as index, pytest.raises(UsageError, match="index embed"):
        index.search("x", mode="dense")


def test_encoder_names() -> None:
    assert parse("minilm") == EncoderSpec()
    assert parse("st:intfloat/e5-base-v2").query_prefix == "query: "
    assert parse("BAAI/bge-small-en@http://h/v1/").url == "http://h/v1"
    for wrong in ("word2vec", "st:", "m@host"):
        with pytest.raises(UsageError):
            parse(wrong)


def test_minilm_knows_what_is_alike() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `dense`")
    encoder = open_encoder(EncoderSpec())
    texts = ["A man is eating food.", "Someone is having a meal.", "The rocket was launched into orbit. " * 40, ""]
    vectors = encoder.encode(texts, query=False)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1, 1], abs=1e-4)
    assert vectors[0] @ vectors[1] > 0.6 > 0.3 > vectors[0] @ vectors[2]
    alone = np.concatenate([encoder.encode([text], query=False) for text in texts])
    assert (alone * vectors).sum(1) == pytest.approx([1, 1, 1, 1], abs=1e-5)


@pytest.mark.slow
def test_minilm_in_8_bits_stays_near_the_original() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `dense`")
    pytest.importorskip("transformers", reason="needs the extra `train`")
    from subquest.metrics.embeddings import MiniLM

    texts = [
        "Mira Tolland was an engineer from Kelso who designed the Orvane Bridge in 1904.",
        "Which river flows past the abbey of the town where the designer of the bridge was born?",
        "The album sold 300,000 copies, reached number 12 and was followed by a tour of three continents.",
        "def area(width, height): return width * height",
        "kelso",
    ]
    ours, theirs = open_encoder(EncoderSpec()).encode(texts, query=False), MiniLM()(texts)
    assert (ours * theirs).sum(1).min() > 0.99


def test_a_busy_endpoint_is_asked_again(
    endpoint: tuple[str, list[dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subquest.retrieval.json_server.FIRST_WAIT", 0.0)
    url, seen = endpoint
    before = len(seen)
    assert open_encoder(parse(f"m@{url}")).encode(["a busy server"], query=True).shape[0] == 1
    assert len(seen) == before + 2


@pytest.mark.parametrize(("field", "value"), [(1, 1 << 30), (2, 1 << 20), (3, 8), (3, 1 << 40)])
def test_a_vector_file_with_a_damaged_head_is_told(tmp_path: Path, field: int, value: int) -> None:
    path = tmp_path / "a.vec"
    write_vectors(path, [1, 2], [row.astype(np.float16).tobytes() for row in unit(2, 8, 1)], 8)
    content = path.read_bytes()
    head = list(VECTOR_HEADER.unpack_from(content))
    head[field] = value
    path.write_bytes(VECTOR_HEADER.pack(*head) + content[VECTOR_HEADER.size :])
    with pytest.raises(DataError, match="not a vector file"):
        VectorFile(path)


@pytest.mark.parametrize("wrong", [[None] * 64, [float("nan")] * 64, [1e300] * 64, 1.0, []], ids=range(5))
def test_vectors_that_are_none_are_refused(tmp_path: Path, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.retrieval.embeddings.vector", lambda text, width: wrong)
    with embeddings_server() as (url, _), pytest.raises(SearchError, match="something else than vectors"):
        Index.build(tmp_path / "i", [Document("d", "t", "text")], encoder=f"m@{url}")


def test_vectors_of_another_width_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads as many numbers as the index has; the model behind an address may be changed at any time."""
    widths = [8]
    monkeypatch.setattr("tests.retrieval.embeddings.vector", lambda text, width: [1.0] * widths[-1])
    with (
        embeddings_server() as (url, _),
        Index.build(tmp_path / "i", [Document("d", "t", "x")], encoder=f"m@{url}") as i,
    ):
        assert i.search("x", mode="dense")
        widths.append(4)
        with pytest.raises(SearchError, match="its vectors have 8 numbers, those of the encoder 4"):
            i.search("x")
        with pytest.raises(SearchError, match="has vectors of 8 numbers, and m now gives 4"):
            i.add([Document("e", "t", "y")])
