"""HiRA on the web site of a generated world: two clicks, a table, a picture, by experts with their real tools."""

import json
import re

import pytest

from subquest.systems.hira import HiRA
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap
from subquest.tools.websearch import SearXNG
from subquest.worlds import make_world
from subquest.worlds.site import Site, serve

from .site import Reading

CALL = "<|begin_call_subtask|>{}<|end_call_subtask|>"


@pytest.fixture(scope="module")
def site():
    return Site.of(make_world(seed=21, articles=300, questions=10))


@pytest.fixture
def url(site, monkeypatch):
    with serve(site) as url:
        monkeypatch.setenv("SUBQUEST_ALLOW_HOSTS", url.removeprefix("http://"))
        monkeypatch.setenv("SEARXNG_URL", url)
        yield url


def driven(expert, work):
    """A planner that hands one task to one expert, whose steps are a function of what it sees."""

    def reply(context):
        if context.role == "planner":
            told = re.search(r"Final conclusion: (.*?)<\|end_subtask_result", context.text, re.DOTALL)
            return f"\\boxed{{{told[1]}}}" if told else CALL.format("Find it")
        if context.role == "coordinator":
            if "choose the expert" in context.text:
                return json.dumps({"selected_agent_name": expert})
            box = re.findall(r"\\boxed\{([^}]*)\}", context.text)[-1]
            return json.dumps({"conclusion": {"reasoning_process": "worked", "final_conclusion": box}})
        return work(context)

    return Reading(reply)


def linked(site):
    """Three articles in a row, each linked from the one before, the last not linked from the first."""
    for page in site.pages.values():
        first = set(re.findall(r"/wiki/([^']+)'", site.get(f"/wiki/{page.id}").body.decode()))
        for second in sorted(first):
            onward = set(re.findall(r"/wiki/([^']+)'", site.get(f"/wiki/{second}").body.decode()))
            for third in sorted(onward - first - {page.id}):
                return page, site.pages[second], site.pages[third]
    raise AssertionError("no chain of links")


async def test_two_clicks_from_the_search_result(site, url):
    first, second, third = linked(site)
    path = [f"{url}/wiki/{page.id}" for page in (first, second, third)]

    def work(context):
        if context.role == "deep":
            found = re.search(r"Found: (.*?)<\|end_search_result", context.text)
            if found:
                return f"\\boxed{{{found[1]}}}"
            return f"<|begin_search_query|>{first.title}<|end_search_query|>"
        if context.turn == len(path):
            return f"Final Information: Found: {third.title}"
        target = re.escape(path[context.turn])  # among the numbered results at first, then among the links of a page
        numbers = re.findall(rf"\[(\d+)\] (?:{target}|[^\n]*\({target}\))(?=\s|<)", context.text)
        assert numbers, f"{target} is not offered"
        return f"<|begin_click_link|>{numbers[-1]}<|end_click_link|>"

    episode = await HiRA(driven("deep", work)).solve("Where do two clicks lead?")
    assert episode.errors == ()
    assert episode.answer == third.title
    assert [e.data["url"] for e in episode.events if e.kind == "page"] == path


async def test_a_table_of_the_site_is_fetched_and_computed(site, url):
    try:
        bubblewrap.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    rows = [line.split(",") for line in site.get("/tables/river.csv").body.decode().splitlines()[1:]]
    longest = max(float(row[-1]) for row in rows if row[-1])

    def work(context):
        found = re.search(r"max is ([\d.]+)<\|end_code_call_result", context.text)
        if found:
            return f"\\boxed{{{found[1]}}}"
        code = f"import io, pandas\ntable = pandas.read_csv(io.StringIO(fetch('{url}/tables/river.csv').text))"
        return f"<|begin_code_call|>{code}\nprint('max is', float(table['length'].max()))<|end_code_call|>"

    episode = await HiRA(driven("code", work)).solve(f"How long is the longest river in {url}/tables/river.csv?")
    assert episode.errors == ()
    assert float(episode.answer) == longest


@pytest.mark.slow
async def test_a_picture_of_the_site_is_read(site, url):
    pytest.importorskip("rapidocr")
    pictures = [q for q in site.media_questions() if q.type == "picture"]
    if not pictures:
        pytest.skip("no drawing here")
    question = pictures[0]
    place = f"{url}{question.files[0]}"

    def work(context):
        shown = re.search(r"Text in it:\n(.*?)\(read by", context.text, re.DOTALL)
        if shown:
            return f"\\boxed{{{' '.join(shown[1].split())}}}"
        return f"<|begin_multimodal_call|>data: {place}\nquestion: {question.question}<|end_multimodal_call|>"

    episode = await HiRA(driven("multimodal", work), web=SearXNG(url)).solve(f"{question.question} See {place}")
    assert episode.errors == ()
    digits = re.sub(r"\D", "", episode.answer)
    assert any(re.sub(r"\D", "", answer) in digits for answer in question.answers)
