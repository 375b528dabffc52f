"""What a query names by its title comes first."""

from pathlib import Path
from typing import Any

import pytest

from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.titles import BONUS, MENTION, NAMED_DEPTH, named_first, title_words

ANALYSIS = Analysis()
OTHERS = ["Athletic", "Airways", "Stadium", "Pictures", "Press"]
TOWN = "Saevebryd lies on a wide river among hills and fields, and many people live in its streets and lanes. " * 3
DOCUMENTS = [
    *(Document(name, f"Saevebryd {name}", f"Saevebryd {name} is in Saevebryd.") for name in OTHERS),
    Document("town", "Saevebryd", TOWN),
    Document("film", "Film", "A film is a work. Film, film and film: a film about films."),
    Document("winter", "The Winter Tower", "A film made by Ada Orn."),
    Document("one", "Ada Orn (painter)", "A painter."),
    Document("two", "Ada Orn (sailor)", "She sailed, and in a long life she did many other things at sea and on land."),
]


def order(
    query: str, titles: list[str], scores: list[float], texts: list[str] | None = None
) -> list[tuple[int, float]]:
    articles = list(zip(titles, texts or [""] * len(titles), strict=True))
    return named_first(query, [title_words(title, ANALYSIS) for title in titles], scores, ANALYSIS, lambda: articles)


def test_the_bonus_is_a_share_of_the_best_score() -> None:
    found = order("Where is Kelso?", ["Kelso Bridge", "Tweed", "Kelso"], [3.0, 2.5, 1.0])
    assert found == [(0, 3.0), (1, 2.5), (2, 1.0 + 3 * BONUS)]
    found = order("Where is Kelso?", ["Kelso Bridge", "Kelso", "Tweed"], [3.0, 2.5, 1.0])
    assert found == [(1, 2.5 + 3 * BONUS), (0, 3.0), (2, 1.0)]


def test_texts_with_the_one_name_in_the_query_come_next() -> None:
    titles = ["Kelso (town)", "Tweed", "Roxburgh", "Kelsowe"]
    texts = ["A town.", "It flows through Kelso.", "A county with Kelsowe in it.", "Not Kelso-like: kelso."]
    scores = [4.0, 1.0, 3.0, 2.0]
    found = dict(order("Which river is at Kelso?", titles, scores, texts))
    assert found == {0: 4.0 * (1 + BONUS), 1: 1.0 + 4.0 * MENTION, 2: 3.0, 3: 2.0 + 4.0 * MENTION}
    found = dict(order("Is Kelso on the Tweed?", titles, scores, texts))  # two names: their own articles alone
    assert found == {0: 4.0 * (1 + BONUS), 1: 1.0 + 4.0 * BONUS, 2: 3.0, 3: 2.0}


def test_nothing_changes_where_nothing_is_named() -> None:
    assert order("rivers", ["Kelso", "Tweed"], [2.0, 1.0]) == [(0, 2.0), (1, 1.0)]
    assert order("Kelso", [], []) == []


def test_a_longer_title_hides_the_shorter_one_in_it() -> None:
    ranked = order("When was Kelso Bridge opened?", ["Tweed", "Kelso", "Kelso Bridge"], [3.0, 2.9, 1.0])
    assert dict(ranked) == {0: 3.0, 1: 2.9, 2: 1.0 + 3 * BONUS}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("Which film did Ada Orn make?", False),
        ("Film by Ada Orn", False),
        ("Who wrote the article Film?", True),
        ("Film", True),
        ("which film is it", True),
    ],
)
def test_a_common_word_is_a_name_only_with_its_capital(query: str, meant: bool) -> None:
    scores = dict(order(query, ["Other", "Film"], [2.0, 1.0]))
    assert (scores[1] > 1.0) == meant


@pytest.mark.parametrize("title", ["Germany", "Zürich", "Philippines", "Łódź"])
def test_a_name_is_recognised_whatever_its_stem_and_accents(title: str) -> None:
    scores = dict(order(f"What is the capital of {title}?", ["Other", title], [2.0, 1.0]))
    assert scores[1] > 1.0


def test_towns_come_before_what_is_named_after_them(tmp_path: Path) -> None:
    with Index.build(tmp_path / "a.sq", DOCUMENTS) as index:
        query = "What is the population of Saevebryd?"
        assert index.search(query, 1, mode="bm25")[0].document.id != "town"
        assert index.search(query, 3)[0].document.id == "town"
        assert index.search("Saevebryd Press population", 3)[0].document.id == "Press"
        assert {hit.document.id for hit in index.search("the life of Ada Orn", 2)} == {"one", "two"}
        assert index.search("Which film did Ada Orn make?", 10)[0].document.id != "film"


def test_the_order_does_not_depend_on_how_many_are_asked_for(tmp_path: Path) -> None:
    with Index.build(tmp_path / "a.sq", DOCUMENTS) as index:
        whole = index.search("population of Saevebryd", NAMED_DEPTH)
        for k in (1, 2, 5):
            assert index.search("population of Saevebryd", k) == whole[:k]
        assert index.search_many(["population of Saevebryd", "films"], 3)[0] == whole[:3]


def test_a_new_title_is_seen_at_once(tmp_path: Path) -> None:
    with Index.build(tmp_path / "a.sq", DOCUMENTS) as index:
        assert index.search("population of Saevebryd", 1)[0].document.id == "town"
        index.add([Document("town", "Mornhelm", TOWN), Document("Press", "Saevebryd", "Saevebryd.")])
        assert index.search("population of Saevebryd", 1)[0].document.id == "Press"
        assert index.search("population of Mornhelm", 1)[0].document.id == "town"


def test_remembered_titles_are_looked_up_not_gone_through(tmp_path: Path) -> None:
    """A search must not cost more the more titles are remembered, nor fail while another thread remembers one."""

    class Remembered(dict[int, bytes]):
        def keys(self) -> Any:
            raise AssertionError("gone through")

        __iter__ = items = values = keys

    with Index.build(tmp_path / "i", [Document(str(i), f"Town {i}", "A town.") for i in range(20)]) as index:
        index.search("Town 3")
        generation, known = index._titles._known
        index._titles._known = (generation, Remembered(known))
        index.search("Town 4")
        assert [hit.document.id for hit in index.search("Town 7", 1)] == ["7"]
