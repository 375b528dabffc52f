"""The OpenAPI document says what the server does: schemathesis sends what it allows and what it forbids."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from subquest.serve.openapi import openapi_document
from subquest.serve.routes import OPERATIONS

from .conftest import Start


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [o["operationId"] for path in openapi_document(OPERATIONS)["paths"].values() for o in path.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS)


@pytest.mark.slow
def test_no_request_surprises_the_server(start: Start, tmp_path: Path) -> None:
    """Left out: that every request the schemas allow is served, because some relations are beyond JSON Schema."""
    with start(asks_per_minute=100_000, queued=1000) as server:
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{server.url}/openapi.json"),
                *("--max-examples", "4", "--phases", "coverage,fuzzing", "--no-color", "--seed", "1"),
                *("--exclude-checks", "positive_data_acceptance", "--suppress-health-check", "all"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        passed = [int(number) for number in re.findall(r"(\d+) passed", done.stdout)]  # operations, then requests
        assert max(passed, default=0) > 10 * len(OPERATIONS), done.stdout[-2000:]
        with server.client() as client:
            assert client.get("/health").status_code == 200
            counted = client.get("/metrics").text
    assert 'status="500"' not in counted
