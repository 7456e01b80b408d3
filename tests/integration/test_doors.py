"""Settings and arguments that can't be meant: one sentence, and nothing was touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlock import App, Filter, Retention, Status, UsageError

CENTURIES = timedelta(days=100_000)


@pytest.fixture
def app() -> App:
    """An app in memory with twenty jobs of one task."""
    app = App("sqlite://")

    @app.task
    def note(number: int) -> None: ...

    app.enqueue_many_sync(note.job(number=n) for n in range(20))
    return app


def given(**fields: Any) -> Filter:  # noqa: ANN401 - as typed in a shell, unchecked
    return Filter(**fields)


@pytest.mark.parametrize(
    "where", ["17", b"17", ["1", "7"], True, 1.0, [1, None], 0, 2**63]
)
@pytest.mark.parametrize("verb", ["cancel_sync", "replay_sync"])
def test_ids_are_whole_numbers_and_no_digits_of_a_text(
    app: App, verb: str, where: object
) -> None:
    with pytest.raises(UsageError, match=r"A job's id is a whole number|no job's id"):
        getattr(app, verb)(where)

    assert app.stats_sync().queues[0].counts[Status.PENDING] == 20


def test_a_wrong_id_among_many_leaves_all_of_them_alone(app: App) -> None:
    with pytest.raises(UsageError, match="not 'x'"):
        app.cancel_sync([*range(1, 21), *range(21, 2000), "x"])  # type: ignore[list-item]  # what is refused

    assert app.stats_sync().queues[0].counts[Status.PENDING] == 20


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda app: app.get_sync("17"), "A job's id is a whole number"),
        (lambda app: app.list_sync(limit=-2), "limit= is a whole number of 1 or more"),
        (lambda app: app.list_sync(after=2**70), "A job's id is a whole number"),
        (lambda app: app.list_sync(given(status="done")), "no status 'done'; there"),
        (lambda app: app.list_sync(given(ids="17")), "A job's id is a whole number"),
        (lambda app: app.list_sync(given(older_than=-1)), r"Filter\(older_than=\)"),
        (lambda app: app.cancel_sync(1, by="\ud800"), "by= can't hold NUL"),
        (
            lambda app: app.enqueue_many_sync([None]),
            "what task.job.* at place 0 is a NoneType",
        ),
        (lambda app: app.worker(queues="mail"), r"as in \['mail'\]"),
        (lambda app: app.worker(queues=[]), "queues= has no name in it"),
        (lambda app: app.task(dead_on=KeyError), "dead_on= takes classes"),
        (lambda app: app.task(dead_on=("x",)), "dead_on= takes classes"),
        (lambda app: app.task(dead_on=(KeyboardInterrupt,)), "dead_on= takes classes"),
        (lambda _: App("sqlite://", retention=3600), "retention= takes a Retention"),  # type: ignore[arg-type]
        (lambda _: App("sqlite://", max_payload="1M"), "max_payload= is a whole"),  # type: ignore[arg-type]
        (
            lambda _: App("sqlite://", safety_interval=0),
            "safety_interval= is at least 0.1 s",
        ),
        (
            lambda _: Retention(failed=CENTURIES),
            r"Retention\(failed=\) can't be longer",
        ),
    ],
)
def test_what_cant_be_meant_is_refused_in_a_sentence(
    app: App, call: Callable[[App], object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        call(app)


def test_a_job_carries_no_connection_that_enqueue_many_would_not_use(
    app: App, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        lending = app.tasks["note"].options(connection=connection)

        with pytest.raises(UsageError, match=r"lend it to app\.enqueue_many"):
            app.enqueue_many_sync([lending.job(number=1)])


def test_a_filter_takes_a_status_as_a_text_and_an_age_in_seconds(app: App) -> None:
    where = Filter(status="pending", older_than=0)

    assert len(app.list_sync(where).jobs) == 20
    assert not app.list_sync(Filter(older_than=timedelta(hours=1))).jobs


def test_a_retention_is_in_seconds_too() -> None:
    assert Retention(failed=60).failed == timedelta(minutes=1)
