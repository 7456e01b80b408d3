"""`rowlock.cancel` and `replay` in SQL answer as the verbs; the view refuses writes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import errors as pg

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import Job, NewJob, Status
from rowlock._store import Demand, Retention, Store
from rowlock.stores.postgres import PostgresStore
from tests.conformance.given import dead, new_job

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

LEASE = timedelta(minutes=5)
STATES = (
    "missing",
    "pending",
    "returned",
    "running",
    "asked",
    "succeeded",
    "failed",
    "cancelled",
    "cancelled in place",
    "expired",
    "blocked",
)


@pytest.fixture
async def store(each_url: str) -> AsyncIterator[PostgresStore]:
    """An open store on this test's database."""
    store = PostgresStore.from_url(each_url)
    await store.open()
    yield store
    await store.close()


async def job_in(state: str, store: Store, own: Connection, key: str) -> int:
    """Bring a job into a state; `key` is its own."""
    if state == "missing":
        return 10**9
    job_id = await enqueued(store, new_job(idempotency_key=key, payload='{"n": 1e22}'))
    if state in {"running", "asked", "succeeded", "failed", "returned"}:
        claimed = await store.claim(demand(), worker="w", lease=LEASE)
        (claim,) = claimed.claims
        if state == "succeeded":
            await store.finish([_outcome.succeeded(claim.key, result="1")])
        elif state == "failed":
            await store.finish([dead(claim.key)])
        elif state == "returned":
            await store.finish([_outcome.snoozed(claim.key, delay=timedelta(hours=1))])
    if state in {"cancelled", "asked", "blocked"}:
        await store.cancel([job_id], by="ada")
    if state == "cancelled in place":
        assert one(own, "SELECT rowlock.cancel(%(id)s)", id=job_id) == "done"
    if state == "expired":
        own.execute(
            "UPDATE rowlock.live SET expires_at = now() WHERE id = %s", [job_id]
        )
        await enqueued(store, new_job(idempotency_key=key))
    if state == "blocked":
        await enqueued(store, new_job(idempotency_key=key))
    return job_id


async def enqueued(store: Store, job: NewJob) -> int:
    (job_id,) = await store.enqueue([job])
    assert job_id is not None
    return job_id


def demand() -> Demand:
    return Demand(total=1, tasks=frozenset({"task"}))


def one(own: Connection, query: str, **values: object) -> Any:  # noqa: ANN401 - any column
    row = own.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def content(job: Job) -> dict[str, object]:
    """What of a job doesn't hang on the moment."""
    kept = asdict(job)
    for name in ("id", "idempotency_key", "worker"):
        del kept[name]
    for name, value in kept.items():
        if name.endswith(("_at", "_until")):
            kept[name] = value is not None
    kept["errors"] = [
        {
            name: True if name.endswith("at") else value
            for name, value in entry.items()
            if name != "worker"
        }
        for entry in job.errors
    ]
    return kept


@pytest.mark.parametrize("verb", ["cancel", "replay"])
async def test_a_verb_answers_and_changes_a_job_as_pythons_does(
    store: PostgresStore, own: Connection, verb: str
) -> None:
    user = own.info.user
    for state in STATES:
        pair = []
        for way in ("sql", "python"):
            job_id = await job_in(state, store, own, f"{state} {way}")
            if way == "sql":
                answer = one(own, f"SELECT rowlock.{verb}(%(id)s)", id=job_id)
            else:
                (given,) = await getattr(store, verb)([job_id], by=user)
                answer = str(given)
            found = [content(job) for job in await store.get([job_id])]
            blocked = "blocked by" in answer
            pair.append(("blocked" if blocked else answer, found))
            own.execute("DELETE FROM rowlock.live")

        assert pair[0] == pair[1], state


async def test_a_replay_of_a_job_whose_key_is_held_names_the_holder(
    store: PostgresStore, own: Connection
) -> None:
    blocked = await job_in("blocked", store, own, "k")
    (holder,) = [job.id for job in await store.get([blocked + 1, blocked + 2])]

    assert one(own, f"SELECT rowlock.replay({blocked})") == f"blocked by {holder}"
    assert (await store.get([blocked]))[0].status is Status.CANCELLED


