"""The token view: what training sees of an episode.

An episode keeps the ids that a model saw and sampled. Their text comes from the vocabulary that the run's folder holds
or names (`tokenizer.json`, a GGUF file); without one the ids are shown as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..record import Episode, Trajectory

Piece = Callable[[int], bytes]
Pieces = Callable[[str], Piece | None]
"""The bytes of a token, by the name of the model."""


def token_view(episode: Episode, piece: Piece | None) -> dict[str, Any]:
    """Contexts with their tokens, stretch by stretch, and what training made of them."""
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
                "texts": texts(segment.token_ids, piece) if piece else [],
                "text": segment.text if not segment.token_ids else "",
                "logprobs": [round(p, 4) for p in segment.logprobs] if segment.logprobs is not None else None,
            }
            for segment, own in zip(trajectory.segments, trajectory.actions, strict=True)
        ],
    }


def texts(ids: Sequence[int], piece: Piece) -> list[str]:
    """The text of each token. A character whose bytes span tokens is shown at the last of them."""
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
    """The vocabulary of a training run, from its folder or from the model that its recipe names."""
    folder = run.parent
    for place in (folder / "tokenizer.json", folder / "best" / "tokenizer.json"):
        if place.is_file():
            return _from_tokenizer(place)
    try:
        named = str(json.loads((folder / "recipe.json").read_text(encoding="utf-8"))["model"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if named == "smollm2":
        from ..models import smollm2_path

        named = str(smollm2_path())
    path = Path(named)
    if (path / "tokenizer.json").is_file():
        return _from_tokenizer(path / "tokenizer.json")
    return _from_gguf(path) if path.suffix == ".gguf" and path.is_file() else None


@lru_cache(maxsize=4)
def _from_tokenizer(path: Path) -> Piece:
    description = json.loads(path.read_text(encoding="utf-8"))
    names: dict[int, str] = {number: token for token, number in description["model"]["vocab"].items()}
    added = {entry["id"]: entry["content"].encode() for entry in description.get("added_tokens", ())}
    return _looked_up(names, added)


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
    return _looked_up(names, {number: names[number].encode() for number in control})


def _looked_up(names: Mapping[int, str], plain: Mapping[int, bytes]) -> Piece:
    alphabet = byte_alphabet()

    def piece(number: int) -> bytes:
        if number in plain:
            return plain[number]
        token = names.get(number)
        if token is None:
            return f"[{number}]".encode()
        try:
            return bytes(alphabet[character] for character in token)
        except KeyError:  # not a byte-level vocabulary: SentencePiece writes a space as a low line
            return token.replace("▁", " ").encode()

    return piece


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable ones stand for themselves, the others are moved up to where all print."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(moved)}
