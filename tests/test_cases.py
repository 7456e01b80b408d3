"""
The list of cases and the guarantees keep their word: each test they name exists, and
each numbered one is listed under its number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cases.md"
GUARANTEES = ROOT / "docs" / "guarantees.md"
CASES = 150

ROW = re.compile(r"^\| B(\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(test_\w+)`")
DEFINED = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def standing() -> Mapping[int, str]:
    """What the page says of each case."""
    return {int(row[1]): row[4] for row in ROW.finditer(PAGE.read_text())}


@pytest.fixture(scope="module")
def tests() -> frozenset[str]:
    """The names of all tests."""
    return frozenset(
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in DEFINED.findall(path.read_text())
    )


def test_every_case_has_one_row_in_order() -> None:
    numbers = [int(row[1]) for row in ROW.finditer(PAGE.read_text())]

    assert numbers == list(range(1, CASES + 1))


@pytest.mark.parametrize("page", [PAGE, GUARANTEES], ids=lambda page: page.stem)
def test_every_test_that_is_named_exists(tests: frozenset[str], page: Path) -> None:
    assert not set(NAMED.findall(page.read_text())) - tests


def test_every_guarantee_names_its_proof() -> None:
    rows = re.findall(r"^\| (.+\.) \| (.+) \|$", GUARANTEES.read_text(), re.MULTILINE)

    assert rows
    assert [sentence for sentence, proof in rows if not NAMED.search(proof)] == []


def test_every_numbered_test_stands_under_its_number(
    standing: Mapping[int, str], tests: frozenset[str]
) -> None:
    missing = {
        name
        for name in tests
        if (number := re.match(r"test_b(\d+)_", name))
        and name not in NAMED.findall(standing[int(number[1])])
    }

    assert not missing


def test_no_test_stands_under_another_number(standing: Mapping[int, str]) -> None:
    astray = {
        (case, name)
        for case, text in standing.items()
        for name in NAMED.findall(text)
        if (number := re.match(r"test_b(\d+)_", name)) and int(number[1]) != case
    }

    assert not astray
