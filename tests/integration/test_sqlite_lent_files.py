"""A connection to SQLite that reads in its own way, or another name of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rowlock._errors import KeyConflict, WrongConnection
from rowlock._filter import Filter
from rowlock._outcome import succeeded
from rowlock.stores.sqlite import SQLiteStore
from rowlock.testing import FakeClock

from .sqlite_given import a_users, claim, new_job, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    """A store on it."""
    async with opened(path, clock=clock) as store:
        yield store


async def test_no_converter_of_a_declared_type_reads_what_we_ask_for(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTEGER", "TEXT"):
        monkeypatch.setitem(sqlite3.converters, name, lambda _: "converted")
    await store.enqueue([new_job(idempotency_key="run")])
    (claimed,) = (await claim(store)).claims
    another = new_job(on_conflict="raise", payload='{"n": 2}')
    with a_users(path, detect_types=sqlite3.PARSE_DECLTYPES) as own:
        (lent,) = store.lent.enqueue_sync([new_job(idempotency_key="k")], own)
        with pytest.raises(KeyConflict) as refused:
            store.lent.enqueue_sync([replace(another, idempotency_key="k")], own)
        once = [store.lent.once_sync("k", own) for _ in range(2)]
        outcome = succeeded(claimed.key, "1")
        store.lent.complete_sync(outcome, own, progress="[1.0, null]")
        own.commit()

    (job,) = await store.get([claimed.key.job_id])
    assert (lent, refused.value.job_id, once) == (2, 2, [True, False])
    assert job.status == "succeeded"


async def test_another_hard_link_is_another_database(
    tmp_path: Path, path: Path, store: SQLiteStore
) -> None:
    (tmp_path / "link.db").hardlink_to(path)
    with (
        a_users(tmp_path / "link.db") as own,
        pytest.raises(WrongConnection, match=r"link\.db"),
    ):
        store.lent.enqueue_sync([new_job()], own)

    assert (await store.list(Filter())).jobs == ()
