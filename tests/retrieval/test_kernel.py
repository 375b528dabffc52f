"""The kernel against its Python twins and against BM25 written out from the formula."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subquest.retrieval import kernel
from subquest.retrieval.analysis import Analysis, fold
from subquest.retrieval.bm25 import BM25
from subquest.retrieval.lexical import Lexical, Part, Removed
from subquest.retrieval.segment import PythonBuilder, PythonSegment, intact

LIBRARY = kernel.library()
needs_kernel = pytest.mark.skipif(LIBRARY is None, reason="no compiler here: the kernel is not to be had")
WORDS = st.text(
    alphabet=st.one_of(
        st.sampled_from("abcdefgilmnorstuyz'’ .-ABS09"), st.characters(), st.sampled_from("東京都ñéßøİʼがКЙй")
    ),
    max_size=60,
)


def write_both(folder: Path, texts: list[str], language: str = "english") -> tuple[Path, Path]:
    analysis = Analysis(language)  # type: ignore[arg-type]
    plain = PythonBuilder()
    for number, text in enumerate(texts, start=1):
        plain.add(number, analysis.terms(text))
    plain.write(folder / "plain.lex")
    assert LIBRARY is not None
    fast = kernel.KernelBuilder(LIBRARY, stems=analysis.stems)
    fast.add(range(1, len(texts) + 1), [fold(text, analysis.signs) for text in texts])
    fast.write(folder / "fast.lex")
    fast.close()
    return folder / "plain.lex", folder / "fast.lex"


@needs_kernel
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(texts=st.lists(WORDS, max_size=12), language=st.sampled_from(["english", "any"]))
def test_same_bytes_for_any_text(tmp_path: Path, texts: list[str], language: str) -> None:
    plain, fast = write_both(tmp_path, texts, language)
    assert plain.read_bytes() == fast.read_bytes()


@needs_kernel
def test_same_bytes_for_english_endings(tmp_path: Path) -> None:
    endings = (
        "s es ies ed eed ing ational tional enci izer bli alli entli eli ousli ization ator alism iveness fulness "
    )
    endings += (
        "ousness aliti iviti biliti logi icate ative alize iciti ical ful ness ance ence able ible ant ement ment "
    )
    endings += "ent ion sion tion ism ate iti ous ive ize y e ll sses ss at bl iz"
    starts = [
        "",
        "a",
        "b",
        "tr",
        "rel",
        "cond",
        "adopt",
        "fil",
        "hop",
        "sky",
        "ponn",
        "vietnam",
        "oscill",
        "contr",
        "yy",
    ]
    text = " ".join(start + ending for start in starts for ending in endings.split())
    plain, fast = write_both(tmp_path, [text, text.upper()])
    assert plain.read_bytes() == fast.read_bytes()


def zipf_texts(count: int, seed: int, vocabulary: int = 400, spread: int = 40) -> list[str]:
    generator = random.Random(seed)
    words = [f"w{i}" for i in range(vocabulary)]
    weights = [1 / (i + 1) for i in range(vocabulary)]
    return [" ".join(generator.choices(words, weights, k=generator.randint(0, spread))) for _ in range(count)]


@needs_kernel
def test_same_bytes_for_long_lists_and_high_frequencies(tmp_path: Path) -> None:
    texts = [*zipf_texts(3000, 1), "w0 " * 70_000 + "w1", *zipf_texts(500, 2)]
    plain, fast = write_both(tmp_path, texts, "any")
    assert plain.read_bytes() == fast.read_bytes()
    assert intact(fast)


def brute_force(texts: list[list[str]], query: list[str], k: int, k1: float, b: float) -> list[tuple[int, float]]:
    """BM25 straight from the formula, in floating point; documents counted from 1, empty lists are removed ones."""
    live = [text for text in texts if text]
    average = sum(map(len, live)) / len(live)
    scores = []
    for number, text in enumerate(texts, start=1):
        counts, score = Counter(text), 0.0
        for term in query:
            n = sum(term in other for other in live)
            if counts[term]:
                idf = math.log(1 + (len(live) - n + 0.5) / (n + 0.5))
                score += idf * counts[term] / (counts[term] + k1 * (1 - b + b * len(text) / average))
        if score:
            scores.append((number, score))
    return sorted(scores, key=lambda pair: -pair[1])[:k]


def opened(path: Path, removed: list[int], plain: bool) -> Part:
    segment = PythonSegment(path) if plain else kernel.open_segment(path)
    return Part(segment, Removed(segment, removed) if removed else None)


@needs_kernel
@pytest.mark.parametrize("plain", [False, True], ids=["kernel", "python"])
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_scores_are_those_of_the_formula(tmp_path: Path, plain: bool, k1: float, b: float) -> None:
    texts = [text or "w1" for text in zipf_texts(150, 3, 60)]
    path, _ = write_both(tmp_path, texts, "any")
    removed = [2, 3, 77]
    lexical = Lexical([opened(path, removed, plain)])
    words = [[] if number in removed else text.split() for number, text in enumerate(texts, start=1)]
    for query in (["w0", "w0", "w3"], ["w59", "w1", "nowhere"], ["w2", "w5", "w9", "w31"]):
        expected = brute_force(words, query, 10, k1, b)
        (found,) = lexical.top([[term.encode() for term in query]], 10, BM25(k1, b))
        assert [hit.score for hit in found] == pytest.approx([score for _, score in expected], abs=1e-8)
        by_number = dict(brute_force(words, query, 1000, k1, b))
        assert all(by_number[hit.number] == pytest.approx(hit.score, abs=1e-8) for hit in found)


@needs_kernel
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=3),
    queries=st.lists(st.lists(st.integers(0, 420), min_size=1, max_size=12), min_size=1, max_size=6),
    k=st.sampled_from([1, 3, 10, 100]),
    k1=st.sampled_from([0.0, 0.9, 1.2, 3.0]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
    share=st.sampled_from([0.0, 0.01, 0.5]),
)
def test_pruned_search_agrees_with_plain_search(
    tmp_path: Path, seed: int, sizes: list[int], queries: list[list[int]], k: int, k1: float, b: float, share: float
) -> None:
    """To the last bit and in the same order, over several segments and with removed documents."""
    assert LIBRARY is not None
    generator = random.Random(seed)
    plain, fast, number = [], [], 1
    for i, size in enumerate(sizes):
        texts = zipf_texts(size, seed + i, spread=generator.choice([3, 40, 700 if size < 300 else 40]))
        builder = kernel.KernelBuilder(LIBRARY, stems=False)
        builder.add(range(number, number + size), [text.encode() for text in texts])
        path = tmp_path / f"{i}.lex"
        builder.write(path)
        builder.close()
        removed = [n for n in range(number, number + size) if generator.random() < share]
        number += size
        plain.append(opened(path, removed, True))
        fast.append(opened(path, removed, False))
    terms = [[f"w{i}".encode() for i in query] for query in queries]
    assert Lexical(fast).top(terms, k, BM25(k1, b)) == Lexical(plain).top(terms, k, BM25(k1, b))


@needs_kernel
def test_equal_documents_keep_their_order(tmp_path: Path) -> None:
    path, _ = write_both(tmp_path, ["zork house"] * 9000 + ["zork"], "any")
    lexical = Lexical([opened(path, [], False)])
    (found,) = lexical.top([[b"zork", b"house"]], 5, BM25())
    assert [hit.number for hit in found] == [1, 2, 3, 4, 5]


@needs_kernel
def test_a_query_of_thousands_of_terms(tmp_path: Path) -> None:
    texts = zipf_texts(2000, 5, 3000)
    path, _ = write_both(tmp_path, texts, "any")
    terms = [f"w{i}".encode() for i in range(3000)]
    plain, fast = (Lexical([opened(path, [], p)]).top([terms], 10, BM25()) for p in (True, False))
    assert plain == fast
    assert len(fast[0]) == 10
