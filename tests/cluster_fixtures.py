"""
Databases on Postgres for the tests; a conftest takes them over with `pytest_plugins`.

ROWLOCK_TEST_POSTGRES_URL names a server to use. Else one is started, for all processes
of the session: the wheel's or the machine's (`tests.cluster`), or what
ROWLOCK_TEST_POSTGRES asks for: `embedded`, `system`, `15`, `18`.
Where there is none the tests are skipped; where CI is set they fail.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

import pytest

from tests.cluster import pooler as poolers
from tests.cluster.binaries import NONE, NoPostgres, find
from tests.cluster.databases import Databases, of_session
from tests.cluster.membership import own
from tests.cluster.pooler import Mode, NoPooler
from tests.cluster.server import Cluster

# The ends of what is served: plans and catalogues differ between them.
VERSIONS = ("15", "18")
ASKED_FOR = os.environ.get("ROWLOCK_TEST_POSTGRES_URL") or os.environ.get(
    "ROWLOCK_TEST_POSTGRES"
)


class FreshDatabase(Protocol):
    def __call__(self, *, empty: bool = False) -> str:
        """Make a database, `empty` or else a clone of the template; its URL."""


class OwnCluster(Protocol):
    def __call__(self, *, fsync: bool = False, **settings: str) -> Cluster:
        """Start a server that the test may stop, pause and crash."""


class Pooler(Protocol):
    def __call__(self, url: str, *, mode: Mode = "transaction", size: int = 3) -> str:
        """Put a PgBouncer before a database; the URL that leads through it."""


@pytest.fixture(scope="session")
def prepare_template() -> Callable[[str], None] | None:
    """What fills the template, given its URL; a conftest overrides it to migrate."""
    return None


@pytest.fixture(scope="session")
def session_name(request: pytest.FixtureRequest) -> str:
    """Name this run of the tests; all workers of xdist know the same one."""
    worker: dict[str, str] = getattr(request.config, "workerinput", {})
    return worker.get("testrunuid") or secrets.token_hex()


@pytest.fixture(scope="session")
def databases(
    session_name: str, prepare_template: Callable[[str], None] | None
) -> Iterator[Databases]:
    """The server of this run, to make and drop databases on."""
    with ExitStack() as stack:
        with skipped_without_postgres():
            server = of_session(session_name, prepare=prepare_template)
            found = stack.enter_context(server)
        yield found


@pytest.fixture(scope="session")
def postgres_url(databases: Databases) -> Iterator[str]:
    """This process's own database, cloned from the template."""
    url = databases.clone()
    yield url
    databases.drop(url)


@pytest.fixture
def fresh_database(databases: Databases) -> Iterator[FreshDatabase]:
    """Make databases for this test alone."""
    made: list[str] = []

    def make(*, empty: bool = False) -> str:
        made.append(databases.empty() if empty else databases.clone())
        return made[-1]

    yield make
    for url in made:
        databases.drop(url)


@pytest.fixture
def url(fresh_database: FreshDatabase) -> str:
    """The URL of a database of this test."""
    return fresh_database()


@pytest.fixture(
    scope="session",
    params=[""] if ASKED_FOR else VERSIONS,
    ids=lambda version: f"postgres-{version or 'chosen'}",
)
def each_postgres(
    request: pytest.FixtureRequest,
    session_name: str,
    prepare_template: Callable[[str], None] | None,
) -> Iterator[Databases]:
    """Run the test on the oldest and the newest, or on the one that was asked for."""
    with ExitStack() as stack:
        with skipped_without_postgres():
            server = of_session(session_name, request.param, prepare_template)
            found = stack.enter_context(server)
        yield found


@pytest.fixture
def each_url(each_postgres: Databases) -> Iterator[str]:
    """The URL of a database of this test there, a clone of the template."""
    url = each_postgres.clone()
    yield url
    each_postgres.drop(url)


@pytest.fixture
def each_empty_url(each_postgres: Databases) -> Iterator[str]:
    """The URL of a database with nothing in it there."""
    url = each_postgres.empty()
    yield url
    each_postgres.drop(url)


@pytest.fixture
def own_cluster() -> Iterator[OwnCluster]:
    """Start servers for this test alone."""
    with skipped_without_postgres():
        binaries = find()
    with ExitStack() as stack:

        def start(*, fsync: bool = False, **settings: str) -> Cluster:
            server = own(binaries, fsync=fsync, settings=settings)
            return stack.enter_context(server)

        yield start


@pytest.fixture
def pooler() -> Iterator[Pooler]:
    """Put poolers before databases, for this test alone."""
    with ExitStack() as stack:

        def put(url: str, *, mode: Mode = "transaction", size: int = 3) -> str:
            with skipped_without_postgres():
                found = poolers.before(url, mode=mode, size=size)
                return stack.enter_context(found)

        yield put


@contextmanager
def skipped_without_postgres() -> Iterator[None]:
    """A laptop without it runs the rest; in CI that would prove nothing."""
    try:
        yield
    except (NoPostgres, NoPooler) as error:
        if os.environ.get("CI", "").lower() in {"", "0", "false"}:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once how many were skipped for it, and what to install."""
    reasons = [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple)
    ]
    wanting = [reason for reason in reasons if reason.startswith(NONE)]
    if wanting:
        terminalreporter.write_line(f"{len(wanting)} skipped: {wanting[0]}")
