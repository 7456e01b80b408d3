"""The write-ahead log stays short, and one process at a time copies it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock.stores.sqlite import SQLiteStore
from rowlock.stores.sqlite import checkpoint as checkpoints
from rowlock.stores.sqlite.checkpoint import Checkpoint
from rowlock.stores.sqlite.connection import WAL_LIMIT
from rowlock.stores.sqlite.peers import Peers

from .sqlite_given import a_users, claim, new_job, opened, start

MIB = 2**20
LARGE = new_job(payload='"' + "x" * 20_000 + '"')

pytestmark = pytest.mark.skipif(
    not checkpoints.IS_ELECTED, reason="without fcntl, connections do it by themselves"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


def a_turn(path: Path) -> Checkpoint:
    """A turn to copy, as the writer of a process has it."""
    folder = Path(f"{path}.wake")
    return Checkpoint(str(path), folder, Peers(folder))


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold a snapshot, as a program does that exports for an hour."""
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN")
        own.execute("SELECT id FROM rowlock_jobs").fetchall()
        yield own


async def fill(store: SQLiteStore, mebibytes: int) -> None:
    for _ in range(mebibytes):
        await store.enqueue([LARGE] * 50)


async def test_the_log_is_copied_and_begun_anew(path: Path) -> None:
    async with opened(path) as store:
        sizes = []
        for _ in range(30):
            await fill(store, 1)
            sizes.append(log_size(path))

        assert max(sizes) < 3 * WAL_LIMIT, sizes
        assert len((await store.list(Filter(), limit=2000)).jobs) == 1500


async def test_b144_a_long_reader_lets_it_grow_and_it_shrinks_afterwards(
    path: Path,
) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        with reading(path):
            await fill(store, 48)
            assert log_size(path) > 40 * MIB
        # Nobody writes any more.
        ended = time.monotonic()
        while log_size(path) > WAL_LIMIT:
            assert time.monotonic() - ended < 30
            await asyncio.sleep(0.1)  # the writer's thread looks from time to time


READING = """
    path, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
    own = sqlite3.connect(path, timeout=10)
    while time.monotonic() < until:
        # Never without a snapshot: the next begins before this one ends.
        for _ in own.execute("SELECT * FROM rowlock_jobs LIMIT 2000"):
            pass
        time.sleep(0.001)
    own.close()
"""


@pytest.mark.timeout(420)  # --slow reads and writes for five minutes
async def test_b144_readers_without_a_gap_do_not_let_it_grow(
    path: Path, scale: int
) -> None:
    seconds = 4 if scale == 1 else 300
    async with opened(path) as store:
        await store.enqueue([new_job()])
        readers = [start(READING, path, seconds + 2) for _ in range(3)]
        sizes = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            # About 500 small writes a second, and 4 MiB of payload.
            await asyncio.gather(
                *(store.enqueue([LARGE]) for _ in range(20)),
                *(store.enqueue([new_job()]) for _ in range(30)),
            )
            claimed = await claim(store, 50)
            await store.finish([_outcome.succeeded(c.key) for c in claimed.claims])
            await store.stats()
            sizes.append(log_size(path))
            await asyncio.sleep(0.1)  # paced
        ends = [reader.communicate(timeout=30) for reader in readers]

    assert ends == [("", "")] * 3
    assert max(sizes) < 64 * MIB, max(sizes)


async def test_two_processes_never_copy_at_once(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
    with a_users(path, isolation_level=None, timeout=0) as one:
        one.execute("PRAGMA wal_autocheckpoint = 0")
        one.execute("CREATE TABLE filler (t TEXT)")
        first, second = a_turn(path), a_turn(path)
        with reading(path) as own:
            one.execute("INSERT INTO filler VALUES (zeroblob(6000000))")
            first.after_commit(one)  # takes its turn, and copies nothing yet
            second.after_commit(one)
            assert (first._lock is None, second._lock is None) == (False, True)
            one.execute("INSERT INTO filler VALUES ('x')")
            first.after_commit(one)
            second.after_commit(one)
            # A reader is in the way, so it isn't done, and stays its turn.
            assert (first._lock is None, second._lock is None) == (False, True)
            assert first.due_in() is not None
            own.execute("COMMIT")
        first.go_on(one)
        assert first._lock is None
        assert first.due_in() is None
        second.after_commit(one)
        assert second._lock is not None
        second.close()


async def test_a_copy_follows_a_commit_of_ones_own(path: Path) -> None:
    """A second one right after a complete one is what older SQLite can't stand."""
    statements: list[str] = []
    async with opened(path, trace=statements.append) as store:
        await fill(store, 20)

    copying = [n for n, s in enumerate(statements) if "wal_checkpoint" in s]
    assert copying
    before = 0
    for n in copying:
        assert "COMMIT" in statements[before:n]
        before = n


async def test_who_stops_writing_gives_the_turn_to_those_who_go_on(path: Path) -> None:
    async with opened(path) as once, opened(path) as often:
        await once.enqueue([LARGE] * 400)
        assert log_size(path) > WAL_LIMIT
        # It has the turn now, and nothing more to write.
        until = time.monotonic() + 10
        while log_size(path) > WAL_LIMIT:
            assert time.monotonic() < until
            await often.enqueue([new_job()])
            await asyncio.sleep(0.05)  # the turn is given back after a second


async def test_a_process_that_dies_leaves_its_turn(path: Path) -> None:
    program = """
        from tests.integration.test_sqlite_checkpoint import a_turn
        turn = a_turn(sys.argv[1])
        turn._take_turn()
        print(turn._lock is not None, flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), 9)
    """
    turn = a_turn(path)
    process = start(program, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    turn._take_turn()
    assert turn._lock is None

    process.communicate("go\n", timeout=10)

    turn._take_turn()
    assert turn._lock is not None
    turn.close()


async def test_a_turn_given_back_is_free_though_a_child_has_its_file(
    path: Path,
) -> None:
    first, second = a_turn(path), a_turn(path)
    first._take_turn()
    assert first._lock is not None
    # What a forked child has: the same open file.
    child = a_turn(path)
    child._lock = os.dup(first._lock)

    first.close()
    second._take_turn()
    assert second._lock is not None
    second.close()
    child.forget()


async def test_where_the_folder_cannot_be_made_jobs_run_on(path: Path) -> None:
    Path(f"{path}.wake").write_text("in the way")
    async with opened(path) as store:
        wakeups = store.wakeups()
        await fill(store, 20)
        assert log_size(path) < 4 * WAL_LIMIT
        assert len((await claim(store, 1000)).claims) == 1000
        wakeups.close()
