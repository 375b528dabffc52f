"""What the roles of our systems can do, as tables: offered as functions to endpoints with native tool calls.

A call is written into the turn as the text that the system parses (`engine.actions`), so a table only says how each
action is called, what the model is told about it, and how it is written. Roles that reply in free text or JSON (HiRA's
coordinator, IRCoT's reasoner, readers, compressors) are in no table: they do not act.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..engine.actions import Action

_SHORT = "the answer alone, as short as possible"

ANSWER = Action("answer", "Give the final answer and end.", "answer", _SHORT)
BOXED = Action("answer", "Give the final answer and end.", "answer", _SHORT, "\\boxed{", "}")
SEARCH = Action("search", "Search the corpus; the documents found come back.", "query", "one precise query")
PLAN = Action("plan", "Hand over the plan.", "steps", "one sub-question a line; #1 stands for the first one's answer")
TASK = Action("task", "Hand one self-contained sub-task to an executor; its result comes back.", "task")
RESULT = Action("result", "Report the outcome of the task and end.", "result", "a short, self-contained finding")
NEXT_QUERY = Action("search", "Search for the missing fact, or stop.", "query", "one precise query, or None to stop")
FILTER = Action("filter", "Hand over what helps with the query.", "evidence", "one paragraph, or None")
DECIDE = Action("decide", "Reply to a question that asks for one word.", "word", "the word", "", "")


def inside(tag: str, name: str, description: str, argument: str, about: str = "") -> Action:
    """An action of HiRA's dialect, written `<|begin_tag|>…<|end_tag|>`."""
    return Action(name, description, argument, about, f"<|begin_{tag}|>", f"<|end_{tag}|>")


SUBTASK = inside("call_subtask", "call_subtask", "Hand a sub-task to an expert; its result comes back.", "task")
WEB_SEARCH = inside("search_query", "search", "Search; what was found comes back.", "query", "one precise query")
CLICK = inside("click_link", "click_link", "Open a result or a link.", "link", "its number or address; add 'part 2'")
CODE = inside("code_call", "run_python", "Run Python; what it prints comes back.", "code")
READ = inside("read_file", "read_file", "Read an attached file as text.", "name", "its name; add 'part 2'")
LOOK = inside(
    "multimodal_call",
    "look",
    "Look at an image, or listen to a sound or video.",
    "call",
    "two lines, data: name of the file or its address, and question: what you want to know",
)

EXPERTS: Mapping[str, Sequence[Action]] = {
    "deep": (WEB_SEARCH, BOXED),
    "explorer": (WEB_SEARCH, CLICK),
    "code": (CODE, READ, BOXED),
    "multimodal": (LOOK, BOXED),
}
"""HiRA's experts by role; the explorer ends by a turn without a call."""
