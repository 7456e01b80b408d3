"""Waking: by a hint, by what others have committed, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowlock._store import Pause, Wakeups
from rowlock.stores.sqlite import SQLiteStore, between
from rowlock.testing import FakeClock
from tests.eventually import eventually

from .sqlite_given import a_users, claim, new_job, opened, run

HOUR = timedelta(hours=1)
NO_TIME = timedelta(0)


@pytest.fixture
def path() -> Iterator[Path]:
    """A file that doesn't exist yet."""
    # A socket's path has about 100 bytes at most, and pytest's folders are as long.
    with tempfile.TemporaryDirectory(prefix="wake-") as folder:
        yield Path(folder) / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store on it."""
    async with opened(path) as store:
        yield store


async def asleep(wakeups: Wakeups) -> asyncio.Task[bool]:
    """Hear out what is old news, then sleep."""
    while await wakeups.wait(timedelta(milliseconds=50)):
        pass
    return asyncio.create_task(wakeups.wait(HOUR))


async def woken(sleeper: asyncio.Task[bool]) -> None:
    # Real: its own timeout is an hour.
    assert await asyncio.wait_for(sleeper, 5)


def sockets(path: Path) -> list[Path]:
    return sorted(Path(f"{path}.wake").glob("*.sock"))


ENQUEUE = """
    async def main(path):
        async with opened(path) as store:
            await store.enqueue([new_job()])
    asyncio.run(main(sys.argv[1]))
