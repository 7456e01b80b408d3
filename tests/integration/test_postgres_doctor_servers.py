"""The doctor on servers of its own: what is set, prepared, replicated, let lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from rowlock import Finding
from rowlock.stores.postgres import PostgresStore
from tests.cluster.server import Cluster
from tests.cluster.standby import standby_of
from tests.cluster_fixtures import OwnCluster
from tests.eventually import eventually

from . import crowds
from .command_line import run
from .ills import MANY_TRANSACTIONS, cure, cures, examine, ill, only
from .proxy import between

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def server(own_cluster: OwnCluster) -> Cluster:
    """A server as one is in production, whose autovacuum never gets to look."""
    server = own_cluster(
        fsync=True,
        autovacuum_naptime="86400",
        max_prepared_transactions="5",
        # What another process has written is counted at once.
        stats_fetch_consistency="none",
    )
    await PostgresStore.from_url(server.url).migrate()
    return server


@pytest.fixture
def admin(server: Cluster) -> Iterator[Connection]:
    """A superuser's connection to it, in autocommit."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        yield admin


def test_a_fresh_database_on_a_fresh_server_is_all_well(server: Cluster) -> None:
    result = run("doctor", "--database", server.url)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "All is well."
    assert "warning" not in result.stdout
    assert "wrong" not in result.stdout


@pytest.mark.parametrize(
    ("setting", "value", "severity"),
    [
        ("autovacuum", "off", "wrong"),
        ("fsync", "off", "wrong"),
        ("full_page_writes", "off", "wrong"),
        ("synchronous_commit", "off", "warning"),
        ("track_counts", "off", "wrong"),
        ("default_transaction_isolation", "serializable", "warning"),
    ],
)
async def test_it_names_a_setting_of_the_server(
    server: Cluster, admin: Connection, setting: str, value: str, severity: str
) -> None:
    admin.execute(f"ALTER SYSTEM SET {setting} = '{value}'".encode())
    await _reloaded(server, admin)

    (finding,) = ill(await examine(server.url))

    assert (finding.about, finding.severity) == ("settings", severity)
    assert finding.what.startswith(f"{setting} is {value} for the server: ")
    assert cures(finding)[-1] == "SELECT pg_reload_conf()"
    cure(admin, finding)
    await _reloaded(server, admin)
    assert ill(await examine(server.url)) == []


async def _reloaded(server: Cluster, admin: Connection) -> None:
    """Wait until new sessions have what was set: the server hears of it by a signal."""
    ((before,),) = admin.execute("SELECT clock_timestamp()").fetchall()
    admin.execute("SELECT pg_reload_conf()")

    def is_loaded() -> bool:
        with psycopg.connect(server.url) as new:
            ((loaded,),) = new.execute("SELECT pg_conf_load_time()").fetchall()
        return bool(loaded >= before)

    await eventually(is_loaded)


async def test_it_names_a_prepared_transaction_that_nobody_ends(
    server: Cluster, admin: Connection
) -> None:
    with psycopg.connect(server.url) as user:
        user.execute("CREATE TABLE orders ()")
        user.execute("PREPARE TRANSACTION 'order''s end'")
    admin.execute(MANY_TRANSACTIONS)

    finding = await only(server.url, "horizon")

    assert finding.severity == "warning"
    assert "The prepared transaction 'order''s end' (user postgres)" in finding.what
    cure(admin, finding)
    assert (await only(server.url, "horizon")).severity == "ok"


async def test_it_says_that_autovacuum_never_came(
    server: Cluster, admin: Connection
) -> None:
    crowds.add_backlog(admin, 20_000, ahead="1 hour")
    admin.execute("DELETE FROM rowlock.live WHERE id % 2 = 0")
    admin.execute("SELECT pg_stat_force_next_flush()")

    finding = await only(server.url, "autovacuum")

    assert finding.severity == "warning"
    assert "rowlock.live has about 10,000 dead rows" in finding.what
    assert "it had one never" in finding.what
    assert cures(finding)[0] == "VACUUM rowlock.live"
    cure(admin, finding)
    assert (await only(server.url, "autovacuum")).severity == "ok"


async def test_it_says_that_no_autovacuum_worker_is_free(
    own_cluster: OwnCluster,
) -> None:
    server = own_cluster(
        fsync=True,
        autovacuum_naptime="1",
        autovacuum_vacuum_cost_delay="100",
        autovacuum_vacuum_cost_limit="1",
    )
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET autovacuum_max_workers = 1")
    server.restart()
    await PostgresStore.from_url(server.url).migrate()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE TABLE large AS SELECT n FROM generate_series(1, 90000) n")
        admin.execute("DELETE FROM large")

        async def is_busy() -> Finding | None:
            found = await only(server.url, "autovacuum")
            return found if "is free" in found.what else None

        finding = await eventually(is_busy, within=60)

        assert finding.severity == "warning"
        assert "no autovacuum worker of 1 is free" in finding.what
        cure(admin, finding)
    server.restart()
    assert (await only(server.url, "autovacuum")).severity == "ok"


@pytest.fixture
def standby(server: Cluster) -> Iterator[Cluster]:
    """A hot standby of the server."""
    # Beside the server's own folder, which its user may enter.
    with standby_of(server, server.directory / "standby") as standby:
        yield standby


async def test_a_standby_is_named_and_all_that_can_be_looked_at_is(
    standby: Cluster,
) -> None:
    findings = await examine(standby.url)

    (finding,) = ill(findings)
    assert (finding.about, finding.severity) == ("standby", "wrong")
    # Where nothing can be written, each look that is made writes nothing.
    assert {each.about for each in findings} >= {"horizon", "head", "partitions"}
    with psycopg.connect(standby.url, autocommit=True) as operator:
        operator.execute(cures(finding)[-1].encode())
    assert (await only(standby.url, "standby")).severity == "ok"


async def test_a_standbys_reader_is_named_by_its_slot(
    server: Cluster, admin: Connection, standby: Cluster
) -> None:
    with closing(psycopg.connect(standby.url)) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM rowlock.jobs")
        await eventually(lambda: _slot(admin)[0])
        admin.execute(MANY_TRANSACTIONS)

        finding = await only(server.url, "horizon")

        assert finding.severity == "warning"
        assert finding.what.startswith("A standby by the replication slot copy has")
        assert "hot_standby_feedback" in (finding.cure or "")
        standby.stop("immediate")
        await eventually(lambda: not _slot(admin)[1])
    finding = await only(server.url, "horizon")
    assert finding.what.startswith("The unused replication slot copy has")
    cure(admin, finding)
    assert (await only(server.url, "horizon")).severity == "ok"


def _slot(admin: Connection) -> tuple[Any, ...]:
    (row,) = admin.execute(
        "SELECT xmin IS NOT NULL, active FROM pg_replication_slots"
    ).fetchall()
    return row


# A K, its length, the number of the process, a secret; before a Z.
PROCESS = re.compile(rb"(?s)(?<=K\0\0\0\x0c)....(?=....Z)")


def as_a_pooler(said: bytes) -> bytes:
    """Tell a number of one's own for the process that serves a connection."""
    return PROCESS.sub(b"\0\0\0\7", said)


async def test_a_pooler_without_a_direct_url_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await examine(url, "pooler") == []
    async with between(url, as_a_pooler) as proxy:
        finding = await only(proxy.url, "pooler")

        assert finding.severity == "warning"
        assert cures(finding) == ["ROWLOCK_DIRECT_URL"]
        monkeypatch.setenv("ROWLOCK_DIRECT_URL", url)
        assert await examine(proxy.url, "pooler") == []
