from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from subquest.assemble import AgentSpec
from subquest.config import KEYS, Config, find_file, load_config, untrusted
from subquest.errors import ConfigError
from subquest.limits import Limits


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, folder: Path | None = None) -> Path:
    path = (folder or Path.cwd()) / "subquest.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_set() -> None:
    config = load_config(env={})
    assert config == Config()
    assert config.sources == {}
    assert config.model is None


def test_every_kind_of_setting_from_a_file() -> None:
    file = write(
        """
        model = "openai:qwen"
        system = "coda"
        index = "docs.sq"
        protocol = "tools"
        [search]
        k = 5
        mode = "hybrid"
        [limits]
        turns = 8
        seconds = 60
        cost = 0.5
        [sampling]
        temperature = 0
        seed = -1
        [cache]
        enabled = false
        path = "/var/cache/calls.sqlite"
        """
    )
    config = load_config(env={})
    assert config.model == "openai:qwen"
    assert (config.search.k, config.search.mode, config.protocol) == (5, "hybrid", "tools")
    assert config.limits == Limits(turns=8, seconds=60.0, cost=0.5)
    assert isinstance(config.limits.seconds, float)
    assert config.index == str(file.parent / "docs.sq")
    assert (config.cache.enabled, config.cache.path) == (False, "/var/cache/calls.sqlite")
    assert set(config.sources.values()) == {str(file)}
    assert AgentSpec.from_config(config).sampling == {"temperature": 0.0, "seed": -1}


def test_flags_beat_the_environment_which_beats_the_file() -> None:
    file = write('system = "coda"\nmodel = "embedded"\n[search]\nk = 1\n')
    env = {"SUBQUEST_SEARCH_K": "2", "SUBQUEST_MODEL": "openai:x", "SUBQUEST_CACHE_ENABLED": "Yes", "PATH": "/bin"}
    config = load_config(env=env, flags={"search.k": 3, "system": None})
    assert (config.system, config.model, config.search.k, config.cache.enabled) == ("coda", "openai:x", 3, True)
    assert config.sources == {
        "system": str(file),
        "model": "SUBQUEST_MODEL",
        "search.k": "a flag",
        "cache.enabled": "SUBQUEST_CACHE_ENABLED",
    }


def test_a_mark_at_the_beginning_of_the_file_is_no_text() -> None:
    write('\ufeffsystem = "rag"\n')
    assert load_config(env={}).system == "rag"


def test_the_short_names_of_variables_beat_the_file_too() -> None:
    write('[tools]\nallow_hosts = ["wiki.intern"]\nsandbox_url = "http://a:1"\n')
    env = {"SUBQUEST_ALLOW_HOSTS": "10.0.0.7, b.intern", "SUBQUEST_SANDBOX_URL": "http://b:2"}
    tools = load_config(env=env).tools
    assert (tools.allow_hosts, tools.sandbox_url) == (("10.0.0.7", "b.intern"), "http://b:2")
    assert load_config(env={**env, "SUBQUEST_TOOLS_SANDBOX_URL": "http://c:3"}).tools.sandbox_url == "http://c:3"


def test_an_empty_variable_is_not_set() -> None:
    assert load_config(env={"SUBQUEST_SEARCH_K": ""}).search.k is None


def test_a_model_for_each_role() -> None:
    write('[model]\nplanner = "openai:big"\ndefault = "embedded"\nexecutor = "http://h/v1#a"\n')
    assert load_config(env={}).model == "embedded,planner=openai:big,executor=http://h/v1#a"
    write('[model]\nplanner = "openai:big"\n')
    assert load_config(env={}).model == "planner=openai:big"


