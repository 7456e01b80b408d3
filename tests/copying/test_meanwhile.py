"""What happens to either store while one is copied to the other."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from rowlock import StoreUnavailable
from rowlock._copy import CopyRefused, copy
from rowlock._copying import Receiving
from rowlock._job import Status
from rowlock._store import Pause, Store, TaskInfo
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    WORKER,
    elsewhere,
    ended,
    job,
    quietly,
    rows_of,
)


@pytest.mark.parametrize(
    ("verb", "values", "said"),
    [
        ("register", (WORKER, ()), r"a worker started \(w-17"),
        (
            "enqueue",
            ([job()],),
            r"jobs were changed \(pending 1, then 2, greatest id 2, then 3",
        ),
        ("move", ([1],), r"jobs were changed \(last change"),
        ("delete", ([2],), r"jobs were changed \(cancelled 1, then 0"),
        ("pause", (Pause(queue="mail"),), "a queue or a task was paused"),
    ],
    ids=["register", "enqueue", "move", "delete", "pause"],
)
async def test_what_happens_to_the_source_meanwhile_undoes_the_copy(
    verb: str,
    values: tuple[object, ...],
    said: str,
    source: Store,
    source_url: str,
    other: Store,
) -> None:
    await source.enqueue([job(), job()])
    await source.cancel([2], by="ada")
    options = {"by": "bo", "priority": 5} if verb == "move" else {}

    def interfere(_done: int, _total: int) -> None:
        elsewhere(source_url, verb, *values, **options)

    with pytest.raises(CopyRefused, match=f"Nothing was copied: while .*{said}"):
        await copy(source, other, interfere)

    found = await other.copying.survey()
    assert not found.total
    assert not found.pauses
    assert not await rows_of(other)


async def test_nobody_gets_into_the_target_meanwhile(
    other: Store, target: Store, target_url: str
) -> None:
    await other.enqueue([job(), job()])
    tried: list[tuple[str, Any]] = [("enqueue", ([job()],)), ("register", (WORKER, ()))]

    def interfere(_done: int, _total: int) -> None:
        for verb, values in tried:
            with pytest.raises(StoreUnavailable):
                elsewhere(target_url, verb, *values)

    await copy(other, target, interfere)

    assert len(await rows_of(target)) == 2


async def test_nobody_changes_the_source_until_the_target_has_committed(
    source: Store, source_url: str, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.enqueue([job(), job()])
    receiving = other.copying.receiving
    refused: list[str] = []

    @asynccontextmanager
    async def and_try_to_write() -> AsyncIterator[Receiving]:
        async with receiving() as took:
            yield took
            # All is copied and compared; what follows is the commit.
            for verb, values in (("enqueue", ([job()],)), ("register", (WORKER, ()))):
                with pytest.raises(StoreUnavailable):
                    elsewhere(source_url, verb, *values)
                refused.append(verb)

    monkeypatch.setattr(other.copying, "receiving", and_try_to_write)
    await copy(source, other, quietly)

    assert refused == ["enqueue", "register"]
    assert await rows_of(other) == await rows_of(source)
    elsewhere(source_url, "enqueue", [job()])


@pytest.mark.parametrize(
    ("lost", "named"), [("pauses", "the pause of mail"), ("tasks", "the task pay")]
)
async def test_a_target_that_lacks_a_pause_or_a_task_isnt_committed(
    lost: str,
    named: str,
    other: Store,
    target: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await other.pause(Pause(queue="mail"))
    await other.register(None, [TaskInfo(name="pay", queue="mail", defaults={})])
    receiving = target.copying.receiving

    @asynccontextmanager
    async def losing() -> AsyncIterator[Receiving]:
        async with receiving() as took:
            prepare = took.prepare
            monkeypatch.setattr(
                took, "prepare", lambda it: prepare(replace(it, **{lost: ()}))
            )
            yield took

    with monkeypatch.context() as patched:
        patched.setattr(target.copying, "receiving", losing)
        with pytest.raises(CopyRefused, match=f"Nothing was copied: .* lacks {named}"):
            await copy(other, target, quietly)

    assert not (await target.stats()).pauses
    await copy(other, target, quietly)
    assert len((await target.stats()).pauses) == 1


async def test_a_pause_of_the_targets_own_stays_until_it_has_ended(
    other: Store, target: Store, clock: FakeClock
) -> None:
    await other.pause(Pause(queue="mail", reason="moving"))
    await target.pause(Pause(queue="mail", reason="mine"), for_=LEASE)

    await copy(other, target, quietly)
    (stays,) = (await target.stats()).pauses
    assert stays.reason == "mine"

    clock.advance(LEASE)
    await copy(other, target, quietly)
    (arrived,) = (await target.stats()).pauses
    assert (arrived.reason, arrived.until) == ("moving", None)


async def test_a_store_that_takes_its_time_isnt_given_up(
    source: Store, target: Store, scale: int
) -> None:
    if scale == 1:
        pytest.skip("stands still for seven seconds: --slow")
    await source.enqueue([job()] * 300)

    def stall(done: int, _total: int) -> None:
        if done == 100:
            # Longer than a transaction of ours may stand still on the server's clock.
            time.sleep(7)

    assert (await copy(source, target, stall)).total == 300


async def test_what_fails_on_the_way_leaves_the_target_as_it_was(
    source: Store, target: Store, target_url: str
) -> None:
    (first, *_) = await source.enqueue([job()] * 1200)
    assert first == 1
    await ended(source, "pay", status=Status.SUCCEEDED)
    days = partitions(target_url)

    def fail(done: int, total: int) -> None:
        assert total == 1200
        if done > 500:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await copy(source, target, fail)

    assert not await rows_of(target)
    assert partitions(target_url) == days
    await copy(source, target, quietly)
    assert await rows_of(target) == await rows_of(source)
    assert await target.enqueue([job()]) == (1201,)


def partitions(url: str) -> list[Any]:
    """The days that the history has partitions of; none on SQLite."""
    if url.startswith("sqlite"):
        return []
    with psycopg.connect(url) as own:
        return own.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'rowlock.history'::regclass ORDER BY 1"
        ).fetchall()
