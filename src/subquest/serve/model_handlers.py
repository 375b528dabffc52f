"""Handlers under `/api/model`: which model is used, setting another, trying one before it is set."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..assemble import open_engines
from ..engine.capabilities import FIRST_SECONDS, probe
from ..engine.openai import OpenAIEngine
from ..errors import EngineError
from ..masking import public
from ..models import megabytes
from ..models.memory import larger_model
from . import model_settings
from .access import shows_token
from .model_settings import ModelSettings, checked_settings
from .replies import Json, Problem
from .requests import Model, read_body
from .state import State, state_of


async def model_settings_shown(request: Request) -> Response:
    """Which models the server has, what was set on the page, and whether this client may set another."""
    state = state_of(request)
    chosen = state.agents.page_model
    models = await state.agents.describe_models()
    may_set = _may_set(request, state)
    return Json(
        {
            "models": models,
            "set": chosen.public() if chosen else None,
            "who_sets": state.settings.who_sets_model,
            "may_set": may_set,
            "larger": _larger(models) if may_set else None,
        }
    )


def _larger(models: list[dict[str, Any]]) -> dict[str, Any] | None:
    """A larger known model that this machine has room for, where the embedded one answers or none does."""
    if models and models[0]["model"].partition("+")[0] != "embedded":
        return None
    best = larger_model()
    return {"name": best.name, "size": megabytes(best.size), "here": best.present} if best else None


async def set_model(request: Request) -> Response:
    state = _allowed(request)
    found = await _read(request, state)
    async with state.agents.changing:
        before = state.agents.page_model
        state.agents.set_model(found)  # refuses what cannot be opened
        try:
            await asyncio.to_thread(model_settings.save, state.settings.runs, found)
        except BaseException:
            state.agents.set_model(before)
            raise
    return await model_settings_shown(request)


async def unset_model(request: Request) -> Response:
    """Back to the model that the server was started with."""
    state = _allowed(request)
    async with state.agents.changing:
        await asyncio.to_thread(model_settings.save, state.settings.runs, None)
        state.agents.set_model(None)
    return await model_settings_shown(request)


async def try_model(request: Request) -> Response:
    """Ask an endpoint one tiny question in each mode, and say what works. Nothing is stored."""
    state = _allowed(request)
    found = await _read(request, state)
    if state.agents.trying.locked():
        raise Problem(429, "another model is being tried; wait until that is done", headers={"Retry-After": "10"})
    async with state.agents.trying:
        options = msgspec.structs.replace(
            found.options(state.agents.engine_options), protocol="tags", retries=0, timeout=FIRST_SECONDS
        )
        (engine,) = open_engines({"": found.name}, options).values()
        try:
            checks = [check._replace(detail=public(check.detail)) async for check in probe(engine)]
            served = await _served(engine)
        finally:
            await engine.close()
    return Json(
        {
            "works": checks[0].works,
            "model": engine.name,
            "checks": [check._asdict() for check in checks],
            "served": served,
        }
    )


async def _served(engine: Any) -> list[str]:
    """The models that the endpoint lists; none if it lists none."""
    try:
        listed = await engine.endpoint.models() if isinstance(engine, OpenAIEngine) else []
    except EngineError:
        return []
    return sorted({str(entry["id"]) for entry in listed if entry.get("id")})[:200]


async def _read(request: Request, state: State) -> ModelSettings:
    body = await read_body(request, Model, state.settings.max_body)
    before = state.agents.page_model
    return checked_settings(body.address, body.model, body.key, body.protocol, body.prompts, before)


def _may_set(request: Request, state: State) -> bool:
    who = state.settings.who_sets_model
    return who == "anyone" or (who == "admin" and shows_token(request.headers, state.settings.admin_token))


def _allowed(request: Request) -> State:
    state = state_of(request)
    if state.settings.who_sets_model == "nobody":
        raise Problem(
            403,
            "the model of this server cannot be set here: others use it, or --no-model-form was given; start it with "
            "--admin-token-file to allow it to those who have that token",
            code="model_form",
        )
    if not _may_set(request, state):
        raise Problem(403, "to set the model, the admin token is needed: Authorization: Bearer TOKEN", code="admin")
    return state
