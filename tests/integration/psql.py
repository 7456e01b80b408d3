"""Scripts that run in psql, as a database administrator runs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.binaries import NoPostgres, find


def run(url: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script until its first error; skip the test where there is no psql."""
    return subprocess.run(
        [_program(), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )


def _program() -> Path:
    try:
        beside = find().folder / "psql"
    except NoPostgres:
        beside = Path("psql")
    if beside.exists():
        return beside
    if found := shutil.which("psql"):
        return Path(found)
    pytest.skip("there is no psql")
