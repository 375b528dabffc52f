"""ReAct with all tools: one context that searches, opens pages, runs code, reads files and looks at media itself.

Everything that HiRA spreads over experts stands here in one growing context: tool descriptions at its beginning, raw
tool output in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine.actions import Action
from ...runtime.actions import BOXED
from ...runtime.context import Context
from ...runtime.given_tools import RESULT, TAG
from ...runtime.rendering import today
from ...runtime.run import Answer, Run
from ...runtime.table_queries import tables_of, with_tables
from ...runtime.tool_loop import Tool, reason
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
from ..hira.actions import CLICK, CODE, LOOK, QUERY, READ, SEARCH
from ..hira.experts import look_at


class ReActTools(ToolSystem[ToolSettings]):
    name = "react-tools"
    description = "One agent that reasons and calls tools: search, pages, code and files."
    roles = ("agent",)
    tool_roles = ("agent",)

    def actions(self) -> Mapping[str, Sequence[Action]]:
        queries = (QUERY,) if tables_of(self.search) else ()
        return {"agent": (SEARCH, *queries, CLICK, CODE, READ, LOOK, BOXED)}

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        settings, question = self.settings, run.question.question

        async def search(context: Context, query: str) -> str:
            return await kit.find(context, query, settings.k)

        async def code(context: Context, source: str) -> str:
            return (await kit.code(context, source)).text

        async def look(context: Context, call: str) -> str:
            return await look_at(kit.look, context, call)

        tools = [
            Tool("search_query", "search_result", search, once=True),
            Tool("click_link", "click_result", kit.open),
            Tool("code_call", "code_call_result", code, ("code_result",)),
            Tool("read_file", "file_result", kit.read),
            Tool("multimodal_call", "multimodal_result", look),
            *([Tool("sql_query", "sql_result", kit.sql)] if tables_of(kit.index) else ()),
        ]
        fields = {"question": question, "files": kit.inventory(), "actions": str(settings.actions), "date": today()}
        messages = self.prompts.messages("agent", **fields)
        messages = with_tables(messages, self.prompts, "agent", kit.index, question)
        if run.tools:
            messages = run.tools.told(messages, self.prompts, self.setup("agent").engine, self.tool_form, question)
            tools.append(Tool(TAG, RESULT, run.tools.text))
        end = await reason(
            run,
            "agent",
            question,
            messages,
            tools,
            turns=settings.actions,
            remind=self.prompts.text("remind"),
            force=self.prompts.text("force"),
            result_tokens=settings.tool_tokens,
        )
        return end.answer
