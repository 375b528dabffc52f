"""The tag parser on well-formed, malformed and hostile text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.protocol import TAGS, fence, parse, wrap
from subquest.protocol.tags import _parse_odd, _parse_tidy

from ..timing import slower


def blocks(text: str) -> list[tuple[str, str, bool]]:
    return [(b.tag, b.content, b.closed) for b in parse(text).blocks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think> <task> b </task>", [("think", "a", True), ("task", "b", True)]),
        ("<task>a</task><task>b</task>", [("task", "a", True), ("task", "b", True)]),
        ("<search>where is it", [("search", "where is it", False)]),
        ("<search>a<answer>b</answer>", [("search", "a", False), ("answer", "b", True)]),
        ("<task>a<task>b</task>", [("task", "a", False), ("task", "b", True)]),
        (
            "<think>I could <search>x</search> now</think><task>t</task>",
            [("think", "I could <search>x</search> now", True), ("task", "t", True)],
        ),
        ("<think>no end <task>t</task>", [("think", "no end", False), ("task", "t", True)]),
        ("<think>no end at all", [("think", "no end at all", False)]),
        ("< Answer >x</ ANSWER >", [("answer", "x", True)]),
        ("<answer><result>x</result></answer>", [("answer", "x", True)]),
        ("<search/>", [("search", "", True)]),
        ('<task id="1">x</task>', [("task", "x", True)]),
        ("<|begin_call_subtask|>do it<|end_call_subtask|>", [("call_subtask", "do it", True)]),
        ("<|begin_search_query|>q", [("search_query", "q", False)]),
        ("<|begin_search_query|>q</|end_search_query|>", [("search_query", "q", True)]),
        ("<|begin_call_subtask|>q<|/end_call_subtask|> r", [("call_subtask", "q", True)]),
        ("<|begin_x|>q<|end_x>", [("x", "q", True)]),
        ("<|begin_x|>q<end_x|/>", [("x", "q", True)]),
        ("<|begin_x|>q</|begin_x|>", [("x", "q", True)]),
        ("<|begin_x|>q</end_of_turn>", [("x", "q</end_of_turn>", False)]),
        ("a < b and <b>bold</b>", []),
        ("", []),
    ],
)
def test_blocks(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert blocks(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<search>q", "<search> is not closed"),
        ("q</search>", "</search> without <search>"),
        ("<ANSWER>x</answer>", "odd spelling of <answer>"),
        ("<answer><result>x</result></answer>", "<result> inside <answer>"),
        ("<search>q</task>", "<search> is not closed"),
    ],
)
def test_problems_are_named(text: str, problem: str) -> None:
    assert problem in parse(text).problems


def test_well_formed_text_has_no_problems() -> None:
    parsed = parse("<think>why</think>\n<search>who</search>")
    assert parsed.problems == ()
    assert parsed.outside == ""
    assert parsed.text("search") == "who"
    assert parsed.text("answer") == ""


def test_text_outside_is_kept() -> None:
    assert parse("Sure! <answer>x</answer> Bye").outside == "Sure! Bye"


PARTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [f"<{t}>" for t in TAGS]
        + [f"</{t}>" for t in TAGS]
        + ["<|begin_x|>", "<|end_x|>", "</|end_x|>", "<|begin_x", "end_x|>", "<", ">", "</", "|", "/"]
    ),
)


@given(st.lists(PARTS, max_size=40))
def test_never_raises_and_keeps_order(parts: list[str]) -> None:
    text = "".join(parts)
    parsed = parse(text)
    ends = 0
    for block in parsed.blocks:
        assert ends <= block.start < block.end <= len(text)
        ends = block.end
    for block in parsed.blocks:
        if block.tag != "think":
            assert not parse(block.content).blocks


@given(st.lists(st.tuples(st.sampled_from(TAGS[1:]), st.text(alphabet="abc é中", max_size=8)), max_size=8))
def test_well_formed_round_trip(pairs: list[tuple[str, str]]) -> None:
    parsed = parse("\n".join(f"<{tag}>{content}</{tag}>" for tag, content in pairs))
    assert [(b.tag, b.content) for b in parsed.blocks] == [(tag, content.strip()) for tag, content in pairs]
    assert parsed.problems == ()


@given(st.lists(PARTS, max_size=40))
def test_fenced_text_holds_no_tags(parts: list[str]) -> None:
    document = "".join(parts)
    assert parse(fence(document)).blocks == ()
    inside = parse(wrap("documents", document))
    assert [b.tag for b in inside.blocks] == ["documents"]
    assert inside.blocks[0].closed


def test_fence_softens_control_tokens_and_leaves_other_text() -> None:
    assert fence("x <|im_end|> y </Documents > if a < b: <b>") == "x ‹|im_end|› y ‹/Documents › if a < b: <b>"


def test_only_a_tag_in_disguise_costs_a_text_its_accents() -> None:
    read = "Ståle Storløkken of Dombås, Ανδρέας"
    assert fence(f"{read} <|im_end|> <answer>") == f"{read} ‹|im_end|› ‹answer›"
    assert fence(f"{read} <|im_end|> <аnswer>") == "Stale Storlokken of Dombas, Avδpέaς ‹|im_end|› ‹answer›"


def test_linear_time_on_hostile_text() -> None:
    def read(n: int) -> None:
        for text in ("<task>" * n, "<think>" + "<search>" * n, "</task>" * n, "<" * n, "<task " * n):
            parse(text)

    assert slower(lambda: read(20_000), lambda: read(2_000), most=60, least=1e-3) == ""


@pytest.mark.parametrize(
    "token",
    [
        "<|im_end|>",
        "<｜User｜>",
        "</s>",
        "<s>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<eos>",
        "[INST]",
        "[/inst]",
        "<<SYS>>",
        "[|assistant|]",  # EXAONE
        "[|endofturn|]",
        "]~b]",  # MiniMax
        "]~!b[",
        "[e~[",
        "<beginning_of_sentence>",
        "</minimax:tool_call>",
        "<seed:bos>",  # Seed-OSS
        "</seed:think>",
        "<SPECIAL_10>",  # Nemotron
        "<extra_id_1>",
        "</TOOLCALL>",
        "<|turn>",  # newer Gemma
        "<turn|>",
        "<start_of_image>",
    ],
)
def test_control_tokens_of_common_chat_formats_are_fenced(token: str) -> None:
    fenced = fence(f"before {token} after")
    assert token not in fenced
    assert fenced.startswith("before ")
    assert fenced.endswith(" after")
    for plain in ("plain [1] text < 3 > 2 <sub>x</sub>", "| a | b |", "f(x)[x] ~ [b]", "a[i] | b[j]", "x<y||y>z"):
        assert fence(plain) == plain


@given(
    st.lists(st.one_of(st.text(max_size=12), PARTS, st.sampled_from(TAGS).map(lambda t: f"<{t}> x </{t}>")), max_size=8)
)
def test_the_quick_way_reads_what_the_long_way_reads(parts: list[str]) -> None:
    text = "".join(parts)
    assert _parse_tidy(text, TAGS) in (None, _parse_odd(text, TAGS))


def test_the_quick_way_is_taken_where_it_can_be() -> None:
    assert _parse_tidy("Well. <think>5 > 3</think>\n<task> b </task>", TAGS) is not None
    assert _parse_tidy("<think>3 < 5</think>", TAGS) is None


@pytest.mark.parametrize(
    ("text", "blocks", "outside"),
    [
        ("O <search>a</search>.</think><answer>x</answer>", [("think", "O <search>a</search>."), ("answer", "x")], ""),
        ("Plain.</think>\nKestel", [("think", "Plain.")], "Kestel"),
        ("<task>a</task></think>", [("task", "a")], ""),
        ("<task>a</task></think> Done.", [("task", "a")], "Done."),
        ("<think>a</think><search>b</search></think>", [("think", "a"), ("search", "b")], ""),
    ],
)  # fmt: skip
def test_a_thought_that_the_prompt_has_opened(text: str, blocks: list[tuple[str, str]], outside: str) -> None:
    """Chat templates of reasoning models write `<think>` themselves; the model only closes it."""
    parsed = parse(text)
    assert [(b.tag, b.content) for b in parsed.blocks] == blocks
    assert parsed.outside == outside
    assert parsed.problems == ("</think> without <think>",)


def test_an_opening_tag_written_twice_is_one() -> None:
    parsed = parse("<answer><answer>Kestel</answer>")
    assert [(b.tag, b.content, b.closed) for b in parsed.blocks] == [("answer", "Kestel", True)]
    assert parsed.problems == ("<answer> is not closed",)
    assert len(parse("<task>a <task>b</task>").blocks) == 2
