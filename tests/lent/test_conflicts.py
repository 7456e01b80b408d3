"""Keys that are kept, refused or replaced, on every kind of connection."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock import App, KeyConflict, KeyedTask

from .callers import ORDER, Caller

Mail = KeyedTask[..., Any]
HOUR = 3600


def payloads(app: App) -> list[object]:
    return [job.payload["to"] for job in reversed(app.list_sync().jobs)]


def test_b30_a_conflict_is_raised_and_the_transaction_goes_on(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="raise")
    first = keyed.enqueue_sync(to="Ada")
    caller.run(ORDER)

    with pytest.raises(KeyConflict) as caught:
        caller.enqueue(keyed, to="Bo")

    assert caught.value.job_id == first
    assert caller.enqueue(keyed, to="Ada") is None
    assert caller.enqueue(mail, to="Cy") is not None
    caller.commit()
    assert payloads(app) == ["Ada", "Cy"]


def test_a_job_is_replaced_where_the_transaction_commits(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="replace")
    keyed.options(delay=HOUR).enqueue_sync(to="Ada")
    (before,) = app.list_sync().jobs
    assert caller.enqueue(keyed, to="Bo") is None
    caller.rollback()
    assert list(app.list_sync().jobs) == [before]

    assert caller.enqueue(keyed, to="Cy") is None
    caller.commit()

    (job,) = app.list_sync().jobs
    assert (job.id, job.payload) == (before.id, {"to": "Cy"})
    assert job.run_at < before.run_at


def test_in_bulk_several_of_one_key_are_one_job(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="replace")
    jobs = [keyed.job(to="Ada"), mail.job(to="Bo"), keyed.job(to="Cy")]

    first, second, third = caller.enqueue_many(app, jobs)
    caller.commit()

    assert first is not None
    assert second is not None
    assert third is None
    assert sorted(map(str, payloads(app))) == ["Bo", "Cy"]


def test_in_bulk_a_conflict_undoes_the_call_and_no_more(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="raise")
    caller.run(ORDER)
    caller.enqueue(mail, to="Ada")

    with pytest.raises(KeyConflict) as caught:
        caller.enqueue_many(
            app, [mail.job(to="Bo"), keyed.job(to="Cy"), keyed.job(to="Di")]
        )

    assert caught.value.job_id is None
    caller.commit()
    assert payloads(app) == ["Ada"]


def test_in_autocommit_a_conflict_undoes_the_whole_call(
    app: App, mail: Mail, quick_caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", on_conflict="raise")
    keyed.enqueue_sync(to="Ada")

    with pytest.raises(KeyConflict):
        quick_caller.enqueue_many(app, [mail.job(to="Bo"), keyed.job(to="Cy")])

    assert payloads(app) == ["Ada"]


def test_a_key_that_is_kept_makes_a_duplicate(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", idempotency_for=HOUR)
    first = caller.enqueue(keyed, to="Ada")
    caller.commit()
    assert first is not None
    app.cancel_sync([first])

    assert caller.enqueue(mail.options(idempotency_key="k"), to="Bo") is None
    found = app.find_sync(mail, "k")
    assert found is not None
    assert found.id == first
    assert found.key_until is not None
    caller.commit()
    app.delete_sync([first])
    assert caller.enqueue(mail.options(idempotency_key="k"), to="Bo") is not None