"""


async def test_another_process_wakes_the_sleeper(
    path: Path, store: SQLiteStore
) -> None:
    wakeups = store.wakeups()
    sleeper = await asleep(wakeups)

    await asyncio.to_thread(run, ENQUEUE, path)

    assert await asyncio.wait_for(sleeper, 2)
    assert len((await claim(store)).claims) == 1
    wakeups.close()


async def test_a_hint_has_it_look_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By itself it would look for the commits of others every half a minute.
    monkeypatch.setattr(between, "_SOONEST", 30.0)
    monkeypatch.setattr(between, "_LATEST", 30.0)
    async with opened(path) as store, opened(path) as another:
        wakeups = store.wakeups()
        await eventually(lambda: len(sockets(path)) == 1)
        for _ in range(3):
            sleeper = await asleep(wakeups)
            await another.enqueue([new_job()])
            await woken(sleeper)
        wakeups.close()


async def test_without_hints_the_commits_of_others_are_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    async with opened(path) as store, opened(path) as another:
        wakeups = store.wakeups()
        sleeper = await asleep(wakeups)
        await another.enqueue([new_job()])

        await woken(sleeper)
        wakeups.close()
    assert sockets(path) == []


async def test_where_the_path_is_too_long_for_a_socket_there_is_no_hint(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir(exist_ok=True)
    async with opened(folder / "jobs.db") as store, opened(folder / "jobs.db") as other:
        wakeups = store.wakeups()
        sleeper = await asleep(wakeups)
        await other.enqueue([new_job()])

        await woken(sleeper)
        wakeups.close()


async def test_a_commit_of_a_users_own_program_wakes_the_sleeper(
    path: Path, store: SQLiteStore
) -> None:
    wakeups = store.wakeups()
    with a_users(path) as own:
        store.lent.enqueue_sync([new_job()], own)
        sleeper = await asleep(wakeups)
        assert (await claim(store)).claims == ()

        own.commit()

        await woken(sleeper)
    assert len((await claim(store)).claims) == 1
    wakeups.close()


async def test_every_verb_that_makes_jobs_due_is_news(store: SQLiteStore) -> None:
    wakeups = store.wakeups()
    (job_id,) = await store.enqueue([new_job()])
    assert job_id is not None
    await store.cancel([job_id], by="test")
    await store.pause(Pause(queue="default"))
    acts: list[Callable[[], Awaitable[object]]] = [
        lambda: store.enqueue([new_job()]),
        lambda: store.replay([job_id], by="test"),
        lambda: store.move([job_id], by="test", delay=NO_TIME),
        lambda: store.pause(Pause(queue="default"), resume=True),
    ]

    for act in acts:
        while await wakeups.wait(timedelta(milliseconds=1)):
            pass
        await act()
        assert await wakeups.wait(HOUR)
    wakeups.close()


async def test_reading_and_renewing_are_no_news(store: SQLiteStore) -> None:
    wakeups = store.wakeups()
    while await wakeups.wait(timedelta(milliseconds=100)):
        pass

    await store.renew((), worker="w1", lease=HOUR)
    await store.stats()

    assert not await wakeups.wait(timedelta(milliseconds=400))
    wakeups.close()


async def test_a_socket_is_there_for_as_long_as_somebody_sleeps(
    path: Path, store: SQLiteStore
) -> None:
    assert sockets(path) == []
    first, second = store.wakeups(), store.wakeups()
    await eventually(lambda: len(sockets(path)) == 1)
    first.close()
    await store.renew((), worker="w1", lease=HOUR)
    assert len(sockets(path)) == 1

    second.close()

    await eventually(lambda: sockets(path) == [])
    await eventually(lambda: not is_listening())


def is_listening() -> bool:
    return any(each.name == "rowlock-sqlite-hints" for each in threading.enumerate())


async def asleep_briefly(wakeups: Wakeups) -> None:
    while await wakeups.wait(timedelta(milliseconds=100)):
        pass


async def test_the_socket_of_a_process_that_died_is_taken_away(
    path: Path, store: SQLiteStore
) -> None:
    folder = Path(f"{path}.wake")
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(folder / "dead.sock"))
    (folder / "note.txt").write_text("not ours")

    await store.enqueue([new_job()])
    await store.enqueue([new_job()])

    assert sockets(path) == []
    assert (folder / "note.txt").exists()


async def test_a_sleeper_that_hears_nothing_is_in_nobodys_way(
    path: Path, store: SQLiteStore
) -> None:
    folder = Path(f"{path}.wake")
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(folder / "deaf.sock"))
        async with asyncio.timeout(20):
            for _ in range(600):  # more than its buffer takes
                await store.enqueue([new_job()])

    assert len((await claim(store, 600)).claims) == 600


async def test_the_folder_may_go_away(path: Path, store: SQLiteStore) -> None:
    wakeups = store.wakeups()
    await asleep_briefly(wakeups)
    folder = Path(f"{path}.wake")
    await eventually(lambda: len(sockets(path)) == 1)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()

    await store.enqueue([new_job()])
    async with opened(path) as another:
        sleeper = await asleep(wakeups)
        await another.enqueue([new_job()])
        await woken(sleeper)
    wakeups.close()


async def test_a_hundred_thousand_empty_waits_leave_nothing_behind() -> None:
    async with opened(":memory:") as store:
        wakeups = store.wakeups()
        for _ in range(1000):
            await wakeups.wait(NO_TIME)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(99_000):
            assert not await wakeups.wait(NO_TIME)
        gc.collect()

        assert len(gc.get_objects()) - before < 200
        wakeups.close()


async def test_a_thousand_cancelled_waits_leave_nothing_behind() -> None:
    async with opened(":memory:") as store:
        wakeups = store.wakeups()
        for _ in range(1000):
            sleeper = asyncio.create_task(wakeups.wait(HOUR))
            await asyncio.sleep(0)
            sleeper.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeper
        assert not wakeups._sleepers

        sleeper = asyncio.create_task(wakeups.wait(HOUR))
        await asyncio.sleep(0)
        await store.enqueue([new_job()])
        assert await asyncio.wait_for(sleeper, 2)
        wakeups.close()


async def test_news_that_came_with_a_cancellation_are_kept() -> None:
    async with opened(":memory:") as store:
        wakeups = store.wakeups()
        sleeper = asyncio.create_task(wakeups.wait(HOUR))
        await asyncio.sleep(0)
        wakeups.tell()
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper

        assert await asyncio.wait_for(wakeups.wait(HOUR), 2)
        wakeups.close()


async def test_any_loop_may_sleep() -> None:
    async with opened(":memory:") as store:
        wakeups = store.wakeups()

        def elsewhere() -> bool:
            return asyncio.run(wakeups.wait(HOUR))

        sleeping = asyncio.create_task(asyncio.to_thread(elsewhere))
        await asyncio.sleep(0.1)  # the other thread has to have begun
        await store.enqueue([new_job()])

        assert await asyncio.wait_for(sleeping, 2)
        wakeups.close()


async def test_a_loop_that_is_gone_harms_nobody() -> None:
    async with opened(":memory:") as store:
        wakeups = store.wakeups()
        loop = asyncio.new_event_loop()
        coroutine = wakeups.wait(HOUR)

        def begin() -> None:
            task = loop.create_task(coroutine)
            loop.run_until_complete(asyncio.sleep(0))
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # left on purpose
            loop.close()

        await asyncio.to_thread(begin)

        assert None not in await store.enqueue([new_job()])
        assert await asyncio.wait_for(wakeups.wait(HOUR), 2)
        wakeups.close()


async def test_a_clock_that_is_moved_wakes_and_is_let_go() -> None:
    clock = FakeClock()
    async with opened(":memory:", clock=clock) as store:
        first, second = store.wakeups(), store.wakeups()
        sleepers = [asyncio.create_task(each.wait(HOUR)) for each in (first, second)]
        await asyncio.sleep(0)
        clock.advance(1)
        assert await asyncio.gather(*sleepers) == [True, True]

        first.close()
        clock.jump(1)
        assert await second.wait(HOUR)
        second.close()
        assert clock._listeners == []


async def test_who_sleeps_costs_next_to_nothing(path: Path) -> None:
    async with opened(path) as store:
        wakeups = store.wakeups()
        await asleep_briefly(wakeups)
        before = time.process_time()
        assert not await wakeups.wait(timedelta(seconds=1))
        used = time.process_time() - before
        wakeups.close()

    # About four looks, which cost less than a thousandth of a core.
    assert used < 0.05, used
