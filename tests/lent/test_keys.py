"""A key, and who enqueues it on a connection that is lent."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from rowlock import App, KeyedTask, Status, StoreUnavailable

from .callers import ORDER, Awaited, Caller
from .kinds import KINDS, Kind

Mail = KeyedTask[..., Any]


def ids(app: App) -> list[int]:
    return sorted(job.id for job in app.list_sync().jobs)


def insist(task: Mail) -> int | None:
    """Enqueue on the store's own connection, until it lets that in."""
    for _ in range(20):
        try:
            return task.enqueue_sync(to="Bo")
        except StoreUnavailable:
            continue
    raise TimeoutError


def begin(thread: ThreadPoolExecutor, task: Mail) -> Future[int | None]:
    """Have another enqueue the key, which waits for whoever is inserting it."""
    future = thread.submit(insist, task)
    assert not wait([future], timeout=0.2).done
    return future


def test_b27_a_key_that_was_rolled_back_is_given_to_who_waited(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k")
    caller.run(ORDER)
    assert caller.enqueue(keyed, to="Ada") is not None
    with ThreadPoolExecutor(1) as thread:
        waiting = begin(thread, keyed)
        caller.rollback()
        job_id = waiting.result(20)

    assert job_id is not None
    assert ids(app) == [job_id]


def test_b27_a_key_that_was_committed_makes_a_duplicate_of_who_waited(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k")
    job_id = caller.enqueue(keyed, to="Ada")
    with ThreadPoolExecutor(1) as thread:
        waiting = begin(thread, keyed)
        caller.commit()

        assert waiting.result(20) is None
    assert ids(app) == [job_id]


def test_b29_of_several_callers_at_once_one_gets_the_job(
    app: App, mail: Mail, kind: Kind, address: str
) -> None:
    together = Barrier(4)

    def call(_: int) -> int | None:
        caller = kind.make(address, autocommit=False)
        together.wait()
        job_id = caller.enqueue(mail.options(idempotency_key="k"), to="Ada")
        caller.commit()
        caller.close()
        if isinstance(caller, Awaited):
            caller.end()
        return job_id

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(call, range(4)))

    assert [job_id for job_id in found if job_id is not None] == ids(app)
    assert len(ids(app)) == 1


def test_b28_a_key_is_held_until_its_job_ends(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k")
    first = keyed.enqueue_sync(to="Ada")
    assert first is not None
    assert caller.enqueue(keyed, to="Ada") is None
    caller.commit()
    (answer,) = app.cancel_sync([first])
    assert answer.status is Status.CANCELLED
    second = caller.enqueue(keyed, to="Ada")
    caller.commit()

    assert second not in {None, first}
    assert ids(app) == [first, second]


def test_a_holder_that_was_not_started_in_time_gives_its_key_up(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k")
    over = datetime.now(UTC) - timedelta(seconds=5)
    first = keyed.options(expires_at=over).enqueue_sync(to="Ada")
    second = caller.enqueue(keyed, to="Bo")
    assert second is not None
    caller.commit()

    jobs = {job.id: job.status for job in app.list_sync().jobs}
    assert jobs == {first: Status.CANCELLED, second: Status.PENDING}


# A child for each kind, that dies of a signal which nothing can catch.
PROGRAM = """
import os, signal, sys
from rowlock import App
from tests.lent.callers import mail_to
from tests.lent.kinds import KINDS

store, url, address = sys.argv[1:]
for kind in KINDS:
    if kind.store == store and not os.fork():
        app = App(url)
        mail = app.task(name="mail")(mail_to)
        caller = kind.make(address, autocommit=False)
        caller.run("INSERT INTO orders (item) VALUES ('lamp')")
        caller.enqueue(mail, to=kind.name)
        caller.commit()
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind.store == store:
        os.wait()
"""


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=lambda kind: kind.store)
def test_b148_what_was_committed_outlives_its_process(
    app: App, kind: Kind, address: str
) -> None:
    url = f"sqlite:///{address}" if kind.store == "sqlite" else address
    subprocess.run(
        [sys.executable, "-c", PROGRAM, kind.store, url, address],
        cwd=Path(__file__).parents[2],
        timeout=110,
        check=True,
    )

    assert {job.payload["to"] for job in app.list_sync().jobs} == {
        each.name for each in KINDS if each.store == kind.store
    }


def test_b148_where_the_enqueue_fails_the_whole_can_be_rolled_back(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.run(ORDER)
    with pytest.raises(ValueError, match=r"U\+0000"):
        caller.enqueue(mail, to="\0")
    caller.rollback()
    job_id = caller.enqueue(mail, to="Ada")
    caller.commit()

    assert ids(app) == [job_id]
