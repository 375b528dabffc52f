"""Judges: yes or no about an answer or about one role's step, by a model or by rule."""

from .agree import Agreement, agreement, compare
from .base import AnswerCase, AnswerJudge, StepCase, StepJudge, Verdict, read_verdict
from .model import INSTRUCTIONS, Instruction, ModelJudge
from .rules import RuleJudge
from .steps import steps_of

__all__ = [
    "INSTRUCTIONS",
    "Agreement",
    "AnswerCase",
    "AnswerJudge",
    "Instruction",
    "ModelJudge",
    "RuleJudge",
    "StepCase",
    "StepJudge",
    "Verdict",
    "agreement",
    "compare",
    "read_verdict",
    "steps_of",
]
