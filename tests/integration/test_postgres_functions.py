"""`rowlock.enqueue` in SQL: what it takes and refuses, as Python does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import errors as pg

from rowlock import App, PayloadError, UsageError
from rowlock._job import Job, Status
from rowlock._register import task_infos
from rowlock.cli.enqueue import read_payload
from tests.eventually import eventually

from .postgres_given import somebody_waits

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Options: TypeAlias = Mapping[str, Any]

FUTURE = datetime(2030, 6, 1, 12, tzinfo=UTC)
NAME = "é" * 200
LIMIT = 10_000


def nested(levels: int) -> str:
    return '{"n":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


GOOD: Sequence[tuple[str, Options]] = [
    ("{}", {}),
    ('{"n": 1}', {}),
    ('{"n": 1e22, "m": [-0.0, 0.1, 123456789012345678901234567890]}', {}),
    ('{"n": "\\\\u0000 \\ud83d\\ude00 é"}', {}),
    ('{"n": {"": {"a": {"a": null}}, "a": [true, {"a": 1}]}}', {}),
    (nested(100), {}),
    ('{"n":"' + "x" * (LIMIT - 8) + '"}', {}),
    ('{"n": ' + "9" * 4300 + "}", {}),
    ('{"n": 1.7976931348623157e308, "m": 5e-324}', {}),
    ("{}", {"queue": "other"}),
    ("{}", {"queue": NAME, "idempotency_key": NAME}),
    ("{}", {"priority": 100}),
    ("{}", {"priority": -100}),
    ("{}", {"priority": 0}),
    ("{}", {"delay": 0}),
    ("{}", {"delay": 0.25}),
    ("{}", {"delay": timedelta(days=36_525)}),
    ("{}", {"run_at": FUTURE}),
    ("{}", {"run_at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)}),
    ("{}", {"expires_at": FUTURE, "delay": 90.5}),
    ("{}", {"run_at": datetime.min.replace(tzinfo=UTC)}),
    ("{}", {"expires_at": datetime.max.replace(tzinfo=UTC)}),
    ("{}", {"max_attempts": 1}),
    ("{}", {"max_attempts": 2**31 - 1}),
    ("{}", {"timeout": 0}),
    ("{}", {"timeout": 1.5}),
    ("{}", {"backoff": [1, 60, 0.5]}),
    ("{}", {"backoff": [0]}),
    ("{}", {"idempotency_key": "k"}),
    ("{}", {"idempotency_key": "k", "idempotency_for": 0.25}),
    ("{}", {"idempotency_key": "k", "idempotency_for": timedelta(days=36_525)}),
    ("{}", {"idempotency_key": "k", "idempotency_for": 0, "on_conflict": "skip"}),
    ("{}", {"idempotency_key": "k", "on_conflict": "raise"}),
    ("{}", {"idempotency_key": "k", "on_conflict": "replace", "delay": 3}),
]
BAD: Sequence[tuple[str, Options]] = [
    ("", {}),
    ("nope", {}),
    ('{"n": ', {}),
    ('{"n": NaN}', {}),
    ('{"n": -Infinity}', {}),
    ("{'n': 1}", {}),
    ("[1]", {}),
    ("null", {}),
    ("1", {}),
    ('"text"', {}),
    ('{"n": 1, "n": 2}', {}),
    ('{"n": [0, {"a": 1, "b": {"c": 1, "c": 1}}]}', {}),
    ('{"n": "\\u0000"}', {}),
    ('{"n": {"\\u0000": 1}}', {}),
    ('{"n": "\\ud800"}', {}),
    ('{"n": "\\ude00\\ud83d"}', {}),
    ('{"n": {"\\udfff": 1}}', {}),
    ('{"n": 1e400}', {}),
    ('{"n": [-2e308]}', {}),
    ('{"n": ' + "9" * 4301 + "}", {}),
    (nested(101), {}),
    (nested(4000), {}),
    ('{"n":"' + "x" * (LIMIT - 7) + '"}', {}),
    ("{}", {"queue": ""}),
    ("{}", {"queue": NAME + "x"}),
    ("{}", {"idempotency_key": ""}),
    ("{}", {"idempotency_key": NAME + "x"}),
    ("{}", {"priority": 101}),
    ("{}", {"priority": -101}),
    ("{}", {"max_attempts": 0}),
    ("{}", {"max_attempts": -1}),
    ("{}", {"delay": -0.001}),
    ("{}", {"delay": timedelta(days=36_525, microseconds=1)}),
    ("{}", {"delay": 1, "run_at": FUTURE}),
    ("{}", {"delay": 0, "run_at": FUTURE}),
    ("{}", {"timeout": -1}),
    ("{}", {"timeout": timedelta(days=40_000)}),
    ("{}", {"backoff": []}),
    ("{}", {"backoff": [1, -1]}),
    ("{}", {"idempotency_key": "k", "idempotency_for": -1}),
    ("{}", {"idempotency_key": "k", "idempotency_for": timedelta(days=40_000)}),
    ("{}", {"idempotency_key": "k", "on_conflict": "ignore"}),
    ("{}", {"idempotency_for": 60}),
    ("{}", {"on_conflict": "raise"}),
]


@pytest.fixture
async def app(each_url: str) -> AsyncIterator[App]:
    """An app on that database, whose tasks a worker has brought."""
    async with App(each_url, max_payload=LIMIT) as app:

        @app.task(queue="letters", priority=4, max_attempts=7, timeout=60)
        async def mail(n: object = None, m: object = None) -> None: ...

        # As a worker does, whose upkeep would be in the way: a test's own connection
        # blocks its loop.
        await app.open()
        told = task_infos(app.tasks.values(), LIMIT)
        await app._store.register(None, told)
        yield app


async def by_python(app: App, payload: str, options: Options) -> int | None:
    """Enqueue as `rowlock enqueue` does."""
    task = app.find_task("mail")
    arguments = task.codec.decode(read_payload(payload))
    job = task.options(**options).job(**arguments)
    (job_id,) = await app.enqueue_many([job])
    return job_id


def by_sql(own: Connection, payload: str | None, options: Options) -> int | None:
    """Enqueue with the function, which takes intervals where Python takes seconds."""
    given = dict(options)
    for name in given.keys() & {"delay", "timeout", "idempotency_for"}:
        given[name] = interval(given[name])
    if "backoff" in given:
        given["backoff"] = [interval(each) for each in given["backoff"]]
    named = "".join(f", {name} => %({name})s" for name in given)
    query = f"SELECT rowlock.enqueue('mail', %(payload)s{named})"
    made: int | None = one(own, query, payload=payload, **given)
    return made


def interval(value: float | timedelta) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


def one(own: Connection, query: str, **values: object) -> Any:  # noqa: ANN401 - any column
    row = own.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def content(job: Job, *, is_absolute: bool) -> dict[str, object]:
    """What of a job doesn't hang on when it was enqueued."""
    kept = asdict(job)
    for name in ("id", "created_at", "updated_at"):
        del kept[name]
    if job.key_until is not None and job.finished_at is not None:
        kept["key_until"] = job.key_until - job.finished_at
    kept["payload"] = json.dumps(job.payload)
    if not is_absolute:
        kept["run_at"] = job.run_at - job.created_at
    return kept


