"""Judges: yes or no about an answer or about one role's step, by a model or by rule."""

from .base import AnswerCase, AnswerJudge, StepCase, StepJudge, Verdict, read_verdict
from .steps import steps_of

__all__ = ["AnswerCase", "AnswerJudge", "StepCase", "StepJudge", "Verdict", "read_verdict", "steps_of"]
