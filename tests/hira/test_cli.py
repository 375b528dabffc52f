"""`subquest ask --system hira` on a loopback site and on files."""

import json

import pytest

from subquest.cli import main

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
