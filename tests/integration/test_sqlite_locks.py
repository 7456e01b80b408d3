"""Other programs on the same file: locks that pass, and locks that don't."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from rowlock import _outcome
from rowlock._errors import StoreUnavailable
from rowlock._filter import Filter
from rowlock._job import Status

from .sqlite_given import LEASE, a_users, claim, new_job, opened, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


HOLDING = """
    # Between its transactions the connection goes, so that the lock is one of SQLite's
    # own, and nothing that another process may do ends it.
    own = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
    own.execute("PRAGMA locking_mode = " + sys.argv[2])
    own.execute("BEGIN IMMEDIATE")
    own.execute("CREATE TABLE held (n INTEGER)")
    print("held", flush=True)
    sys.stdin.readline()
    own.execute("ROLLBACK")
    own.close()
"""


async def test_b146_a_lock_that_lasts_is_passing_and_the_store_goes_on(
    path: Path,
) -> None:
    async with opened(path) as store:
        (job_id,) = await store.enqueue([new_job()])
        (held,) = (await claim(store)).claims
        process = start(HOLDING, path, "NORMAL")
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"

        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="locked") as error:
                await store.renew([held.key], worker="w1", lease=LEASE)
            assert 0.9 < time.monotonic() - began < 2
            assert isinstance(error.value.__cause__, sqlite3.OperationalError)
            # Readers aren't in the way of a writer.
            assert len(await store.get([job_id or 0])) == 1
        assert process.communicate("go\n", timeout=10) == ("", "")

        renewal = await store.renew([held.key], worker="w1", lease=LEASE)
        assert renewal.lost == frozenset()
        (settled,) = await store.finish([_outcome.succeeded(held.key)])
        assert settled.accepted


async def test_b146_a_file_locked_whole_is_passing_for_readers_too(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
    # In this mode a connection has the log's index to itself.
    process = start(HOLDING, path, "EXCLUSIVE")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    async with asyncio.timeout(30):
        with pytest.raises(StoreUnavailable, match="locked"):
            async with opened(path):
                pass
    assert process.communicate("go\n", timeout=10) == ("", "")

    async with opened(path) as store:
        assert len((await store.list(Filter())).jobs) == 1


SLOW = """
    def write(connection, now):
        print("writing", flush=True)
        time.sleep(2.5)  # a slow disk, whose time is the real one

    async def main(path):
        async with opened(path) as store:
            await store._database.write(write)

    asyncio.run(main(sys.argv[1]))
"""


async def test_b143_a_peer_whose_commit_takes_long_is_waited_for(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        slow = start(SLOW, path)
        assert slow.stdout is not None
        assert slow.stdout.readline() == "writing\n"

        began = time.monotonic()
        await store.enqueue([new_job()])

        # No longer than its turn took: it has been seen at its end, too.
        assert 1.5 < time.monotonic() - began < 5
        assert slow.communicate(timeout=10) == ("", "")


async def test_law_18_a_users_lock_is_given_a_second_where_peers_work_too(
    path: Path,
) -> None:
    async with opened(path) as store, opened(path) as peer:
        await store.enqueue([new_job()])
        with a_users(path, isolation_level=None) as own:
            own.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            tries = [store.enqueue([new_job()]), peer.enqueue([new_job()])]
            ends = await asyncio.gather(*tries, return_exceptions=True)

        assert [type(end) for end in ends] == [StoreUnavailable] * 2
        assert time.monotonic() - began < 2


async def test_a_claim_of_nothing_needs_no_lock(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job(delay=LEASE)])
        with a_users(path, isolation_level=None) as own:
            own.execute("BEGIN IMMEDIATE")
            claimed = await claim(store)

    assert claimed.claims == ()
    assert claimed.next_due is not None


async def test_a_claim_of_something_waits_for_the_lock(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        with a_users(path, isolation_level=None) as own:
            own.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                await claim(store)

        assert len((await claim(store)).claims) == 1


async def test_readers_of_a_user_are_in_nobodys_way(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()] * 10)
        with a_users(path) as own:
            reading = own.execute("SELECT id FROM rowlock_jobs")
            reading.fetchone()
            (held,) = (await claim(store, 1)).claims
            await store.finish([_outcome.succeeded(held.key)])

            # The user's snapshot is of before.
            assert len(reading.fetchall()) == 9


async def test_a_long_read_holds_up_no_write(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        entered, leave = asyncio.Event(), False
        loop = asyncio.get_running_loop()

        def read(_connection: sqlite3.Connection, _now: int) -> bool:
            loop.call_soon_threadsafe(entered.set)
            give_up_at = time.monotonic() + 10
            while not leave and time.monotonic() < give_up_at:
                time.sleep(0.005)  # the read is long until the write is done
            return leave

        reading = asyncio.create_task(store._database.read(read))
        await entered.wait()
        async with asyncio.timeout(5):
            await store.enqueue([new_job()])
        leave = True

        assert await reading


CROWD = """
    async def worker(store, name, until, counts):
        while time.monotonic() < until:
            claimed = await claim(store, 5, worker=name)
            counts["claims"] += len(claimed.claims)
            keys = [held.key for held in claimed.claims]
            await store.renew(keys, worker=name, lease=LEASE)
            for key in keys:
                await store.save(key, progress="{}")
            answers = await store.finish([succeeded(key) for key in keys])
            counts["refused"] += sum(not answer.accepted for answer in answers)

    async def producer(store, until, counts):
        while time.monotonic() < until:
            await store.enqueue([new_job() for _ in range(5)])
            counts["enqueued"] += 5
            await asyncio.sleep(0.002)

    async def watcher(store, until):
        while time.monotonic() < until:
            await store.stats()
            await store.list(Filter(), limit=20)
            await store.prune(Retention(), limit=100)
            await store.lost(10)
            await asyncio.sleep(0.02)

    async def main(path, seconds):
        counts = dict(claims=0, refused=0, enqueued=0)
        async with opened(path) as store:
            until = time.monotonic() + seconds
            await asyncio.gather(
                worker(store, str(os.getpid()), until, counts),
                producer(store, until, counts),
                watcher(store, until),
            )
        print(json.dumps(counts))

    import json
    from rowlock._outcome import succeeded
    from rowlock._filter import Filter
    from rowlock._store import Retention
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


async def test_b143_a_crowd_of_processes_meets_no_lock_error(
    path: Path, scale: int
) -> None:
    seconds = 3 if scale == 1 else 60
    async with opened(path) as store:
        crowd = [start(CROWD, path, seconds) for _ in range(8)]
        ends = [
            await asyncio.to_thread(each.communicate, timeout=seconds + 60)
            for each in crowd
        ]

        assert [err[-500:] for _, err in ends if err] == []
        jobs = await store.stats()
        counts = [eval(out) for out, _ in ends]  # noqa: S307 - our own print
        (queue,) = jobs.queues
        enqueued = sum(each["enqueued"] for each in counts)
        claims = sum(each["claims"] for each in counts)
        sys.stdout.write(f"{claims / seconds:.0f} jobs/s in 8 processes\n")
        assert sum(queue.counts.values()) == enqueued
        assert queue.counts[Status.SUCCEEDED] == claims
        assert sum(each["refused"] for each in counts) == 0
    with a_users(path) as own:
        assert own.execute("PRAGMA integrity_check").fetchone() == ("ok",)
