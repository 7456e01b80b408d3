"""Child processes that start while their worker's threads run."""

from __future__ import annotations

import threading
import warnings

import pytest

from rowlock import Status
from rowlock.testing import isolated
from tests.endings import ended
from tests.worker import apart


async def test_b88_children_start_beside_many_threads(
    database_url: str, monkeypatch: pytest.MonkeyPatch, scale: int
) -> None:
    """Python warns of a fork beside threads, since it may deadlock: here is none."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    is_over = threading.Event()
    beside = [threading.Thread(target=is_over.wait, daemon=True) for _ in range(50)]
    for thread in beside:
        thread.start()
    count = 24 if scale == 1 else 400  # two jobs a child: half as many starts
    async with isolated(apart.app, database_url) as app:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            async with app.worker(concurrency=4):
                ids = [await apart.pid_of_two.enqueue() for _ in range(count)]
                jobs = [await ended(app, job_id) for job_id in ids]
    is_over.set()

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    assert len({job.result for job in jobs}) >= count / 2
