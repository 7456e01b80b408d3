"""A column that is added to the tables can't be forgotten."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowlock import stores
from rowlock._copying import COLUMNS

from .given import (
    KINDS,
    Make,
    elsewhere,
)

STATEMENTS = sorted(
    path
    for path in Path(stores.__file__).parent.glob("*/sql/copy_*.sql")
    if "payload" in path.read_text()
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_of_a_job_is_copied(kind: str, make: Make) -> None:
    url = make(kind)
    elsewhere(url, "open")
    found = columns(url)

    assert len(found) == (1 if kind == "sqlite" else 2)
    for names in found:
        assert sorted(names) == sorted(COLUMNS)


def columns(url: str) -> list[list[str]]:
    """The columns of each table that has jobs."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as own:
            table = own.execute("PRAGMA table_info(rowlock_rows)").fetchall()
            return [[name for _, name, *_ in table]]
    with psycopg.connect(url) as own:
        return [
            names
            for (names,) in own.execute(
                "SELECT array_agg(column_name::text) FROM information_schema.columns"
                " WHERE table_schema = 'rowlock' AND table_name IN ('live', 'history')"
                # Which comes of the others.
                " AND column_name <> 'key_until'"
                " GROUP BY table_name"
            )
        ]


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.parts[-3])
def test_every_list_of_columns_has_them_in_their_order(path: Path) -> None:
    lists = re.findall(r"\bid,[\w\s,]+\bpayload\b", path.read_text())

    assert lists
    for listed in lists:
        assert re.split(r",\s+", listed) == list(COLUMNS)
