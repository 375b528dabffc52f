"""Models of other APIs through LiteLLM (an extra). Its completions have OpenAI's form, so everything else is shared."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from ..errors import ContextOverflow, EngineRefused, EngineUnavailable, MissingDependency
from ..masking import mask, remember_environment
from .interface import OnRetry, Retry
from .openai.endpoint import Endpoint, Watch, backoff
from .openai.engine import OpenAIEngine
from .openai.rate_limits import Limits
from .openai.session import ChatSession


class LiteLLMEndpoint(Endpoint):
    """LiteLLM instead of an HTTP endpoint; keys and base URLs are configured for LiteLLM (ANTHROPIC_API_KEY, …)."""

    streams = False

    def __init__(self, *, timeout: float = 600.0, retries: int = 5, limits: Limits | None = None) -> None:
        if importlib.util.find_spec("litellm") is None:
            raise MissingDependency("litellm", "litellm")
        remember_environment()  # where LiteLLM takes its keys from
        super().__init__("https://litellm.invalid", timeout=timeout, retries=retries, limits=limits)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        tokens: int = 0,
        watch: Watch | None = None,
        on_retry: OnRetry | None = None,
    ) -> dict[str, Any]:
        import openai

        litellm = _litellm()
        if path != ChatSession.path:
            raise EngineRefused("LiteLLM models are driven through chat: leave tokenizer and chat format out")
        passing = (
            litellm.RateLimitError,
            litellm.InternalServerError,
            litellm.ServiceUnavailableError,
            litellm.APIConnectionError,
            litellm.Timeout,
        )
        gate = self.gate
        for attempt in range(1, self.retries + 2):
            try:
                async with gate.enter(tokens), asyncio.timeout(self.timeout):
                    answer = await litellm.acompletion(**body, drop_params=True, num_retries=0)
                    return dict(answer.model_dump())
            except litellm.ContextWindowExceededError as error:
                raise ContextOverflow(f"the context does not fit {body['model']}: {error}") from None
            except (*passing, TimeoutError) as error:
                reason = mask(f"{body['model']}: {error or 'timed out'}")
                if attempt > self.retries:
                    raise EngineUnavailable(f"{reason} (tried {attempt} times)") from None
                wait = backoff(attempt)
                if on_retry is not None:
                    on_retry(Retry("engine", attempt, wait, reason))
                await asyncio.sleep(wait)
            except openai.OpenAIError as error:  # the root of LiteLLM's exceptions
                raise EngineRefused(f"{body['model']}: {error}") from None
        raise AssertionError("unreachable")

    async def models(self) -> list[dict[str, Any]]:
        return []


class LiteLLMEngine(OpenAIEngine):
    """A model by its LiteLLM name, for example `anthropic/claude-sonnet-4-5`.

    Answers come whole, not in a stream. Completion mode sends environment text as user turns.
    """

    def __init__(
        self, model: str, *, timeout: float = 600.0, retries: int = 5, limits: Limits | None = None, **options: Any
    ) -> None:
        endpoint = LiteLLMEndpoint(timeout=timeout, retries=retries, limits=limits)
        options.setdefault("continuation", "turns")
        super().__init__(model, endpoint=endpoint, server="openai", **options)


def _litellm() -> Any:
    """The library, configured not to fetch price lists from the network and not to print."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm
