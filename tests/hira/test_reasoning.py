"""HiRA and its loop with models that reason: calls inside thoughts, wherever the endpoint puts them."""

import pytest

from subquest.engine.openai import OpenAIEngine
from subquest.limits import Limits
from subquest.record import Question
from subquest.systems.apex import APEX
from subquest.systems.hira import HiRA

from ..engine.loopback import Answer, Loopback, chat
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


def hira_at(server: Loopback, limits: Limits | None = None, **options) -> HiRA:
    engine = OpenAIEngine("m", base_url=server.url, api_key="", **options)
    return HiRA(engine, Facts(), experts="search", limits=limits)


async def test_a_thought_that_is_cut_goes_on_silently_in_the_same_turn() -> None:
    """A box and a numbered line inside it are no answer and no plan, and nobody reminds it."""
    parts = [
        thought("reasoning_content", "Perhaps \\boxed{Kelm}? 1. Who", None, "length"),
        thought("reasoning_content", " knows", None, "length"),
        thought("reasoning_content", ". It is Ida.", "\\boxed{Ida Brandt}"),
    ]
    async with Loopback(*parts, models=VLLM) as server:
        episode = await hira_at(server).solve(Question("q", "Who is the mayor of Kelm?"))
        assert (episode.answer, episode.errors) == ("Ida Brandt", ())
        (planner,) = episode.by_role("planner")
        written = "".join(s.text for s in planner.segments if s.kind != "prompt")
        assert written == ("<think>\nPerhaps \\boxed{Kelm}? 1. Who knows. It is Ida.\n</think>\n\n\\boxed{Ida Brandt}")
        assert [s.kind for s in planner.segments if s.kind == "env"] == []
        assert planner.usage.model_calls == 3
        assert not planner.format_errors


async def test_thoughts_inside_the_text_go_on_as_well() -> None:
    """vLLM without a reasoning parser."""
    parts = [chat("<think>Perhaps \\boxed{Kelm}?", "length"), chat(" No.</think>\\boxed{Ida Brandt}")]
    async with Loopback(*parts, models=VLLM) as server:
        episode = await hira_at(server).solve(Question("q", "Who is the mayor of Kelm?"))
        assert episode.answer == "Ida Brandt"


async def test_a_thought_goes_on_as_long_as_the_limit_allows_and_then_an_answer_is_forced() -> None:
    def answer(request):
        if "</think>" in request.body["messages"][-1]["content"]:
            return chat("\\boxed{Ida Brandt}")
        return thought("reasoning_content", "and on \\boxed{Kelm} ", None, "length")

    async with Loopback(answer, models=VLLM) as server:
        episode = await hira_at(server, Limits(thought=50)).solve(Question("q", "Who is the mayor of Kelm?"))
        (planner,) = episode.by_role("planner")
        assert (episode.answer, planner.forced) == ("Ida Brandt", True)
        assert any("--max-thought (now 50)" in failure.message for failure in episode.errors)
        assert server.posts[0]["max_tokens"] == 2048
        assert server.posts[1]["max_tokens"] == 43


async def test_a_thought_that_goes_in_circles_is_ended_long_before_the_limit() -> None:
    def answer(request):
        if "</think>" in request.body["messages"][-1]["content"]:
            return chat("\\boxed{Ida Brandt}")
        circle = "Who governs Kelm? The mayor does, and I look for the mayor. " * 2
        return thought("reasoning_content", circle, None, "length")

    async with Loopback(answer, models=VLLM) as server:
        episode = await hira_at(server).solve(Question("q", "Who is the mayor of Kelm?"))
        assert episode.answer == "Ida Brandt"
        limits = [event.data["message"] for event in episode.events if event.kind == "limit"]
        assert any("repeated itself" in message and "`temperature`" in message for message in limits)
        assert len(server.posts) < 20


@pytest.mark.parametrize(("enough", "expected"), [(30_000, "Ida Brandt"), (90_000, "")])
async def test_a_turn_of_hidden_thought_alone_is_asked_for_with_room_or_names_the_setting(
    enough: int, expected: str
) -> None:
    """OpenAI, "Reasoning models": where `max_completion_tokens` is spent on thought, no text comes, and no thought."""

    def answer(request):
        return chat("\\boxed{Ida Brandt}") if request.body["max_tokens"] >= enough else chat("", "length")

    async with Loopback(answer, models=[{"id": "m"}]) as server:
        episode = await hira_at(server, continuation="turns").solve(Question("q", "Who is the mayor of Kelm?"))
        assert episode.answer == expected
        assert [p["max_tokens"] for p in server.posts[:2]] == [2048, 32_768]
        said = any("--max-tokens" in failure.message for failure in episode.errors)
        assert said is not bool(expected)


async def test_other_systems_let_a_thought_go_on_too() -> None:
    parts = [
        thought("reasoning", "The plan: <plan>1. What is wrong?</plan> 1. Where", None, "length"),
        thought("reasoning", ".", "<plan>\n1. Who governs Kelm?\n</plan>"),
        chat("<answer>Ida Brandt</answer>"),
    ]
    async with Loopback(*parts, models=VLLM) as server:
        engine = OpenAIEngine("m", base_url=server.url, api_key="")
        episode = await APEX(engine, Facts()).solve(Question("q", "Who is the mayor of Kelm?"))
        plan = next(event for event in episode.events if event.kind == "plan")
        assert plan.data["steps"] == ["Who governs Kelm?"]


async def test_where_deepseek_refuses_to_go_on_with_a_thought_the_turn_gets_more_room() -> None:
    """DeepSeek API, "Chat Prefix Completion": a trailing assistant message without `prefix` is refused."""

    def answer(request):
        if request.body["messages"][-1]["role"] == "assistant":
            return Answer({"error": {"message": "The last message must be a user message", "param": None}}, 400)
        if request.body["max_tokens"] < 30_000:
            return thought("reasoning_content", "Perhaps \\boxed{Kelm}?", None, "length")
        return thought("reasoning_content", "It is Ida.", "\\boxed{Ida Brandt}")

    async with Loopback(answer, models=[{"id": "m", "owned_by": "deepseek"}]) as server:
        episode = await hira_at(server).solve(Question("q", "Who is the mayor of Kelm?"))
        assert (episode.answer, episode.errors) == ("Ida Brandt", ())
        assert [p["max_tokens"] for p in server.posts] == [2048, 2048, 2048, 32_768]
