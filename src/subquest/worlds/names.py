"""Invented languages: names of people, places and countries that no language model has seen.

A name is a root (onset, vowel, medial, vowel) plus a suffix of its language. No suffix of one type of name ends
another suffix of that type, and vowels and consonants alternate, so a name can be taken apart in one way only: numbers
and names correspond one to one, and regions that use different numbers never share a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from .stream import Permutation, Stream


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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((a, b) for a, b in (pair.split("/") for pair in text.split()))


LANGUAGES: tuple[Language, ...] = (
    Language(
        "Norric",
        _words("b br d f fr g gr h hj k kl l m n r s sk st t th tr v"),
        _words("a e i o u y ei au"),
        _words("ld lv nd rd rn rv nn ll sk gn lm rg rst ng mm dr"),
        _words("a e u o i"),
        _words("stad vik holm fjell heim sund dalen borg nes lund"),
        _words("sen dahl berg strom gaard quist rud mark holt vold"),
        _pairs("mark/markian land/landic njord/njordic holma/holman"),
        _words("ar ulf rik vald mund bjorn ger leif"),
        _words("a hild run dis ja veig borg gerd"),
        _words("krone daler skilling mark"),
    ),
    Language(
        "Lorian",
        _words("b c d f g l m n p r s t v br tr cr fl pr gr"),
        _words("a e i o u ia ie"),
        _words("l r n ss rr nt lt st ll nd v m rc sc rt c mb"),
        _words("a e i o"),
        _words("mora vento lena rosa nova tigna cento dria sola vezza"),
        _words("rini telli vano zetti lucci nardo cosa pardi besco diero"),
        _pairs("tania/tanian via/vian ldia/ldian rra/rran"),
        _words("o io ando erto ino ello enzo aldo"),
        _words("a ia ella ina etta isa andra essa"),
        _words("lira scudo peso corona"),
    ),
    Language(
        "Vessar",
        _words("b br d dr g gr k kr l m n p pr r s sl st t v vl z zd"),
        _words("a e i o u"),
        _words("b d g l m r st zn rl dr lk rn vl sm nk rz br"),
        _words("a e i o"),
        _words("grad nitsa pol kovo dvor slav mirsk zhin brod tovets"),
        _words("vich nov lenko dzik menko rsky tsin chev rovic mulin"),
        _pairs("vonia/vonian ruthe/ruthene chia/chian zova/zovan"),
        _words("mir slav dan ek or yan vit omir"),
        _words("ka na mila slava inka anya rena ova"),
        _words("zlot grosh dukat ruble"),
    ),
    Language(
        "Ashari",
        _words("b d f h j k kh m n q r s sh t y z gh"),
        _words("a i u e"),
        _words("hr mz rd sh zm bd l r m nj shr rw d kh lm hn fs"),
        _words("a i u e"),
        _words("bad qand zar rah mesh shan pur dar havan kesh"),
        _words("zadi rani hani moud fari ssaf badi rouz tami kuri"),
        _pairs("stan/stani zia/zian reh/rehi bia/bian"),
        _words("im ad ar oun ir am ash een"),
        _words("ah ira iya een ana isa eh una"),
        _words("dinar rial dirham tuman"),
    ),
    Language(
        "Kitsun",
        _words("k s t n h m y r w g z d b sh ch ts"),
        _words("a i u e o"),
        _words("k s t n h m r g z d b sh nd nk mb nz"),
        _words("a i u e o"),
        _words("zuma koro nashi tobe rindo maki shiro hase tomi kura"),
        _words("buki nagi wase doki mune rao sawa zumi hoshi gake"),
        _pairs("kuni/kunian goku/gokuan shu/shuan mato/matoan"),
        _words("ro shi ta ji to ki suke nobu"),
        _words("mi ko na e ka ri yo hana"),
        _words("ren mon sen ryo"),
    ),
    Language(
        "Talori",
        _words("h k l m n p t v w f r"),
        _words("a e i o u ai au ou"),
        _words("l n m k t v h p ng r w f"),
        _words("a e i o u"),
        _words("hiva nuku motu tapu roa vai puna langi matu fenua"),
        _words("kea lehu toa mana noa pele rangi fetu sina kolo"),
        _pairs("nui/nuian loa/loan tora/toran vaka/vakan"),
        _words("no kai ku ma te lo ne ho"),
        _words("la ani lei ina mele ea si ua"),
        _words("tala pa'anga vatu shell"),
    ),
    Language(
        "Brennic",
        _words("b br c cr d dr f g gl gw l m n p pr r t tr w s"),
        _words("a e i o u ae ia"),
        _words("dd gh ll nn rr rth ld nt rn v lg ng dr rl"),
        _words("a e i o u"),
        _words("bryd garth moor wick dale coed keld brae combe tarn"),
        _words("gan loch wen vane rick more dry lish keen thwy"),
        _pairs("dain/dainish wynn/wynnish lannia/lannian gal/galic"),
        _words("n c th d gan wyn l rac"),
        _words("nna th len wen dda ra ne lia"),
        _words("crown groat pound florin"),
    ),
    Language(
        "Ozmek",
        _words("b ch d g k m n s t z sh q j l r p"),
        _words("a e i o u"),
        _words("lt rk rm zb lk kt sh gd nt rg mr zg lb dr n m"),
        _words("a e i u"),
        _words("kent tepe bat gol sary bulak dag koy shehir qala"),
        _words("bek tash lik mir khan zhan soy demer gul turan"),
        _pairs("kia/kian meni/menian tay/tayan gand/gandi"),
        _words("n k sh t m r yar lan"),
        _words("gul ra nur s ye m dan sel"),
        _words("som tenge manat akche"),
    ),
)

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

    def given_names(self, stream: Stream, gender: str, count: int) -> list[str]:
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


ADJECTIVES = _words(
    "Silent Crimson Hollow Distant Winter Golden Broken Salt Amber Burning Quiet Iron Second Borrowed Pale Drowned "
    "Restless Northern Faithful Glass Bitter Wandering Hidden Copper Last Long Lonely Velvet Ragged Wooden Narrow "
    "Frozen Scarlet Gentle Patient Stolen Sleeping Unfinished Electric Barren Hungry Crooked Weightless Stubborn "
    "Midnight Summer Paper Silver Blind Rusted Lesser Seventh Foreign Idle Merciful Cold Honest Southern Ashen Wild "
    "Perfect Ordinary Secret Broad Violet Tender Sunken Hasty Foolish Marble Tall Invisible Green Ancient Careless "
    "Floating Slow Impossible Absent Early"
)
NOUNS = _words(
    "Harbour Orchard Lantern Tide Garden Promise Shore Letter Mirror Bridge River Crown Field Lighthouse Hour Sparrow "
    "Season Road Door Witness Fire Compass Island Stranger Carpenter Horizon Cathedral Mountain Window Song Machine "
    "Kingdom Heron Valley Ferry Clock Widow Voyage Inheritance Winter Anchor Feather Bell Wolf Tower Market Portrait "
    "Station Sister Captain Country Threshold Vineyard Archive Thunder Staircase Brother Needle Ledger Summer Map "
    "Coast Fox Meadow Oath Train Balcony Falcon Furnace Alphabet Republic Echo Passenger Rain Circus Quarry Physician "
    "Choir "
    "Labyrinth Tailor Bargain Pilgrim Engine Moon Courtyard Shadow Miller Frontier Violin Daughter Cartographer Storm"
)
PATTERNS = (
    "The {a} {n}",
    "{a} {n}",
    "The {n} of the {m}",
    "A~ {n} for the {m}",
    "The {n} and the {m}",
    "Beyond the {a} {n}",
    "The {n}'s {m}",
    "Under the {a} {n}",
    "No {n} for the {m}",
    "Return to the {a} {n}",
    "Where the {n} Meets the {m}",
    "Notes on a~ {a} {n}",
    "A~ {a} {n}",
    "The Year of the {a} {n}",
    "Farewell to the {n}",
    "Songs of the {a} {n}",
)
LONG_PATTERNS = ("The {a} {n} of the {m}", "The {n} and the {a} {m}", "A~ {a} {n} for the {m}")
"""Titles of three words, for worlds that have used up those of two."""
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
