"""The peer's side of `overhead.py`: the same control flow as CoDA, as LangGraph's own guides would write it.

A planner graph whose `execute` node invokes an executor graph with a state of its own (their pattern for sub-graphs
with different schemas); messages are langchain messages under the `add_messages` reducer. `plain` calls the scripted
model as a function, which is the least that LangGraph can cost; `chat` goes through langchain's chat model class, as
most programs do. No checkpointer and no tracing in either.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Annotated, Any, TypedDict

import _overhead_scenario as scene
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

TAG = re.compile(r"<(task|answer|search|result)>(.*?)</\1>", re.DOTALL)


def action(message: AnyMessage) -> tuple[str, str]:
    found = TAG.search(str(message.content))
    return (found[1], found[2].strip()) if found else ("", "")


def reply_to(messages: list[AnyMessage]) -> str:
    turn = sum(isinstance(m, AIMessage) for m in messages)
    planning = str(messages[0].content).startswith("You plan")
    return scene.planner_reply(turn) if planning else scene.executor_reply(turn)


class ScriptedChat(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply_to(messages)))])

    async def _agenerate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(scene.LATENCY)
        return self._generate(messages)


async def plain_model(messages: list[AnyMessage]) -> AIMessage:
    await asyncio.sleep(scene.LATENCY)
    return AIMessage(reply_to(messages))


class ExecutorState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class PlannerState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    answer: str


async def retrieve(query: str) -> list[tuple[str, str, str]]:
    return scene.DOCUMENTS


def build(variant: str) -> Any:
    model = ScriptedChat().ainvoke if variant == "chat" else plain_model

    async def work(state: ExecutorState) -> dict[str, Any]:
        return {"messages": [await model(state["messages"])]}

    async def search(state: ExecutorState) -> dict[str, Any]:
        hits = await retrieve(action(state["messages"][-1])[1])
        shown = "".join(f"Doc {n}(Title: {title}) {text}\n" for n, (_, title, text) in enumerate(hits, 1))
        return {"messages": [HumanMessage(f"<documents>{shown}</documents>")]}

    executor = StateGraph(ExecutorState)
    executor.add_node("work", work)
    executor.add_node("search", search)
    executor.add_edge(START, "work")
    executor.add_conditional_edges(
        "work", lambda state: "search" if action(state["messages"][-1])[0] == "search" else END, ["search", END]
    )
    executor.add_edge("search", "work")
    executor_graph = executor.compile()

    async def plan(state: PlannerState) -> dict[str, Any]:
        message = await model(state["messages"])
        kind, content = action(message)
        return {"messages": [message], **({"answer": content} if kind == "answer" else {})}

    async def execute(state: PlannerState) -> dict[str, Any]:
        task = action(state["messages"][-1])[1]
        done = await executor_graph.ainvoke({"messages": [SystemMessage(scene.EXECUTOR), HumanMessage(task)]})
        return {"messages": [HumanMessage(f"<result>{action(done['messages'][-1])[1]}</result>")]}

    planner = StateGraph(PlannerState)
    planner.add_node("plan", plan)
    planner.add_node("execute", execute)
    planner.add_edge(START, "plan")
    planner.add_conditional_edges(
        "plan", lambda state: "execute" if action(state["messages"][-1])[0] == "task" else END, ["execute", END]
    )
    planner.add_edge("execute", "plan")
    return planner.compile()


async def measure(variant: str, episodes: int) -> dict[str, Any]:
    graph = build(variant)

    async def solve() -> Any:
        start = {"messages": [SystemMessage(scene.PLANNER), HumanMessage(scene.QUESTION)], "answer": ""}
        return await graph.ainvoke(start)

    await asyncio.gather(*(solve() for _ in range(5)))
    before, cpu = scene.peak_mb(), scene.cpu_seconds()
    states = await asyncio.gather(*(solve() for _ in range(episodes)))
    cpu = scene.cpu_seconds() - cpu
    assert all(state["answer"] == "Town 2, by Ada" for state in states)
    assert all(len(state["messages"]) == 2 + 2 * scene.TASKS + 1 for state in states)
    return scene.figures(episodes, cpu, before)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))
