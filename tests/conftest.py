"""How tests are run: the clock they move, and how much of the slow ones."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rowlock import App
from rowlock._events import Event
from rowlock.testing import FakeClock

from .cluster.databases import Databases
from .conformance import on_postgres
from .conformance.stores import CASES, StoreCase
from .holding import Hold, held
from .journal import Journal
from .workers import Workers

pytest_plugins = ["pytester", "tests.cluster_fixtures"]

SHARED = [case for case in CASES if case.processes]

# The examples of one run are the same on every machine: a failure in CI is seen again
# at home. `--slow` draws new ones each time, ten times as many.
settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "slow", parent=settings.get_profile("quick"), derandomize=False
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let slow cases be run at full size."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the slow cases at full size (ten times the quick one)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile for hypothesis."""
    # What is started in a shell's background ignores Ctrl-C, or by nohup a hang-up, and
    # so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    settings.load_profile("slow" if config.getoption("--slow") else "quick")


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> int:
    """By how much a slow case multiplies its rounds: 1, or 10 with `--slow`."""
    return 10 if request.config.getoption("--slow") else 1


@pytest.fixture(scope="session")
def prepare_template() -> Callable[[str], None]:
    """Fill the template from which each process clones its database."""
    return on_postgres.migrate


@pytest.fixture(scope="session")
def postgres_server(databases: Databases) -> Iterator[None]:
    """Have a database on Postgres for this process."""
    with on_postgres.serving(databases):
        yield


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(params=SHARED, ids=lambda case: case.name)
def shared_case(request: pytest.FixtureRequest) -> StoreCase:
    """A store whose database several processes can open."""
    case: StoreCase = request.param
    if case.server is not None:
        request.getfixturevalue(case.server)
    return case


@pytest.fixture
def database_url(shared_case: StoreCase, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without jobs that several processes can open."""
    with shared_case.database(tmp_path) as url:
        yield url


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app without tasks on that database."""
    async with App(database_url) as app:
        yield app


@pytest.fixture
async def still_app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app without tasks, at a time that stands still until `clock` moves it."""
    async with App(database_url, clock=clock) as app:
        yield app


@pytest.fixture
def told(app: App) -> list[Event]:
    """The events of the app, in order, while they come."""
    events: list[Event] = []
    app.listen(events.append)
    return events


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """The test's own page of the journal that its worker processes write."""
    folder = tmp_path / "journal"
    folder.mkdir()
    journal = Journal(folder, "test")
    yield journal
    journal.close()


@pytest.fixture
def workers(database_url: str, journal: Journal) -> Iterator[Workers]:
    """Worker processes on that database; none of them outlives the test."""
    workers = Workers(database_url, journal.folder)
    yield workers
    workers.close()


@pytest.fixture
def hold_writes(shared_case: StoreCase, database_url: str) -> Hold:
    """Let a user's transaction lock all that it can, for a while."""
    assert shared_case.hold_writes
    make = shared_case.hold_writes
    return lambda: held(make(database_url))
