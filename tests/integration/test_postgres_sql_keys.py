"""Keys from SQL: `rowlock.enqueue` where one is held, and `rowlock.once`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import errors as pg

from rowlock import App

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def app(each_url: str) -> AsyncIterator[App]:
    """An app on that database."""
    async with App(each_url) as app:

        @app.task
        async def mail(n: object = None) -> None: ...

        await app.open()
        yield app


async def by_python(app: App, n: object, **options: Any) -> int | None:  # noqa: ANN401 - any option
    job_id: int | None = await app.tasks["mail"].options(**options).enqueue(n=n)
    return job_id


def by_sql(own: Connection, payload: str, **options: object) -> Any:  # noqa: ANN401 - an id
    named = "".join(f", {name} => %({name})s" for name in options)
    query = f"SELECT rowlock.enqueue('mail', %(payload)s{named})"
    return one(own, query, payload=payload, **options)


def one(own: Connection, query: str, **values: object) -> Any:  # noqa: ANN401 - any column
    row = own.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


async def test_law_10_a_held_key_is_answered_with_null(
    app: App, own: Connection
) -> None:
    first = by_sql(own, "{}", idempotency_key="k")

    assert first is not None
    assert by_sql(own, "{}", idempotency_key="k") is None
    assert await by_python(app, 1, idempotency_key="k") is None
    await app.cancel(first)
    assert by_sql(own, "{}", idempotency_key="k") is not None


async def test_a_conflict_is_raised_as_a_violation_that_names_the_job(
    app: App, own: Connection
) -> None:
    held = {"idempotency_key": "k", "on_conflict": "raise"}
    first = await by_python(app, 1, **held)

    assert by_sql(own, '{"n": 1.0}', **held) is None
    with pytest.raises(pg.UniqueViolation) as conflict:
        by_sql(own, '{"n": 2}', **held)

    said = conflict.value.diag.message_primary or ""
    assert f"Job {first} of task 'mail' holds the key 'k'" in said


async def test_a_pending_job_is_replaced_by_sql_too(app: App, own: Connection) -> None:
    held = {"idempotency_key": "k", "on_conflict": "replace"}
    first = await by_python(app, 1, **held, delay=3600, priority=9)
    assert first is not None
    before = await app.get(first)

    assert by_sql(own, '{"n": 2}', **held, delay="60 s") is None

    job = await app.get(first)
    assert (job.payload, job.priority) == ({"n": 2}, 9)
    assert job.run_at < before.run_at


async def test_a_key_is_kept_after_the_end_whoever_has_said_so(
    app: App, own: Connection
) -> None:
    first = by_sql(own, "{}", idempotency_key="k", idempotency_for="1 h")
    assert first is not None
    assert one(own, "SELECT rowlock.cancel(%(id)s)", id=first) == "done"

    assert by_sql(own, "{}", idempotency_key="k") is None
    assert await by_python(app, 1, idempotency_key="k") is None
    assert one(own, "SELECT rowlock.replay(%(id)s)", id=first) == "done"
    assert (await app.get(first)).key_until is None
    # One that was kept for long enough is in nobody's way.
    await app.cancel(first)
    own.execute("UPDATE rowlock.live SET idempotency_for = '1 us'")
    second = by_sql(own, "{}", idempotency_key="k")
    assert second is not None
    said = one(own, "SELECT rowlock.replay(%(id)s)", id=first)
    assert said == f"blocked by {second}"


def test_once_says_who_comes_first(own: Connection) -> None:
    assert one(own, "SELECT rowlock.once('k')") is True
    assert one(own, "SELECT rowlock.once('k')") is False
    with own.transaction(force_rollback=True):
        assert one(own, "SELECT rowlock.once('j')") is True
    assert one(own, "SELECT rowlock.once('j')") is True


@pytest.mark.parametrize("key", ["NULL", "''", "repeat('x', 201)"])
def test_once_refuses_what_is_no_key(own: Connection, key: str) -> None:
    with pytest.raises(pg.InvalidParameterValue, match="key"):
        own.execute(f"SELECT rowlock.once({key})".encode())
