"""A store around a fork: a child has the objects of its parent, and no thread of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .sqlite_given import a_users, run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


FORKING = """
    store = SQLiteStore(Address(path=sys.argv[1]))
    async def fill(n):
        for _ in range(n):
            await store.enqueue([new_job()])
    async def begin():
        await store.open()
        await fill(1)
        await store.get([1])
        store.wakeups()
    asyncio.run(begin())
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            asyncio.run(fill(50))
            if len(asyncio.run(store.get([1]))) != 1:
                os._exit(3)
            asyncio.run(store.close())
            sys.exit(0)  # with all that an exit does to what the parent has open
        children.append(child)
    asyncio.run(fill(50))
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    asyncio.run(fill(1))
    asyncio.run(store.close())
"""


def test_b87_children_that_were_forked_open_connections_of_their_own(
    path: Path,
) -> None:
    run(FORKING, path)

    with a_users(path) as own:
        assert own.execute("SELECT count(*) FROM rowlock_rows").fetchone() == (252,)
        assert own.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_child_forked_during_a_write_waits_for_no_lock_of_its_parent(
    path: Path,
) -> None:
    program = """
        import signal
        store = SQLiteStore(Address(path=sys.argv[1]))
        asyncio.run(store.open())
        # As the writer's thread may: the child has the lock, and not the thread.
        store._database.grace._lock.acquire()
        child = os.fork()
        if not child:
            signal.alarm(20)
            asyncio.run(store.lost(1))
            asyncio.run(store.renew((), worker="w", lease=LEASE))
            os._exit(0)
        store._database.grace._lock.release()
        print(os.waitpid(child, 0)[1])
    """

    assert run(program, path) == "0\n"


def test_a_database_in_memory_is_refused_to_a_forked_child() -> None:
    program = """
        store = SQLiteStore(Address(path=":memory:"))
        asyncio.run(store.open())
        child = os.fork()
        if not child:
            try:
                asyncio.run(store.enqueue([new_job()]))
            except Exception as error:
                print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(asyncio.run(store.enqueue([new_job()])))
    """

    said = run(program)

    assert said.startswith("ConfigError: The database in memory")
    assert said.endswith("(1,)\n")
