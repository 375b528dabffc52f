"""What HiRA's roles can do, written `<|begin_tag|>…<|end_tag|>`.

The coordinator, the intent and the reader reply in free text or JSON: they do not act.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine.actions import Action
from ...runtime.actions import BOXED
from ...runtime.table_queries import SQL


def _between(tag: str, name: str, description: str, argument: str, about: str = "") -> Action:
    return Action(name, description, argument, about, f"<|begin_{tag}|>", f"<|end_{tag}|>")


SUBTASK = _between("call_subtask", "call_subtask", "Hand a sub-task to an expert; its result comes back.", "task")
SEARCH = _between("search_query", "search", "Search; what was found comes back.", "query", "one precise query")
CLICK = _between("click_link", "click_link", "Open a result or a link.", "link", "its number or address; add 'part 2'")
CODE = _between("code_call", "run_python", "Run Python; what it prints comes back.", "code")
QUERY = _between("sql_query", "sql", SQL.description, "query", "SQL for SQLite")
READ = _between("read_file", "read_file", "Read an attached file as text.", "name", "its name; add 'part 2'")
LOOK = _between(
    "multimodal_call",
    "look",
    "Look at an image, or listen to a sound or video.",
    "call",
    "two lines, data: name of the file or its address, and question: what you want to know",
)

EXPERT_ACTIONS: Mapping[str, Sequence[Action]] = {
    "deep": (SEARCH, BOXED),
    "explorer": (SEARCH, CLICK),
    "code": (CODE, READ, BOXED),
    "multimodal": (LOOK, BOXED),
    "toolbox": (BOXED,),
}
"""By role; the explorer ends with a turn without a call. The code expert can also query the tables of an index."""
