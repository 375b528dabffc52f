"""Chat templates as models bring them: read where they can be, refused with a reason where not."""

import pytest

from subquest.engine.chat_format import chat_format
from subquest.errors import EngineRefused

pytest.importorskip("jinja2")


def test_a_template_that_leaves_its_loop_is_read() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% if loop.last %}{% break %}{% endif %}{% endfor %}"
        "<assistant>"
    )
    found = chat_format(template, eos="</s>")
    assert (found.system_open, found.system_to_user) == ("<system>", "</s><user>")
    assert (found.user_to_assistant, found.end) == ("</s><assistant>", "</s>")


@pytest.mark.parametrize(
    "template",
    ["{% for m in messages %}", "{{ 1 + messages }}", "{{ messages[9].content }}", "{% nothing %}", "no marks"],
)
def test_a_template_that_cannot_be_read_is_refused_with_the_reason(template: str) -> None:
    with pytest.raises(EngineRefused, match=r"cannot read the model's chat template: ."):
        chat_format(template)
