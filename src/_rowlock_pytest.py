"""
Rowlock's fixtures for pytest, which finds them by an entry point.

Beside the package and not in it: pytest loads this in every run, also in one that has
nothing to do with Rowlock, and a module of the package would load the package.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rowlock import App
    from rowlock.testing import FakeClock


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what pyproject.toml may say under [tool.pytest.ini_options]."""
    parser.addini("rowlock_app", "the app under test, as in shop:app")
    parser.addini(
        "rowlock_database",
        "where its jobs live during a test: sqlite:// (in memory) or a Postgres URL,"
        " in which each test gets a schema of its own",
        default="sqlite://",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Fail a test that has dropped an `assert_enqueued` without `await`."""
    yield
    _refuse_dropped()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Do so for a fixture, and for what the test itself was still holding."""
    yield
    _refuse_dropped()


@pytest.fixture
def rowlock_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of a database of this test's own, without jobs."""
    from rowlock.testing import fresh_database  # noqa: PLC0415 - when it is used

    with fresh_database(pytestconfig.getini("rowlock_database")) as url:
        yield url


@pytest.fixture
def rowlock_database(pytestconfig: pytest.Config) -> str:
    """
    That database as your own driver takes it, as in psycopg.connect(rowlock_database).

    The jobs of a test are in a schema of it which `rowlock_url` names, in a way that
    only Rowlock reads.
    """
    url = pytestconfig.getini("rowlock_database")
    if url.startswith("sqlite:"):
        pytest.fail(
            "The jobs of this test are in memory, where no other connection reaches"
            " them: say rowlock_database = a Postgres URL, or put the app on a file"
            " in tmp_path by isolated().",
            pytrace=False,
        )
    return str(url)


@pytest.fixture
def rowlock_clock() -> FakeClock:
    """A clock that stands at the start of the test until it is moved."""
    from rowlock.testing import FakeClock  # noqa: PLC0415 - when it is used

    return FakeClock(datetime.now(UTC))


@pytest.fixture
def rowlock_app(
    pytestconfig: pytest.Config, rowlock_url: str, rowlock_clock: FakeClock
) -> Iterator[App]:
    """Your app, on that database and that clock until the test has ended."""
    from rowlock.testing import isolated  # noqa: PLC0415 - when it is used

    with isolated(_find_app(pytestconfig), rowlock_url, clock=rowlock_clock) as app:
        yield app


@pytest.fixture
def rowlock_inline(rowlock_app: App) -> Iterator[App]:
    """Your app as `rowlock_app` has it, and each enqueue runs its job at once."""
    from rowlock.testing import inline  # noqa: PLC0415 - when it is used

    with inline(rowlock_app) as app:
        yield app


def _refuse_dropped() -> None:
    # What isn't loaded has dropped nothing.
    if (module := sys.modules.get("rowlock.testing._dropped")) is None:
        return
    try:
        module.refuse_dropped()
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)


def _find_app(config: pytest.Config) -> App:
    from rowlock import App  # noqa: PLC0415 - when it is used

    name = config.getini("rowlock_app")
    remedy = (
        'say where your app is, as in rowlock_app = "shop:app", under'
        " [tool.pytest.ini_options] in pyproject.toml"
    )
    if not name:
        pytest.fail(f"rowlock_app doesn't know your app: {remedy}.", pytrace=False)
    try:
        app = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        pytest.fail(
            f"rowlock_app = {name!r} can't be found ({error}): {remedy}, and add"
            ' pythonpath = ["."] where it is in that folder.',
            pytrace=False,
        )
    if not isinstance(app, App):
        pytest.fail(
            f"rowlock_app = {name!r} is a {type(app).__name__} and no App: {remedy}.",
            pytrace=False,
        )
    return app