async def test_what_python_takes_sql_takes_and_writes_the_same_row(
    app: App, own: Connection
) -> None:
    for payload, options in GOOD:
        first = await by_python(app, payload, options)
        assert first is not None
        await app.cancel(first)
        expected = await app.get(first)
        await app.delete(first)  # which frees the key
        second = by_sql(own, payload, options)
        assert second is not None
        assert one(own, "SELECT rowlock.cancel(%(id)s)", id=second) == "done"
        made = await app.get(second)
        await app.delete(second)

        is_absolute = "run_at" in options
        left, right = (
            content(job, is_absolute=is_absolute) for job in (made, expected)
        )
        for kept in (left, right):
            kept["errors"] = [entry["event"] for entry in kept["errors"]]  # type: ignore[attr-defined]  # JSON
            del kept["finished_at"]
        assert left == right, (payload[:80], options)


async def test_what_python_refuses_sql_refuses_and_nothing_is_written(
    app: App, own: Connection
) -> None:
    for payload, options in BAD:
        with pytest.raises((UsageError, PayloadError)):
            await by_python(app, payload, options)
        with pytest.raises(pg.InvalidParameterValue) as refusal:
            by_sql(own, payload, options)

        said = refusal.value.diag.message_primary or ""
        assert said.endswith("."), (payload[:80], options)
        assert "\n" not in said
        # Where, and nothing of what: a payload may be secret.
        assert len(said) < 500
    assert one(own, "SELECT count(*) FROM rowlock.jobs") == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("NULL", "task can't be null"),
        ("''", "task takes a text that isn't empty"),
        ("repeat('x', 201)", "task has at most 200 characters, not 201"),
        ("'mail', NULL", "`$` can't be stored for task 'mail': it is null"),
        ("'mail', '[]'::jsonb", 'must be a JSON object, as in {"n": 1}'),
        ('\'mail\', \'{"a": [{"b c": 1, "b c": 2}]}\'', r"`$.a[0]` can't"),
        ("'mail', '{\"a\": {\"b c\": 1e999}}'", "`$.a['b c']` can't"),
        ("'mail', run_at => 'infinity'", "years 1 to 9999, not infinity"),
        ("'mail', run_at => '10000-01-01'", "years 1 to 9999"),
        ("'mail', expires_at => '0044-03-15 BC'", "years 1 to 9999"),
        ("'mail', backoff => '{NULL}'", "none of them null"),
        ("'mail', backoff => '{{1 s},{2 s}}'", "one or more delays"),
    ],
)
def test_what_only_sql_can_say_is_refused_too(
    own: Connection, call: str, says: str
) -> None:
    with pytest.raises(pg.InvalidParameterValue) as refusal:
        own.execute(f"SELECT rowlock.enqueue({call})".encode())

    assert says in str(refusal.value)