def test_the_file_is_found_in_parents_and_paths_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write('index = "docs.sq"\nprompts = "~/prompts"\nruns = "/srv/runs"\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert find_file() == file
    config = load_config(env={"HOME": "/home/x"})
    assert config.index == str(tmp_path / "docs.sq")
    assert config.prompts == str(Path.home() / "prompts")
    assert config.runs == "/srv/runs"
    other = write('index = "http://localhost:8000/retrieve"\n', deep)
    assert load_config(env={}).index == "http://localhost:8000/retrieve"
    assert load_config(file, env={}).index == str(tmp_path / "docs.sq")
    assert other != file


def test_paths_of_models_systems_and_lance_tables_are_relative_to_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'index = "lance:docs"\nsystem = "rag,notes.py:Notes"\n[model]\n'
    write(
        text
        + 'default = "gguf:m.gguf"\nplanner = "torch:smollm2"\nexecutor = "torch:models/big"\nfilter = "openai:x"\n'
    )
    here = load_config(env={})
    assert here.index == f"lance:{tmp_path}/docs"
    assert here.system == "rag,notes.py:Notes"
    deep = tmp_path / "a"
    deep.mkdir()
    monkeypatch.chdir(deep)
    config = load_config(tmp_path / "subquest.toml", env={})
    assert config.index == f"lance:{tmp_path}/docs"
    assert config.system == f"rag,{tmp_path}/notes.py:Notes"
    models = f"gguf:{tmp_path}/m.gguf,planner=torch:smollm2,executor=torch:{tmp_path}/models/big,filter=openai:x"
    assert config.model == models
    write('index = "lance:s3://bucket/docs"\nmodel = "scripted:/srv/replies.jsonl"\n', deep)
    monkeypatch.chdir(tmp_path)
    elsewhere = load_config(deep / "subquest.toml", env={})
    assert (elsewhere.index, elsewhere.model) == ("lance:s3://bucket/docs", "scripted:/srv/replies.jsonl")


def test_a_tokenizer_is_a_folder_beside_the_file_or_a_name_of_the_hub(tmp_path: Path) -> None:
    write('[engine]\ntokenizer = "Qwen/Qwen3-8B"\n')
    assert load_config(env={}).engine.tokenizer == "Qwen/Qwen3-8B"
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    assert load_config(env={}).engine.tokenizer == str(tmp_path / "Qwen" / "Qwen3-8B")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sistem = "coda"', "there is no setting 'sistem'; did you mean 'system'?"),
        ("[search]\nkk = 3", "there is no setting 'search.kk'; did you mean 'search.k'?"),
        ("[limit]\nturns = 3", "there is no section 'limit'; did you mean 'limits'?"),
        ("temperature = 0.5", "there is no setting 'temperature'; did you mean 'sampling.temperature'?"),
        ("zzz = 0.5", "there is no setting 'zzz'; settings are: model, system"),
        ('[search]\nk = "3"', "search.k must be a whole number from 1, not '3'"),
        ("[search]\nk = 3.0", "search.k must be a whole number from 1, not 3.0"),
        ("[search]\nk = true", "search.k must be a whole number from 1, not True"),
        ("[search]\nk = 0", "search.k must be a whole number from 1, not 0"),
        ("[search]\nmode = 'bm42'", "search.mode must be one of auto, bm25, dense, hybrid, linked, not 'bm42'"),
        ("search = 3", "'search' is a section: write [search]"),
        ("model = 3", "model must be text, not 3"),
        ("[model]\nplanner = 3", "model.planner must be text, not 3"),
        ("[cache]\nenabled = 1", "cache.enabled must be true or false, not 1"),
        ("[limits]\nseconds = -1", "limits.seconds must be a number from 0, not -1"),
        ("[sampling]\ntop_p = 1.5", "sampling.top_p must be a number above 0 to 1, not 1.5"),
        ("[sampling]\ntemperature = nan", "sampling.temperature must be"),
        ("system = coda", "(at line 1, column 10)"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text: str, message: str) -> None:
    file = write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(env={})
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"SUBQUEST_SEARCH_K": "many"}, "SUBQUEST_SEARCH_K: search.k must be a whole number from 1, not 'many'"),
        ({"SUBQUEST_CACHE_ENABLED": "maybe"}, "cache.enabled must be true or false, not 'maybe'"),
        ({"SUBQUEST_SISTEM": "coda"}, "SUBQUEST_SISTEM is unknown; did you mean SUBQUEST_SYSTEM?"),
        ({"SUBQUEST_LIMITS_TURN": "3"}, "did you mean SUBQUEST_LIMITS_TURNS?"),
    ],
)
def test_a_wrong_variable_is_named(env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(env=env)
    assert message in str(caught.value)


def test_variables_of_other_parts_are_left_alone() -> None:
    env = {"SUBQUEST_CACHE": "/c", "SUBQUEST_MINILM": "/m", "SUBQUEST_DATA": "/d", "SUBQUEST_SMOLLM2": "/s"}
    assert load_config(env=env) == Config()


def test_wrong_flags_and_missing_files() -> None:
    with pytest.raises(ConfigError, match=r"a flag: there is no setting 'serch\.k'; did you mean 'search\.k'"):
        load_config(env={}, flags={"serch.k": 3})
    with pytest.raises(ConfigError, match=r"cannot read the settings in none\.toml: No such file"):
        load_config("none.toml", env={})


def test_the_keys_are_those_of_the_dataclasses() -> None:
    assert {"model", "system", "index", "search.k", "limits.cost", "sampling.seed", "cache.path", "prices"} <= set(KEYS)
    assert "sources" not in KEYS


def test_the_examples_in_the_documentation_are_read() -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
    examples = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 2
    first, second = (load_config(write(example), env={}) for example in examples)
    assert {key.partition(".")[0] for key in first.sources} == {key.partition(".")[0] for key in KEYS}
    assert second.model == "embedded,planner=openai:qwen3-32b@http://localhost:8000/v1"


def test_a_file_of_somebody_else_is_named_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write('system = "decor"\n')
    assert load_config(env={}).system == "decor"
    for shared in (file, tmp_path):
        before = shared.stat().st_mode
        shared.chmod(before | stat.S_IWOTH)
        caplog.clear()
        assert load_config(env={}).system is None
        assert f"{file} is ignored: others can write" in caplog.text
        assert load_config(file, env={}).system == "decor"  # the user has named it
        shared.chmod(before)
    tmp_path.chmod(0o1777)  # as /tmp: nobody can replace the files of others
    assert load_config(env={}).system == "decor"
    tmp_path.chmod(0o700)
    uid = os.geteuid()
    if uid == 0:
        os.chown(file, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: uid + 54321)
    assert untrusted(file).startswith("it belongs to the user")


def test_a_link_to_a_file_of_somebody_else_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write('system = "decor"\n', elsewhere).chmod(0o666)
    Path("subquest.toml").symlink_to(elsewhere / "subquest.toml")
    assert load_config(env={}).system is None
    (elsewhere / "subquest.toml").chmod(0o644)
    assert load_config(env={}).system == "decor"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('system = "coda,mine.py:Mine"', "runs code"),
        ('model = "openai:gpt@https://elsewhere.example/v1"', "where your key is sent"),
        ('[model]\ndefault = "embedded"\nplanner = "http://elsewhere.example/v1#m"', "where your key is sent"),
    ],
)
def test_a_file_in_a_parent_folder_names_no_code_and_no_address_for_keys(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(text)
    load_config(env={})
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    with pytest.raises(ConfigError, match=reason):
        load_config(env={})
    assert load_config(file, env={}).sources
    write('model = "http://localhost:8000/v1#m"\n', tmp_path)
    assert load_config(env={}).model == "http://localhost:8000/v1#m"
