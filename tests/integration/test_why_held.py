"""Why a job whose lease is over isn't recovered, where a transaction keeps it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg

from rowlock import App
from rowlock._store import Demand
from rowlock.testing import FakeClock
from tests.endings import known


async def test_a_transaction_has_the_row_of_a_job_whose_lease_is_over(
    still_app: App, database_url: str, clock: FakeClock
) -> None:
    @still_app.task
    def order() -> None: ...

    job_id = known(await order.enqueue())
    demand = Demand(total=1, tasks=frozenset({"order"}))
    await still_app._store.claim(demand, worker="w-1", lease=timedelta(seconds=60))
    clock.advance(70)
    lost = (
        f"Job {job_id} runs for 70 s on worker w-1, in attempt 1, whose lease ended"
        " 10 s ago"
    )

    with held(database_url, job_id) as kept:
        why = await still_app.why(job_id)
    after = await still_app.why(job_id)

    assert (why.reason, why.sentence) == ("held", f"{lost}, and {kept}.")
    assert after.reason == "lost"
    assert after.sentence.startswith(f"{lost}: ")


@contextmanager
def held(url: str, job_id: int) -> Iterator[str]:
    """Have a handler's transaction open beside a job; how that is said."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as own:
            own.execute("BEGIN IMMEDIATE")
            yield (
                f"nobody can recover it for now: the database {path} is locked by"
                " another connection"
            )
        return
    with psycopg.connect(url) as own:
        own.execute("SELECT rowlock.hold(%s, 1)", [job_id])
        yield (
            "a transaction has its row, as hold() and complete() take it: it is neither"
            " lost nor recovered until that ends; pg_stat_activity shows whose that"
            " is, and `idle_in_transaction_session_timeout` bounds it"
        )
        own.rollback()
