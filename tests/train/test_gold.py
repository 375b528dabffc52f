"""Gold traces: the real systems with a teacher in the model's place, on a real index of a small world."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.metrics import exact_match
from subquest.process import run_sync
from subquest.record import Question, Segment, Step, Trajectory
from subquest.retrieval import Index
from subquest.systems.apex.teacher import closing_step
from subquest.systems.baselines.teacher import DirectTeacher
from subquest.systems.coda.teacher import CoDATeacher
from subquest.train.data import load_material, open_search
from subquest.train.facts import Fact, facts_of, plan_of, query
from subquest.train.gold import GiveUp, GoldTeacher, Teacher, View, teacher_for
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart
from subquest.train.teacher import Traces, make_traces
from subquest.worlds import World, make_world

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "train"
SYSTEMS = ("coda", "search-r1", "autorefine", "decor", "apex", "rag")


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=11, articles=160, questions=24, hops=(1, 2, 3))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    source = tiny_source()
    return Vocabulary(source.tokenizer, source.architecture.vocabulary)


@pytest.fixture(scope="module")
def index(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.build(tmp_path_factory.mktemp("gold") / "world.sq", world.documents) as index:
        yield index


def traces(system: str, world: World, index: Index, vocabulary: Vocabulary, **settings: Any) -> Traces:
    # the tiny vocabulary needs several tokens a word: documents are shown whole
    return run_sync(make_traces(system, world.questions, index, vocabulary, CHATML, document_tokens=2000, **settings))


@pytest.mark.parametrize("system", SYSTEMS)
def test_traces_are_right_and_well_formed(system: str, world: World, index: Index, vocabulary: Vocabulary) -> None:
    found = traces(system, world, index, vocabulary)
    assert len(found.episodes) + sum(found.rejected.values()) == len(world.questions)
    assert len(found.episodes) >= (5 if system == "rag" else 12), found.rejected
    for episode in found.episodes:
        assert exact_match(episode.answer, episode.question.answers)
        for trajectory in episode.trajectories:
            assert trajectory.has_tokens
            assert not trajectory.format_errors
            assert 1 in trajectory.action_mask
            assert trajectory.action_mask[0] == 0


def test_tokens_are_the_texts_own(world: World, index: Index, vocabulary: Vocabulary) -> None:
    trajectory = traces("coda", world, index, vocabulary).episodes[0].trajectories[0]
    end = list(vocabulary.encode("<|im_end|>", True))
    for segment in trajectory.segments:
        ids = list(segment.token_ids)
        if segment.kind == "agent":
            assert ids[-1:] == end
            ids = ids[:-1]
        assert vocabulary.decode(ids) == segment.text


def test_refined_text_stands_in_the_supporting_passage(world: World, index: Index, vocabulary: Vocabulary) -> None:
    texts = " ".join(" ".join(d.text.split()) for d in world.documents)
    checked = 0
    for episode in traces("coda", world, index, vocabulary).episodes:
        for executor in episode.by_role("executor"):
            refined = executor.segments[-1].text.partition("<refine>")[2].partition("</refine>")[0]
            refined = re.sub(r"^Doc \d+(?: \(.*?\))? says: ", "", refined)
            for sentence in refined.partition(" Counted: ")[0].split("… "):
                assert sentence.rstrip(" …") in texts
            checked += 1
    assert checked > 12


def test_references_are_filled_in() -> None:
    question = Question("q", "?", ("C",), decomposition=(Step("Who made A?", "B"), Step("Where was #1 born?", "C")))
    assert [f.task for f in facts_of(question)] == ["Who made A?", "Where was B born?"]


def test_a_question_without_a_plan_is_one_step() -> None:
    assert facts_of(Question("q", "Who?", ("A",), supporting_titles=("T",))) == [Fact("Who?", "A", "")]


def test_a_passage_that_is_not_there_is_not_read() -> None:
    fact = Fact("Where was Mila Torrun born?", "Kestel", "Mila Torrun")
    reader = GoldTeacher(Question("q", "?", ("Kestel",)), [fact])
    passages = "Doc 1(Title: Else) Nothing.\nDoc 2(Title: Mila Torrun) She wrote. She was born in Kestel.\n"
    there = f"<documents>{passages}</documents>"
    assert reader.read(fact, there) == "Mila Torrun: She was born in Kestel."
    assert reader.read(fact, there.replace("Title: Mila Torrun", "Title: Mila Torun")) is None


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (Question("q", "?", ("A",)), "no gold plan"),
        (Question("q", "?", (), decomposition=(Step("x", "y"),)), "no gold answer"),
        (Question("q", "?", ("A",), decomposition=(Step("x"),)), "no gold plan"),
        (Question("q", "?", ("yes",), supporting_titles=("T",)), "no gold plan"),
    ],
)
def test_questions_that_cannot_be_taught_are_named(question: Question, reason: str) -> None:
    assert teacher_for("coda", question) == reason
    assert teacher_for("cot", question) == "no teacher for cot"


def test_a_fact_that_search_does_not_bring_is_counted(world: World, vocabulary: Vocabulary, tmp_path: Path) -> None:
    gone = [d for d in world.documents if d.title not in {t for q in world.questions for t in q.supporting_titles}]
    index = Index.build(tmp_path / "gone.sq", gone)
    found = traces("coda", world, index, vocabulary)
    assert not found.episodes
    assert found.rejected["the fact was not retrieved"] == len(world.questions)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real question sets are not beside the checkout")
@pytest.mark.parametrize(("name", "least"), [("2wikimultihopqa", 30), ("musique", 5)])
def test_real_plans_give_traces(name: str, least: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    part = DataPart(str(REAL / f"{name}_train.jsonl.gz"), (str(REAL / f"{name}_train_corpus.jsonl.gz"),), limit=60)
    material = load_material([part])
    assert not any(">>" in step.question for q in material.questions for step in q.decomposition)
    with open_search(material.documents, tmp_path) as search:
        found = run_sync(make_traces("coda", material.questions, search, vocabulary, CHATML))
    assert len(found.episodes) >= least, found.rejected


def decisions(found: Traces) -> list[str]:
    """What the executors of traces decided before anything was searched for."""
    executors = [t for e in found.episodes for t in e.by_role("executor")]
    return [next(s.text for s in t.segments if s.kind == "agent") for t in executors]


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_apex_is_taught_both_decisions(prompts: str, index: Index, world: World, vocabulary: Vocabulary) -> None:
    found = traces("apex", world, index, vocabulary, prompts=prompts)
    decided = decisions(found)
    assert set(decided) == {"answer", "retrieve"}
    closed = [
        e for e in found.episodes if e.by_role("executor")[-1].task == e.question.question and e.question.hops > 1
    ]
    assert len(closed) == decided.count("answer")
    for episode in closed:
        executor = episode.by_role("executor")[-1]
        assert not executor.usage.searches
        assert exact_match(executor.result, episode.question.answers)
        assert all(f"- {t.task} {t.result}" in executor.text for t in episode.by_role("executor")[:-1])
        assert not episode.by_role("planner")  # a plan that asks the whole question is nothing to learn
    assert all(e.by_role("planner") for e in found.episodes if e not in closed)


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("Where was the maker of Blue born?\nSay it in a word.", 2),
        ("Which #5 hit did the maker of Blue write?", 2),
        ("Who made Blue:", 2),
        ("Who made Blue?", 1),
        ("Who made Blue?", 5),
    ],
)
def test_a_question_that_cannot_close_its_plan_does_not(question: str, steps: int) -> None:
    facts = [Fact(f"{n}?", "a", "") for n in range(steps)]
    closed = [closing_step(Question(str(n), question, ("a",)), facts) for n in range(30)]
    assert set(closed) <= {"", " ".join(question.split())}
    assert any(closed) == ("Say it" in question)


def test_a_repeated_step_is_answered_from_what_is_known() -> None:
    steps = (Step("Who made Blue?", "Ada", "Blue"), Step("Who made Blue?", "Ada", "Blue"))
    teacher = teacher_for("apex", Question("q", "Who made Blue and Red?", ("Ada",), decomposition=steps))
    prompt = "Known:\n- Who made Blue? Ada\nSub-question: Who made Blue?\nanswer or retrieve"
    assert not isinstance(teacher, str)
    assert teacher.reply(View("executor", (Segment("prompt", prompt),))) == "answer"
    nothing = Segment("prompt", "Known: nothing yet\nSub-question: Who made Blue?\nanswer or retrieve")
    assert teacher.reply(View("executor", (nothing,))) == "retrieve"
    asked = (Segment("prompt", prompt), Segment("agent", "answer"), Segment("env", "Answer now"))
    assert teacher.reply(View("executor", asked)) == "<answer>Ada</answer>"


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real question sets are not beside the checkout")
@pytest.mark.parametrize("name", ["2wikimultihopqa", "musique"])
def test_real_plans_teach_both_decisions(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    part = DataPart(str(REAL / f"{name}_train.jsonl.gz"), (str(REAL / f"{name}_train_corpus.jsonl.gz"),), limit=150)
    material = load_material([part])
    with open_search(material.documents, tmp_path) as search:
        found = run_sync(make_traces("apex", material.questions, search, vocabulary, CHATML, document_tokens=2000))
    decided = decisions(found)
    assert 0.05 < decided.count("answer") / len(decided) < 0.3, (decided.count("answer"), len(decided))


def test_a_count_is_read_from_the_list_it_counts() -> None:
    fact = Fact("How many films did Ada Orn direct?", "3", "Ada Orn", ("B", "A", "C"))
    reader = GoldTeacher(Question("q", "?", ("3",)), [fact])
    listed = 'Orn made "A" (1963), "B" (1970) and "C" (1984).'
    note = reader.read(fact, f"Doc 1(Title: Ada Orn) Ada Orn, who directed plays, lived in Ys. {listed}")
    assert note == f"Ada Orn: {listed} Counted: 1 A, 2 B, 3 C."
    assert reader.result(fact) == "3"


def test_a_list_is_read_whole_or_not_at_all() -> None:
    fact = Fact("Which ships did Orn build?", "MV A and MV B", "Orn", ("MV A", "MV B"))
    reader = GoldTeacher(Question("q", "?", ("x",)), [fact])
    assert reader.read(fact, "Doc 1(Title: Orn) Orn built MV B. It also built ships such as MV A.") is not None
    assert reader.result(fact) == "MV B, MV A"
    assert reader.read(fact, "Doc 1(Title: Orn) Orn built MV B and MV …") is None


def test_the_sentence_that_names_whom_the_task_asks_about_is_read() -> None:
    fact = Fact("Which newspaper did Ada Orn found?", "Ys Gazette", "Ys Gazette")
    reader = GoldTeacher(Question("q", "?", ("x",)), [fact])
    passage = "Doc 1(Title: Ys Gazette) The Ys Gazette is a newspaper of Ys. Orn set it up in 1901."
    assert reader.read(fact, passage) == "Ys Gazette: Orn set it up in 1901."


def test_a_possessive_name_is_read_where_the_answer_has_the_article() -> None:
    fact = Fact("Who was Ada Orn's doctoral advisor?", "Bo Ruk", "Bo Ruk")
    passage = "Doc 1(Title: Bo Ruk) Bo Ruk liked tides. He supervised the doctorate of Ada Orn; he died in 1950."
    reader = GoldTeacher(Question("q", "?", ("x",)), [fact])
    assert reader.read(fact, passage) == "Bo Ruk: He supervised the doctorate of Ada Orn; he died in 1950."
    assert query(fact, 1) == "Ada Orn"
    assert query(fact, 2) == "Ada Orn doctoral advisor"


LISTS = Question(
    "q",
    "Which of Ann's books has the fewest pages?",
    ("Bee",),
    type="superlative",
    decomposition=(
        Step("Which books did Ann write?", "Ant and Bee", "Ann"),
        Step("How many pages has the novel Ant?", "120", "Ant"),
        Step("How long is the novel Bee?", "90", "Bee"),
    ),
    meta={
        "program": [["all", "1", "books"], ["get", "#1.0", "pages"], ["get", "#1.1", "pages"]],
        "operation": ["best", "min", 1, 2],
        "items": {"1": ["Ant", "Bee"]},
    },
)


def test_a_plan_names_nothing_that_is_yet_to_be_found() -> None:
    assert plan_of(LISTS) == ["Which books did Ann write?", "How many pages has the novel #1?"]
    both = Question(
        "q",
        "?",
        ("Ys",),
        decomposition=(Step("List A?", "Ant and Bee"), Step("List B?", "Bee and Cow"), Step("Where is Bee set?", "Ys")),
        meta={
            "program": [["all", "1", "x"], ["all", "2", "x"], ["get", "#1&2", "setting"]],
            "items": {"1": ["Ant", "Bee"], "2": ["Bee", "Cow"]},
        },
    )
    assert plan_of(both)[-1] == "Where is the one in #1 and #2 set?"
    assert teacher_for("apex", both) == "the plan cannot be known beforehand"


def test_items_of_a_list_are_asked_about_at_once_in_the_order_read() -> None:
    teacher = teacher_for("coda", LISTS)
    assert isinstance(teacher, CoDATeacher)
    assert teacher.reply(View("planner", ())).endswith("<task>Which books did Ann write?</task>")
    assert teacher.read(teacher.facts[0], "Doc 1(Title: Ann) Ann wrote Bee (1901) and Ant (1902).")
    asked = teacher.reply(View("planner", (Segment("agent", "x"),)))
    assert asked == "<task>How long is the novel Bee?</task><task>How many pages has the novel Ant?</task>"
    done = teacher.reply(View("planner", (Segment("agent", "x"), Segment("agent", "y"))))
    assert done.endswith("; the smaller of 090 and 120 is 090: Bee</think><answer>Bee</answer>")


def test_world_questions_say_what_their_lists_hold() -> None:
    made = make_world(seed=3, articles=300, questions=150, types=("counting", "superlative", "intersection"))
    for question in made.questions:
        assert question.meta["items"]
        for n, names in question.meta["items"].items():
            answer = question.decomposition[int(n) - 1].answer
            assert answer == str(len(names)) or all(name in answer for name in names)
    asked = [q for q in made.questions if q.type == "superlative"]
    assert asked
    for question in asked:
        plan = plan_of(question)
        assert len(plan) == 2, plan
        assert not any(name in plan[1] for name in question.meta["items"]["1"])


def test_the_teacher_without_search_needs_no_plan() -> None:
    teacher = teacher_for("direct", Question("q", "Who?", ("Ada", "Ada L.")))
    assert isinstance(teacher, DirectTeacher)
    assert teacher_for("direct", Question("q", "Who?")) == "no gold answer"


PAIR = Question(
    "q",
    "Which film's director was born first, Grey or Blue?",
    ("Blue",),
    type="bridge-comparison",
    decomposition=(
        Step("Who directed Grey?", "Ann", "Grey"),
        Step("Who directed Blue?", "Bo", "Blue"),
        Step("When was #1 born?", "1931", "Ann"),
        Step("When was #2 born?", "1928", "Bo"),
    ),
)


def test_the_full_prompt_gets_tasks_together_and_plain_thoughts() -> None:
    teacher = teacher_for("coda", PAIR)
    assert isinstance(teacher, CoDATeacher)
    shown = (Segment("prompt", "Asked: x\n<task>y</task>", role="assistant"),)
    first = teacher.reply(View("planner", shown))
    assert first == (
        "Needed: 1. Who directed Grey? 2. Who directed Blue? 3. When was #1 born? 4. When was #2 born?\n"
        "<task>Who directed Grey?</task>\n<task>Who directed Blue?</task>"
    )
    assert teacher.read(teacher.facts[0], "Doc 1(Title: Grey) Grey was directed by Ann.")
    assert teacher.read(teacher.facts[1], "Doc 1(Title: Blue) Blue was directed by Bo.")
    second = teacher.reply(View("planner", (*shown, Segment("agent", first))))
    assert second == (
        "Known: Who directed Grey? Ann; Who directed Blue? Bo. Still needed: When was Ann born? When was Bo born?\n"
        "<task>When was Ann born?</task>\n<task>When was Bo born?</task>"
    )
    last = teacher.reply(View("planner", (*shown, Segment("agent", first), Segment("agent", second))))
    assert last.endswith("Still needed: nothing. The earlier of 1931 and 1928 is 1928: Blue.\n<answer>Blue</answer>")
    assert "<think>" not in last


SINGLE = Question(
    "s", "Who runs Pell Yard?", ("Ann Roe",), decomposition=(Step("Who manages Pell Yard?", "Ann Roe", "Pell Yard"),)
)


def test_a_question_about_one_fact_is_handed_on_as_it_is_and_then_in_other_words() -> None:
    teacher = teacher_for("coda", SINGLE)
    assert isinstance(teacher, CoDATeacher)
    planner = (Segment("prompt", "Asked: x\n<task>y</task>", role="assistant"),)
    first = teacher.reply(View("planner", planner))
    assert first == "Needed: one fact.\n<task>Who runs Pell Yard?</task>"

    def look(task: str, *told: str) -> str:
        """What the executor writes after it was shown some documents."""
        shown = [Segment("prompt", f"Task: {task}", role="user")]
        for text in told:
            shown += [Segment("agent", "<search>x</search>"), Segment("env", f"<documents>{text}\n</documents>")]
        example = Segment("prompt", "<refine>x</refine>\n<result>y</result>", role="assistant")
        return teacher.reply(View("executor", (example, *shown)))

    nothing = "Doc 1(Title: Pell) Pell is a town."
    assert look("Who runs Pell Yard?").endswith("<search>Who runs Pell Yard?</search>")
    assert look("Who runs Pell Yard?", nothing).endswith("<search>Pell Yard</search>")
    assert look("Who runs Pell Yard?", nothing, nothing).endswith(
        "<result>Not found: no document answers the task.</result>"
    )
    in_vain = (*planner, Segment("agent", first), Segment("env", "<result>Not found: no document answers it.</result>"))
    again = teacher.reply(View("planner", in_vain))
    assert again == "Known: nothing yet. I ask in other words.\n<task>Who manages Pell Yard?</task>"
    with pytest.raises(GiveUp, match="the fact was not retrieved"):
        look("Who manages Pell Yard?", nothing, nothing)
    found = "Doc 1(Title: Pell Yard) Pell Yard is managed by Ann Roe."
    assert look("Who manages Pell Yard?", nothing, found).endswith("<result>Pell Yard is managed by Ann Roe.</result>")
    heard = (*in_vain, Segment("agent", again), Segment("env", "<result>Pell Yard is managed by Ann Roe.</result>"))
    assert teacher.reply(View("planner", heard)).endswith("Still needed: nothing.\n<answer>Ann Roe</answer>")


def test_with_the_compact_prompts_it_is_asked_in_the_words_of_the_plan() -> None:
    teacher = teacher_for("coda", SINGLE)
    assert isinstance(teacher, CoDATeacher)
    assert teacher.reply(View("planner", ())) == "<task>Who manages Pell Yard?</task>"
    wrong = (Segment("agent", "x"), Segment("env", "<result>not found</result>"))
    with pytest.raises(GiveUp, match="wrong sub-answer"):
        teacher.reply(View("planner", wrong))


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_apex_decides_with_one_word_whether_more_is_needed(
    prompts: str, index: Index, world: World, vocabulary: Vocabulary
) -> None:
    replies = [
        after.text
        for e in traces("apex", world, index, vocabulary, prompts=prompts).episodes
        for t in e.by_role("executor")
        for before, after in itertools.pairwise(t.segments)
        if before.kind == "env" and "one word: yes or no" in before.text
    ]
    assert replies
    assert set(replies) <= {"yes", "no"}


def test_rag_reads_its_own_documents_and_not_those_of_the_example() -> None:
    prompt = "<documents>Doc 1(Title: Tor) Tor is old.</documents>\nQuestion: Is Tor old?"
    asked = "<documents>Doc 1(Title: Blue) Ada made Blue.</documents>\nQuestion: Who made Blue?"
    question = Question("q", "Who made Blue?", ("Ada",), decomposition=(Step("Who made Blue?", "Ada", "Red"),))
    teacher = teacher_for("rag", question)
    assert not isinstance(teacher, str)
    shown = (Segment("prompt", prompt, role="user"), Segment("prompt", asked, role="user"))
    assert teacher.reply(View("agent", shown)) == "<answer>Ada</answer>"
    with pytest.raises(GiveUp):
        teacher.reply(View("agent", (Segment("prompt", asked, role="user"), Segment("prompt", prompt, role="user"))))


CHAIN = Question(
    "q",
    "In which country was the maker of Blue born?",
    ("Norland",),
    type="bridge",
    supporting_titles=("Blue", "Ada Orn", "Ys"),
    decomposition=(
        Step("Who made Blue?", "Ada Orn", "Blue"),
        Step("Where was #1 born?", "Ys", "Ada Orn"),
        Step("In which country is #2?", "Norland", "Ys"),
    ),
)
BLUE = "Doc 1(Title: Blue) Ada Orn made Blue."
ADA = "Doc 2(Title: Ada Orn) She was born in Ys."
YS = "Doc 1(Title: Ys) Ys is a town in Norland."
EXAMPLE = Segment("prompt", "<think>x</think>\n<search>y</search>", role="assistant")


def turn(teacher: Teacher | str, role: str, *texts: str, example: Segment = EXAMPLE) -> str:
    """What a teacher writes with full prompts; `texts` are what the agent wrote and was told, in turn."""
    assert not isinstance(teacher, str)
    kinds = itertools.cycle(["agent", "env"])
    told = [Segment("agent" if kind == "agent" else "env", text) for kind, text in zip(kinds, texts, strict=False)]
    return teacher.reply(View(role, (Segment("prompt", "<refine>"), example, *told)))


def test_a_search_agent_begins_with_the_question_and_reads_all_that_it_brings() -> None:
    teacher = teacher_for("autorefine", CHAIN)
    first = turn(teacher, "agent")
    assert first.endswith(f"I begin with the question.</think>\n<search>{CHAIN.question}</search>")
    second = turn(teacher, "agent", first, f"{BLUE}\n{ADA}\n")
    assert second == (
        "<refine>Doc 1 says: Ada Orn made Blue. Doc 2 (Ada Orn) says: She was born in Ys.</refine>\n"
        "<think>Missing: In which country is Ys?</think>\n<search>In which country is Ys?</search>"
    )
    last = turn(teacher, "agent", first, "x", second, YS)
    assert last.endswith("<think>Nothing is missing.</think>\n<answer>Norland</answer>")


def test_what_nobody_has_asked_for_yet_is_not_read() -> None:
    """The passage about the birthplace comes first, but who was born there is not known yet."""
    teacher = teacher_for("search-r1", CHAIN)
    first = turn(teacher, "agent")
    second = turn(teacher, "agent", first, YS)
    assert second.endswith("Missing: Who made Blue?</think>\n<search>Who made Blue?</search>")
    third = turn(teacher, "agent", first, YS, second, "nothing")
    assert third.endswith("<search>Blue</search>"), "other words"
    with pytest.raises(GiveUp, match="not retrieved"):
        turn(teacher, "agent", first, YS, second, "nothing", third, "nothing")


def test_decor_begins_with_the_question_and_says_of_each_document_whether_it_is_kept() -> None:
    teacher = teacher_for("decor", CHAIN)
    assert turn(teacher, "planner").endswith(f"the whole question.</think>\n<search>{CHAIN.question}</search>")
    other = "Doc 1(Title: Red) Red is a colour.\n"
    shown = Segment("prompt", f"{other}{BLUE.replace('Doc 1', 'Doc 2')}", role="user")
    assert not isinstance(teacher, str)
    assert teacher.reply(View("filter", (EXAMPLE, shown))) == (
        "<think>Doc 1 is about Red: left out. Doc 2 is about Blue: kept.</think>\n<filter>Ada Orn made Blue.</filter>"
    )
    assert turn(teacher, "planner") == (
        "<think>Known: Who made Blue? Ada Orn. Missing: Where was Ada Orn born?</think>\n"
        "<search>Where was Ada Orn born?</search>"
    )
    nothing = teacher.reply(View("filter", (EXAMPLE, Segment("prompt", other, role="user"))))
    assert nothing.endswith("<filter>None</filter>")


def test_a_country_is_not_read_out_of_a_longer_name() -> None:
    fact = Fact("What is the country of citizenship of James Ivory?", "America", "James Ivory")
    reader = GoldTeacher(Question("q", "?", ("America",)), [fact])
    passage = "Ivory is an American director. He won an award of the Writers Guild of America."
    assert reader.read(fact, f"Doc 3(Title: James Ivory) {passage}", cites=True) == (
        "Doc 3 (James Ivory) says: Ivory is an American director."
    )


@pytest.mark.parametrize("system", ["coda", "apex"])
@pytest.mark.parametrize(("hops", "untaught"), [(1, frozenset()), (2, frozenset({"planner"}))])
def test_nobody_learns_to_hand_on_a_whole_question(system: str, hops: int, untaught: frozenset[str]) -> None:
    question = Question("q", "Who made the film in which Ada plays?", ("Bo",), hops=hops, supporting_titles=("Blue",))
    teacher = teacher_for(system, question)
    assert not isinstance(teacher, str)
    assert teacher.untaught == untaught


def test_a_family_name_alone_is_not_the_person_asked_about() -> None:
    fact = Fact("Who was Kip Bulmi's mother?", "Zul Fele", "Zul Fele")
    reader = GoldTeacher(Question("q", "?", ("Zul Fele",)), [fact])
    passage = "Zul Fele was an actress. Fele married Tim Bulmi in 1977. Her only child was Kip Bulmi."
    assert reader.read(fact, f"Doc 1(Title: Zul Fele) {passage}") == "Zul Fele: Her only child was Kip Bulmi."


@pytest.mark.parametrize("system", SYSTEMS)
def test_full_traces_are_right_and_well_formed(system: str, world: World, index: Index, vocabulary: Vocabulary) -> None:
    found = traces(system, world, index, vocabulary, prompts="full")
    assert len(found.episodes) >= (5 if system == "rag" else 12), found.rejected
    assert "malformed" not in found.rejected
    assert "wrong answer" not in found.rejected
    for episode in found.episodes:
        first = next(e.data["queries"][0] for e in episode.events if e.kind == "search")
        if system in ("search-r1", "autorefine", "decor"):
            assert first == episode.question.question


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_executors_that_look_first_learn_what_comes_after_it(
    prompts: str, world: World, index: Index, vocabulary: Vocabulary
) -> None:
    """The same queries and results, without the turn that searches; with the compact prompts token for token."""

    def executors(look_first: bool) -> list[Trajectory]:
        made = traces("coda", world, index, vocabulary, prompts=prompts, look_first=look_first)
        return [t for episode in made.episodes for t in episode.by_role("executor")]

    def tokens(trajectory: Trajectory) -> list[int]:
        return [i for segment in trajectory.segments for i in segment.token_ids]

    written, looked = executors(False), executors(True)
    assert len(written) == len(looked) > 10
    assert [t.written_turns[1:] for t in written] == [t.written_turns for t in looked]
    if prompts == "compact":
        assert [tokens(t) for t in written] == [tokens(t) for t in looked]


@pytest.mark.parametrize(
    ("prompts", "refine", "sentences", "alone"),
    [("compact", True, False, False), ("full", True, True, False), ("full", False, False, True)],
)
def test_results_are_written_as_the_prompt_asks_for(
    prompts: str, refine: bool, sentences: bool, alone: bool, world: World, index: Index, vocabulary: Vocabulary
) -> None:
    """CoDA's full prompt asks executors for a sentence after a note, the compact one for the fact after a note, and
    the full one without notes for the fact alone."""
    made = traces("coda", world, index, vocabulary, prompts=prompts, refine=refine)
    found = [trajectory for episode in made.episodes for trajectory in episode.by_role("executor")]
    assert found
    assert (sum(len(t.result.split()) > 6 for t in found) > len(found) / 2) is sentences
    assert all(t.written_turns[-1].startswith("<result>") is alone for t in found)


@pytest.mark.parametrize(
    ("passage", "result"),
    [
        ("Blue is a film. It was directed by Bo.", "Blue: It was directed by Bo."),
        ("film: Blue; directed by: Bo; year: 1971; studio: Ans", "Who directed Blue? Bo"),
        (f"Blue was directed by Bo, {'who liked it, ' * 12}in 1971.", "Who directed Blue? Bo"),
    ],
)
def test_a_result_is_a_short_sentence_of_the_document_or_the_task_with_its_answer(passage: str, result: str) -> None:
    teacher = teacher_for("coda", PAIR)
    prompt = Segment("prompt", "Task: Who directed Blue?", role="user")
    example = Segment("prompt", "<refine>x</refine>\n<result>y</result>", role="assistant")
    told = Segment("env", f"<documents>Doc 1(Title: Blue) {passage}\n</documents>")
    said = teacher.reply(View("executor", (example, prompt, Segment("agent", "<search>Blue</search>"), told)))
    assert said.endswith(f"<result>{result}</result>")


def test_a_result_that_was_sent_back_for_its_number_is_not_learnt() -> None:
    told = Segment("env", "1902 stands in nothing that you have read.")
    prompt = Segment("prompt", "Task: Who directed Blue?", role="user")
    with pytest.raises(GiveUp, match="number that stands in no document"):
        teacher_for("coda", PAIR).reply(View("executor", (prompt, Segment("agent", "<result>1902</result>"), told)))
