"""Books, films, bands, records, songs and paintings, made by people who were alive to make them."""

from __future__ import annotations

from .entity import NOW, Entity
from .organisations import people_for
from .people import random_date
from .random_stream import RandomStream
from .region import Region
from .text_files import read_lists, read_rows

_WORDS = read_lists("vocabulary", "words")
NOVEL_GENRES, MUSIC_GENRES = _WORDS["novel genres"], _WORDS["music genres"]
OTHER_BOOKS = [(noun, genre) for noun, genre in read_rows("vocabulary", "other books")]


def make_works(region: Region, wanted: dict[str, int]) -> None:
    s = RandomStream(region.seed, region.number, "works")
    _make_books(region, s, wanted["book"])
    _make_films(region, s, wanted["film"])
    _make_bands(region, s, wanted["band"])
    _make_recordings(region, s, wanted["album"], wanted["song"])
    _make_paintings(region, s, wanted["painting"])


def _companies(region: Region, noun: str, year: int) -> list[Entity]:
    return [c for c in region.kinds["company"] if c.noun == noun and c.year("founded") <= year]


def _year_of_work(s: RandomStream, maker: Entity, earliest: int) -> int:
    """A year in which the maker could have made something; 0 where there is none."""
    born = maker.year("birth_date")
    first = max(born + 24, earliest)
    last = min(born + 68, (maker.year("death_date") or NOW) - 1, 2023)
    return s.between(first, last) if first <= last else 0


def _maker(region: Region, s: RandomStream, earliest: int, *occupations: str) -> tuple[Entity, int]:
    """Someone of these occupations and the year of the work; where nobody could have made it, anyone who could."""
    able = [p for p in region.kinds["person"] if p.noun in occupations]
    for maker in s.sample(able, 10) + s.shuffled(region.kinds["person"]):
        year = _year_of_work(s, maker, earliest)
        if year:
            return maker, year
    raise LookupError("nobody in the region was alive to make it")


def _setting(region: Region, s: RandomStream) -> Entity:
    return (region.foreign_city(s) if s.chance(0.12) else None) or s.pick(region.kinds["city"])


def _make_books(region: Region, s: RandomStream, count: int) -> None:
    for _ in range(count):
        author, year = _maker(region, s, 1795, "novelist", "novelist", "poet", "historian", "journalist")
        noun, genre = ("novel", s.pick(NOVEL_GENRES)) if s.chance(0.78) else s.pick(OTHER_BOOKS)
        book = region.add("book", region.titler.title(), noun)
        book.facts |= {"author": author, "published": year, "pages": s.between(96, 812), "genre": genre}
        author.append("books", book)
        if houses := _companies(region, "publishing house", year):
            book.facts["publisher"] = s.pick(houses)
        if noun != "memoir" and s.chance(0.5):
            book.facts["set_in"] = _setting(region, s)
    for book in region.kinds["book"]:
        later = [b for b in book.one("author").many("books") if b.year("published") > book.year("published") + 1]
        taken = [b.facts.get("sequel") for b in region.kinds["book"]]
        later = [b for b in later if b not in taken and b.noun == book.noun == "novel"]
        if later and s.chance(0.4):
            book.facts["sequel"] = later[0]


def _make_films(region: Region, s: RandomStream, count: int) -> None:
    novels = s.shuffled([b for b in region.kinds["book"] if b.noun == "novel"])
    for _ in range(count):
        director, year = _maker(region, s, 1922, "film director", "film director")
        film = region.add("film", "", "film")
        film.facts |= {"director": director, "release_date": random_date(s, year), "running_time": s.between(71, 184)}
        film.facts["country"] = region.country
        director.append("directed", film)
        source = next((b for b in novels if b.year("published") < year), None)
        if source is not None and s.chance(0.3):
            novels.remove(source)
            film.facts["based_on"], source.facts["adaptation"] = source, [film]
        same_title = source is not None and film.facts.get("based_on") is source and s.chance(0.5)
        film.name = film.title = source.name if same_title and source is not None else region.titler.title()
        for relation, inverse, jobs in (
            ("screenwriter", "screenplays", ("screenwriter", "novelist")),
            ("composer", "scored", ("composer", "pianist")),
        ):
            able = [p for p in people_for(region, year, *jobs) if p is not director]
            if able:
                person = s.pick(able)
                film.facts[relation] = person
                person.append(inverse, film)
        cast = [p for p in people_for(region, year, "actor", "actress", oldest=80) if p is not director]
        if cast:
            film.facts["starring"] = s.sample(cast, s.between(2, 3))
        for star in film.many("starring"):
            star.append("starred_in", film)
        if studios := _companies(region, "film studio", year):
            film.facts["studio"] = s.pick(studios)
            film.one("studio").append("films_of", film)
        if s.chance(0.45):
            film.facts["set_in"] = _setting(region, s)


def _make_bands(region: Region, s: RandomStream, count: int) -> None:
    players = ("guitarist", "drummer", "pianist")
    for _ in range(count):
        singer, year = _maker(region, s, 1958, "singer")
        year = max(1958, min(year, singer.year("birth_date") + 35))
        band = region.add("band", region.titler.title(), "band")
        mates = [p for p in people_for(region, year, *players, oldest=50) if "member_of" not in p.facts]
        members = [singer, *s.sample(mates, s.between(1, 3))]
        band.facts |= {"formed": year, "formed_in": s.pick(region.kinds["city"]), "genre": s.pick(MUSIC_GENRES)}
        band.facts["singer"] = singer
        singer.append("sings_in", band)
        if len(members) > 1:
            band.facts["members"] = members
            for member in members:
                member.append("member_of", band)
        if labels := _companies(region, "record label", year + 4):
            band.facts["label"] = s.pick(labels)


def _make_recordings(region: Region, s: RandomStream, albums: int, songs: int) -> None:
    for _ in range(albums):
        performer: Entity
        if region.kinds["band"] and s.chance(0.55):
            performer = s.pick(region.kinds["band"])
            year = s.between(performer.year("formed") + 1, min(performer.year("formed") + 25, 2023))
        else:
            performer, year = _maker(region, s, 1952, "singer", "pianist", "guitarist")
        album = region.add("album", region.titler.title(), "album")
        album.facts |= {"performer": performer, "release_date": random_date(s, year), "tracks": s.between(7, 18)}
        performer.append("recordings", album)
        if labels := _companies(region, "record label", year):
            album.facts["label"] = s.pick(labels)
    for _ in range(songs):
        album = s.pick(region.kinds["album"])
        song = region.add("song", region.titler.title(), "song")
        year = album.year("release_date")
        song.facts |= {"album": album, "song_performer": album.one("performer"), "song_year": year}
        writers = people_for(region, year, "composer", "singer", "poet", "pianist", "guitarist")
        if writers:
            song.facts["songwriter"] = s.pick(writers)
            song.one("songwriter").append("songs_written", song)


def _make_paintings(region: Region, s: RandomStream, count: int) -> None:
    for _ in range(count):
        painter, year = _maker(region, s, 1785, "painter", "painter", "sculptor")
        painting = region.add("painting", region.titler.title(), "painting")
        painting.facts |= {"painter": painter, "painted": year, "museum": s.pick(region.kinds["museum"])}
        painter.append("paintings", painting)
        sitters = [p for p in people_for(region, year, oldest=90) if p is not painter]
        painting.facts["depicts"] = s.pick(sitters) if sitters and s.chance(0.5) else s.pick(region.kinds["city"])
