"""The key of a job that runs, and who enqueues it on a connection that is lent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

from rowlock import App, KeyedTask, Status, _outcome

from .callers import Awaited, Caller
from .claims import claim, finish
from .kinds import Kind

Mail = KeyedTask[..., Any]


def jobs(app: App) -> dict[int, tuple[Status, object]]:
    return {job.id: (job.status, job.payload["to"]) for job in app.list_sync().jobs}


def test_b27_of_five_transactions_the_one_that_commits_has_the_job(
    app: App, mail: Mail, kind: Kind, address: str
) -> None:
    together = Barrier(5)

    def call(number: int) -> int | None:
        caller = kind.make(address, autocommit=False)
        together.wait()
        job_id = caller.enqueue(mail.options(idempotency_key="k"), to=str(number))
        (caller.commit if number == 2 else caller.rollback)()
        caller.close()
        if isinstance(caller, Awaited):
            caller.end()
        return job_id

    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(call, range(5)))

    assert jobs(app) == {found[2]: (Status.PENDING, "2")}


def test_b28_a_job_that_fails_keeps_its_key(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", max_attempts=2)
    first = keyed.enqueue_sync(to="Ada")
    held = claim(app)
    assert caller.enqueue(keyed, to="Bo") is None
    caller.commit()
    finish(app, _outcome.failed(held, {"message": "no answer"}, timedelta(0)))

    assert caller.enqueue(keyed, to="Cy") is None
    caller.commit()
    assert jobs(app) == {first: (Status.PENDING, "Ada")}
    assert claim(app).job_id == first


def test_b31_the_key_of_a_lost_job_is_free_and_its_holder_is_found(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", max_attempts=1)
    first = keyed.enqueue_sync(to="Ada")
    held = claim(app)
    assert caller.enqueue(keyed, to="Bo") is None
    caller.commit()
    holder = app.find_sync(mail, "k")
    assert holder is not None
    assert (holder.id, holder.status) == (first, Status.RUNNING)
    finish(app, _outcome.lost(held))

    second = caller.enqueue(keyed, to="Cy")
    assert second is not None
    caller.commit()
    assert jobs(app) == {
        first: (Status.FAILED, "Ada"),
        second: (Status.PENDING, "Cy"),
    }


def test_b32_replacing_a_job_that_runs_makes_no_other(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="replace")
    first = keyed.enqueue_sync(to="Ada")
    held = claim(app)
    assert [caller.enqueue(keyed, to="Bo") for _ in range(100)] == [None] * 100
    caller.commit()
    assert jobs(app) == {first: (Status.RUNNING, "Ada")}
    finish(app, _outcome.succeeded(held.key, None))

    second = caller.enqueue(keyed, to="Cy")
    caller.commit()
    assert jobs(app) == {
        first: (Status.SUCCEEDED, "Ada"),
        second: (Status.PENDING, "Cy"),
    }
