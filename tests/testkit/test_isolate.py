"""An app is put on another database for a test, and nothing of that stays."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from rowlock import App, ConfigError, UsageError
from rowlock.testing import FakeClock, drain_sync, fresh_database, inline, isolated
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
        *(app._store, app._clock, app._portal, app._inline, app.tasks, dict(app.tasks)),
        *(extensions, [*extensions._listeners], [*extensions._arounds]),
        *([*extensions._followers], app.url),
    ]


def misuse(app: App) -> None:
    """Leave behind whatever a test may."""
    app.listen(lambda _: None)
    app.around(lambda _: nullcontext())
    app.follow(lambda _: [])
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
            assert own.execute(CONNECTIONS).fetchone() == (0,)
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
