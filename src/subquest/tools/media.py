"""Images, audio and video as text, so that a language model can reason about them.

There are two ways, and every answer says which was used: an *omni model* behind an OpenAI-compatible endpoint, which
gets the question itself (`SUBQUEST_OMNI_URL`, `SUBQUEST_OMNI_MODEL`, `SUBQUEST_OMNI_KEY`); or local packages: OCR for
images, speech recognition for audio, frames and sound for video.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import mimetypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..address import checked_address, checked_key
from ..codec import utf8
from ..errors import DataError, MissingDependency, ToolError
from ..masking import mask
from ..models import find
from ..readers import images
from .files import MAX_FILE, sniff

FRAMES = 6
"""Frames of a video that are read."""
AUDIO_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class MediaAnswer:
    text: str
    how: str
    """How the medium was read: OCR (rapidocr), speech recognition (whisper tiny.en), the model's name, ..."""


async def look(path: Path, question: str, env: Mapping[str, str] | None = None) -> MediaAnswer:
    """The content of a medium, for a question about it. Raises ToolError where it cannot be read."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise ToolError(f"{path.name} is larger than {MAX_FILE:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}") from None
    kind = sniff(content, path.name)
    if kind not in ("image", "audio", "video"):
        raise ToolError(f"{path.name} is {kind}, not an image, sound or video")
    env = os.environ if env is None else env
    if env.get("SUBQUEST_OMNI_URL"):
        return await _ask_model(path.name, content, kind, question, env)
    readers = {"image": _image, "audio": _audio, "video": _video}
    return await asyncio.to_thread(readers[kind], content, path.name)


def _image(content: bytes, name: str) -> MediaAnswer:
    try:
        picture = images.open_image(io.BytesIO(content))
    except DataError as error:
        raise ToolError(f"{name} cannot be read as an image: {error}") from None
    lines, how = images.recognise(picture)
    about = f"An image of {picture.width} by {picture.height} pixels."
    text = f"{about} Text in it:\n{chr(10).join(lines)}" if lines else f"{about} No text was found in it."
    return MediaAnswer(text, how)


def _audio(content: bytes, name: str) -> MediaAnswer:
    text = _hear(content, name)
    return MediaAnswer(f"Speech: {text}" if text else "No speech was heard.", "speech recognition (whisper tiny.en)")


def _video(content: bytes, name: str) -> MediaAnswer:
    """A few frames by OCR, the sound by speech recognition."""
    av = _av()
    found: list[str] = []
    how = ""
    try:
        with av.open(io.BytesIO(content)) as container:
            stream = container.streams.video[0]
            if stream.width * stream.height > images.PIXELS:
                raise ToolError(f"{name} has {stream.width} by {stream.height} pixels: too large")
            seconds = float((container.duration or 0) / av.time_base)
            found.append(f"A video of {seconds:.0f} seconds, {stream.width} by {stream.height} pixels.")
            wanted = [seconds * (n + 0.5) / FRAMES for n in range(FRAMES)]
            before = b""
            for frame in container.decode(stream):
                if wanted and frame.time is not None and frame.time >= wanted[0]:
                    wanted.pop(0)
                    picture = frame.to_image()
                    small = picture.convert("L").resize((16, 16)).tobytes()
                    if max((abs(a - b) for a, b in zip(small, before, strict=False)), default=255) < 8:
                        continue  # the same image as the last one
                    before = small
                    lines, how = images.recognise(picture)
                    if lines and (text := f"at {frame.time:.0f} s: {' '.join(lines)}") not in found:
                        found.append(text)
                if not wanted:
                    break
            sounds = bool(container.streams.audio)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise ToolError(f"{name} cannot be read as a video: {error}") from None
    if sounds and (speech := _hear(content, name)):
        found.append(f"Speech: {speech}")
    return MediaAnswer("\n".join(found), f"frames by {how or 'OCR'}, sound by speech recognition (whisper tiny.en)")


def _av() -> Any:
    try:
        import av
    except ImportError:
        raise MissingDependency("the audio and video reader", "media") from None
    return av


def _hear(content: bytes, name: str) -> str:
    av = _av()
    try:
        with av.open(io.BytesIO(content)) as container:
            if container.duration and container.duration / av.time_base > AUDIO_SECONDS:
                raise ToolError(f"{name} is longer than {AUDIO_SECONDS} seconds")
        segments, _ = _whisper().transcribe(io.BytesIO(content), beam_size=5)
        return " ".join(segment.text.strip() for segment in segments)
    except (av.FFmpegError, ValueError, IndexError) as error:
        raise ToolError(f"{name} cannot be read as sound: {error}") from None


@functools.cache
def _whisper() -> Any:
    try:
        from faster_whisper import WhisperModel
    except ImportError:
        raise MissingDependency("speech recognition", "media") from None
    folder = find("whisper")
    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=2, local_files_only=True)


async def _ask_model(name: str, content: bytes, kind: str, question: str, env: Mapping[str, str]) -> MediaAnswer:
    """Ask a model that sees and hears the question itself."""
    import httpx2

    model = env.get("SUBQUEST_OMNI_MODEL", "")
    encoded = base64.b64encode(content).decode()
    mime = mimetypes.guess_type(name)[0] or {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}[kind]
    part: dict[str, Any]
    if kind == "audio":
        sound = mime.rpartition("/")[2].removeprefix("x-")
        sound = {"mpeg": "mp3", "vnd.wave": "wav"}.get(sound, sound)  # the names that the API uses
        part = {"type": "input_audio", "input_audio": {"data": encoded, "format": sound}}
    else:
        part = {"type": f"{kind}_url", f"{kind}_url": {"url": f"data:{mime};base64,{encoded}"}}
    body = {"model": model, "messages": [{"role": "user", "content": [part, {"type": "text", "text": question}]}]}
    address = checked_address(env["SUBQUEST_OMNI_URL"], "SUBQUEST_OMNI_URL")
    key = checked_key(env.get("SUBQUEST_OMNI_KEY", ""), "SUBQUEST_OMNI_KEY")
    headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **address.headers}
    try:
        async with httpx2.AsyncClient(timeout=120, trust_env=False) as client:
            reply = await client.post(
                f"{address.url}/chat/completions", json=body, headers=headers, params=address.query
            )
        if reply.status_code != 200:
            raise ToolError(f"the omni model answered with status {reply.status_code}: {mask(reply.text)[:200]}")
        text = reply.json()["choices"][0]["message"]["content"]
    except (httpx2.HTTPError, ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ToolError(f"the omni model failed: {str(error) or type(error).__name__}") from None
    return MediaAnswer(mask(utf8(str(text))), model or "omni model")
