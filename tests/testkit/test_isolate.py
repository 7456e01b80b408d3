"""An app is put on another database for a test, and nothing of that stays."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing, nullcontext
from pathlib import Path

import psycopg
import pytest

from rowlock import App, ConfigError, UsageError, _register
from rowlock.testing import (
    FakeClock,
    drain,
    drain_sync,
    fresh_database,
    inline,
    isolated,
)
from tests.eventually import eventually

CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'rowlock'
"""


@pytest.fixture
def shop(tmp_path: Path) -> App:
    """An app as a module has it: its database is no test's business."""
    app = App(f"sqlite:///{tmp_path / 'production.db'}")

    @app.task
    def greet(name: str) -> None: ...

    return app


@pytest.fixture(params=["sqlite", "postgres"])
def fresh_url(request: pytest.FixtureRequest) -> str:
    """What a test's database is made of."""
    if request.param == "sqlite":
        return "sqlite://"
    url: str = request.getfixturevalue("postgres_url")
    return url


def state_of(app: App) -> list[object]:
    extensions = app._extensions
    return [
        *(app._access, app._store, app._portal, app._access.clock, app._inline),
        *(app.tasks, dict(app.tasks), app._replay_rules, dict(app._replay_rules)),
        *(extensions, [*extensions._listeners], [*extensions._arounds]),
        *([*extensions._followers], app.url),
    ]


def misuse(app: App) -> None:
    """Leave behind whatever a test may."""
    app.listen(lambda _: None)
    app.around(lambda _: nullcontext())
    app.follow(lambda _: [])
    app.replay_when("greet", lambda: True)
    app.task(name="test's own")(lambda: None)
    inline(app).__enter__()


def test_everything_is_put_back(shop: App, fresh_url: str, tmp_path: Path) -> None:
    before = state_of(shop)
    threads = set(threading.enumerate())

    with (
        fresh_database(fresh_url) as url,
        isolated(shop, url, clock=FakeClock()) as app,
    ):
        assert app is shop
        app.tasks["greet"].enqueue_sync("Ada")
        assert drain_sync(app, advance=1).succeeded == 1
        misuse(app)
    with isolated(shop) as app:
        assert not app.list_sync().jobs
        assert app.tasks.keys() == {"greet"}

    assert state_of(shop) == before
    # Those of plain handlers are told to end, and are waited for by nobody.
    asyncio.run(eventually(lambda: set(threading.enumerate()) <= threads))
    assert not (tmp_path / "production.db").exists()


def test_it_is_put_back_after_an_error_too(shop: App) -> None:
    before = state_of(shop)

    def test() -> None:
        with isolated(shop):
            misuse(shop)
            raise LookupError

    with pytest.raises(LookupError):
        test()
    assert state_of(shop) == before


async def test_on_a_loop_it_is_entered_with_async_with(
    shop: App, fresh_url: str
) -> None:
    before = state_of(shop)

    with pytest.raises(UsageError), isolated(shop):
        pass
    with fresh_database(fresh_url) as url:
        async with isolated(shop, url) as app:
            assert await app.tasks["greet"].enqueue("Ada")

    assert state_of(shop) == before


def test_one_may_stand_in_another(shop: App) -> None:
    with isolated(shop) as app:
        app.tasks["greet"].enqueue_sync("Ada")
        with isolated(shop):
            assert not app.list_sync().jobs
        assert len(app.list_sync().jobs) == 1


def test_a_schema_of_postgres_and_its_connections_are_gone(
    shop: App, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as own:
        with fresh_database(postgres_url) as url:
            with isolated(shop, url) as app:
                app.tasks["greet"].enqueue_sync("Ada")
                assert schemas(own)
            give_up_at = time.monotonic() + 10
            # The server sees the end of a connection a moment after the client.
            while own.execute(CONNECTIONS).fetchone() != (0,):
                assert time.monotonic() < give_up_at, "connections are left"
        assert not schemas(own)


def schemas(own: psycopg.Connection[tuple[object, ...]]) -> list[object]:
    found = own.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rowlock_test_%'"
    )
    return [name for (name,) in found]


@pytest.mark.parametrize(
    "url", ["sqlite:///shop.db", "postgresql:///shop?schema=rowlock", "mongodb://"]
)
def test_nothing_that_may_be_somebodys_is_cleaned(url: str) -> None:
    with pytest.raises(ConfigError), fresh_database(url):
        pass


@pytest.mark.parametrize("place", ["memory", "file"])
async def test_nothing_of_a_test_reaches_the_real_store(
    shop: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(_register, "SETTLE_S", 0.0)
    await shop.open()
    production = [tmp_path / "production.db", tmp_path / "production.db-wal"]
    await eventually(lambda: tasks_in(production[0]) == {"greet"})
    before = [path.read_bytes() for path in production]
    # As where the test is the first to use it: what would tell of its tasks is due.
    shop._access.register.forget()

    file = tmp_path / "test.db"
    url = "sqlite://" if place == "memory" else f"sqlite:///{file}"
    async with isolated(shop, url, clock=FakeClock()) as app:
        app.task(name="test's own")(lambda: None)
        await app.tasks["greet"].enqueue("Ada")
        await app.pause(queue="mail")
        await asyncio.to_thread(app.tasks["greet"].enqueue_sync, "Bo")
        await drain(app, advance=7200)
        async with app.worker():
            await app.wait(await app.tasks["greet"].enqueue("Cy"), 10)
        if place == "file":
            await eventually(lambda: tasks_in(file) == {"greet", "test's own"})
        await asyncio.sleep(0.2)  # for what must not happen

    assert [path.read_bytes() for path in production] == before
    await shop.close()


def tasks_in(file: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as own:
        return {name for (name,) in own.execute("SELECT name FROM rowlock_tasks")}


def test_sqls_enqueue_knows_the_defaults_of_the_tasks(
    shop: App, postgres_url: str
) -> None:
    shop.task(name="mail", queue="letters", priority=4)(lambda: None)

    with fresh_database(postgres_url) as url, isolated(shop, url) as app:
        schema = url.rpartition("schema=")[2]
        with psycopg.connect(postgres_url, autocommit=True) as own:
            row = own.execute(f"SELECT {schema}.enqueue('mail')".encode()).fetchone()
        assert row is not None
        job = app.get_sync(row[0])

    assert (job.queue, job.priority) == ("letters", 4)


def test_an_app_stays_where_it_was_if_the_database_cannot_be_had(
    shop: App, tmp_path: Path
) -> None:
    before = state_of(shop)
    threads = set(threading.enumerate())

    with (
        pytest.raises(ConfigError),
        isolated(shop, f"sqlite:///{tmp_path / 'no' / 'such.db'}"),
    ):
        pass

    assert state_of(shop) == before
    for ending in set(threading.enumerate()) - threads:
        ending.join(5)
    assert set(threading.enumerate()) <= threads


async def test_on_a_loop_with_is_refused_with_what_to_write(shop: App) -> None:
    with pytest.raises(UsageError, match="write `async with isolated`"), isolated(shop):
        pass
