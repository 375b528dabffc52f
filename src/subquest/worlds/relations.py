"""The relations of a world: what kinds they join, what their values are, and the units they are told in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One typed relation. `inverse` names the same fact seen from the other end, where an article may list it."""

    name: str
    subjects: tuple[str, ...]
    value: str
    """entity, date, year, number or word."""
    inverse: str = ""
    several: bool = False
    """Whether a subject may have more than one value."""
    unit: str = ""


def _table() -> dict[str, Relation]:
    rows = """
    birth_date        person                date
    death_date        person                date
    birth_place       person                entity
    death_place       person                entity
    citizenship       person                entity
    occupation        person                word
    father            person                entity    children
    mother            person                entity    children
    spouse            person                entity
    marriage_year     person                year
    educated_at       person                entity
    employer          person                entity
    award             person                entity
    award_year        person                year
    team              person                entity    players
    advisor           person                entity    students_of
    party             person                entity
    instrument        person                word
    field             person                word
    capital           country               entity
    currency          country               word
    language          country               word
    head_of_state     country               entity    leads_country
    independence      country               year
    highest_point     country               entity
    longest_river     country               entity
    area              country,province,lake number    -          -  km2
    population        country,province,city number
    country           province,film,war     entity
    seat              province              entity
    governor          province              entity    governs
    province          city,lake,mountain    entity
    founded           city,university,company,team,newspaper,party year
    river             city,bridge           entity
    mayor             city                  entity    mayor_of
    twin_town         city                  entity
    elevation         city                  number    -          -  m
    length            river,bridge,ship     number    -          -  length
    source            river                 entity
    mouth             river                 entity    tributaries
    depth             lake                  number    -          -  m
    height            mountain              number    -          -  m
    first_ascent      mountain              year
    first_climber     mountain              entity    climbed
    city              university,team,stadium,museum,bridge,newspaper entity
    chancellor        university            entity    chancellor_of
    students          university            number
    founder           company,newspaper,party entity  foundations
    headquarters      company,party         entity
    industry          company               word
    chief_executive   company               entity    chief_of
    parent            company               entity    subsidiaries
    employees         company               number
    director          film                  entity    directed
    screenwriter      film                  entity    screenplays
    composer          film                  entity    scored
    starring          film                  entity    starred_in  several
    release_date      film,album            date
    running_time      film                  number    -          -  minutes
    studio            film                  entity    films_of
    based_on          film                  entity    adaptation
    set_in            film,book             entity
    author            book                  entity    books
    publisher         book                  entity
    published         book                  year
    pages             book                  number
    genre             book,band             word
    sequel            book                  entity
    performer         album                 entity    recordings
    song_performer    song                  entity
    label             album,band            entity
    tracks            album                 number
    songwriter        song                  entity    songs_written
    album             song                  entity
    song_year         song                  year
    formed            band                  year
    formed_in         band                  entity
    singer            band                  entity    sings_in
    members           band                  entity    member_of  several
    stadium           team                  entity
    coach             team                  entity    coaches
    league            team                  word
    nickname          team                  word
    capacity          stadium               number
    opened            stadium,museum,bridge year
    architect         stadium,museum        entity    designed
    engineer          bridge                entity    engineered
    builder           ship                  entity    ships_built
    operator          ship                  entity    fleet
    launched          ship                  year
    home_port         ship                  entity
    named_after       ship,award            entity
    signed_at         treaty                entity
    signed_on         treaty                date
    signatories       treaty                entity    -          several
    ended_war         treaty                entity    ended_by
    war_start         war                   year
    war_end           war                   year
    opponent          war                   entity
    war               battle                entity    battles
    battle_place      battle                entity
    battle_date       battle                date
    commander         battle                entity    commanded
    first_awarded     award                 year
    presenter         award                 entity
    editor            newspaper             entity    edits
    leader            party                 entity    leads_party
    painter           painting              entity    paintings
    painted           painting              year
    museum            painting              entity
    depicts           painting              entity
    """
    table = {}
    for row in rows.split("\n"):
        cells = row.split()
        if cells:
            name, subjects, value, inverse, several, unit = (cells + ["-"] * 6)[:6]
            inverse, several, unit = ("" if c == "-" else c for c in (inverse, several, unit))
            table[name] = Relation(name, tuple(subjects.split(",")), value, inverse, bool(several), unit)
    return table


RELATIONS: dict[str, Relation] = _table()

INVERSES: dict[str, tuple[str, ...]] = {}
"""Inverse name to the relations it lists (children stands for father and mother)."""
for _r in RELATIONS.values():
    if _r.inverse:
        INVERSES[_r.inverse] = (*INVERSES.get(_r.inverse, ()), _r.name)
