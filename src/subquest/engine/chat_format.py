"""Chat formats: how messages become one text, split so that content can never pass for a control token.

A model's chat template is parsed once, by rendering marked messages and cutting the result at the marks. The text
between the marks is *control* text, tokenised with special tokens on; message contents are tokenised with special
tokens off, piece by piece. So `<|im_end|>` in a document becomes ordinary tokens, and the embedded engine, the torch
engine and the trainer all see the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import EngineRefused, MissingDependency
from ..record import Segment
from .interface import Message, Mode


class Piece(NamedTuple):
    text: str
    control: bool


_BETWEEN = {
    ("", "system"): "system_open",
    ("", "user"): "user_open",
    ("system", "user"): "system_to_user",
    ("user", "assistant"): "user_to_assistant",
    ("assistant", "user"): "assistant_to_user",
}
"""The field of a format that stands between the messages of two roles; nothing comes before the first."""
Encode = Callable[[str, bool], Sequence[int]]
"""Tokenise a text; the flag says whether special tokens in it are to be recognised."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The control text around messages. `end` is the end-of-turn token's text."""

    system_open: str
    """Before the system message, beginning-of-sequence token included."""
    system_to_user: str
    user_open: str
    """Before the user message where there is no system message."""
    user_to_assistant: str
    """Between the user message and the model's turn."""
    assistant_to_user: str
    """Between the model's turn and the next user message; begins with `end`."""
    end: str

    def opening(self, messages: Sequence[Message]) -> list[Piece]:
        """The whole prompt up to where the model writes. An assistant message may come last: it is a prefill."""
        return [piece for pieces in self.opening_by_message(messages) for piece in pieces]

    def opening_by_message(self, messages: Sequence[Message]) -> list[list[Piece]]:
        """The prompt by message: its control text and content, and behind the last one what leads to the reply."""
        parts: list[list[Piece]] = []
        previous = ""
        for message in messages:
            control = _BETWEEN.get((previous, message.role))
            if control is None:
                raise EngineRefused(f"a {message.role} message cannot follow {previous or 'nothing'}")
            parts.append([Piece(getattr(self, control), True), Piece(message.content, False)])
            previous = message.role
        if previous == "user":
            parts[-1].append(Piece(self.user_to_assistant, True))
        elif previous != "assistant":
            raise EngineRefused("a prompt needs a user message")
        return parts

    def environment(self, text: str, mode: Mode, *, ended: bool) -> list[Piece]:
        """Environment text as it enters a context: the next user turn in chat mode, a continuation otherwise.

        `ended` says whether the model sampled its end-of-turn token.
        """
        if mode == "completion":
            return [Piece(text, False)]
        before = self.assistant_to_user
        if ended and before.startswith(self.end):
            before = before[len(self.end) :]
        return [Piece(before, True), Piece(text, False), Piece(self.user_to_assistant, True)]


CHATML = ChatFormat(
    system_open="<|im_start|>system\n",
    system_to_user="<|im_end|>\n<|im_start|>user\n",
    user_open="<|im_start|>user\n",
    user_to_assistant="<|im_end|>\n<|im_start|>assistant\n",
    assistant_to_user="<|im_end|>\n<|im_start|>user\n",
    end="<|im_end|>",
)

_MARKS = {"system": "\ufdd0S\ufdd0", "user": "\ufdd0U\ufdd0", "assistant": "\ufdd0A\ufdd0", "next": "\ufdd0N\ufdd0"}


def chat_format(template: str, *, bos: str = "", eos: str = "") -> ChatFormat:
    """The format a Jinja chat template describes; `eos` is the text of the model's end-of-turn token."""
    if not template:
        return CHATML
    try:
        import jinja2.sandbox
    except ImportError:
        if "<|im_start|>" in template:
            return CHATML
        raise MissingDependency("jinja2, which this model's chat template needs,", "embedded") from None
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    wrong = (jinja2.TemplateError, ValueError, TypeError, AttributeError, LookupError)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda fmt: ""

    def render(*roles: str) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "user" if role == "next" else role, "content": _MARKS[role]} for role in roles
        ]
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token=bos, eos_token=eos
        )

    try:
        talk = render("user", "assistant", "next")
        user_open, rest = talk.split(_MARKS["user"])
        user_to_assistant, rest = rest.split(_MARKS["assistant"])
        assistant_to_user, generation = rest.split(_MARKS["next"])
        try:
            with_system = render("system", "user")
            system_open, rest = with_system.split(_MARKS["system"])
            system_to_user = rest.split(_MARKS["user"])[0]
        except wrong:  # no system role: its text leads the user's message
            system_open, system_to_user = user_open, "\n\n"
    except wrong as error:
        raise EngineRefused(f"cannot read the model's chat template: {error}") from None
    end = eos if eos and assistant_to_user.startswith(eos) else assistant_to_user.strip().split("\n")[0]
    del user_to_assistant  # templates may drop reasoning here; the generation prompt is what the model writes after
    return ChatFormat(system_open, system_to_user, user_open, generation, assistant_to_user, end)


def chat_format_of(tokenizer: Any) -> ChatFormat:
    """The format of a transformers tokenizer."""
    return chat_format(tokenizer.chat_template or "", bos=tokenizer.bos_token or "", eos=tokenizer.eos_token or "")


def encode_pieces(pieces: Sequence[Piece], encode: Encode) -> list[int]:
    """Token ids of the pieces, one after the other."""
    return [i for piece in pieces if piece.text for i in encode(piece.text, piece.control)]


def text_of(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def environment_segment(chat: ChatFormat, text: str, mode: Mode, encode: Encode, *, ended: bool) -> Segment:
    """Environment text as a segment."""
    pieces = chat.environment(text, mode, ended=ended)
    role = "user" if mode == "chat" else "assistant"
    return Segment("env", text_of(pieces), tuple(encode_pieces(pieces, encode)), role=role)
