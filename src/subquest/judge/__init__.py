"""Judges: yes or no about an answer or about one role's step, by a model or by rule."""

from .agreement import Agreement, agreement, compare
from .cases import AnswerCase, AnswerJudge, StepCase, StepJudge, Verdict, read_verdict
from .model import BY_SET, INSTRUCTIONS, Instruction, ModelJudge, case_of
from .rules import RuleJudge
from .steps import steps_of

__all__ = [
    "BY_SET",
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
    "case_of",
    "compare",
    "read_verdict",
    "steps_of",
]
