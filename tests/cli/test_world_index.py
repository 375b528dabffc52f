"""A folder with questions and passages is evaluated as it is: its passages are indexed on first use."""

import json
import subprocess
import sys
from pathlib import Path

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as after `pip install subquest`
from pathlib import Path
from subquest.cli.evaluation import with_world_index
from subquest.config import Config
from subquest.retrieval.index import Index
with Index.open(with_world_index(Config(), [sys.argv[1]]).index) as index:
    print(*sorted(d.id for d in index.documents()), *(t.name for t in index.tables.all()))
"""


def indexed(folder: Path) -> list[str]:
    return subprocess.check_output([sys.executable, "-c", WITHOUT_TORCH, folder], text=True).split()


def test_a_folder_is_indexed_without_torch_and_with_the_tables_of_its_papers(tmp_path: Path) -> None:
    passages = [{"id": f"p{n}", "title": "Kelm", "text": f"Kelm has {n} mills."} for n in (1, 2)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)))
    (tmp_path / "docs").mkdir()
    rows = "".join(f"Mill {n},{1900 + n}\n" for n in range(30))
    (tmp_path / "docs" / "mills.csv").write_text(f"name,built\n{rows}")
    assert indexed(tmp_path) == ["p1", "p2", "mills"]
