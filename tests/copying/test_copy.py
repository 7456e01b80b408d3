"""Copying everything from one store to another, in all four directions."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from rowlock import Retention
from rowlock._copy import copy, preview
from rowlock._copying import COLUMNS, PART_BYTES, PART_JOBS, Once
from rowlock._job import Status
from rowlock._store import Demand, Store
from rowlock.testing import FakeClock

from .given import (
    KINDS,
    LEASE,
    Make,
    Open,
    ended,
    fill,
    job,
    quietly,
    rows_of,
)


async def test_everything_arrives_as_it_was_and_nothing_changes_where_it_was(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)
    before = await rows_of(source)
    ids = sorted(before)
    # It has tested something: a job of every kind is there.
    assert {row["status"] for row in before.values()} == set(Status) - {"running"}
    while_running = {"leased_until", "alone", "abandoned"}
    for name in set(COLUMNS) - while_running:
        assert any(row[name] for row in before.values()), name

    copied = await copy(source, target, quietly)

    assert await rows_of(target) == await rows_of(source) == before
    assert await target.get(ids) == await source.get(ids)
    assert copied.counts == Counter(
        Status(row["status"]) for row in before.values()
    ) | {Status.RUNNING: 0}
    here, there = await source.stats(), await target.stats()
    assert set(there.pauses) == set(here.pauses)
    assert there.queues == here.queues
    surveys = [await store.copying.survey() for store in (source, target)]
    assert surveys[0].tasks == surveys[1].tasks
    assert len(surveys[0].tasks) == len(here.pauses) == 2


async def test_the_copy_goes_on_where_the_original_stood(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)
    last_id = (await source.copying.survey()).last_id
    await copy(source, target, quietly)

    (new,) = await target.enqueue([job(task="new")])
    (held,) = await target.enqueue([job(task="later", idempotency_key="later:\\1")])
    assert new == last_id + 1
    assert held is None
    keys = [f"{key}:{n}" for key in ("long", "short") for n in range(2)]
    made = await target.enqueue([job(idempotency_key=key) for key in keys])
    assert [job_id is None for job_id in made] == [True, True, False, False]
    await target.cancel([job_id for job_id in made if job_id], by="ada")
    assert await ended(target, "new", status=Status.SUCCEEDED) == new
    failed = [j for j in await everything(target) if j.status == Status.FAILED]
    (dead,) = [j for j in failed if j.idempotency_key == "dead"]
    (answer,) = await target.replay([dead.id], by="bo")
    assert answer.done
    (replayed,) = await target.get([dead.id])
    assert [e["event"] for e in replayed.errors] == ["failed", "failed", "replay"]
    paused = Demand(total=9, tasks=frozenset({"pay"}))
    assert not (await target.claim(paused, worker="w", lease=LEASE)).claims
    clock.advance(timedelta(days=2))
    retention = Retention(succeeded=timedelta(days=3), cancelled=timedelta(days=3))
    while True:
        pruned = await target.prune(retention, limit=100)
        if not (pruned.expired or pruned.deleted):
            break
    kept = [j.finished_at for j in await everything(target) if j.status == "succeeded"]
    assert all(at and at > clock.now() - timedelta(days=4) for at in kept)
    assert 0 < len(kept) < 5


async def everything(store: Store) -> Any:  # noqa: ANN401 - jobs
    return await store.get(sorted(await rows_of(store)))


async def test_an_empty_store_is_copied_too(source: Store, target: Store) -> None:
    copied = await copy(source, target, quietly)

    assert copied.total == 0
    assert await target.enqueue([job()]) == (1,)


async def test_no_id_of_the_target_is_given_again(other: Store, target: Store) -> None:
    await other.enqueue([job()])
    tried = [job_id for job_id in await target.enqueue([job()] * 7) if job_id]
    await target.cancel(tried, by="ada")
    await target.delete(tried)

    await copy(other, target, quietly)

    assert await target.enqueue([job()]) == (8,)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_only_people_read_is_cleaned_where_postgres_cant_hold_it(
    kind: str, opened: Open, make: Make
) -> None:
    source, target = await opened(make("sqlite")), await opened(make(kind))
    await source.enqueue([job(meta={"by": "a\0b"})])
    error = {"type": "ValueError", "message": "a\0b", "traceback": "\0"}
    job_id = await ended(source, "pay", status=Status.FAILED, failed=True, error=error)

    await copy(source, target, quietly)

    (arrived,) = await target.get([job_id])
    mark = "a\0b" if kind == "sqlite" else "a\ufffdb"
    assert mark in (arrived.last_error or "")
    assert arrived.errors[0]["message"] == arrived.meta["by"] == mark


async def test_a_dry_run_sees_what_would_be_copied_and_writes_nothing(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)

    seen = await preview(source, target)

    assert seen.total == len(await rows_of(source))
    assert not await rows_of(target)
    assert await preview(source, None) == seen


async def test_a_part_of_large_jobs_has_few_of_them(source: Store) -> None:
    large = '{"text": "' + "x" * (PART_BYTES // 4) + '"}'
    await source.enqueue([job()] * 220)
    await source.enqueue([job(payload=large)] * 30)

    async with aclosing(source.copying.jobs()) as parts:
        found = [[len(row[-1]) for row in part] async for part in parts]

    assert sum(map(len, found)) == 250
    assert len(found[0]) == PART_JOBS
    # Four of them are as much as a part may have; Postgres is asked for ten.
    assert all(sum(size > 9 for size in part) <= 10 + 3 for part in found)
    assert max(map(len, found[3:])) <= 10


async def remember(store: Store, keys: list[Once]) -> None:
    async with store.copying.receiving() as receiving:
        await receiving.remember(keys)


async def remembered(store: Store) -> list[Once]:
    async with aclosing(store.copying.once()) as parts:
        return [key async for part in parts for key in part]


async def test_keys_of_once_are_copied_with_when_they_came(
    source: Store, target: Store, clock: FakeClock
) -> None:
    keys = [
        (f"k{number:05}\\ü", clock.now() + timedelta(microseconds=number))
        for number in range(2500)
    ]
    await remember(source, keys)
    # One that came there, too, stays as it is.
    await remember(target, [(keys[7][0], clock.now()), ("own", clock.now())])

    copied = await copy(source, target, quietly)

    assert copied.once == 2500
    expected = [*keys[:7], (keys[7][0], clock.now()), *keys[8:], ("own", clock.now())]
    assert sorted(await remembered(target)) == expected
