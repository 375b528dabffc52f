"""A model plays roles in gold traces: its own turns are learnt, and only where what comes of them is right."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.chat_format import CHATML
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.errors import ConfigError, EngineUnavailable
from subquest.record import Document, Question, Step
from subquest.systems.coda.teacher import CoDATeacher
from subquest.systems.decor.teacher import CUT, FULL
from subquest.train import gold_traces
from subquest.train import instruct as pipeline
from subquest.train.data import Material, open_search
from subquest.train.facts import facts_of
from subquest.train.gold import NOT_RETRIEVED
from subquest.train.instruct import run_pipeline
from subquest.train.random_model import tiny_source
from subquest.train.recipe import InstructPart, load_recipe
from subquest.train.teacher import TEMPERATURE, Traces, make_traces

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
EXECUTES = ("executor", "synthesizer")
DOCUMENTS = [
    Document("1", "Blue", "Blue is a painting. Ada Vale made Blue in Kestel."),
    Document("2", "Ada Vale", "Ada Vale, a painter, was born in 1901."),
]
STEPS = (Step("Who made Blue?", "Ada Vale", "Blue"), Step("When was #1 born?", "1901", "Ada Vale"))
QUESTION = Question("q", "When was the maker of Blue born?", ("1901",), decomposition=STEPS)
ANSWERS = {"Who made Blue?": "Ada Vale", "When was Ada Vale born?": "1901", QUESTION.question: "1901"}
Reply = Callable[[Context], str | Exception]


def asked(context: Context) -> str:
    return context.text.rpartition("Sub-question: ")[2].partition("\n")[0]


def executor(answers: dict[str, str]) -> Reply:
    """An executor with words of its own."""

    def reply(context: Context) -> str:
        if context.role == "planner":
            return "<plan>\n1. Who painted Blue?\n2. Which year saw #1 come into the world?\n</plan>"
        if context.role == "synthesizer":
            return "<think>It is all there.</think><answer>1901</answer>"
        if context.turn == 0:
            return "retrieve"
        if "search query" in context.last:
            return f"<search>in my own words: {asked(context)}</search>"
        return "no" if "more documents" in context.last else f"<answer>{answers.get(asked(context), '?')}</answer>"

    return reply


async def played(
    reply: Reply, folder: Path, monkeypatch: pytest.MonkeyPatch, *, question: Question = QUESTION, **options: object
) -> Traces:
    monkeypatch.setattr(pipeline, "open_teacher", lambda part, seeds: ScriptedEngine(reply))
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    part = replace(InstructPart("any", plans=False, plays=EXECUTES), **options)  # type: ignore[arg-type]
    material = Material([question], DOCUMENTS)
    with open_search(DOCUMENTS, folder) as search:
        return await run_pipeline(part, "apex", *material[:2], search, vocabulary, CHATML)


async def test_its_own_turns_are_learnt_in_the_students_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (episode,) = (await played(executor(ANSWERS), tmp_path, monkeypatch)).episodes
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    first = episode.by_role("executor")[0]
    turns = [s for s in first.segments if s.kind == "agent"]
    assert turns[1].text == "<search>in my own words: Who made Blue?</search>"
    assert vocabulary.decode(list(turns[1].token_ids[:-1])) == turns[1].text
    assert "Ada Vale made Blue" in first.text  # the query went to the real search
    assert sum(first.action_mask) == sum(len(s.token_ids) for s in turns)
    assert "It is all there." in episode.by_role("synthesizer")[0].text


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({**ANSWERS, "Who made Blue?": "Kestel"}, "trace: wrong: wrong sub-answer"),
        ({"Who made Blue?": "Ada Vale"}, "trace: wrong: wrong sub-answer"),
    ],
)
async def test_a_wrong_sub_answer_leaves_the_trace_out(
    answers: dict[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final answer is right all the same: the trace would teach a wrong way to it."""
    found = await played(executor(answers), tmp_path, monkeypatch)
    assert not found.episodes
    assert found.rejected == Counter({reason: 1})


async def test_further_attempts_are_sampled_until_one_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def reply(context: Context) -> str | Exception:
        if context.role == "executor" and context.turn == 0 and asked(context) == "Who made Blue?":
            tried.append(len(tried))
        return executor(ANSWERS if len(tried) == 3 else {})(context)

    assert not (await played(reply, tmp_path, monkeypatch, attempts=2)).episodes
    tried.clear()
    assert len((await played(reply, tmp_path, monkeypatch, attempts=4)).episodes) == 1
    assert len(tried) == 3


async def test_the_first_attempt_decodes_as_the_system_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine(executor({}))
    warmth: list[float] = []
    session = type(await engine.open([Message("user", "x")]))
    generate = session.generate

    async def spy(self: object, sampling: Sampling) -> object:
        warmth.append(sampling.temperature)
        return await generate(self, sampling)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "generate", spy)
    await played(executor({}), tmp_path, monkeypatch, attempts=2)
    half = len(warmth) // 2
    assert warmth == [0.0] * half + [TEMPERATURE] * half


