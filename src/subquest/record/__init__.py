"""Records: what a question, a context and an attempt at an answer are.

    Segment     a stretch of one context: prompt, agent or env text, with its exact token ids
    Trajectory  one role's whole context, in order, never re-encoded
    Episode     one attempt at one question: the tree of trajectories, the answer and how it came about

An episode is CoDA's trajectory group (section 3.3.1): agent segments have action mask 1; prompt and env segments and
forced turns have 0. Records are frozen, contain plain values only and know nothing about the rest of the package.
"""

from .episode import Episode, Failure, support_note
from .question import MAX_QUESTION, PUBLIC_FILES, UNKNOWN, Document, Hit, Question, Step, checked_question
from .report import STYLES, Evidence, Report, Section, Sentence, Style
from .trajectory import Segment, SegmentKind, Trajectory, Usage

__all__ = [
    "MAX_QUESTION",
    "PUBLIC_FILES",
    "STYLES",
    "UNKNOWN",
    "Document",
    "Episode",
    "Evidence",
    "Failure",
    "Hit",
    "Question",
    "Report",
    "Section",
    "Segment",
    "SegmentKind",
    "Sentence",
    "Step",
    "Style",
    "Trajectory",
    "Usage",
    "checked_question",
    "support_note",
]
