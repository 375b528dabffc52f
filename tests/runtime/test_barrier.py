"""The information barrier: long verbatim stretches are cut, everything else passes."""

from collections.abc import Sequence

from subquest.engine.scripted import ScriptedEngine
from subquest.record import Document, Hit
from subquest.runtime.barrier import VERBATIM_WORDS, Barrier, _cached_sequences
from subquest.systems.coda import CoDA

WORDS = [f"w{i}" for i in range(200)]
DOCUMENTS = {"d": Document("d", "t", " ".join(WORDS)), "e": Document("e", "t", " ".join(WORDS[::-1]))}


def cut(text: str, question: str = "q") -> str:
    return Barrier(question).cut(text, DOCUMENTS)


def test_short_quotes_pass() -> None:
    text = f"He said: {' '.join(WORDS[: VERBATIM_WORDS - 1])}, and more."
    assert cut(text) == text
    assert Barrier("q").cut(" ".join(WORDS), {}) == " ".join(WORDS)


def test_a_long_stretch_is_cut_and_what_follows_is_kept() -> None:
    text = f"Before. {' '.join(WORDS[20:120])} After."
    assert cut(text) == f"Before. {' '.join(WORDS[20 : 20 + VERBATIM_WORDS - 1])} … After."


def test_each_of_several_stretches_is_cut() -> None:
    text = f"{' '.join(WORDS[:60])} between {' '.join(WORDS[::-1][:60])} end"
    first, second = " ".join(WORDS[: VERBATIM_WORDS - 1]), " ".join(WORDS[::-1][: VERBATIM_WORDS - 1])
    assert cut(text) == f"{first} … between {second} … end"


def test_a_whole_file_is_cut_too_and_not_cached_sequences() -> None:
    words = [f"v{i}" for i in range(2000)]
    before = _cached_sequences.cache_info().misses
    told = Barrier("q").cut(" ".join(words[500:600]), {"f": Document("f", "t", " ".join(words))})
    assert told == " ".join(words[500 : 500 + VERBATIM_WORDS - 1]) + " …"
    assert _cached_sequences.cache_info().misses <= before + 1  # the question's


def test_capitals_do_not_hide_a_stretch() -> None:
    assert cut(" ".join(WORDS).upper()) == " ".join(WORDS[: VERBATIM_WORDS - 1]).upper() + " …"


def test_punctuation_and_spacing_do_not_hide_a_stretch() -> None:
    assert " ".join(WORDS[:VERBATIM_WORDS]) not in " ".join(cut(",\n ".join(WORDS)).replace(",", "").split())


def test_what_the_question_quotes_may_pass() -> None:
    quoted = " ".join(WORDS[:80])
    assert cut(f"Question: {quoted}?", question=f"Who wrote “{quoted}”?") == f"Question: {quoted}?"
    assert cut(" ".join(WORDS), question=quoted) != " ".join(WORDS)


def test_text_without_spaces_is_cut_as_well() -> None:
    """A Chinese paragraph is a handful of words between spaces and commas, and yet a document."""
    signs = [chr(0x4E00 + i) for i in range(200)]
    text = "。".join("".join(signs[i : i + 20]) for i in range(0, 200, 20))
    document = Document("d", "t", text)
    passed = Barrier("？").cut(f"结果 {text}", {"d": document})
    assert passed == f"结果 {text[: VERBATIM_WORDS - 1 + 2]}…"
    assert Barrier("？").cut(text[:40], {"d": document}) == text[:40]


async def test_every_text_of_one_address_is_known() -> None:
    """A web search cuts another snippet of the same page for each query; none of them may reach the planner."""
    snippets = [" ".join(f"{name}{i}" for i in range(70)) for name in ("early", "late")]

    class Web:
        name = "web"

        async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            text = snippets[0 if "first" in queries[0] else 1]
            return [[Hit(Document("http://page.example/", "Page", text), 1.0)]]

    for copied in snippets:
        replies = {
            "planner": ["<task>Look</task>", "<answer>done</answer>"],
            "executor": ["<search>first</search>", "<search>second</search>", f"<result>{copied}</result>"],
        }
        episode = await CoDA(ScriptedEngine(replies), Web()).solve("?")
        told = episode.by_role("planner")[0].text
        assert copied.split()[0] in told
        assert copied not in told
