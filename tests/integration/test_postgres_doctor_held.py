"""The doctor names the handler's transaction that keeps its job."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from rowlock._store import Demand
from rowlock.stores.postgres import PostgresStore

from .ills import MANY_TRANSACTIONS, cures, only
from .postgres_given import job


async def test_one_that_holds_a_job_and_idles_is_named(
    store: PostgresStore, url: str
) -> None:
    await store.enqueue([job()])
    demand = Demand(total=1, tasks=frozenset({"mail"}))
    claimed = await store.claim(demand, worker="w1", lease=timedelta(minutes=1))
    (held,) = claimed.claims
    with (
        psycopg.connect(url) as handlers,
        psycopg.connect(url, autocommit=True) as others,
    ):
        handlers.execute("SELECT rowlock.hold(%s, %s)", [held.job_id, held.key.claim])
        pid = handlers.info.backend_pid
        others.execute(MANY_TRANSACTIONS)

        finding = await only(url, "horizon")
        handlers.rollback()

    assert finding.severity == "warning"
    assert f"Session {pid} (" in finding.what
    assert "idle in transaction, its last query: SELECT rowlock.hold(" in finding.what
    assert finding.what.endswith(
        " The jobs that it has locked, as a handler's hold() and complete() lock"
        " theirs, run until it ends: nobody recovers or cancels them."
    )
    assert cures(finding) == [f"SELECT pg_terminate_backend({pid})"]
