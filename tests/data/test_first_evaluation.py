"""A first evaluation as the documentation shows it: a set by name from the hub, its own corpus, an index, a report."""

import json
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import registry
from subquest.data.registry import DataSet, PublishedFile
from subquest.runs import RunStore

from ..docs.endpoint import ANSWER, endpoint
from ..file_site import FileSite
from .test_fetch import COMMIT, folder
from .test_paragraphs import hotpot

__all__ = ["folder"]


def test_from_a_name_to_a_report(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [hotpot(f"h{n}", f"Town {n}", "Common", f"Lake {n}") | {"golden_answers": [ANSWER]} for n in range(30)]
    place = "/datasets/lab/hops/resolve/main/dev.jsonl"
    site = FileSite({place: "".join(json.dumps(row) + "\n" for row in rows).encode()})
    site.headers[place] = {"X-Repo-Commit": COMMIT, "ETag": '"v1"'}
    entry = DataSet("hops", "Hops", "none", "lab/hops", (PublishedFile("dev", "dev.jsonl"),))
    monkeypatch.setitem(registry.REGISTRY, "hops", entry)
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    try:
        assert main(["data", "get", "hops:dev"]) == 0
    finally:
        site.close()
    sample = ["--sample", "6", "--corpus", "passages.jsonl"]
    assert main(["data", "convert", "hops:dev", "hops.jsonl", *sample]) == 0
    assert main(["index", "build", "passages.jsonl", "--out", "hops.sq"]) == 0
    with endpoint() as url:
        evaluation = ["eval", "hops.jsonl", "--system", "rag,coda", "--index", "hops.sq", "--model", url]
        assert main([*evaluation, "--out", "hops"]) == 0
    assert main(["report", "hops", "--out", "hops.html"]) == 0
    assert "rag" in capsys.readouterr().out
    with RunStore.open("hops") as run:
        assert run.counts()["episodes"] == 12
        assert {score.value for score in run.scores() if score.metric == "em"} == {1.0}
