"""Invented languages: names of people, places and countries that no language model has seen.

A name is a root (onset, vowel, medial, vowel) plus a suffix of its language. No suffix of one type of name ends
another suffix of that type, and vowels and consonants alternate, so a name can be split in one way only. Numbers and
names therefore correspond one to one, and regions that use different numbers never share a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from .random_stream import Permutation, RandomStream
from .text_files import read_lists, read_sections


@dataclass(frozen=True, slots=True)
class Language:
    """Sounds and endings of one invented language."""

    name: str
    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    medials: tuple[str, ...]
    finals: tuple[str, ...]
    """Vowels that close a root."""
    places: tuple[str, ...]
    surnames: tuple[str, ...]
    countries: tuple[tuple[str, str], ...]
    """Ending of the country's name, ending of its adjective."""
    male: tuple[str, ...]
    female: tuple[str, ...]
    currencies: tuple[str, ...]

    def root(self, index: int) -> str:
        """The root with that number; numbers beyond the two-syllable ones get a third syllable."""
        index, f = divmod(index, len(self.finals))
        index, m = divmod(index, len(self.medials))
        index, v = divmod(index, len(self.vowels))
        index, o = divmod(index, len(self.onsets))
        root = self.onsets[o] + self.vowels[v] + self.medials[m] + self.finals[f]
        while index:
            index, v = divmod(index - 1, len(self.vowels))
            index, o = divmod(index, len(self.onsets))
            root = self.onsets[o] + self.vowels[v] + root
        return root

    @property
    def roots(self) -> int:
        """How many two-syllable roots there are."""
        return len(self.onsets) * len(self.vowels) * len(self.medials) * len(self.finals)


def _languages() -> tuple[Language, ...]:
    out = []
    for name, _ in read_sections("names"):
        if name != "titles":
            sounds = read_lists("names", name, None)
            endings = (pair.partition("/") for pair in sounds["countries"])
            countries = tuple((noun, adjective) for noun, _, adjective in endings)
            out.append(Language(name, **{**sounds, "countries": countries}))  # type: ignore[arg-type]
    return tuple(out)


LANGUAGES = _languages()

REGION_PLACES = 420
"""Numbers of place names reserved for each region."""
REGION_SURNAMES = 260


class Namer:
    """Hands out the names of one region, each once."""

    def __init__(self, seed: int, region: int) -> None:
        self.language = LANGUAGES[(region + seed) % len(LANGUAGES)]
        self._slice = region // len(LANGUAGES)
        self._seed = seed
        self._used = {"place": 0, "surname": 0}
        self._permutations = {
            "place": self._permutation("place", len(self.language.places)),
            "surname": self._permutation("surname", len(self.language.surnames)),
        }

    def _permutation(self, type_: str, suffixes: int) -> Permutation:
        return Permutation(self.language.roots * suffixes, self._seed, self.language.name, type_)

    def _next(self, type_: str, suffixes: tuple[str, ...], reserved: int) -> str:
        used = self._used[type_]
        if used >= reserved:
            raise IndexError(f"a region has only {reserved} names of type {type_}")
        self._used[type_] = used + 1
        permutation = self._permutations[type_]
        lap, number = divmod(self._slice * reserved + used, permutation.size)  # later laps have one more syllable
        root, suffix = divmod(permutation(number) + lap * permutation.size, len(suffixes))
        return (self.language.root(root) + suffixes[suffix]).capitalize()

    def place(self) -> str:
        return self._next("place", self.language.places, REGION_PLACES)

    def surname(self) -> str:
        return self._next("surname", self.language.surnames, REGION_SURNAMES)

    def country(self) -> tuple[str, str]:
        """The region's country and its adjective; the same at every call."""
        endings = self.language.countries
        size = self.language.roots * len(endings)
        number = Permutation(size, self._seed, self.language.name, "country")(self._slice % size)
        root, ending = divmod(number, len(endings))
        stem = self.language.root(root + self._slice // size * self.language.roots)
        return (stem + endings[ending][0]).capitalize(), (stem + endings[ending][1]).capitalize()

    def given_names(self, stream: RandomStream, gender: str, count: int) -> list[str]:
        """Different given names; other regions may use the same ones."""
        endings = self.language.male if gender == "male" else self.language.female
        names: dict[str, None] = {}
        while len(names) < count:
            stem = stream.pick(self.language.onsets) + stream.pick(self.language.vowels)
            stem += stream.pick(self.language.medials)
            ending = stream.pick(endings)
            if ending[0] not in "aeiouy":
                stem += stream.pick(self.language.finals)
            names[(stem + ending).capitalize()] = None
        return list(names)


_WORDS, _FORMS = read_lists("names", "titles", None), read_lists("names", "titles")
ADJECTIVES, NOUNS = _WORDS["adjectives"], _WORDS["nouns"]
PATTERNS, LONG_PATTERNS = _FORMS["patterns"], _FORMS["long_patterns"]
"""Titles of two words, and those of three for worlds that have used up the first."""
REGION_TITLES = 320
_PER_PATTERN = max(len(ADJECTIVES), len(NOUNS)) * len(NOUNS)
_PER_LONG = len(ADJECTIVES) * len(NOUNS) * len(NOUNS)


class Titler:
    """Hands out the titles of one region's works (films, books, songs, ...), each once in the whole world."""

    def __init__(self, seed: int, region: int) -> None:
        self._region, self._used = region, 0
        self._short = Permutation(_PER_PATTERN * len(PATTERNS), seed, "titles")
        self._long = Permutation(_PER_LONG * len(LONG_PATTERNS), seed, "long titles")

    def title(self) -> str:
        while True:
            if self._used >= REGION_TITLES:
                raise IndexError(f"a region has only {REGION_TITLES} titles")
            number = self._region * REGION_TITLES + self._used
            self._used += 1
            if number < self._short.size:
                title = _short_title(self._short(number))
                lap = 0
            else:
                lap, rest = divmod(number - self._short.size, self._long.size)
                title = _long_title(self._long(rest))
            if title is not None:
                return title if lap == 0 else f"{title}, Part {lap + 1}"


def _short_title(number: int) -> str | None:
    """None for numbers that spell nothing sensible ("The Bell of the Bell")."""
    pattern, rest = divmod(number, _PER_PATTERN)
    first, second = divmod(rest, len(NOUNS))
    form = PATTERNS[pattern]
    if "{a}" in form:
        if first >= len(ADJECTIVES) or ADJECTIVES[first] == NOUNS[second]:
            return None
        return _spell(form, a=ADJECTIVES[first], n=NOUNS[second])
    if first >= len(NOUNS) or first == second:
        return None
    if "{m}" not in form:
        return _spell(form, n=NOUNS[second]) if first == 0 else None
    return _spell(form, n=NOUNS[first], m=NOUNS[second])


def _long_title(number: int) -> str | None:
    pattern, rest = divmod(number, _PER_LONG)
    adjective, rest = divmod(rest, len(NOUNS) * len(NOUNS))
    first, second = divmod(rest, len(NOUNS))
    word = ADJECTIVES[adjective]
    if first == second or word in (NOUNS[first], NOUNS[second]):
        return None
    return _spell(LONG_PATTERNS[pattern], a=word, n=NOUNS[first], m=NOUNS[second])


def _spell(form: str, **words: str) -> str:
    """The form with its words; `a~` becomes a or an."""
    if "~" in form:
        following = words["a"] if "~ {a}" in form else words["n"]
        form = form.replace("~", "n" if following[0] in "AEIOU" else "")
    return form.format(**words)