async def test_under_a_plan_of_its_own_the_answer_alone_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = ("planner", *EXECUTES)
    plain = replace(QUESTION, decomposition=())  # no gold plan is needed then
    for question in (QUESTION, plain):
        found = await played(executor({}), tmp_path, monkeypatch, question=question, plays=everything)
        assert [e.by_role("planner")[0].result.splitlines()[0] for e in found.episodes] == ["Who painted Blue?"]
    wrong = replace(plain, answers=("1902",))
    found = await played(executor({}), tmp_path, monkeypatch, question=wrong, plays=everything)
    assert found.rejected == Counter({"trace: wrong: wrong answer": 1})


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda context: EngineUnavailable("down"), "trace: flawed: down"),
        (lambda context: "word " * 2000, "trace: flawed: a turn was cut off"),
        (lambda context: "dunno", "trace: flawed: malformed"),
    ],
)
async def test_what_goes_wrong_while_it_plays_is_counted(
    reply: Reply, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await played(reply, tmp_path, monkeypatch)
    assert not found.episodes
    assert found.rejected == Counter({reason: 1})


async def test_roles_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no role 'exekutor' in apex; there are planner, executor, synthesizer"):
        await played(executor({}), tmp_path, monkeypatch, plays=("exekutor",))
    for teacher in ("", "rules"):
        slip = {"instruct.plays": ["executor"], "instruct.teacher": teacher}
        with pytest.raises(ConfigError, match="roles are played by a model"):
            load_recipe(RECIPES / "apex-exec-smoke.toml", slip)
    with pytest.raises(ConfigError, match=r"instruct\.attempts must be a whole number from 1"):
        load_recipe(RECIPES / "apex-exec-smoke.toml", {"instruct.attempts": 0})


@pytest.mark.parametrize("prompts", ["full", "compact"])
@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ({"Who made Blue?": "Blue is by Ada Vale.", "When was Ada Vale born?": "Ada Vale was born in 1901."}, ""),
        ({"Who made Blue?": "Blue is by Ada Vale.", "When was Ada Vale born?": "In 1902."}, "wrong sub-answer"),
        ({"Who made Blue?": "Not found: nothing on Blue."}, "wrong sub-answer"),
    ],
)
async def test_codas_planner_hears_what_was_played(
    results: dict[str, str], reason: str, prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(context: Context) -> str:
        task = context.text.rpartition("Task: ")[2].partition("\n")[0]
        if context.turn == 0:
            return f"<search>{task}</search>"
        return f"<refine>Doc 1 says so.</refine><result>{results[task]}</result>"

    monkeypatch.setattr(pipeline, "open_teacher", lambda part, seeds: ScriptedEngine(reply))
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    part = InstructPart("any", plans=False, plays=("executor",))
    with open_search(DOCUMENTS, tmp_path) as search:
        made = await run_pipeline(part, "coda", [QUESTION], DOCUMENTS, search, vocabulary, CHATML, prompts=prompts)
    if reason:
        assert made.rejected == Counter({f"trace: wrong: {reason}": 1})
        return
    (planner,) = made.episodes[0].by_role("planner")
    assert "not found" not in "".join(s.text for s in planner.segments if s.kind == "agent")
    if prompts == "full":
        assert "Known: When was Ada Vale born? 1901. Still needed: nothing." in planner.text


MADE = "Blue, a painting, was made by Ada Vale."
BORN = "When was Ada Vale born?"
UNKNOWN = replace(QUESTION, answers=("unknown",))


@pytest.mark.parametrize("prompts", ["full", "compact"])
@pytest.mark.parametrize(
    ("question", "evidence", "reason"),
    [
        (QUESTION, "The painter Ada Vale was born in 1901.", ""),
        (QUESTION, "Ada Vale was born in 1902.", "wrong sub-answer"),
        (QUESTION, "None", "wrong sub-answer"),
        (UNKNOWN, "None", ""),
        (UNKNOWN, "Ada Vale was born in 1902.", "wrong sub-answer"),
    ],
)
async def test_decors_planner_and_answerer_know_what_the_played_filter_wrote(
    question: Question, evidence: str, reason: str, prompts: str, tmp_path: Path
) -> None:
    """The full set asks once more, in other words, and finds it then: what was wrong before is refused all the same."""

    def reply(context: Context) -> str:
        query = context.text.rpartition("Query: ")[2].partition("\n")[0]
        again = "None" if question.unanswerable else "Ada Vale was born in 1901."
        found = {BORN: evidence, "Ada Vale": again}.get(query, MADE)
        return f"<think>I read.</think><filter>{found}</filter>"

    documents = DOCUMENTS[:1] if question.unanswerable else DOCUMENTS
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    tracing = (Vocabulary(source.tokenizer, source.architecture.vocabulary), CHATML)
    part = InstructPart("any", plans=False, plays=("filter",))
    settings = {"teacher": ScriptedEngine(reply), "prompts": prompts, "abstain": True}
    with open_search(documents, tmp_path) as search:
        made = await run_pipeline(part, "decor", [question], documents, search, *tracing, **settings)  # type: ignore[arg-type]
    if reason:
        assert made.rejected == Counter({f"trace: wrong: {reason}": 1})
        return
    (episode,) = made.episodes
    assert episode.stated_answer == question.answers[0]
    last = episode.by_role("planner")[-1]
    assert last.text.endswith("<search>None</search>")
    if prompts == "full" and not question.unanswerable:
        assert "Known: When was Ada Vale born? 1901. Missing: nothing." in last.text
        assert [t.task for t in episode.by_role("filter")] == [QUESTION.question, BORN]


async def test_decor_does_not_answer_from_a_memory_that_lacks_a_step(tmp_path: Path) -> None:
    """After the last search allowed, the answer would come from nowhere."""
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    tracing = (Vocabulary(source.tokenizer, source.architecture.vocabulary), CHATML)
    with open_search(DOCUMENTS, tmp_path) as search:
        for turns, kept in ((1, 0), (2, 1)):
            made = await make_traces("decor", [QUESTION], search, *tracing, prompts="compact", turns=turns)
            assert (len(made.episodes), made.rejected) == (kept, {} if kept else {NOT_RETRIEVED: 1})


async def test_decors_teacher_does_not_compress(tmp_path: Path) -> None:
    """It would have to write facts in fewer words; before, it wrote the answer."""
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    tracing = (Vocabulary(source.tokenizer, source.architecture.vocabulary), CHATML)
    with open_search(DOCUMENTS, tmp_path) as search:
        made = await make_traces("decor", [QUESTION], search, *tracing, prompts="compact", memory_tokens=20)
    assert made.rejected == {FULL: 1}


async def test_decor_learns_nothing_from_evidence_that_memory_cut(tmp_path: Path) -> None:
    """The answer would be right, from notes that do not say it."""
    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    tracing = (Vocabulary(source.tokenizer, source.architecture.vocabulary), CHATML)
    with open_search(DOCUMENTS, tmp_path) as search:
        for size, rejected in ((20, {CUT: 1}), (4096, {})):
            made = await make_traces("decor", [QUESTION], search, *tracing, prompts="full", memory_tokens=size)
            assert made.rejected == rejected


@pytest.mark.parametrize(
    ("facts", "reason"),
    [("Ada Vale made it.", ""), ("A painter.", "wrong: wrong sub-answer"), ("long " * 50, f"flawed: {CUT}")],
)
async def test_who_plays_a_role_of_decor_compresses_as_well(facts: str, reason: str, tmp_path: Path) -> None:
    """It need not be named, and nobody learns it: the compressor is a frozen model."""

    def reply(context: Context) -> str:
        if context.role == "compressor":
            return facts
        query = context.text.rpartition("Query: ")[2].partition("\n")[0]
        found = "Ada Vale, a painter, was born in 1901." if query == BORN else MADE
        return f"<filter>{found}</filter>"

    source = tiny_source("llama", [d.text for d in DOCUMENTS])
    tracing = (Vocabulary(source.tokenizer, source.architecture.vocabulary), CHATML)
    part = InstructPart("any", plans=False, plays=("filter",))
    settings = {"teacher": ScriptedEngine(reply), "prompts": "compact", "memory_tokens": 36}
    with open_search(DOCUMENTS, tmp_path) as search:
        made = await run_pipeline(part, "decor", [QUESTION], DOCUMENTS, search, *tracing, **settings)  # type: ignore[arg-type]
    assert made.rejected == Counter({f"trace: {reason}": 1} if reason else {})
    for episode in made.episodes:
        actions = [event.data["action"] for event in episode.events if event.kind == "memory"]
        assert actions == ["add", "compress", "add"]
        assert {t.role for t in episode.trajectories} == {"planner", "filter", "answerer"}


def test_coda_reads_a_date_in_any_form() -> None:
    born = replace(
        QUESTION,
        answers=("18 September 1984",),
        decomposition=(STEPS[0], replace(STEPS[1], answer="18 September 1984")),
    )
    teacher = CoDATeacher(born, facts_of(born))
    for result, holds in (("Ada Vale was born on September 18, 1984.", True), ("She was born in 1984.", False)):
        assert teacher.holds(result, teacher.facts[-1]) is holds


def test_one_model_plays_all_sources_but_those_that_stay_gold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(
        RECIPES / "apex-exec-smoke.toml",
        {"instruct.teacher": "any", "instruct.plans": False, "instruct.plays": ["executor"]},
    )
    (source,) = recipe.data
    opened: list[ScriptedEngine] = []

    def one_more(part: InstructPart) -> ScriptedEngine:
        opened.append(ScriptedEngine(lambda context: "dunno"))
        return opened[-1]

    monkeypatch.setattr(gold_traces, "open_teacher", one_more)
    as_it_is = replace(source, instruct=False)
    traces = gold_traces.gold_traces(replace(recipe, data=(source, as_it_is, source)), tiny_source("llama", ["text"]))
    gold = gold_traces.gold_traces(replace(recipe, data=(as_it_is,)), tiny_source("llama", ["text"]))
    assert len(opened) == 1
    assert len(traces) == len(gold) > 0
    assert traces.rejected["trace: flawed: malformed"] % 2 == 0
    assert traces.rejected["trace: flawed: malformed"] > 0
