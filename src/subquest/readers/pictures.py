"""Images by the text in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..errors import DataError, MissingDependency
from .ocr import read_picture
from .part import Part

PIXELS = 40_000_000
"""Larger images are refused: a small file can hold a picture that fills the memory."""


def read_image(file: BinaryIO) -> Iterator[Part]:
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency("the image reader", "media") from None
    try:
        picture = Image.open(file)
        if picture.width * picture.height > PIXELS:
            raise DataError(f"the image has {picture.width} by {picture.height} pixels: too large")
        lines, _ = read_picture(picture)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"a damaged image: {error}") from None
    yield Part("\n".join(lines))
