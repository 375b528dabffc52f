"""Calls by tokens such as `<|begin_search_query|>`, inside what a role writes."""

import pytest

from subquest.engine import Generation
from subquest.protocol import parse
from subquest.runtime.tool_loop import calls
from subquest.runtime.turn import Turn


def written(text: str) -> Turn:
    return Turn(text, parse(text), Generation(text, "stop"))


@pytest.mark.parametrize("end", ["<|end_{}|>", "</|end_{}|>", "<|/end_{}|>", "<|end_{}>", "</|begin_{}|>"])
def test_an_end_token_that_is_written_oddly_is_no_part_of_a_call(end: str) -> None:
    turn = written(f"<|begin_call_subtask|>How does it work?{end.format('call_subtask')} a < b | c > d")
    assert calls(turn, "call_subtask") == [("call_subtask", "How does it work?")]
    code = "print('</|end_search_query|>')"
    assert calls(written(f"<|begin_code_call|>{code}{end.format('code_call')}"), "code_call") == [("code_call", code)]
