"""Every option works on a connection that is lent as it does anywhere."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlock import App, Backoff, Job, KeyedTask

from .callers import Caller

Mail = KeyedTask[..., Any]

NAMES = {field.name for field in fields(Job)}
# What differs between any two jobs.
OWN = {"id", "run_at", "created_at", "updated_at", "idempotency_key"}


def told(job: Job) -> dict[str, Any]:
    """All of a job that two of the same options have in common."""
    wait = job.run_at - job.created_at
    return {name: getattr(job, name) for name in NAMES - OWN} | {"wait": wait}


@pytest.mark.parametrize(
    "options",
    [
        {
            "queue": "letters",
            "priority": 7,
            "delay": timedelta(hours=1),
            "max_attempts": 9,
            "timeout": 1.5,
            "backoff": Backoff.fixed(2),
        },
        {
            "run_at": datetime(2030, 1, 1, tzinfo=UTC),
            "expires_at": datetime(2031, 1, 1, tzinfo=UTC),
        },
    ],
    ids=["in-an-hour", "at-a-time"],
)
def test_a_job_with_options_is_as_any_other(
    app: App, mail: Mail, caller: Caller, options: dict[str, Any]
) -> None:
    lent_id = caller.enqueue(
        mail.options(idempotency_key="lent", **options), to="Ada 'é\\%s%% \U0001f4e7"
    )
    caller.commit()
    own_id = mail.options(idempotency_key="own", **options).enqueue_sync(
        to="Ada 'é\\%s%% \U0001f4e7"
    )
    assert lent_id is not None
    assert own_id is not None
    lent, own = app.get_sync(lent_id), app.get_sync(own_id)

    assert lent is not None
    assert own is not None
    if "run_at" in options:
        assert lent.run_at == own.run_at
        assert told(lent) | {"wait": None} == told(own) | {"wait": None}
    else:
        assert told(lent) == told(own)


def test_many_come_in_the_order_given_and_none_for_a_duplicate(
    app: App, mail: Mail, caller: Caller
) -> None:
    held = mail.options(idempotency_key="held").enqueue_sync(to="Ada")
    keys = ["held", "a", None, "b", "a", None]
    ids = caller.enqueue_many(
        app, [mail.options(idempotency_key=key).job(to="Bo") for key in keys]
    )
    caller.commit()

    new = [job_id for job_id in ids if job_id is not None]
    assert [job_id is None for job_id in ids] == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert new == sorted(new)
    assert {job.id for job in app.list_sync().jobs} == {held, *new}


def test_none_at_all_is_no_question_to_the_connection(app: App, caller: Caller) -> None:
    assert caller.enqueue_many(app, []) == []
