"""Listening past a pooler: the direct URL leads to the same database, or is refused."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.cluster_fixtures import FreshDatabase
from tests.eventually import eventually

from .postgres_given import opened


@pytest.mark.parametrize("variable", ["ROWLOCK_DIRECT_URL", "DATABASE_DIRECT_URL"])
async def test_it_listens_past_a_pooler(
    url: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f"{url}?application_name=past_the_pooler")
    async with opened(url) as store:
        wakeups = store.wakeups()
        await wakeups.wait(timedelta(milliseconds=10))

        async def names() -> bool:
            with psycopg.connect(url, autocommit=True) as own:
                return own.execute(
                    "SELECT application_name FROM pg_stat_activity WHERE"
                    " datname = current_database() AND query LIKE 'LISTEN%'"
                ).fetchall() == [("past_the_pooler",)]

        await eventually(names)
        wakeups.close()


async def test_it_does_not_listen_to_another_database(
    url: str,
    fresh_database: FreshDatabase,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    elsewhere = fresh_database()
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", elsewhere)
    async with opened(url) as store:
        wakeups = store.wakeups()
        await wakeups.wait(timedelta(milliseconds=10))
        await eventually(lambda: "leads to another database" in caplog.text)

        with psycopg.connect(elsewhere, autocommit=True) as own:
            (found,) = own.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE"
                " datname = current_database() AND query LIKE 'LISTEN%'"
            ).fetchall()
        assert found == (0,)
        wakeups.close()
