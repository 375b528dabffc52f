"""Question sets: the registry, published formats, reading, sampling and exporting, and their gold plans."""

from .question_files import read_questions
from .question_sets import questions_from
from .registry import REGISTRY, DataSet

__all__ = ["REGISTRY", "DataSet", "questions_from", "read_questions"]
