"""What a planner reckons, checked: right thoughts pass, wrong ones are put right, and CoDA acts on it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.codec import from_dict
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineUnavailable
from subquest.limits import Limits
from subquest.record import Episode
from subquest.systems.coda import CoDA
from subquest.systems.reckoning import Slip, count_up, slips
from subquest.systems.spelling import as_written
from subquest.train.reading import facts_of
from subquest.train.recipe import Recipe
from subquest.train.reckoning import conclusion
from subquest.train.setup import make_system
from subquest.worlds import make_world

from .fakes import FakeSearch


def corrections(thought: str, steps: tuple[tuple[str, str], ...] = ()) -> list[str]:
    return [slip.right for slip in slips(thought, steps)]


def shared(thought: str, results: list[str]) -> tuple[str, str] | None:
    found = slips(thought, [("?", result) for result in results])
    return (found[0].taken, found[0].value) if found else None


FILMS = "Scarlet Lighthouse, Hungry Map, Floating Door and Salt Horizon"
OTHERS = "Floating Door, The Hasty Harbour and Where the Heron Meets the Summer"


@pytest.mark.parametrize(
    ("thought", "right"),
    [
        ("formed: 1964; opened: 1968; 1964 to 1968 6", "1964 to 1968 4"),
        ("2003 to 2010 8, 2020 18, 2023 21", "2003 to 2010 7, 2020 17, 2023 20"),
        ("44200 is smaller than 40700", "44200 is larger than 40700"),
        ("12,500 is smaller than 4,070, so yes", "12,500 is larger than 4,070"),
        ("00971 is larger than 10500", "00971 is smaller than 10500"),
        ("1883-02-11 is later than 1883-05-01", "1883-02-11 is earlier than 1883-05-01"),
        ("the later of 1973 and 2020 is 1973: Ashes", "the later of 1973 and 2020 is 2020"),
        ("the smallest of 12.5, 3 and 7 is 7: Ys", "the smallest of 12.5, 3 and 7 is 3"),
        (
            "1829 to 1830 1, 1833 4; 07-07 is not before 09-02: 4",
            "1829 to 1830 1, 1833 4; 07-07 is before 09-02: 4 - 1 = 3",
        ),
        (
            "1829 to 1830 1, 1833 4; 09-07 is not before 09-02: 4 - 1 = 3",
            "1829 to 1830 1, 1833 4; 09-07 is not before 09-02: 4",
        ),
        ("07-07 is not before 09-02", "07-07 is before 09-02"),
        ("17 - 9 = 9", "17 - 9 = 8"),
        ("so 1,200 × 3 = 3,700", "1,200 × 3 = 3600"),
        ("10 / 4 = 3.5", "10 / 4 = 2.5"),
        ("Ana Brel and Ana Brel are not the same", "Ana Brel and Ana Brel are the same"),
    ],
)
def test_a_slip_is_put_right(thought: str, right: str) -> None:
    assert corrections(thought) == [right]


@pytest.mark.parametrize(
    "thought",
    [
        "",
        "1871 to 1880 9, 1890 19, 1895 24",
        "44200 is larger than 40700; the earlier of 1901-05-03 and 1901-05-04 is 1901-05-03: A",
        "1916 to 1920 4; 05-02 is not before 05-01: 4",
        "10 / 3 = 3.33, 0.5 + 0.25 = 0.75 and 5 / 0 = 7",
        "Ys and Ker are not the same",
        "The USA and the United States are the same",  # names that differ may still be one
        "Chapters 3 to 5 2 pages",
        "in both: Salt Horizon",  # without the lists it cannot be told
    ],
)
def test_what_is_right_or_unclear_passes(thought: str) -> None:
    assert corrections(thought) == []


@given(st.integers(1000, 2100), st.integers(1, 150), st.integers(-3, 3))
def test_years_are_counted(start: int, years: int, slip: int) -> None:
    told = count_up(start, start + years)
    assert corrections(told) == []
    head, _, last = told.rpartition(" ")
    if slip and years + slip >= 0:
        assert corrections(f"{head} {int(last) + slip}") == [told]


_PARTS = st.sampled_from(
    [
        "1964", "9" * 5000, "1,2", "0.5", "-", " to ", " is ", "smaller than ", "the later of ", " and ", ", ", "; ",
        " = ", " / ", "0", "07-07", "not before ", "before ", ": ", "in both: ", "are not the same", "Ana", "٣٤",
        "1968-02-30", ".",
    ]
)  # fmt: skip


@given(st.lists(_PARTS, max_size=14).map("".join), st.lists(st.lists(_PARTS, max_size=6).map("".join), max_size=3))
def test_whatever_a_model_writes_can_be_read(thought: str, results: list[str]) -> None:
    for slip in slips(thought, [("Ana?", result) for result in results]):
        assert slip.right


def test_an_item_that_two_lists_share() -> None:
    assert shared("in both: Salt Horizon", [FILMS, OTHERS]) == ("Salt Horizon", "Floating Door")
    assert shared("in both: floating door", [FILMS, "Ana Brel", OTHERS]) is None
    assert shared("in both: Ashes", ["Ashes and Bone", "Bone and Clay"]) == ("Ashes", "Bone")
    assert shared("in both: Bone", ["Ash, The Map and the Bell and Bone", "The Map and the Bell and Clay"]) == (
        "Bone",
        "The Map and the Bell",
    )
    assert shared("in both: Ash", ["Ash, Bone and Clay", "Bone, Clay and Dew"]) is None  # two that are shared
    assert shared("in both: Ash", ["Ash", "Bone"]) is None


def test_results_that_are_reckoned_with_are_copied_as_they_are() -> None:
    steps = [("Who painted Ashes?", "Ana Brel"), ("How many live in Ys?", "44,200"), ("Who is he?", "x" * 400)]
    assert corrections("Who painted Ashes: Ana Brol; x and y are the same; Who is he: y", steps) == [
        "Who painted Ashes: Ana Brel"
    ]
    assert corrections("How many live in Ys: 42,200", steps) == ["How many live in Ys: 44,200"]
    assert (
        corrections("Who painted Ashes: Ana Brol; How many live in Ys: 44200", steps) == []
    )  # nobody reckons with her
    assert corrections("Who painted Ashes: Ana Brel (painter); Brel and Brol are the same", steps) == []


def test_years_are_counted_between_the_results() -> None:
    steps = [("When did it open?", "1893"), ("Who made it?", "Ana"), ("When was Ana born?", "1 May 1928")]
    assert slips("1910 to 1920 10, 1928 18", steps) == [Slip(count_up(1893, 1928), "18", "35")]
    assert slips(count_up(1893, 1928), steps) == []
    assert slips("1910 to 1920 10, 1928 18", [*steps, ("When did Ana die?", "1999")]) == []  # which two, nobody knows


def test_every_gold_thought_of_a_world_passes() -> None:
    checked = 0
    for question in make_world(seed=71, articles=300, questions=300, hops=(2, 3, 4)).questions:
        facts = facts_of(question)
        results = [fact.answer for fact in facts]
        thought = conclusion(question, facts, results)
        checked += bool(thought)
        steps = [(f.task, r) for f, r in zip(facts, results, strict=True)]
        assert slips(thought, steps, question.question) == []
    assert checked > 50


HEIGHTS = [("What is the elevation of Ys?", "198 m"), ("How high does Port Ker lie?", "1,035 metres")]
LOWER = "Which lies lower, Ys or Port Ker?"
PUT_RIGHT = Slip("the smaller of 0198 and 1035 is 0198: Ys", "Port Ker", "Ys")


@pytest.mark.parametrize(
    ("thought", "steps", "slip"),
    [
        ("the smaller of 0198 and 1035 is 1035: Port Ker", HEIGHTS, PUT_RIGHT),
        ("the smaller of 0198 and 1035 is 0198: Port Ker.", HEIGHTS, PUT_RIGHT),
        ("the smaller of 0198 and 1035 is 0198: Ys", HEIGHTS, None),
        ("the smaller of 0198 and 1035 is 0198: the town", HEIGHTS, None),  # nobody knows which is meant
        (
            "the smaller of 0198 and 1035 is 1035: Port Ker",
            [*HEIGHTS, ("How far is Ys?", "198 km")],  # whose value it is, neither
            Slip("the smaller of 0198 and 1035 is 0198"),
        ),
        (
            "the smaller of 0198 and 1035 is 1035: Port Ker",
            [("What is its elevation?", "198 m"), HEIGHTS[1]],
            Slip("the smaller of 0198 and 1035 is 0198"),
        ),
    ],
)
def test_the_name_goes_with_its_value(thought: str, steps: list[tuple[str, str]], slip: Slip | None) -> None:
    assert slips(thought, steps, LOWER) == ([slip] if slip else [])


def test_the_name_may_stand_at_any_step_of_a_chain() -> None:
    steps = [
        ("Who directed Ashes?", "Ana Brel"), ("When was Ana Brel born?", "1 May 1928"),
        ("Who directed The Map and the Bell?", "Ugo Tal"), ("What is Ugo Tal's date of birth?", "3 June 1901"),
    ]  # fmt: skip
    question = "Whose director was born earlier, Ashes's or The Map and the Bell's?"
    for wrong, right in (("Ashes", "The Map and the Bell"), ("Ana Brel", "Ugo Tal")):
        (slip,) = slips(f"the earlier of 1928 and 1901 is 1928: {wrong}", steps, question)
        assert (slip.taken, slip.value) == (wrong, right)


def test_who_takes_another_s_name_in_a_world_is_put_right() -> None:
    put = left = 0
    world = make_world(seed=72, articles=400, questions=500, hops=(2, 3, 4, 5))
    titles = {document.id: document.title for document in world.documents}
    for question in world.questions:
        facts = facts_of(question)
        thought = conclusion(question, facts, [fact.answer for fact in facts])
        answer, (name, *rest) = question.answers[0], question.meta.get("operation") or [""]
        told, found, _ = thought.rpartition(f": {answer}")
        if name not in ("pick", "best") or not found:
            continue
        if name == "best":
            options = question.meta["items"]["1"]
        else:
            options = [facts[int(ref[1:]) - 1].answer if ref[0] == "#" else titles[ref] for ref in rest[3:]]
        for other in {*options} - {answer}:
            found_slips = slips(f"{told}: {other}", [(f.task, f.answer) for f in facts], question.question)
            put, left = put + bool(found_slips), left + (not found_slips)
            assert [slip.value for slip in found_slips] in ([], [answer])
    assert put > 9 * left


def asked(planner: list, executor: list[str], **settings: object) -> Episode:
    return CoDA(ScriptedEngine({"planner": planner, "executor": executor}), FakeSearch(), **settings).ask("How long?")


YEARS = ["<result>1964</result>", "<result>1968</result>"]
COUNTING = ["<task>When was it begun?</task>", "<task>When did it end?</task>"]
WRONG = "<think>1964 to 1968 6</think><answer>6</answer>"
LARGER = "<think>1964 is later than 1968</think><answer>yes</answer>"


def told(episode: Episode) -> list[str]:
    return [e.data["message"] for e in episode.events if e.kind == "error" and e.data["where"] == "reckoning"]


def test_an_answer_that_is_the_wrong_value_is_put_right() -> None:
    episode = asked([*COUNTING, WRONG], YEARS)
    assert (episode.answer, told(episode)) == ("4", ["1964 to 1968 4"])
    assert episode.by_role("planner")[0].result == "4"


def test_any_other_answer_comes_back_with_what_is_right() -> None:
    episode = asked([*COUNTING, LARGER, "<think>1964 is earlier than 1968</think><answer>no</answer>"], YEARS, turns=3)
    assert (episode.answer, episode.forced) == ("no", False)
    assert episode.by_role("planner")[0].segments[-2].text == "<result>1964 is earlier than 1968</result>"
    assert told(episode) == ["1964 is earlier than 1968"]


def test_an_answer_comes_back_twice_at_most() -> None:
    episode = asked([*COUNTING, LARGER, LARGER, LARGER, "<answer>never asked</answer>"], YEARS)
    assert (episode.answer, len(told(episode))) == ("yes", 2)


def test_an_answer_counts_where_nothing_is_left_to_write_it_again() -> None:
    episode = asked([*COUNTING, LARGER, "<answer>never asked</answer>"], YEARS, limits=Limits(calls=5))
    assert (episode.answer, episode.forced, len(told(episode))) == ("yes", False, 1)


def test_a_planner_that_writes_no_other_answer_keeps_its_own() -> None:
    assert asked([*COUNTING, LARGER, "<think>hm</think>"], YEARS).answer == "yes"


def test_nobody_checks_where_it_is_off() -> None:
    episode = asked([*COUNTING, WRONG], YEARS, check=False)
    assert (episode.answer, told(episode)) == ("6", [])


def test_a_task_about_the_wrong_item_is_about_the_right_one() -> None:
    planner = [
        "<task>Which films did A make?</task>",
        "<task>Which films did B make?</task>",
        "<think>Salt Horizon yes; in both: Salt Horizon</think><task>When was Salt Horizon out?</task>",
        "<answer>1976</answer>",
    ]
    executor = [f"<result>{FILMS}</result>", f"<result>{OTHERS}</result>", "<result>1976</result>"]
    episode = asked(planner, executor)
    assert [t.task for t in episode.by_role("executor")][-1] == "When was Floating Door out?"
    assert told(episode) == ["in both: Floating Door"]
    assert asked(planner, executor, check=False).by_role("executor")[-1].task == "When was Salt Horizon out?"


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("Grervlanya Silorsky", "Grevlanya Silorsky"),
        ("Friamma", "Frimma"),
        ("Grevlanya Silorsky", "Grevlanya Silorsky"),
        ("American", "American"),  # not the source's America
        ("Frimmo", "Frimmo"),
        ("1,947", "1,947"),
        ("Ortvane or Orzvane", "Ortvane or Orzvane"),  # both Orvane and Orlvane are near
        ("Éméritte Borel", "Émeritte Borel"),
        ("When was Farhin Praelgomore born?", "When was Forthin Praelgomore born?"),
        ("the Branninjordic–Rakuloan War", "the Bregninjordic–Rakuloan War"),
        ("Brunnojordik–Rakuloan", "Brunnojordik–Rakuloan"),
        ("Wore they late?", "Wore they late?"),
        ("Farhin Silorsky", "Farhin Silorsky"),
        ("Birna Praelgomore", "Birna Praelgomore"),
        ("", ""),
    ],
)
def test_names_are_spelt_as_they_were_read(text: str, spelt: str) -> None:
    sources = [
        "Were they late? She was the child of Grevlanya Silorsky.",
        "Frimma came to America.",
        "Orvane, Orlvane, Émeritte Borel",
    ]
    sources += ["Doctor Forthin Praelgomore and Pungith Praelgomore", "the Bregninjordic–Rakuloan War"]
    assert as_written(text, sources) == spelt


def test_a_result_and_a_task_are_spelt_as_read() -> None:
    planner = [
        "<task>Who designed the Orvane Bridge?</task>",
        "<task>Where was Mila Toorrun born?</task>",
        "<answer>Kestel</answer>",
    ]
    executor = ["<search>Orvane Bridge</search>", "<result>Mila Torrrun</result>", "<result>Kestel</result>"]
    episode = asked(planner, executor)
    assert [(t.task, t.result) for t in episode.by_role("executor")] == [
        ("Who designed the Orvane Bridge?", "Mila Torrun"),
        ("Where was Mila Torrun born?", "Kestel"),
    ]
    said = [e.data["message"] for e in episode.events if e.kind == "error"]
    assert said == ["Mila Torrrun is Mila Torrun", "Where was Mila Toorrun born? is Where was Mila Torrun born?"]
    assert asked(planner, executor, check=False).by_role("executor")[0].result == "Mila Torrrun"


def test_a_wrong_number_is_replaced_where_it_stands_by_itself() -> None:
    planner = [*COUNTING, "<think>1964 to 1968 6</think><task>Who was 6 in 1966?</task>", "<answer>Ana</answer>"]
    episode = asked(planner, [*YEARS, "<result>Ana</result>"])
    assert episode.by_role("executor")[-1].task == "Who was 4 in 1966?"


def test_an_answer_stands_where_the_model_fails_to_write_it_again() -> None:
    episode = asked([*COUNTING, LARGER, EngineUnavailable("gone")], YEARS)
    assert (episode.answer, episode.stop_reason) == ("yes", "answered")
    assert [failure.where for failure in episode.errors] == ["engine"]


def test_training_does_not_check() -> None:
    assert slips("1964 to 1968 6") == [Slip("1964 to 1968 4", "6", "4")]
    recipe = from_dict(
        Recipe,
        {"name": "r", "kind": "rl", "system": "coda", "model": {"path": "m"}, "data": [{"questions": "q.jsonl"}]},
    )
    engine = ScriptedEngine([])
    assert not make_system(recipe, engine, FakeSearch(), temperature=1.0).settings.check
    asked_for = dataclasses.replace(recipe, settings={"check": True})
    assert make_system(asked_for, engine, FakeSearch(), temperature=1.0).settings.check
