"""The web site of a world: links, tables, media, redirects and the SearXNG-compatible endpoint."""

import csv
import io
import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from subquest.worlds import Recipe, World, make_world, write_world
from subquest.worlds.site import Site, serve
from subquest.worlds.synthetic_media import can_draw, can_speak


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=21, articles=300, questions=20)


@pytest.fixture(scope="module")
def site(world: World) -> Site:
    return Site.of(world)


def test_every_link_leads_somewhere(site: Site) -> None:
    links = 0
    for path in site.paths():
        answer = site.get(path) if not path.startswith("/media/") else None
        if answer is None or not answer.type.startswith("text/html"):
            continue
        for target in re.findall(r"href='(/wiki/[^']+)'", answer.body.decode()):
            links += 1
            assert site.get(target).status == 200
    assert links > 3 * len(site.pages)


def test_aliases_redirect(world: World, site: Site) -> None:
    for alias, title in world.redirects.items():
        answer = site.get("/wiki/" + urllib.request.pathname2url(alias))
        assert answer.status == 301
        assert site.pages[answer.location.removeprefix("/wiki/")].title == title
    assert site.get("/wiki/Nobody").status == 404


def test_tables_hold_the_stated_figures(world: World, site: Site) -> None:
    rows = list(csv.DictReader(io.StringIO(site.get("/tables/city.csv").body.decode())))
    populations = {a.entity.title: a.entity.amount("population") for a in world.articles if a.entity.kind == "city"}
    assert {r["title"] for r in rows} == set(populations)
    filled = [r for r in rows if r["population"]]
    assert len(filled) > len(rows) // 2
    assert all(int(r["population"]) == populations[r["title"]] for r in filled)


def test_hidden_sentences_stand_only_in_their_picture_or_sound(site: Site) -> None:
    if not (can_draw() or can_speak()):
        pytest.skip("neither Pillow nor espeak-ng is installed")
    questions = site.media_questions()
    assert questions
    for question in questions:
        page = site.pages[question.supporting_ids[0]]
        hidden = page.hidden
        assert hidden is not None
        body = site.get(f"/wiki/{page.id}").body.decode()
        assert question.files[0] in body
        assert page.text[hidden.start : hidden.end] not in re.sub(r"<[^>]+>", "", body)
        assert page.text[hidden.start : hidden.end] not in page.visible()
        assert any(a in page.text[hidden.start : hidden.end] for a in question.answers)


def test_media_files_are_real(site: Site) -> None:
    kinds = {"png": (can_draw(), b"\x89PNG"), "wav": (can_speak(), b"RIFF")}
    for form, (able, magic) in kinds.items():
        found = [p for p in site.paths() if p.endswith(form)]
        assert bool(found) == able
        if found:
            assert site.get(found[0]).body.startswith(magic)


def test_search_speaks_searxng_over_http(site: Site) -> None:
    page = next(p for p in site.pages.values() if p.kind == "film")
    with serve(site) as url:
        query = urllib.request.pathname2url(page.title)
        with urllib.request.urlopen(f"{url}/search?q={query}&format=json") as reply:
            found = json.load(reply)
        assert {"query", "number_of_results", "results", "answers", "suggestions", "unresponsive_engines"} <= set(found)
        first = found["results"][0]
        assert {"url", "title", "content", "engine", "score", "category"} <= set(first)
        assert page.title in [r["title"] for r in found["results"][:3]]
        assert first["url"].startswith(f"{url}/wiki/")  # whole addresses, as SearXNG gives them
        with urllib.request.urlopen(first["url"]) as reply:
            assert first["title"] in reply.read().decode()
        with urllib.request.urlopen(f"{url}/search?q=river&format=json&pageno=2") as reply:
            second = json.load(reply)["results"]
        with urllib.request.urlopen(f"{url}/search?q=river&format=json") as reply:
            assert not {r["url"] for r in json.load(reply)["results"]} & {r["url"] for r in second}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{url}/search?q=&format=json")


def test_site_of_a_folder_is_the_site_of_the_world(tmp_path: Path, site: Site) -> None:
    write_world(tmp_path / "w", Recipe(seed=21, articles=300, questions=20))
    opened = Site.open(tmp_path / "w")
    assert [opened.get(p).body for p in ("/", "/tables/ship.csv")] == [
        site.get(p).body for p in ("/", "/tables/ship.csv")
    ]
    for page in opened.pages.values():
        page.hidden = None
    count = opened.write(tmp_path / "out")
    assert count == sum(1 for f in (tmp_path / "out").rglob("*") if f.is_file()) == len(opened.pages) + 7
