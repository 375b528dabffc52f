"""OpenAI's protocol, spoken by the real `openai` client."""

import httpx2
import openai
import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineRefused
from subquest.record import Episode, Failure, Question
from subquest.serve.chat import answered
from subquest.serve.jobs import Job
from subquest.serve.replies import Problem
from subquest.systems.coda import CoDA

from .conftest import QUESTION, Running, Start


def client(server: Running, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


def test_models(server: Running) -> None:
    with client(server) as api:
        assert [model.id for model in api.models.list()] == ["subquest-coda", "subquest-direct"]
        assert api.models.retrieve("subquest-direct").owned_by == "subquest"


def test_each_further_model_is_a_name(start: Start) -> None:
    engines = {"default": ScriptedEngine(["one"]), "other": ScriptedEngine(["<answer>two</answer>"])}
    with start(models=engines) as server, client(server) as api:
        names = [model.id for model in api.models.list()]
        assert names == ["subquest-coda", "subquest-coda@other", "subquest-direct", "subquest-direct@other"]
        reply = api.chat.completions.create(
            model="subquest-direct@other", messages=[{"role": "user", "content": "Which?"}]
        )
        assert reply.choices[0].message.content == "two"


def test_an_answer_with_evidence_steps_and_true_usage(server: Running) -> None:
    with client(server) as api:
        found = api.chat.completions.create(model="subquest-coda", messages=[{"role": "user", "content": QUESTION}])
    choice = found.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Kestel", "stop")
    assert choice.message.reasoning_content == (  # type: ignore[attr-defined]
        "task: Who designed the Orvane Bridge?\n"
        "  search: Orvane Bridge designer\n"
        "  result: Mila Torrun\n"
        "task: Where was Mila Torrun born?\n"
        "  search: Mila Torrun born\n"
        "  result: Kestel\n"
    )
    details = found.subquest  # type: ignore[attr-defined]
    assert details["supported"] is True
    assert [(e["id"], e["quote"]) for e in details["evidence"]] == [
        ("d1", "The Orvane Bridge was designed by Mila Torrun."),
        ("d2", "She was born in Kestel in 1889."),
    ]
    stored = httpx2.get(f"{server.url}/api/episodes/{details['episode']}", timeout=120).json()
    assert found.usage is not None
    assert found.usage.prompt_tokens == stored["usage"]["prompt_tokens"] > 0
    assert found.usage.completion_tokens == stored["usage"]["completion_tokens"] > 0
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def test_streaming(server: Running) -> None:
    with client(server) as api:
        chunks = list(
            api.chat.completions.create(
                model="subquest-coda",
                messages=[{"role": "user", "content": QUESTION}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    told = [c.choices[0].delta for c in chunks if c.choices]
    assert "".join(d.content or "" for d in told) == "Kestel"
    steps = [d.reasoning_content for d in told if getattr(d, "reasoning_content", None)]
    assert steps[0] == "task: Who designed the Orvane Bridge?\n"
    assert len(steps) == 6
    finished = [c for c in chunks if c.choices and c.choices[0].finish_reason]
    assert [c.choices[0].finish_reason for c in finished] == ["stop"]
    assert len(finished[0].subquest["evidence"]) == 2  # type: ignore[attr-defined]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_what_was_said_before_reaches_the_model(start: Start) -> None:
    seen = []

    def direct(context: object) -> str:
        seen.append(context.text)  # type: ignore[attr-defined]
        return "<answer>yes</answer>"

    with start(direct) as server, client(server) as api:
        api.chat.completions.create(
            model="subquest-direct",
            messages=[
                {"role": "user", "content": "Who built the Orvane Bridge?"},
                {"role": "assistant", "content": "Mila Torrun"},
                {"role": "user", "content": [{"type": "text", "text": "And when was she born?"}]},
            ],
        )
    assert "Who built the Orvane Bridge?" in seen[0]
    assert "assistant: Mila Torrun" in seen[0]
    assert "And when was she born?" in seen[0]


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({"model": "subquest-code"}, openai.NotFoundError, "did you mean 'subquest-coda'"),
        ({"messages": []}, openai.BadRequestError, "must end with a user message"),
        ({"messages": [{"role": "user", "content": " "}]}, openai.BadRequestError, "question is empty"),
        ({"n": 2}, openai.BadRequestError, "`n` must be 1"),
        ({"extra_body": {"index": "../x"}}, openai.NotFoundError, "no index '../x'"),
    ],
)
def test_what_cannot_be_is_named(
    server: Running, request_: dict[str, object], error: type[openai.APIStatusError], message: str
) -> None:
    asked = {"model": "subquest-coda", "messages": [{"role": "user", "content": "q"}], **request_}
    with client(server) as api, pytest.raises(error, match=r".*") as caught:
        api.chat.completions.create(**asked)  # type: ignore[call-overload]
    assert message in str(caught.value)


def test_a_failing_model_is_an_error_of_the_server_not_an_answer(start: Start) -> None:
    script = ScriptedEngine(lambda context: EngineRefused("no such key"))
    with start(models={"default": script}) as server, client(server) as api:
        message = [{"role": "user", "content": "q"}]
        with pytest.raises(openai.InternalServerError, match="no such key"):
            api.chat.completions.create(model="subquest-direct", messages=message)  # type: ignore[arg-type]
        with pytest.raises(openai.APIError, match="no such key"):
            list(
                api.chat.completions.create(model="subquest-direct", messages=message, stream=True)  # type: ignore[arg-type]
            )


def test_a_failure_has_a_reason_also_where_none_was_final() -> None:
    """Tool loops end as failed after the last of several failures, none of which ended them alone."""
    met = (Failure("search", "gone"), Failure("engine", "gone too"))
    episode = Episode("one", Question("q", QUESTION), "react-tools", "m", stop_reason="failed", errors=met)
    job = Job("one", episode.question, CoDA(ScriptedEngine([])), status="failed", episode=episode)
    with pytest.raises(Problem, match="engine: gone too"):
        answered(job)
