"""The suite itself: skips don't creep, and each law has its tests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .stores import CASES

HERE = Path(__file__).parent

# How many cases a store can't run. A number that grows is a law that a store doesn't
# show: say why before changing it.
SKIPPED = {
    "sqlite-memory": 89,
    "sqlite-file": 0,
    # A database of Postgres is migrated by its owner, never by its opening.
    "postgres": 1,
}

# Laws that the store can't show by itself: they bind its callers, and are proved with
# the worker.
ELSEWHERE = {19}


@pytest.fixture(scope="module")
def unsupported() -> list[str]:
    """Collect the whole suite, whatever this run was asked for."""
    listing = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-m",
            "unsupported",
            HERE,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent.parent,
    )
    assert listing.returncode in (0, 5), listing.stdout + listing.stderr
    return re.findall(r"::\w+\[(.+)\]$", listing.stdout, flags=re.MULTILINE)


def test_each_store_skips_exactly_what_it_says(unsupported: list[str]) -> None:
    by_store = Counter(
        case.name for each in unsupported for case in CASES if case.name in each
    )

    assert {case.name: by_store[case.name] for case in CASES} == SKIPPED


def test_nothing_else_is_skipped() -> None:
    skips = re.compile(r"pytest\.skip|mark\.skip|skipif|xfail|importorskip")

    found = {
        path.name
        for path in HERE.glob("*.py")
        if path != Path(__file__) and skips.search(path.read_text())
    }

    assert found == {"conftest.py"}


def test_each_law_has_tests_that_cite_it() -> None:
    cited = {
        int(number)
        for path in HERE.glob("test_*.py")
        for number in re.findall(r"def test_law_(\d+)_", path.read_text())
    }

    assert cited == set(range(1, 22)) - ELSEWHERE