async def test_a_replay_tells_sleepers(store: PostgresStore, own: Connection) -> None:
    job_id = await job_in("failed", store, own, "k")
    own.execute('LISTEN "rowlock:rowlock"')

    assert one(own, f"SELECT rowlock.replay({job_id})") == "done"

    (notice,) = own.notifies(timeout=5, stop_after=1)
    ((queue, priority, first, deferred),) = json.loads(notice.payload)
    (job,) = await store.get([job_id])
    assert (queue, priority, first) == ("default", 0, deferred)
    assert first == int(job.run_at.timestamp() * 1e6 + 0.5)


@pytest.mark.parametrize("verb", ["cancel", "replay"])
async def test_law_18_a_verb_waits_for_another_transaction_for_a_second(
    store: PostgresStore, own: Connection, each_url: str, verb: str
) -> None:
    state = "pending" if verb == "cancel" else "failed"
    job_id = await job_in(state, store, own, "k")
    with psycopg.connect(each_url) as other:
        other.execute("SELECT FROM rowlock.live WHERE id = %s FOR UPDATE", [job_id])
        began = time.monotonic()
        answer = one(own, f"SELECT rowlock.{verb}({job_id})")
        took = time.monotonic() - began
        # It is told only after its own transaction, which goes on.
        assert one(own, "SHOW lock_timeout") == "0"

    assert answer == "locked by another transaction, try again"
    assert 0.9 < took < 3


@pytest.mark.parametrize("verb", ["cancel", "replay"])
@pytest.mark.parametrize("number", ["0", "-1", "NULL"])
def test_what_is_no_id_is_refused(own: Connection, verb: str, number: str) -> None:
    with pytest.raises(pg.InvalidParameterValue, match="whole number from 1"):
        own.execute(f"SELECT rowlock.{verb}({number})".encode())


async def test_a_job_cancelled_in_place_is_moved_by_upkeep_and_comes_back(
    store: PostgresStore, own: Connection
) -> None:
    job_id = await job_in("cancelled in place", store, own, "k")
    assert one(own, "SELECT count(*) FROM rowlock.history") == 0
    listed = await store.list(Filter(status=Status.CANCELLED))
    assert [job.id for job in listed.jobs] == [job_id]
    assert (await store.stats()).queues[0].counts[Status.CANCELLED] == 1

    await store.prune(Retention(), limit=10)

    assert one(own, "SELECT count(*) FROM rowlock.history") == 1
    assert one(own, "SELECT count(*) FROM rowlock.live") == 0
    assert one(own, f"SELECT rowlock.replay({job_id})") == "done"
    assert one(own, f"SELECT rowlock.cancel({job_id})") == "done"


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        (
            "INSERT INTO rowlock.jobs (task) VALUES ('mail')",
            "add jobs with rowlock",
        ),
        ("UPDATE rowlock.jobs SET status = 'failed'", "rowlock.replay(id)"),
        ("DELETE FROM rowlock.jobs", "remove jobs with delete"),
        ("COPY rowlock.jobs (task) FROM STDIN", "add jobs with rowlock.enqueue"),
    ],
)
async def test_the_view_refuses_writes_and_names_the_verb(
    store: PostgresStore, own: Connection, statement: str, verb: str
) -> None:
    job_id = await job_in("succeeded", store, own, "k")

    with pytest.raises(pg.ObjectNotInPrerequisiteState) as refusal:
        written(own, statement)

    assert "rowlock.jobs is read-only" in str(refusal.value)
    assert verb in str(refusal.value)
    assert (await store.get([job_id]))[0].status is Status.SUCCEEDED


def written(own: Connection, statement: str) -> None:
    if not statement.startswith("COPY"):
        own.execute(statement.encode())
        return
    with own.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.write("mail\n")