def test_a_payload_may_be_a_text_json_or_jsonb(own: Connection) -> None:
    for payload in (
        """'{"n": [1, 1e22]}'""",
        """'{"n": [1, 1e22]}'::text""",
        """'{"n": [1, 1e22]}'::json""",
        """jsonb_build_object('n', 1)""",
        """json_build_object('n', 1)""",
    ):
        own.execute(f"SELECT rowlock.enqueue('mail', {payload})".encode())
    own.execute("SELECT rowlock.enqueue('mail')")

    payloads = [
        payload.replace(" ", "")
        for (payload,) in own.execute(
            "SELECT payload::text FROM rowlock.jobs ORDER BY id"
        )
    ]
    assert payloads == ['{"n":[1,1e22]}'] * 3 + ['{"n":1}'] * 2 + ["{}"]


def test_of_a_task_that_no_worker_has_brought_rowlocks_defaults_hold(
    own: Connection,
) -> None:
    own.execute("SELECT rowlock.enqueue('unheard_of')")

    found = own.execute(
        "SELECT queue, priority, max_attempts, timeout, backoff FROM rowlock.jobs"
    ).fetchone()
    assert found == ("default", 0, 3, None, None)


@pytest.mark.parametrize("way", ["sql", "python", "lent"])
@pytest.mark.parametrize(
    ("act", "ends"),
    [
        ("DELETE FROM rowlock.live", "ROLLBACK"),  # as an upkeep that dies
        ("SELECT FROM rowlock.live FOR UPDATE", "ROLLBACK"),
        ("UPDATE rowlock.live SET priority = 5", "COMMIT"),
    ],
)
async def test_a_holder_that_somebody_else_had_for_a_moment_gives_its_key_up(
    app: App, own: Connection, each_url: str, act: str, ends: str, way: str
) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    await by_python(app, "{}", {"idempotency_key": "k", "expires_at": past})
    with psycopg.connect(each_url) as other:
        other.execute(act.encode())
        taking = asyncio.create_task(by_way(way, app, own, {"idempotency_key": "k"}))
        await eventually(lambda: somebody_waits(each_url))
        other.execute(ends.encode())

    assert await taking is not None
    assert (await app.stats()).queues[0].counts[Status.PENDING] == 1


