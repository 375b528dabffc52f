"""What the page shows of an episode: its contexts, its tokens as training sees them, or all of it as one HTML file.

An episode keeps the token ids that a model saw and sampled. Their text comes from the vocabulary in the run's folder
or the one that its recipe names (`tokenizer.json`, a GGUF file); without a vocabulary, the ids are shown as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..record import Episode, Trajectory
from .replies import json_bytes
from .settings import STATIC

Piece = Callable[[int], bytes]
Pieces = Callable[[str], Piece | None]
"""The bytes of a token, by the name of the model."""


def episode_view(episode: Episode) -> dict[str, Any]:
    """An episode as the page gets it: one trajectory per context, without token ids, which are many and rarely read."""
    data = to_dict(replace(episode, trajectories=episode.contexts))
    for trajectory in data.get("trajectories", ()):
        for segment in trajectory.get("segments", ()):
            segment["tokens"] = len(segment.pop("token_ids", ()))
            segment.pop("logprobs", None)
    return data


def status_of(episode: Episode) -> str:
    """The status of the job that produced the episode."""
    endings = {"cancelled": "cancelled", "interrupted": "interrupted", "failed": "failed", "crashed": "failed"}
    return endings.get(episode.stop_reason, "finished")


def as_html(episode: Episode) -> str:
    """One HTML file with the page, its style and the episode, which opens anywhere without a server.

    The episode is data in a script element, which it cannot close: `<` is written as `\\u003c`.
    """
    script = (STATIC / "assets" / "app.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    style = (STATIC / "assets" / "app.css").read_text(encoding="utf-8")
    data = json_bytes({**episode_view(episode), "status": status_of(episode)}).decode().replace("<", "\\u003c")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Subquest trace</title>'
        f'<style>{style}</style></head><body><div id="app"></div>'
        f'<script type="application/json" id="episode">{data}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def token_view(episode: Episode, piece: Piece | None) -> dict[str, Any]:
    """All contexts with the tokens of each segment, and the rewards."""
    return {
        "id": episode.id,
        "rewards": dict(episode.rewards),
        "texts": piece is not None,
        "trajectories": [_trajectory(t, piece) for t in episode.contexts],
    }


def _trajectory(trajectory: Trajectory, piece: Piece | None) -> dict[str, Any]:
    return {
        "id": trajectory.id,
        "role": trajectory.role,
        "tokens": len(trajectory.token_ids),
        "written": sum(trajectory.action_mask),
        "segments": [
            {
                "kind": segment.kind,
                "mask": int(own),
                "policy": segment.policy,
                "ids": segment.token_ids,
                "texts": token_texts(segment.token_ids, piece) if piece else [],
                "text": segment.text if not segment.token_ids else "",
                "logprobs": [round(p, 4) for p in segment.logprobs] if segment.logprobs is not None else None,
            }
            for segment, own in zip(trajectory.segments, trajectory.actions, strict=True)
        ],
    }


def token_texts(ids: Sequence[int], piece: Piece) -> list[str]:
    """The text of each token. A character whose bytes span several tokens is shown at the last of them."""
    out, open_bytes = [], b""
    for number in ids:
        open_bytes += piece(number)
        try:
            out.append(open_bytes.decode())
            open_bytes = b""
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and len(open_bytes) - error.start < 4:
                out.append(open_bytes[: error.start].decode(errors="replace"))
                open_bytes = open_bytes[error.start :]
            else:
                out.append(open_bytes.decode(errors="replace"))
                open_bytes = b""
    return out


def pieces_of_run(run: Path) -> Piece | None:
    """The vocabulary of a training run: from its folder, or from the model that its recipe names."""
    folder = run.parent
    for place in (folder / "tokenizer.json", folder / "best" / "tokenizer.json"):
        if place.is_file():
            return _from_tokenizer(place)
    try:
        named = str(json.loads((folder / "recipe.json").read_text(encoding="utf-8"))["model"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    from ..models import MODELS, model_path

    path = model_path(named) if named in MODELS else Path(named)
    if (path / "tokenizer.json").is_file():
        return _from_tokenizer(path / "tokenizer.json")
    return _from_gguf(path) if path.suffix == ".gguf" and path.is_file() else None


@lru_cache(maxsize=4)
def _from_tokenizer(path: Path) -> Piece:
    description = json.loads(path.read_text(encoding="utf-8"))
    names: dict[int, str] = {number: token for token, number in description["model"]["vocab"].items()}
    added = {entry["id"]: entry["content"].encode() for entry in description.get("added_tokens", ())}
    return _lookup(names, added)


@lru_cache(maxsize=4)
def _from_gguf(path: Path) -> Piece | None:
    try:
        from gguf import GGUFReader
    except ImportError:
        return None
    reader = GGUFReader(path)
    field = reader.get_field("tokenizer.ggml.tokens")
    if field is None:
        return None
    names = dict(enumerate(field.contents()))
    kinds = reader.get_field("tokenizer.ggml.token_type")
    control = {n for n, kind in enumerate(kinds.contents()) if kind != 1} if kinds is not None else set()
    return _lookup(names, {number: names[number].encode() for number in control})


def _lookup(names: Mapping[int, str], plain: Mapping[int, bytes]) -> Piece:
    alphabet = byte_alphabet()

    def piece(number: int) -> bytes:
        if number in plain:
            return plain[number]
        token = names.get(number)
        if token is None:
            return f"[{number}]".encode()
        try:
            return bytes(alphabet[character] for character in token)
        except KeyError:  # not a byte-level vocabulary; SentencePiece writes a space as ▁
            return token.replace("▁", " ").encode()

    return piece


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable ones stand for themselves, the others are mapped to printable characters."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(moved)}
