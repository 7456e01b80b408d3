"""What statements read: what they were asked for, however many jobs there are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources

import psycopg
import pytest

from rowlock import _outcome
from rowlock._job import Claim
from rowlock._store import Demand, Fate, Retention
from rowlock.stores.postgres import (
    PostgresStore,
    completing,
    finish,
    operate,
    read,
    rows,
    upkeep,
)
from rowlock.stores.postgres.bounds import BEGINNING
from rowlock.stores.postgres.claim import Taker
from rowlock.stores.postgres.enqueue import enqueue
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.statements import PACKAGE
from tests.cluster.databases import Databases

from . import crowds
from .plans import Plan, Plans
from .postgres_given import job

LEASE = timedelta(minutes=5)
DELAY = timedelta(minutes=1)
KEPT = timedelta(microseconds=1)
FIELDS = '[{"path": ["n"], "value": 1}]'
TASKS = frozenset({"mail", "report"})
ERROR = {"type": "ValueError", "message": "no stock", "traceback": None}

OPERATIONS = {
    file.name.removesuffix(".sql")
    for file in (resources.files(PACKAGE) / "sql").iterdir()
    if file.name.endswith(".sql")
}
# Those that read no jobs, or all of them: what is none of the worker's way.
OTHERS = {
    "an operator asks for figures, and all is read": {
        "counts",
        "ahead",
        "rates",
        "due_tasks",
        "live_workers",
    },
    "reads all that stayed behind, where the partition of one is missing": {
        "left_days"
    },
    "everything is copied while nothing runs, and all is read or written": {
        "census",
        "copy_history",
        "copy_jobs",
        "copy_live",
        "copy_next",
        "copy_once",
        "copy_once_keys",
        "copy_pauses",
        "copy_tasks",
        "copying",
        "give_ids_from",
        "last_given_id",
        "lock_source",
        "lock_target",
    },
    "all dead letters are read from an index, as `test_dead_letters` proves": {
        "dead_groups",
        "replayable",
    },
    "planned anew for each question, and reads what that leaves": {
        "search_live",
        "search_history",
    },
    "reads no jobs": {
        "add_migration",
        "add_tasks",
        "add_worker",
        "allow",
        "applied_migrations",
        "create_migrations",
        "create_schema",
        "detach_partition",
        "drop_partition",
        "drop_schema",
        "drop_worker",
        "finalize_partition",
        "grant_again",
        "grant_producer",
        "grant_worker",
        "has_migrations",
        "holder",
        "identity",
        "in_the_way",
        "listen",
        "listening",
        "lock_migrations",
        "forget_once",
        "forget_rules",
        "lock_pauses",
        "make_partition",
        "make_partitions",
        "mark_partition",
        "notify",
        "once",
        "patience",
        "pause",
        "past_days",
        "pausing",
        "pin",
        "powers",
        "reading",
        "registered",
        "replay_rules",
        "resume",
        "retiring",
        "retiring_briefly",
        "schema_owner",
        "served_by",
        "session",
        "take_turn",
        "tell_probed",
        "unhurried",
    },
    "the doctor's: in five seconds, or not at all": {
        "clock",
        "now",
        "dead_head",
        "dead_rows",
        "examining",
        "horizon",
        "hurry_vacuums",
        "leave_standbys",
        "left_jobs",
        "let_write",
        "missing_days",
        "missing_rights",
        "pending_detaches",
        "promote",
        "reload",
        "settings",
        "situation",
        "unlogged",
        "vacuum_live",
        "vacuums",
        "workers_clocks",
    },
}
PROVED = OPERATIONS - set().union(*OTHERS.values())

# A part of a plan may read this many rows for each key, and so many more: of one day's
# partition, of the head of an index, of what is found to be somebody else's.
READ_PER_KEY = 1
READ_MORE = 20
# An index of a million has four levels; the row's page, and five that a snapshot kept.
PAGES_PER_ROW = 10
PAGES_MORE = 40


def rows_of(scale: int) -> int:
    return 10_000 * scale


@pytest.fixture(scope="module", params=["empty", "never counted", "counted"])
def crowd(
    request: pytest.FixtureRequest, each_postgres: Databases, scale: int
) -> Iterator[tuple[str, bool]]:
    """A database as the planner may find it, and whether jobs are in it."""
    url = each_postgres.clone()
    with psycopg.connect(url, autocommit=True) as admin:
        crowds.leave_unattended(admin)
        if request.param != "empty":
            crowds.fill(admin, rows_of(scale))
        if request.param == "counted":
            admin.execute("ANALYZE")
    yield url, request.param != "empty"
    each_postgres.drop(url)


@pytest.fixture
async def store(crowd: tuple[str, bool]) -> AsyncIterator[PostgresStore]:
    """A store on it, whose connections have planned nothing yet."""
    store = PostgresStore.from_url(crowd[0])
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("keys", [1, 100, 2000])
async def test_no_statement_reads_more_than_it_was_asked_for(
    store: PostgresStore, keys: int
) -> None:
    async with watched(store) as (session, plans):
        await live(store, session, keys)

    check(plans.told, keys)


async def test_what_was_planned_on_an_empty_table_serves_a_full_one(
    each_postgres: Databases, scale: int
) -> None:
    keys = 100
    url = each_postgres.clone()
    with psycopg.connect(url, autocommit=True) as admin:
        crowds.leave_unattended(admin)
    store = PostgresStore.from_url(url)
    await store.open()
    async with watched(store) as (session, plans):
        await live(store, session, 2)
        planned = len(plans.told)
        with psycopg.connect(url, autocommit=True) as admin:
            crowds.fill(admin, rows_of(scale))
        store._database.hear(None)
        await live(store, session, keys)
    await store.close()
    each_postgres.drop(url)

    check(plans.told[planned:], keys)


@asynccontextmanager
async def watched(store: PostgresStore) -> AsyncIterator[tuple[Session, Plans]]:
    """Give a session of the store that tells its plans."""
    session = await store._database.connect()
    plans = await Plans.of(session, store._database.statements)
    yield session, plans
    await session.close()


def check(plans: Sequence[Plan], keys: int) -> None:
    assert {plan.operation for plan in plans} >= PROVED
    complaints = [
        f"{plan.operation}: {complaint}"
        for plan in plans
        if plan.operation in PROVED
        for complaint in complaints_of(plan, keys)
    ]
    assert not complaints, "\n".join(dict.fromkeys(complaints))


def complaints_of(plan: Plan, keys: int) -> Iterator[str]:
    for part in plan.parts:
        if part.is_of_jobs and part.kind == "Seq Scan":
            yield f"reads all: {part}"
        if part.given + part.left_out > READ_PER_KEY * keys + READ_MORE:
            yield f"reads too many: {part}"
        most = PAGES_PER_ROW * (max(part.loops, keys) + part.given) + PAGES_MORE
        if part.is_of_jobs and part.buffers > most:
            yield f"touches too much (at most {most}): {part}"


def test_each_statement_is_proved_or_says_why_not() -> None:
    named = [name for names in OTHERS.values() for name in names]

    assert len(named) == len(set(named))
    assert set(named) < OPERATIONS


# A life of jobs


async def live(store: PostgresStore, session: Session, keys: int) -> None:
    """Let jobs live and end in all ways, `keys` at a time."""
    added = await enqueue(session, [job()] * keys)
    keyed = [
        job(idempotency_key=f"{keys}-{n}", idempotency_for=KEPT if n % 2 else None)
        for n in range(keys)
    ]
    await enqueue(session, keyed)
    await enqueue(session, keyed)
    await enqueue(session, [replace(each, on_conflict="replace") for each in keyed])
    held = [*await claim(store, session, keys), *await claim(store, session, keys)]
    await look_ahead(session)
    await tend(session, held[:keys])
    await complete(store, session)
    await end(session, held[keys:])
    await recover(session, keys)
    await order(session, [job_id or 0 for job_id in added.answer])
    await order(session, [each.job_id for each in held[keys:]])
    await keep(session, keys)


async def claim(store: PostgresStore, session: Session, keys: int) -> Sequence[Claim]:
    claimed = await store._database.claimer.claim(
        session,
        Demand(total=keys, tasks=TASKS, queues={"default": keys}),
        Taker(worker="w", lease=LEASE, alone=False),
        lambda _: None,
    )
    assert len(claimed.claims) == keys
    return claimed.claims


async def look_ahead(session: Session) -> None:
    """Ask what comes next, as a claim that came back short does."""
    await session.run(
        "next_due",
        tasks=rows.texts(list(TASKS)),
        suspects="false",
        looked_at=datetime.now(UTC).isoformat(),
        queues=rows.texts(["default"] * 3),
        priorities=rows.numbers([2, 1, 0]),
        after_ats=rows.instants([BEGINNING.at] * 3),
        after_ids=rows.numbers([0] * 3),
    )
    await session.run(
        "suspects",
        tasks=rows.texts(list(TASKS)),
        queues=rows.texts(["default"] * 3),
        priorities=rows.numbers([2, 1, 0]),
    )


async def tend(session: Session, held: Sequence[Claim]) -> None:
    """Renew claims, look at them, save of one, and finish all, twice."""
    keys = [each.key for each in held]
    renewal = await finish.renew(
        session, keys, worker="w", lease=LEASE, abandoned=False
    )
    assert not renewal.lost
    assert not await read.cancel_requested(session, keys)
    assert await finish.save(session, keys[0], state="{}", progress=None)
    assert set(await completing.settled(session, keys)) == {Fate.RUNNING}
    for accepted in (True, False):
        finished = await finish.finish(session, [_outcome.succeeded(k) for k in keys])
        assert {each.accepted for each in finished.answer} == {accepted}
    await session.run("days", ids=rows.numbers([k.job_id for k in keys]))


async def complete(store: PostgresStore, session: Session) -> None:
    """Hold and complete a claim, as on a handler's own connection."""
    await enqueue(session, [job(queue="apart")])
    demand = Demand(total=1, tasks=TASKS, queues={"apart": 1})
    taker = Taker(worker="w", lease=LEASE, alone=False)
    claimer = store._database.claimer
    (held,) = (await claimer.claim(session, demand, taker, lambda _: None)).claims
    fence = {"id": str(held.key.job_id), "claim": str(held.key.claim)}
    await session.run("hold", **fence)
    found = await session.run("complete", **fence, result="1", meta="{}", progress=None)
    assert found == [(fence["id"],)]
    assert await completing.settled(session, [held.key]) == (Fate.SUCCEEDED,)


