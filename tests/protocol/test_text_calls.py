"""Tool calls in text, in the forms that models write and servers hand through."""

import json

import pytest

from subquest.protocol.text_calls import find_calls

NAMES = ("search", "answer", "run_python")
QUERY = '{"query": "q"}'
CALL = f'{{"name": "search", "arguments": {QUERY}}}'


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"<tool_call>{CALL[:-1]}</tool_call>",  # a brace is missing
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"```tool_call\n{CALL}\n```",
        CALL,
        f"[{CALL}]",
        f"[TOOL_CALLS][{CALL}]",
        f"<tool_calls>[{CALL}]</tool_calls>",
        f"<|tool_call|>[{CALL}]<|/tool_call|>",
        f"functools[{CALL}]",
        f'<|python_tag|>{{"name": "search", "parameters": {QUERY}}}',
        f'{{"tool_calls": [{{"type": "function", "function": {CALL}}}]}}',
        json.dumps({"name": "search", "arguments": QUERY}),
        f"<function=search>{QUERY}</function>",
        "<tool_call>\n<function=search>\n<parameter=query>\nq\n</parameter>\n</function>\n</tool_call>",
        "<function=search><parameter=query>q",
    ],
)
@pytest.mark.parametrize("before", ["", "I look it up.\n", "<think>A {draft}.</think>\nI look it up.\n\n"])
def test_the_usual_forms(before: str, text: str) -> None:
    found = find_calls(before + text, NAMES)
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [("search", {"query": "q"})]
    assert found.before == before.rstrip()


def test_several_calls_and_what_is_invented_behind_them() -> None:
    text = f'{CALL}\n{{"name": "answer", "arguments": {{"answer": "a"}}}}\nResult: nothing was found {{}}.'
    assert [call.name for call in find_calls(text, NAMES).calls] == ["search", "answer"]
    tagged = f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>"
    assert len(find_calls(tagged, NAMES).calls) == 2


def test_code_in_an_argument_is_kept() -> None:
    code = 'rows = {"a": [1]}\nprint(f"```{rows}```")'
    text = f"```json\n{json.dumps({'name': 'run_python', 'arguments': {'code': code}})}\n```"
    (call,) = find_calls(text, NAMES).calls
    assert json.loads(call.arguments) == {"code": code}


@pytest.mark.parametrize(
    "text",
    [
        "Ada Merrow was born in 1871.",
        "<search>capital of Peru</search>",
        '{"query_plan": ["q"]}',
        '{"name": "Ada Merrow", "arguments": {"born": 1871}}',  # no function of that name
        '{"name": "search"}',
        f"<think>I could write {CALL}",
        f"<think>I could write {CALL}</think> Not needed.",
        "{" * 1000,
        "",
    ],
)
def test_no_calls(text: str) -> None:
    assert find_calls(text, NAMES) == (text, ())


def test_a_name_that_is_none_counts_where_a_call_was_meant() -> None:
    text = '<tool_call>{"name": "browse", "arguments": {}}</tool_call>'
    assert find_calls(text, NAMES).calls == (("browse", "{}"),)


@pytest.mark.parametrize("text", ['<tool_call>{"name": "search", "arguments": {"query": "ca', "<function=search>{"])
def test_a_call_that_was_cut_off_is_none(text: str) -> None:
    assert find_calls(text, NAMES, cut=True).calls == ()
    assert find_calls(f"{CALL} {text}", NAMES, cut=True).calls[:1] in ((("search", QUERY),), ())


def test_a_whole_call_counts_though_what_follows_was_cut_off() -> None:
    assert find_calls(f"{CALL}\nThe result is the the the", NAMES, cut=True).calls == (("search", QUERY),)
