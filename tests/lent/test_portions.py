"""What the store does by itself it does on a connection that is lent, too."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowlock import App, KeyConflict, KeyedTask, StoreUnavailable
from rowlock._job import NewJob, OnConflict
from rowlock.stores.postgres import enqueue as enqueueing

from .callers import Caller
from .kinds import ON_POSTGRES

Mail = KeyedTask[..., Any]

COUNTING = """
CREATE TABLE statements (jobs bigint);
CREATE FUNCTION count_jobs() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO statements SELECT count(*) FROM added; RETURN NULL; END $$;
CREATE TRIGGER count_jobs AFTER INSERT ON rowlock.live REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();
"""

pytestmark = pytest.mark.parametrize(
    "kind",
    [kind for kind in ON_POSTGRES if kind.name in {"psycopg", "asyncpg"}],
    ids=lambda kind: kind.name,
)


def counted(address: str) -> list[int]:
    with psycopg.connect(address) as own:
        return [jobs for (jobs,) in own.execute("TABLE statements").fetchall()]


def test_many_jobs_are_several_statements_of_the_callers_transaction(
    app: App,
    mail: Mail,
    caller: Caller,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 2)
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(COUNTING)
    ids = caller.enqueue_many(app, [mail.job(to="Ada")] * 5)
    caller.commit()

    assert sorted(job.id for job in app.list_sync().jobs) == ids
    assert counted(address) == [2, 2, 1]


def test_in_autocommit_they_are_one_which_is_all_or_none(
    app: App,
    mail: Mail,
    quick_caller: Caller,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 2)
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(COUNTING)
    quick_caller.enqueue_many(app, [mail.job(to="Ada")] * 5)

    assert counted(address) == [5]


def test_law_1_a_conflict_in_a_later_portion_undoes_the_earlier_ones(
    app: App, mail: Mail, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 2)
    keyed = mail.options(idempotency_key="k", on_conflict="raise")
    keyed.enqueue_sync(to="Ada")
    with pytest.raises(KeyConflict):
        caller.enqueue_many(app, [mail.job(to="Bo")] * 2 + [keyed.job(to="Cy")])
    caller.commit()

    assert [job.payload for job in app.list_sync().jobs] == [{"to": "Ada"}]


DROPPING = """
DO $$ DECLARE part regclass; BEGIN
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits
        WHERE inhparent = 'rowlock.history'::regclass
    LOOP EXECUTE format('DROP TABLE %s', part); END LOOP;
END $$
"""


def test_a_partition_that_is_missing_is_made_for_the_next_try(
    app: App, mail: Mail, caller: Caller, address: str
) -> None:
    keyed = mail.options(idempotency_key="k")
    over = datetime.now(UTC) - timedelta(seconds=5)
    keyed.options(expires_at=over).enqueue_sync(to="Ada")
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(DROPPING)
    with pytest.raises(StoreUnavailable, match="roll back, and try again"):
        caller.enqueue(keyed, to="Bo")
    caller.rollback()
    job_id = caller.enqueue(keyed, to="Bo")
    caller.commit()

    assert job_id is not None
    assert len(app.list_sync().jobs) == 2


@pytest.mark.parametrize("on_conflict", ["skip", "replace"])
def test_portions_take_their_keys_in_one_order(
    app: App,
    mail: Mail,
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    on_conflict: OnConflict,
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 2)
    keys = ["d", None, "b", "c", "a", "\U0001f600", "\uffff"]
    jobs = [
        mail.job(to=f"{key}")
        if key is None
        else mail.options(idempotency_key=key, on_conflict=on_conflict).job(to=key)
        for key in keys
    ]
    taken: list[Any] = []
    values = enqueueing.values

    def noted(part: Sequence[NewJob]) -> dict[str, str | None]:
        taken.extend(job.idempotency_key for job in part)
        return values(part)

    monkeypatch.setattr(enqueueing, "values", noted)
    ids = caller.enqueue_many(app, jobs)
    caller.commit()
    made = [app.get_sync(job_id or 0).payload for job_id in ids]
    again = app.enqueue_many_sync(jobs)

    expected = [None, "a", "b", "c", "d", "\uffff", "\U0001f600"]
    assert taken == [*expected, *expected]
    assert made == [{"to": f"{key}"} for key in keys]
    assert [job_id is None for job_id in again] == [key is not None for key in keys]


def test_calls_of_several_portions_with_their_keys_reversed_dont_block_each_other(
    app: App, mail: Mail, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 5)
    jobs = [mail.options(idempotency_key=f"{n:02}").job(to="Ada") for n in range(40)]
    began = threading.Barrier(3)

    def hand_over(given: Sequence[NewJob]) -> int:
        began.wait()
        with psycopg.connect(address) as own:
            ids = app.enqueue_many_sync(given, connection=own)
        return sum(job_id is not None for job_id in ids)

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(hand_over, given) for given in (jobs, jobs[::-1])]
        began.wait()
        made = sum(future.result() for future in found)

    assert made == len(app.list_sync().jobs) == 40


def test_a_conflict_with_an_earlier_portion_of_the_call_names_no_job(
    app: App, mail: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueueing, "MOST", 1)
    keyed = mail.options(idempotency_key="k", on_conflict="raise")
    with pytest.raises(KeyConflict) as refused:
        app.enqueue_many_sync([keyed.job(to="Ada"), mail.job(to="Bo"), keyed.job("Cy")])

    assert refused.value.job_id is None
    assert app.list_sync().jobs == ()
