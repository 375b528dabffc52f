"""Names: one to one with numbers, apart between regions, the same everywhere."""

import pytest

from subquest.worlds.names import LANGUAGES, Namer, Titler
from subquest.worlds.random_stream import Permutation, RandomStream


@pytest.mark.parametrize("attribute", ["places", "surnames"])
def test_no_suffix_ends_another(attribute: str) -> None:
    suffixes = [s for language in LANGUAGES for s in getattr(language, attribute)]
    clashes = [(a, b) for i, a in enumerate(suffixes) for j, b in enumerate(suffixes) if i != j and a.endswith(b)]
    assert clashes == []


def test_no_country_ending_ends_another() -> None:
    endings = [e for language in LANGUAGES for e, _ in language.countries]
    assert [(a, b) for i, a in enumerate(endings) for j, b in enumerate(endings) if i != j and a.endswith(b)] == []


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 4097])
def test_permutation_hits_every_number_once(size: int) -> None:
    permutation = Permutation(size, "key")
    assert sorted(map(permutation, range(size))) == list(range(size))


def test_permutation_refuses_numbers_outside() -> None:
    with pytest.raises(IndexError):
        Permutation(10, "key")(10)


def test_regions_share_no_name() -> None:
    places: list[str] = []
    surnames: list[str] = []
    titles: list[str] = []
    countries: list[str] = []
    for region in range(60):
        namer, titler = Namer(3, region), Titler(3, region)
        countries.append(namer.country()[0])
        places += [namer.place() for _ in range(120)]
        surnames += [namer.surname() for _ in range(80)]
        titles += [titler.title() for _ in range(90)]
    for names in (places, surnames, titles, countries):
        assert len(set(names)) == len(names)


def test_names_stay_apart_in_worlds_of_a_million_articles() -> None:
    """Small languages run out of two-syllable roots there and go on with three."""
    places: list[str] = []
    surnames: list[str] = []
    titles: list[str] = []
    for region in range(0, 3750, 3):
        namer, titler = Namer(1, region), Titler(1, region)
        titles += [titler.title() for _ in range(30)]
        places += [namer.place() for _ in range(90)]
        surnames += [namer.surname() for _ in range(40)]
    assert len(set(places)) == len(places)
    assert len(set(surnames)) == len(surnames)
    assert len(set(titles)) == len(titles)
    assert not any("Part" in t for t in titles)


def test_streams_are_pinned() -> None:
    """Python promises the sequence of `random.Random(int).random()`; the key's digest is ours."""
    stream = RandomStream(7, "people", 3)
    assert [stream.below(1000) for _ in range(4)] == PINNED
    assert RandomStream(1).shuffled(list(range(8))) == SHUFFLED


PINNED = [312, 110, 306, 808]
SHUFFLED = [4, 3, 7, 5, 1, 6, 2, 0]


def test_names_are_pinned() -> None:
    """Worlds are deterministic byte for byte: these names must never change for the same seed."""
    namer = Namer(7, 0)
    assert (namer.country(), namer.place(), namer.surname()) == (("Roktitay", "Roktitayan"), "Kuktakent", "Toltatash")
