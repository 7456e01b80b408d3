"""Exactly once on SQLite, whatever becomes of the handler's process."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from rowlock import App, Status
from tests.endings import known, reached
from tests.eventually import eventually
from tests.journal import Journal
from tests.programs import settling
from tests.workers import LEASE_S, RECOVERED_S, Workers

pytestmark = pytest.mark.timeout(180)


class Shop:
    """A file with a table of its own, an app on it, and worker processes."""

    def __init__(self, path: Path, app: App, workers: Workers) -> None:
        self.path, self.app, self.workers = path, app, workers

    async def enqueue(self, dies: str | None) -> int:
        settle = self.app.find_task("settle")
        return known(await settle.enqueue(str(self.path), dies))

    def paid(self) -> list[int]:
        with closing(sqlite3.connect(self.path)) as own:
            return [job_id for (job_id,) in own.execute("SELECT id FROM paid")]


@pytest.fixture
async def shop(tmp_path: Path, journal: Journal) -> AsyncIterator[Shop]:
    """A shop whose journal is shared by all its workers."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE paid (id INTEGER)")
    url = f"sqlite:///{path}"
    app = App(url, lease=LEASE_S)
    settling.register(app, journal)
    workers = Workers(url, journal.folder)
    yield Shop(path, app, workers)
    workers.close()
    await app.close()


@pytest.mark.parametrize("dies", ["before", "after"])
async def test_one_that_is_killed_at_its_commit_has_done_it_once_in_the_end(
    shop: Shop, journal: Journal, dies: str
) -> None:
    settling.gate(journal.folder).open()
    first = await shop.workers.start("settling", "first")
    job_id = await shop.enqueue(dies)
    await eventually(first.has_died)

    await shop.workers.start("settling", "other")
    job = await reached(shop.app, job_id, Status.SUCCEEDED, within=2 * RECOVERED_S)

    assert shop.paid() == [job_id]
    was_killed_before = dies == "before"
    assert (job.attempts, job.losses) == ((2, 1) if was_killed_before else (1, 0))


async def test_one_that_is_frozen_past_its_lease_commits_nothing(
    shop: Shop, journal: Journal
) -> None:
    late = await shop.workers.start("settling", "late")
    job_id = await shop.enqueue(None)
    await shop.workers.until("begun", process=late.name)
    await late.freeze(shop.app)

    other = await shop.workers.start("settling", "other")
    await shop.workers.until("begun", process=other.name, within=2 * RECOVERED_S)
    settling.gate(journal.folder).open()
    job = await reached(shop.app, job_id, Status.SUCCEEDED)
    late.thaw()
    await shop.workers.until("refused", process=late.name)
    assert late.stop() == 0

    assert (job.attempts, job.losses) == (2, 1)
    assert shop.paid() == [job_id]
