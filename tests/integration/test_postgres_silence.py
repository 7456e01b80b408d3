"""A server that says nothing more, though no connection to it was ever closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from rowlock import App, OutcomeUnknown, StoreUnavailable
from rowlock.stores.postgres import listen, sessions
from tests.endings import ended
from tests.eventually import eventually

from .postgres_given import job, opened
from .proxy import Proxy, between

NOTICED_S = 10.0


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[Proxy]:
    """What stands between the test's database and whoever goes by its URL."""
    async with between(url) as proxy:
        yield proxy


async def test_b56_a_listener_that_hears_nothing_more_is_noticed_in_ten_seconds(
    url: str,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Told once in the log, as there are no metrics yet."""
    caplog.set_level(logging.INFO, "rowlock.store")
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", proxy.url)
    app = App(url)
    monkeypatch.delenv("ROWLOCK_DIRECT_URL")
    feeder = App(url)
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    mail = feeder.tasks["mail"]
    async with app, feeder, app.worker():
        await eventually(lambda: hears(app))
        await ended(feeder, await mail.enqueue())

        proxy.fall_silent(to_new=False)
        silent_at = time.monotonic()
        # Nobody is told of this one; the worker would look by itself within 30 s.
        await ended(feeder, await mail.enqueue())
        assert time.monotonic() - silent_at < NOTICED_S
        await eventually(lambda: len(proxy.connected) == 2 and hears(app))
        assert time.monotonic() - silent_at < NOTICED_S

        enqueued_at = time.monotonic()
        await ended(feeder, await mail.enqueue())
        assert time.monotonic() - enqueued_at < 1

    assert caplog.text.count("was dead: the server gave no answer for 4 s") == 1
    assert caplog.text.count("New jobs are heard of again.") == 1


async def test_b57_news_that_come_with_an_answer_are_heard(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks all the time, and the server takes its time to answer."""
    monkeypatch.setattr(listen, "SILENCE", 0.001)
    app, feeder = App(url), App(url)
    statements = app._store._database.statements  # type: ignore[attr-defined]  # a Postgres store
    monkeypatch.setitem(statements, "listening", b"SELECT FROM pg_sleep(0.1)")
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    async with app, feeder, app.worker():
        await eventually(lambda: hears(app))
        for _ in range(20):
            enqueued_at = time.monotonic()
            await ended(feeder, await feeder.tasks["mail"].enqueue())
            assert time.monotonic() - enqueued_at < 1


async def test_one_that_stood_still_itself_takes_nobody_for_dead(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the machine slept, or C code kept every thread waiting."""
    ahead = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead)
    monkeypatch.setattr(listen, "time", clock)
    monkeypatch.setattr(listen, "SILENCE", 0.2)
    app, feeder = App(url), App(url)
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    async with app, feeder, app.worker():
        await eventually(lambda: hears(app))
        for _ in range(3):
            ahead += 60
            await asyncio.sleep(0.4)  # real: it asks, and hears the answer
            await ended(feeder, await feeder.tasks["mail"].enqueue())

        assert hears(app)
    assert "was dead" not in caplog.text


async def test_a_statement_without_an_answer_is_given_up(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PATIENCE", 0.5)
    async with opened(proxy.url) as store:
        await store.enqueue([job()])
        proxy.fall_silent(to_new=False)
        began_at = time.monotonic()

        with pytest.raises(OutcomeUnknown, match="idempotency key"):
            await store.enqueue([job()])

        assert 0.4 < time.monotonic() - began_at < 5
        assert await store.enqueue([job()]) != (None,)

        proxy.fall_silent(to_new=False)
        with pytest.raises(StoreUnavailable, match="out of reach"):
            await store.stats()


async def test_an_idle_worker_works_on_after_a_silence(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PATIENCE", 1.0)
    monkeypatch.setattr(listen, "SILENCE", 0.5)
    monkeypatch.setattr(listen, "PATIENCE", 0.5)
    app, feeder = App(f"{proxy.url}?connect_timeout=2"), App(url)
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    async with app, feeder, app.worker():
        await eventually(lambda: hears(app))
        # Every connection that it has, and none comes about.
        proxy.fall_silent()
        job_id = await feeder.tasks["mail"].enqueue()
        await asyncio.sleep(2)  # real: as long as the network does so
        proxy.fall_silent(to_new=False)

        await ended(feeder, job_id, within=15)


async def nothing() -> None:
    """Do nothing."""


def hears(app: App) -> bool:
    return bool(app._store._database.is_hearing)  # type: ignore[attr-defined]  # a Postgres store
