"""Jobs come and go with the caller's transaction, whatever its connection is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rowlock import App, KeyedTask

from .callers import ORDER, Caller
from .kinds import KINDS, Kind

Mail = KeyedTask[..., Any]


def ids(app: App) -> list[int]:
    return sorted(job.id for job in app.list_sync().jobs)


def test_law_2_a_job_is_there_when_the_caller_commits(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.run(ORDER)
    job_id = caller.enqueue(mail, to="Ada")
    assert ids(app) == []
    caller.commit()

    assert ids(app) == [job_id]


def test_law_2_a_job_that_is_rolled_back_never_was(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.run(ORDER)
    caller.enqueue(mail, to="Ada")
    caller.rollback()
    caller.commit()

    assert ids(app) == []


def test_law_2_a_job_that_begins_the_transaction_is_the_callers_too(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.enqueue(mail, to="Ada")
    assert ids(app) == []
    caller.rollback()
    assert ids(app) == []
    job_id = caller.enqueue(mail, to="Bo")
    caller.commit()

    assert ids(app) == [job_id]


def test_a_savepoint_takes_its_jobs_back(app: App, mail: Mail, caller: Caller) -> None:
    caller.run(ORDER)
    before = caller.enqueue(mail, to="Ada")
    with caller.undone():
        caller.enqueue(mail, to="Bo")
    after = caller.enqueue(mail, to="Cy")
    caller.commit()

    assert ids(app) == [before, after]


def test_in_autocommit_a_job_is_there_at_once(
    app: App, mail: Mail, quick_caller: Caller
) -> None:
    first = quick_caller.enqueue(mail, to="Ada")
    assert ids(app) == [first]
    both = quick_caller.enqueue_many(app, [mail.job(to="Bo"), mail.job(to="Cy")])

    assert ids(app) == [first, *both]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.is_awaited], ids=lambda kind: kind.name
)
def test_a_synchronous_connection_may_be_lent_where_a_loop_runs(
    app: App, mail: Mail, kind: Kind, caller: Caller
) -> None:
    """Django's own refuses that."""

    async def enqueue() -> int | None:
        return caller.enqueue(mail, to="Ada")

    if "django" in kind.name:
        with pytest.raises(Exception, match="from an async context"):
            asyncio.run(enqueue())
    else:
        job_id = asyncio.run(enqueue())
        caller.commit()
        assert ids(app) == [job_id]