async def by_way(
    way: str, app: App, own: Connection, options: dict[str, Any]
) -> int | None:
    """Enqueue by SQL, by Python, or on a lent connection, while the loop runs on."""
    if way == "sql":
        return await asyncio.to_thread(by_sql, own, "{}", options)
    if way == "lent":
        options = options | {"connection": own}
        task = app.find_task("mail").options(**options)
        return await asyncio.to_thread(task.enqueue_sync)
    return await by_python(app, "{}", options)


@pytest.mark.parametrize("way", ["sql", "python"])
async def test_a_holder_that_was_not_started_in_time_gives_its_key_up(
    app: App, own: Connection, way: str
) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    late = await by_python(app, "{}", {"idempotency_key": "k", "expires_at": past})
    assert late is not None

    if way == "sql":
        assert by_sql(own, "{}", {"idempotency_key": "k"}) is not None
    else:
        assert await by_python(app, "{}", {"idempotency_key": "k"}) is not None

    expired = await app.get(late)
    assert expired.status is Status.CANCELLED
    assert [entry["event"] for entry in expired.errors] == ["expired"]
    assert expired.finished_at == expired.updated_at


async def test_law_2_a_job_of_a_transaction_that_rolls_back_never_existed(
    each_url: str, app: App
) -> None:
    with psycopg.connect(each_url, autocommit=True) as listening:
        listening.execute('LISTEN "rowlock:rowlock"')
        with psycopg.connect(each_url) as own:
            made = by_sql(own, "{}", {})
            own.rollback()
            kept = by_sql(own, "{}", {"delay": 60})
            own.commit()
        (notice,) = listening.notifies(timeout=5, stop_after=1)

    assert made is not None
    assert [job.id for job in (await app.list()).jobs] == [kept]
    ((queue, priority, first, deferred),) = json.loads(notice.payload)
    due = (await app.get(kept or 0)).run_at
    assert (queue, priority) == ("letters", 4)
    assert datetime.fromtimestamp(first / 1e6, UTC) == due
    assert deferred == first


async def test_a_sleeping_worker_is_woken_by_the_function(
    app: App, own: Connection
) -> None:
    async with app.worker():
        # Until it sleeps; nothing tells of that.
        await asyncio.sleep(0.5)
        job_id = by_sql(own, "{}", {})
        assert job_id is not None

        async def is_done() -> bool:
            return (await app.get(job_id)).status is Status.SUCCEEDED

        await eventually(is_done, within=2)


async def test_a_trigger_enqueues_in_its_own_transaction(
    app: App, own: Connection
) -> None:
    own.execute("CREATE TABLE orders (id integer, paid boolean)")
    own.execute(
        "CREATE FUNCTION receipt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM rowlock.enqueue('mail', json_build_object('n', NEW.id),"
        " idempotency_key => 'receipt:' || NEW.id); RETURN NULL; END $$"
    )
    own.execute(
        "CREATE TRIGGER receipt AFTER UPDATE ON orders FOR EACH ROW"
        " WHEN (NEW.paid AND NOT OLD.paid) EXECUTE FUNCTION receipt()"
    )
    own.execute("INSERT INTO orders SELECT n, false FROM generate_series(1, 3) AS n")

    with own.transaction(force_rollback=True):
        own.execute("UPDATE orders SET paid = true")
    own.execute("UPDATE orders SET paid = true WHERE id > 1")

    jobs = (await app.list()).jobs
    assert sorted(str(job.payload) for job in jobs) == ["{'n': 2}", "{'n': 3}"]
    assert {(job.queue, job.max_attempts) for job in jobs} == {("letters", 7)}
