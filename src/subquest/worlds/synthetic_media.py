"""Facts as pictures and as speech: sentences drawn into PNG files and spoken into WAV files.

Pictures need Pillow (the extra `media`), speech needs the program espeak-ng; a site does without what is missing.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import textwrap

from ..errors import MissingDependency, ToolError


def can_draw() -> bool:
    return importlib.util.find_spec("PIL") is not None


def can_speak() -> bool:
    return shutil.which("espeak-ng") is not None


def draw(text: str, width: int = 46, size: int = 28) -> bytes:
    """The text as a PNG, dark on light, large enough for text recognition."""
    if not can_draw():
        raise MissingDependency("Pillow", "media")
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size)
    lines = textwrap.wrap(text, width) or [""]
    line = int(size * 1.45)
    across = max(int(font.getlength(t)) for t in lines) + 2 * size
    image = Image.new("L", (across, line * len(lines) + 2 * size), 255)
    canvas = ImageDraw.Draw(image)
    for i, part in enumerate(lines):
        canvas.text((size, size + i * line), part, fill=0, font=font)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def speak(text: str, words_a_minute: int = 140) -> bytes:
    """The text as a WAV file of a synthetic voice."""
    if not can_speak():
        raise ToolError("espeak-ng is not installed: install the package espeak-ng of your system")
    command = ["espeak-ng", "--stdout", "-v", "en", "-s", str(words_a_minute), "--stdin"]
    try:
        return subprocess.run(command, input=text.encode(), capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"espeak-ng failed: {error}") from None
