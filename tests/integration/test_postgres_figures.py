"""What it costs to tell where a job stands, on each version of Postgres."""

from __future__ import annotations

import psycopg
import pytest

from rowlock._figures import Place
from rowlock.stores.postgres import PostgresStore
from rowlock.stores.postgres.figures import place

from . import crowds
from .plans import Plans
from .postgres_given import job

PLANNED = 20_000


@pytest.mark.parametrize("is_counted", [False, True], ids=["never counted", "counted"])
async def test_what_is_planned_for_later_costs_a_place_nothing(
    each_url: str, *, is_counted: bool
) -> None:
    with psycopg.connect(each_url, autocommit=True) as admin:
        crowds.leave_unattended(admin)
        for priority in (0, 5):
            crowds.add_backlog(admin, PLANNED, ahead="1 day", priority=priority)
        if is_counted:
            admin.execute("ANALYZE rowlock.live")
    store = PostgresStore.from_url(each_url)
    await store.open()
    await store.enqueue([job(priority=5), job(), job()])
    (last,) = await store.enqueue([job()])
    session = await store._database.connect()
    plans = await Plans.of(session, store._database.statements)

    assert last is not None
    found = await place(session, job_id=last, queue="default", tasks={"mail"})

    assert found == Place(is_suspect=False, ahead=3, by_priority=1, rate=0.0)
    (ahead,) = plans.named("ahead")
    assert ahead.rows_read <= 3 + 2  # on 15 also where it ends, in each line
    read = [plan for plan in plans.told if plan.operation in {"place", "lines"}]
    assert sum(plan.rows_read for plan in read) < 10
    assert sum(plan.pages_read for plan in [ahead, *read]) < 100
    await session.close()
    await store.close()
