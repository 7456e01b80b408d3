"""`once`: keys that a caller's transaction takes, and how long they are remembered."""

from __future__ import annotations

from datetime import timedelta

from rowlock._store import Pruned, Retention, Store
from rowlock.testing import FakeClock

from .stores import Connection

DAY = timedelta(days=1)


async def test_law_2_a_key_that_is_rolled_back_was_never_taken(
    store: Store, lend: Connection
) -> None:
    assert store.lent.once_sync("k", lend)
    assert not store.lent.once_sync("k", lend)
    lend.rollback()

    assert store.lent.once_sync("k", lend)
    lend.commit()
    assert not store.lent.once_sync("k", lend)


async def test_law_12_a_key_is_remembered_for_its_retention_and_no_longer(
    store: Store, lend: Connection, clock: FakeClock
) -> None:
    assert store.lent.once_sync("k", lend)
    lend.commit()
    clock.advance(30 * DAY - timedelta(seconds=1))
    assert await store.prune(Retention(), limit=9) == Pruned(expired=0, deleted=0)
    assert not store.lent.once_sync("k", lend)
    lend.rollback()
    clock.advance(1)

    assert (await store.prune(Retention(), limit=9)).freed == 1
    assert store.lent.once_sync("k", lend)


async def test_law_13_keys_are_forgotten_in_batches_the_oldest_first(
    store: Store, lend: Connection, clock: FakeClock
) -> None:
    for number in range(5):
        assert store.lent.once_sync(f"k{number}", lend)
        clock.advance(1)
    lend.commit()
    clock.advance(DAY)
    retention = Retention(once=DAY)

    freed = [(await store.prune(retention, limit=2)).freed for _ in range(2)]
    assert store.lent.once_sync("k3", lend)
    assert not store.lent.once_sync("k4", lend)
    lend.rollback()
    freed += [(await store.prune(retention, limit=2)).freed for _ in range(2)]

    assert freed == [2, 2, 1, 0]


async def test_a_key_has_nothing_to_do_with_that_of_a_job(
    store: Store, lend: Connection
) -> None:
    assert store.lent.once_sync("k", lend)
    lend.commit()

    assert store.lent.once_sync("K", lend)
    assert store.lent.once_sync("k ", lend)
    assert not store.lent.once_sync("k", lend)
