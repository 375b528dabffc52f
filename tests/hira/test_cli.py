"""`subquest ask --system hira` on a loopback site and on files."""

import json

import httpx2
import pytest

from subquest.cli import main

from ..serve.test_serve_command import process
from .site import serve

CALL = "<|begin_call_subtask|>{}<|end_call_subtask|>"


def lines(*pairs):
    return "".join(json.dumps({"role": role, "reply": reply}) + "\n" for role, reply in pairs)


def test_on_the_web(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.jsonl").write_text(
        lines(
            ("planner", CALL.format("Who is the mayor of Brunn?")),
            ("coordinator", '{"selected_agent_name": "search"}'),
            ("search", '{"query_plan": ["mayor Brunn"]}'),
            ("search", "Brunn says \\boxed{Ida Brandt}"),
            ("coordinator", '{"conclusion": {"final_conclusion": "Ida Brandt"}}'),
            ("planner", "\\boxed{Ida Brandt}"),
        )
    )
    with serve() as site:
        monkeypatch.setenv("SEARXNG_URL", site.url)
        ask = ["ask", "Who is the mayor of Brunn?", "--system", "hira", "--model", "scripted:script.jsonl", "--json"]
        assert main(ask) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"], document["system"], document["usage"]["searches"]) == ("Ida Brandt", "hira", 1)
    assert document["errors"] == []


def test_options_for_all_roles_reach_a_system_as_an_expert(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.jsonl").write_text(
        lines(
            ("planner", CALL.format("Who is the mayor of Brunn?")),
            ("planner", "<task>Who is the mayor of Brunn?</task>"),
            ("executor", "<search>mayor Brunn</search>"),
            ("executor", "<result>Ida Brandt</result>"),
            ("planner", "<answer>Ida Brandt</answer>"),
            ("coordinator", '{"conclusion": {"final_conclusion": "Ida Brandt"}}'),
            ("planner", "\\boxed{Ida Brandt}"),
        )
    )
    options = ["--set", "experts=coda", "--max-turns", "1", "--model", "scripted:script.jsonl", "--trace", "t.json"]
    with serve() as site:
        monkeypatch.setenv("SEARXNG_URL", site.url)
        assert main(["ask", "Who is the mayor of Brunn?", "--system", "hira", *options]) == 0
    trace = json.loads((tmp_path / "t.json").read_text())
    executors = [t for t in trace["trajectories"] if t["role"] == "executor"]
    assert [(t["forced"], t["result"]) for t in executors] == [(True, "Ida Brandt")]


