"""Actions that several systems share, offered as functions to endpoints with native tool calls.

A call is written into the turn as the text that the system parses (`engine.actions`), so an action only says how it is
called, what the model is told about it, and how it is written. Actions of a single system are declared with it.
"""

from __future__ import annotations

from ..engine.actions import Action

_SHORT = "the answer alone, as short as possible"

ANSWER = Action("answer", "Give the final answer and end.", "answer", _SHORT)
BOXED = Action("answer", "Give the final answer and end.", "answer", _SHORT, "\\boxed{", "}")
SEARCH = Action("search", "Search the corpus; the documents found come back.", "query", "one precise query")
PLAN = Action("plan", "Hand over the plan.", "steps", "one sub-question a line; #1 stands for the first one's answer")
