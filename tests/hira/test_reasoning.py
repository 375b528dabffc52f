"""HiRA and its loop with models that reason: calls inside thoughts, wherever the endpoint puts them."""

from subquest.engine.openai import OpenAIEngine
from subquest.record import Question
from subquest.systems.hira import HiRA

from ..engine.loopback import Loopback, chat
from ..engine.test_openai_reasoning import VLLM, thought
from .test_hira import CALL, Facts, distilled, selection


def answering(field: str, *planner: dict):
    """A server that plays all of HiRA's roles; the planner's replies come in order."""
    left = list(planner)

    def answer(request):
        stops = request.body.get("stop") or ()
        text = str(request.body["messages"])
        if "<|end_call_subtask|>" in stops:
            return left.pop(0) if len(left) > 1 else left[0]
        if "selected_agent_name" in text:
            return thought(field, "Which one?", selection("search"))
        if "final_conclusion" in text:
            return thought(field, "In short.", distilled("Ida Brandt"))
        return chat("\\boxed{Ida Brandt}")

    return answer


async def test_a_call_inside_a_thought_is_carried_out_and_the_thought_goes_on() -> None:
    """vLLM, "Reasoning Outputs": a stop string inside the thought leaves `content` null."""
    for field in ("reasoning_content", "reasoning"):
        call = thought(field, f"I need the mayor. {CALL.format('Who is the mayor of Kelm?')}")
        done = thought(field, "That is the mayor.", "\\boxed{Ida Brandt}")
        async with Loopback(answering(field, call, done), models=VLLM) as server:
            system = HiRA(OpenAIEngine("m", base_url=server.url, api_key=""), Facts(), experts="search")
            episode = await system.solve(Question("q", "Who is the mayor of Kelm?"))
            assert episode.answer == "Ida Brandt"
            assert not episode.errors
            planner = [p["messages"][-1] for p in server.posts if "<|end_call_subtask|>" in (p.get("stop") or ())]
            assert planner[1]["role"] == "assistant"
            assert planner[1]["content"].startswith("<think>\nI need the mayor. <|begin_call_subtask|>")
            assert "<|begin_subtask_result|>" in planner[1]["content"]


async def test_with_native_tool_calls_a_call_written_inside_the_thought_is_read() -> None:
    call = thought("reasoning_content", f"I need the mayor. {CALL.format('Who is the mayor of Kelm?')}")
    async with Loopback(answering("reasoning_content", call, chat("\\boxed{Ida Brandt}")), models=VLLM) as server:
        engine = OpenAIEngine("m", base_url=server.url, api_key="", protocol="tools")
        episode = await HiRA(engine, Facts(), experts="search").solve(Question("q", "Who is the mayor of Kelm?"))
        assert episode.answer == "Ida Brandt"
        assert episode.by_role("search")
