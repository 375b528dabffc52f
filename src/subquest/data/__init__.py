"""Question sets: the registry, the release formats, reading, sampling and converting."""

from .reading import questions_from, read_questions
from .registry import REGISTRY, DataSet

__all__ = ["REGISTRY", "DataSet", "questions_from", "read_questions"]
