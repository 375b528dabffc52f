"""Sets of prompts: which model reads which, and what every full prompt keeps to."""

import json
import re
from pathlib import Path

import pytest

from subquest import CoDA
from subquest.engine.adapter import Lora, prompt_set_of, read_peft, write_peft
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.runtime.prompts import Prompts

from ..systems.fakes import FakeSearch
from ..systems.prompt_files import COMPACT, FULL


class Endpoint(ScriptedEngine):
    """A model that nobody trained on our prompts."""

    prompt_set = ""


def opened(agent: CoDA) -> dict[str, str]:
    """The beginning of each role's instructions."""
    episode = agent.ask("Who?")
    return {t.role: t.segments[0].text for t in episode.trajectories}


def script(kind: type[ScriptedEngine], *roles: str) -> ScriptedEngine:
    replies = {"planner": ["<task>t</task>", "<answer>a</answer>"], "executor": ["<result>r</result>"]}
    return kind({role: replies[role] for role in roles or replies})


def text(files: dict[str, Path], name: str) -> str:
    return files[f"coda/{name}"].read_text(encoding="utf-8").split("--- ")[0].strip()


def test_a_model_that_was_not_trained_on_ours_reads_the_full_prompts() -> None:
    assert opened(CoDA(script(Endpoint), FakeSearch()))["planner"] == text(FULL, "planner")
    assert opened(CoDA(script(ScriptedEngine), FakeSearch()))["planner"] == text(COMPACT, "planner")


def test_each_role_reads_the_set_of_its_own_model() -> None:
    models = {"planner": script(ScriptedEngine, "planner"), "executor": script(Endpoint, "executor")}
    agent = CoDA(models, FakeSearch())
    assert opened(agent) == {"planner": text(COMPACT, "planner"), "executor": text(FULL, "executor")}
    assert agent.prompt_set == "planner=compact,executor=full"


@pytest.mark.parametrize("name", ["full", "compact"])
def test_a_set_can_be_named_and_is_recorded(name: str) -> None:
    files = {"full": FULL, "compact": COMPACT}[name]
    agent = CoDA(script(Endpoint), FakeSearch(), prompts=name)
    assert opened(agent)["planner"] == text(files, "planner")
    assert CoDA(script(Endpoint), FakeSearch(), prompts=name).ask("Who?").settings["prompts"] == name


def test_a_folder_replaces_single_prompts_of_the_set(tmp_path: Path) -> None:
    (tmp_path / "planner.md").write_text("mine\n--- user\n$question")
    found = opened(CoDA(script(Endpoint), FakeSearch(), prompts=tmp_path))
    assert found == {"planner": "mine", "executor": text(FULL, "executor")}
    with pytest.raises(UsageError, match="no prompt set and no folder 'ful'"):
        CoDA(script(Endpoint), FakeSearch(), prompts="ful")


def test_a_folder_may_hold_prompts_for_several_systems(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no prompts: name them as ours, such as .*coda.planner\.md"):
        CoDA(script(Endpoint), FakeSearch(), prompts=tmp_path)
    for system in ("coda", "apex"):
        (tmp_path / system).mkdir()
        (tmp_path / system / "planner.md").write_text(f"for {system}\n--- user\n$question")
    assert opened(CoDA(script(Endpoint), FakeSearch(), prompts=tmp_path))["planner"] == "for coda"


def test_a_prompt_may_hold_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("be brief\n--- user\nQ: 1+1\n--- assistant\n2\n--- user\nQ: $question\n")
    messages = Prompts(tmp_path).messages("one", question="2+2 <answer>")
    assert [(m.role, m.content) for m in messages] == [
        ("system", "be brief"),
        ("user", "Q: 1+1"),
        ("assistant", "2"),
        ("user", "Q: 2+2 ‹answer›"),
    ]
    assert [m.shared for m in messages] == [True, True, True, False], "the question is not in the other three"
    (tmp_path / "two.md").write_text("be brief\n--- user\nQ\n--- assistant\n2")
    with pytest.raises(UsageError, match="has no line '--- user'"):
        Prompts(tmp_path).messages("two")


def test_an_adapter_says_which_prompts_it_was_trained_on(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pair = (numpy.zeros((1, 2), "float32"), numpy.zeros((2, 1), "float32"))
    write_peft(Lora({"model.layers.0.mlp.up_proj": pair}, 1.0, "full"), tmp_path)
    assert read_peft(tmp_path).prompts == prompt_set_of(tmp_path) == "full"
    config = tmp_path / "adapter_config.json"
    older = {k: v for k, v in json.loads(config.read_text()).items() if not k.startswith("subquest")}
    config.write_text(json.dumps(older))
    assert read_peft(tmp_path).prompts == prompt_set_of(tmp_path) == "compact"  # made before there were two sets


ACTION = re.compile(r"<(\w+)>([^<>]*)</\1>|<\|begin_(\w+)\|>(.*?)<\|end_\3\|>|\\boxed\{([^{}]*)\}", re.DOTALL)
PLACEHOLDERS = frozenset(
    {
        *("", "...", "…", "answer", "code", "fact", "facts", "keywords", "name", "notes", "page", "plan", "query"),
        *("question", "result", "short answer", "sub-question", "sub-task", "task", "text", "your answer"),
    }
)


@pytest.mark.parametrize("path", FULL.values(), ids=FULL)
def test_nothing_stands_in_a_full_prompt_that_a_model_could_copy_for_an_action(path: Path) -> None:
    found = [m[2] or m[4] or m[5] or "" for m in ACTION.finditer(path.read_text(encoding="utf-8"))]
    assert [content for content in found if content.strip().casefold() in PLACEHOLDERS] == []
