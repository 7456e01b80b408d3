"""Listening past a pooler: the direct URL leads to the same database, or is refused."""

from __future__ import annotations

import logging
from datetime import timedelta

import psycopg
import pytest

from rowlock.stores.postgres.sessions import Session
from tests.cluster_fixtures import FreshDatabase
from tests.eventually import eventually

from .postgres_given import opened


async def nothing(_session: Session) -> None:
    """Do what the dropping of old days begins with: connect."""


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
        await eventually(lambda: "no new job is heard of" in caplog.text)
        await store._database.apart(nothing)

        with psycopg.connect(elsewhere, autocommit=True) as own:
            (found,) = own.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE"
                " datname = current_database() AND query LIKE 'LISTEN%'"
            ).fetchall()
        assert found == (0,)
        wakeups.close()
    told = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]
    cause = f"ROWLOCK_DIRECT_URL leads to another database than {store.url}: correct it"
    assert [sentence.startswith(cause) for sentence in told] == [True] * len(told)
    assert len(told) == 2
    assert told[1].endswith("Until then no old day leaves the history.")


async def test_a_direct_url_out_of_reach_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DATABASE_DIRECT_URL", "postgresql://ada@127.0.0.1:1/shop")
    async with opened(url) as store:
        await store._database.apart(nothing)

    (told,) = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]
    assert "postgresql://ada@127.0.0.1:1/shop (DATABASE_DIRECT_URL)" in told
