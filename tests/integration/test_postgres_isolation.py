"""Keys in a caller's transaction of each isolation level, as design §6 says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg import errors as pg

from rowlock import App, KeyConflict, KeyedTask, OnConflict

from .postgres_given import somebody_waits

Connection: TypeAlias = psycopg.Connection[Any]
Mail: TypeAlias = KeyedTask[..., Any]

LEVELS = [
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
]
each_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


class Two(NamedTuple):
    """Two programs, and a third that looks on."""

    app: App
    mail: Mail
    one: Connection
    other: Connection
    url: str
    thread: ThreadPoolExecutor

    def beside(self, act: Any) -> Future[Any]:  # noqa: ANN401 - what it answers
        """Have the other act, who waits for the one."""
        future = self.thread.submit(act)
        while not somebody_waits(self.url):
            assert not future.done(), future.result()
        return future


@pytest.fixture
def two(url: str, level: IsolationLevel) -> Iterator[Two]:
    """Two programs of this level on a database."""
    with (
        App(url) as app,
        psycopg.connect(url) as one,
        psycopg.connect(url) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        one.isolation_level = other.isolation_level = level

        @app.task
        def mail(to: str) -> None: ...

        yield Two(app, mail, one, other, url, thread)


def is_snapshot(level: IsolationLevel) -> bool:
    return level is not IsolationLevel.READ_COMMITTED


@each_level
def test_b27_who_waited_for_a_key_of_once_is_not_the_first(
    two: Two, level: IsolationLevel
) -> None:
    assert two.app.once_sync("k", connection=two.one)
    waiting = two.beside(lambda: two.app.once_sync("k", connection=two.other))
    two.one.commit()

    if is_snapshot(level):
        with pytest.raises(pg.SerializationFailure):
            waiting.result(20)
        two.other.rollback()
        assert not two.app.once_sync("k", connection=two.other)
    else:
        assert waiting.result(20) is False


@each_level
def test_b27_who_waited_is_the_first_where_the_one_rolls_back(two: Two) -> None:
    assert two.app.once_sync("k", connection=two.one)
    waiting = two.beside(lambda: two.app.once_sync("k", connection=two.other))
    two.one.rollback()

    assert waiting.result(20) is True
    two.other.commit()
    assert not two.app.once_sync("k", connection=two.one)


@each_level
def test_a_key_that_was_committed_before_is_seen(two: Two) -> None:
    keyed = two.mail.options(idempotency_key="k", idempotency_for=3600)
    first = keyed.enqueue_sync(to="Ada")
    assert first is not None
    two.app.cancel_sync(first)

    assert keyed.options(connection=two.one).enqueue_sync(to="Ada") is None
    raising = two.mail.options(idempotency_key="k", on_conflict="raise")
    lent = raising.options(connection=two.one)
    with pytest.raises(KeyConflict):
        lent.enqueue_sync(to="Bo")
    assert lent.enqueue_sync(to="Ada") is None
    two.one.commit()


@each_level
@pytest.mark.parametrize("on_conflict", ["skip", "raise", "replace"])
def test_a_key_that_was_committed_behind_a_snapshot_is_a_serialization_failure(
    two: Two, level: IsolationLevel, on_conflict: OnConflict
) -> None:
    keyed = two.mail.options(idempotency_key="k", on_conflict=on_conflict)
    two.one.execute("SELECT 1 FROM rowlock.jobs")  # its snapshot
    assert keyed.enqueue_sync(to="Ada") is not None

    lent = keyed.options(connection=two.one)
    if is_snapshot(level):
        with pytest.raises(pg.SerializationFailure):
            lent.enqueue_sync(to="Ada")
        two.one.rollback()
    assert lent.enqueue_sync(to="Ada") is None
    two.one.commit()


@each_level
@pytest.mark.parametrize("on_conflict", ["skip", "raise", "replace"])
def test_who_waited_for_a_key_of_a_job_is_told_what_became_of_it(
    two: Two, level: IsolationLevel, on_conflict: OnConflict
) -> None:
    keyed = two.mail.options(idempotency_key="k", on_conflict=on_conflict)
    first = keyed.options(connection=two.one).enqueue_sync(to="Ada")
    theirs = keyed.options(connection=two.other)
    waiting = two.beside(lambda: theirs.enqueue_sync(to="Bo"))
    two.one.commit()

    if is_snapshot(level):
        with pytest.raises(pg.SerializationFailure):
            waiting.result(20)
        two.other.rollback()
    elif on_conflict == "raise":
        with pytest.raises(KeyConflict) as caught:
            waiting.result(20)
        assert caught.value.job_id == first
    else:
        assert waiting.result(20) is None
        two.other.commit()
        (job,) = two.app.list_sync().jobs
        assert job.payload == {"to": "Bo" if on_conflict == "replace" else "Ada"}


@each_level
def test_who_replaces_what_another_is_replacing_waits_and_comes_second(
    two: Two, level: IsolationLevel
) -> None:
    keyed = two.mail.options(idempotency_key="k", on_conflict="replace")
    keyed.enqueue_sync(to="Ada")
    assert keyed.options(connection=two.one).enqueue_sync(to="Bo") is None
    theirs = keyed.options(connection=two.other)
    waiting = two.beside(lambda: theirs.enqueue_sync(to="Cy"))
    two.one.commit()

    if is_snapshot(level):
        with pytest.raises(pg.SerializationFailure):
            waiting.result(20)
        two.other.rollback()
        theirs.enqueue_sync(to="Cy")
    else:
        assert waiting.result(20) is None
    two.other.commit()
    (job,) = two.app.list_sync().jobs
    assert job.payload == {"to": "Cy"}


@each_level
def test_a_replacing_transaction_keeps_no_worker_waiting(two: Two) -> None:
    keyed = two.mail.options(idempotency_key="k", on_conflict="replace")
    keyed.enqueue_sync(to="Ada")
    keyed.options(connection=two.one).enqueue_sync(to="Bo")

    # The row is locked until the end; whoever lists, cancels or counts goes on.
    (answer,) = two.app.cancel_sync(1)
    assert answer.is_locked
    two.one.commit()
    (answer,) = two.app.cancel_sync(1)
    assert answer.done
