"""Results that are given to `complete`, as the handler can still mend them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from rowlock import App, PayloadError, Status, current_attempt
from rowlock._events import Event
from rowlock.events import ResultDropped
from tests.endings import reached


@pytest.fixture
def app(database_url: str) -> App:
    """An app without tasks, whose time goes by."""
    return App(database_url)


async def test_one_that_cant_be_stored_is_refused_and_can_be_mended(
    app: App, told: list[Event], database_url: str
) -> None:
    refusals: list[PayloadError] = []

    @app.task
    def order() -> None:
        with closing(connected(database_url)) as own:
            attempt = current_attempt()
            try:
                attempt.complete_sync({"by": object()}, connection=own)
            except PayloadError as error:
                refusals.append(error)
            attempt.complete_sync({"by": "us"}, connection=own)
            own.commit()

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)

    (refused,) = refusals
    assert refused.path == "$.by"
    assert str(refused).startswith(
        "The result given to complete() can't be taken, and nothing was recorded:"
        " `$.by` can't be stored: "
    )
    assert "object" in str(refused)
    assert (job.result, job.meta, job.attempts) == ({"by": "us"}, {}, 1)
    assert not [event for event in told if isinstance(event, ResultDropped)]


def connected(url: str) -> sqlite3.Connection | psycopg.Connection[tuple[int]]:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"))
    return psycopg.connect(url)
