"""Images as the text in them, by optical character recognition (the extra `media`, or the system's tesseract)."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, BinaryIO

from ..errors import DataError, MissingDependency, ToolError
from .part import Part

PIXELS = 40_000_000
"""Larger images are refused: a small file can hold an image that fills the memory."""


def can_recognise() -> bool:
    """Whether text in images can be read here."""
    return find_spec("rapidocr") is not None or shutil.which("tesseract") is not None


def read_image(file: BinaryIO) -> Iterator[Part]:
    yield Part("\n".join(recognise(open_image(file))[0]))


def open_image(file: BinaryIO) -> Any:
    """The image in RGB. Raises DataError where it is damaged or too large."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency("the image reader", "media") from None
    try:
        image = Image.open(file)
        if image.width * image.height > PIXELS:
            raise DataError(f"the image has {image.width} by {image.height} pixels: too large")
        return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"a damaged image: {error}") from None


def recognise(image: Any) -> tuple[list[str], str]:
    """The lines of text in an image, and what recognised them."""
    engine = _rapidocr()
    if engine is not None:
        import numpy

        result = engine(numpy.asarray(image.convert("RGB"))[:, :, ::-1])
        return list(result.txts or ()), "OCR (rapidocr)"
    if shutil.which("tesseract"):
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        done = subprocess.run(
            ["tesseract", "stdin", "stdout"], input=buffer.getvalue(), capture_output=True, timeout=60, check=False
        )
        if done.returncode:
            raise ToolError(f"tesseract failed: {done.stderr.decode(errors='replace').strip()[:200]}")
        return [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()], "OCR (tesseract)"
    raise MissingDependency("OCR (rapidocr, or tesseract-ocr of your system)", "media")


@functools.cache
def _rapidocr() -> Any:
    try:
        import logging

        from rapidocr import RapidOCR

        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        # small images are not scaled up to 736 pixels, which takes ten times as long and recognises no more
        sizes = {"Det.limit_type": "max", "Det.limit_side_len": 1280}
        return RapidOCR(
            params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 2, **sizes}
        )
    except ImportError:
        return None
