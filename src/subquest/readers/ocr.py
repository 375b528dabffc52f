"""The text in a picture, by optical character recognition (the extra `media`, or the system's tesseract)."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
from typing import Any

from ..errors import MissingDependency, ToolError


def read_picture(picture: Any) -> tuple[list[str], str]:
    """The lines of text in a picture, and what read them."""
    engine = _rapidocr()
    if engine is not None:
        import numpy

        result = engine(numpy.asarray(picture.convert("RGB"))[:, :, ::-1])
        return list(result.txts or ()), "OCR (rapidocr)"
    if shutil.which("tesseract"):
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
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
        # small pictures are not blown up to 736 pixels, which costs ten times as much and reads no better
        sizes = {"Det.limit_type": "max", "Det.limit_side_len": 1280}
        return RapidOCR(
            params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 2, **sizes}
        )
    except ImportError:
        return None
