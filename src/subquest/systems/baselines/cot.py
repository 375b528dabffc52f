"""Chain of thought: the model thinks step by step, then answers; no search.

answerer  {question}  →  <think>...</think><answer>...</answer>
"""

from __future__ import annotations

from typing import ClassVar

from .direct import Direct


class ChainOfThought(Direct):
    """`Direct` with a prompt that asks for the steps."""

    name: ClassVar[str] = "cot"