async def end(session: Session, held: Sequence[Claim]) -> None:
    """Finish claims in every other way."""
    outcomes = [
        _outcome.failed(each, ERROR, DELAY, dead=n % 3 == 0)
        if n % 3 < 2
        else _outcome.released(each.key, unstarted=True)
        for n, each in enumerate(held)
    ]
    finished = await finish.finish(session, outcomes)
    assert all(each.accepted for each in finished.answer)


async def recover(session: Session, keys: int) -> None:
    """Look for what is lost."""
    await read.lost(session, keys, worker=None)
    await read.lost(session, keys, worker="w-7")


async def order(session: Session, ids: Sequence[int]) -> None:
    """Use every verb by id."""
    await session.run("lock", ids=rows.numbers(ids))
    await session.run("place", id=str(ids[0]), queue="default")
    await read.get(session, ids)
    await session.run("match", ids=rows.numbers(ids), fields=FIELDS)
    await operate.move(
        session, ids, by="test", queue="default", priority=1, delay=DELAY
    )
    await operate.cancel(session, ids, by="test")
    await operate.replay(
        session, ids, by="test", delay=DELAY, pace=DELAY, queue="default"
    )
    await operate.cancel(session, ids[::2], by="test")
    await operate.delete(session, ids)


async def keep(session: Session, keys: int) -> None:
    """Expire and prune, by age and what stayed behind."""
    for_ever = timedelta(days=9999)
    # Of that day's partition nothing is old enough.
    age = datetime.now(UTC) - crowds.oldest_morning()
    for kept in (
        Retention(),
        Retention(failed=for_ever),
        Retention(succeeded=age, cancelled=age, failed=for_ever),
    ):
        await upkeep.prune(session, kept, limit=keys)