def test_any_system_searches_the_web_in_the_place_of_an_index(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.jsonl").write_text(lines(("answerer", "<answer>Ida Brandt</answer>")))
    ask = ["ask", "mayor Brunn", "--system", "rag", "--model", "scripted:script.jsonl", "--index", "web://", "--json"]
    with serve() as site:
        monkeypatch.setenv("SEARXNG_URL", site.url)
        assert main(ask) == 0
        assert [p for p in site.asked if p.startswith("/search?q=mayor")]
    assert json.loads(capsys.readouterr().out)["usage"]["searches"] == 1
    monkeypatch.delenv("SEARXNG_URL")
    assert main(ask) == 2
    assert "SEARXNG_URL" in capsys.readouterr().err


def test_the_web_search_of_the_settings_is_searched_and_served(tmp_path, monkeypatch, capsys):
    """Not by `ask` alone: `search`, `serve` and `mcp` know `tools.web` too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.jsonl").write_text(lines(("answerer", "<answer>Ida Brandt</answer>")))
    (tmp_path / "documents.jsonl").write_text('"Doc 1 (Title: Brunn) Its mayor is Ida Brandt."\n')
    with serve() as site:
        (tmp_path / "subquest.toml").write_text(f'index = "web://"\n[tools]\nweb = "searxng:{site.url}"\n')
        assert main(["search", "mayor Brunn", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["hits"]
        made = ["--also-index", "made=simulated:scripted:documents.jsonl"]
        with process("serve", "--port", "0", "--model", "scripted:script.jsonl", *made) as (_, url):
            found = httpx2.get(f"{url}/api/about", timeout=120).json()["indexes"]
            body = {"queries": ["mayor Brunn"], "index": found[0]}
            hits = httpx2.post(f"{url}/retrieve", json=body, timeout=120).json()["result"][0]
            assert found[1] == "made"
            assert hits
            body["index"] = "made"
            assert "Ida Brandt" in httpx2.post(f"{url}/retrieve", json=body, timeout=120).text


def test_on_a_file_with_ablations(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.md").write_text("The key is 7.")
    (tmp_path / "script.jsonl").write_text(
        lines(
            ("planner", CALL.format("code: Read the key in note.md")),
            ("code", "<|begin_read_file|>note.md<|end_read_file|>"),
            ("code", "\\boxed{7}"),
            ("planner", "\\boxed{7}"),
        )
    )
    ask = ["ask", "What is the key?", "--system", "hira", "--model", "scripted:script.jsonl", "--preset", "no-transfer"]
    options = [
        "--set",
        "memory=false",
        "--set",
        "files=note.md",
        "--set",
        'egress="private"',
        "--trace",
        "t.json",
        "--json",
    ]
    assert main([*ask, *options]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "7"
    assert "The key is 7." in (tmp_path / "t.json").read_text()


@pytest.mark.parametrize("option", ["egress=open", "experts=oracle", "files=none.csv"])
def test_wrong_settings_are_wrong_usage(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.jsonl").write_text(lines(("planner", "\\boxed{7}")))
    ask = ["ask", "q", "--system", "hira", "--model", "scripted:script.jsonl", "--set", option]
    assert main(ask) == 2
    assert option.partition("=")[2] in capsys.readouterr().err


def test_tools_are_configured_in_the_settings_file(tmp_path, monkeypatch, capsys):
    """Search, allow-list, cache and scope from subquest.toml: the second run asks the site nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("SEARXNG_URL", "SUBQUEST_ALLOW_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    script = lines(
        ("agent", "<|begin_search_query|>gauge log<|end_search_query|>"),
        ("agent", "<|begin_click_link|>1<|end_click_link|>"),
        ("agent", "\\boxed{7.31 m}"),
    )
    (tmp_path / "script.jsonl").write_text(script)
    ask = ["ask", "How high?", "--system", "react-tools", "--model", "scripted:script.jsonl", "--json"]
    with serve() as site:
        host = site.url.removeprefix("http://")
        (tmp_path / "subquest.toml").write_text(
            f'[tools]\nweb = "searxng:{site.url}"\nallow_hosts = ["{host}"]\nrobots = false\nrecord = "kept.jsonl"\n'
            '[cache]\nenabled = true\npath = "calls.sqlite"\n'
        )
        assert main(ask) == 0
        first = list(site.asked)
        assert len(first) == 2
        assert main(ask) == 0
        assert site.asked == first
        assert main([*ask, "--no-cache", "--egress", "private"]) == 0
        assert site.asked == first
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["answer"] for e in shown] == ["7.31 m"] * 3
    assert [bool(e["errors"]) for e in shown] == [False, False, True]
    assert "egress scope is private" in shown[2]["errors"][0]["message"]
    assert json.loads((tmp_path / "kept.jsonl").read_text())["query"] == "gauge log"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ('web = "altavista"', "choose searxng:URL"),
        ('web = "searxng"', "searxng:http://"),
        ('web = "serper"', "SERPER_API_KEY"),
        ('allow_hosts = "a b"\nalow_hosts = 1', "did you mean 'tools.allow_hosts'"),
        ("allow_hosts = [1]", "tools.allow_hosts[1] must be text"),
        ('egress = "open"', "adaptive, private, public"),
        ("code_memory_mb = 0", "from 1"),
        ('ca = "nowhere.pem"', "nowhere.pem"),
    ],
)
def test_a_wrong_tools_section_is_named(tmp_path, monkeypatch, capsys, tools, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    (tmp_path / "script.jsonl").write_text(lines(("agent", "\\boxed{1}")))
    (tmp_path / "subquest.toml").write_text(f"[tools]\n{tools}\n")
    assert main(["ask", "q", "--system", "react-tools", "--model", "scripted:script.jsonl"]) == 2
    assert message in capsys.readouterr().err


def test_a_file_is_attached_by_a_flag(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.md").write_text("The key is 7.")
    (tmp_path / "script.jsonl").write_text(
        lines(("agent", "<|begin_read_file|>note.md<|end_read_file|>"), ("agent", "\\boxed{7}"))
    )
    ask = ["ask", "What is the key?", "--model", "scripted:script.jsonl", "--json"]
    assert main([*ask, "--system", "react-tools", "--file", "note.md"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["answer"] == "7"
    assert shown["evidence"][0]["quote"] == "The key is 7."
    assert main([*ask, "--system", "react-tools", "--file", "none.md"]) == 2
    assert main([*ask, "--system", "coda", "--file", "note.md"]) == 2
    assert "needs a system with tools" in capsys.readouterr().err
