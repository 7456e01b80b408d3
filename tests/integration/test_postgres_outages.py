"""The server stops, freezes, or another one takes its place: workers go on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from rowlock import App, Job, Retention, Status, StoreUnavailable
from rowlock.stores.postgres import PostgresStore
from tests.cluster.server import Cluster
from tests.cluster.standby import standby_of
from tests.cluster_fixtures import OwnCluster, Pooler
from tests.endings import ended, finished
from tests.eventually import eventually
from tests.journal import Journal
from tests.workers import WorkerProcess, Workers

from .command_line import Command
from .postgres_given import job, opened
from .test_goodbyes import SHOP

STOP_S = 2.0


@pytest.fixture
async def server(own_cluster: OwnCluster) -> Cluster:
    """A server of this test's own."""
    server = own_cluster(synchronous_standby_names="", max_connections="300")
    await PostgresStore.from_url(server.url).migrate()
    return server


@pytest.fixture
def crew(server: Cluster, journal: Journal) -> Iterator[Workers]:
    """Worker processes on it, none of which may end by itself."""
    crew = Workers(server.url, journal.folder)
    yield crew
    crew.close()


@pytest.fixture
async def feeder(server: Cluster) -> AsyncIterator[App]:
    """Who enqueues what they run."""
    async with feeding(server.url) as app:
        yield app


def feeding(url: str) -> App:
    app = App(url)
    for name in ("nap", "gated"):
        app.task(name=name)(nap)
    return app


async def nap(seconds: float) -> None:
    """Is run elsewhere."""


async def fed(app: App, queue: str, count: int, seconds: float = 0.3) -> list[int]:
    nap = app.tasks["nap"].options(queue=queue)
    ids = await app.enqueue_many(nap.job(seconds=seconds) for _ in range(count))
    return [job_id for job_id in ids if job_id is not None]


async def test_a_server_that_stops_idle_and_busy_costs_no_process_and_no_job(
    server: Cluster, crew: Workers, feeder: App, scale: int
) -> None:
    names = ["idle", "busy", "hasty", "leaving"]
    _, busy, hasty, leaving = processes = [await join(crew, name) for name in names]
    busy_ids = await fed(feeder, "busy", 40)
    hasty_ids = await fed(feeder, "hasty", 40)
    await fed(feeder, "leaving", 5, seconds=60)
    for process in (busy, hasty, leaving):
        await crew.until("started", process=process.name, count=5)

    async with outage(server, 15.0 if scale > 1 else 5.0):
        # The other has no room, and so nothing to ask for.
        await crew.until("store.unavailable", process=busy.name)
        told_at = time.monotonic()
        # The code tells that it left something to its leases.
        assert await asyncio.to_thread(leaving.stop) == 1
        assert time.monotonic() - told_at < STOP_S + 5

    jobs = await finished(feeder, busy_ids, within=60)
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    # Their outcomes were written when there was somebody to write them to.
    assert starts(crew, busy.name) == dict.fromkeys(busy_ids, 1)
    assert {(job.failures, job.losses) for job in jobs} == {(0, 0)}
    jobs = await finished(feeder, hasty_ids, within=60)
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert set(starts(crew, hasty.name)) == set(hasty_ids)
    # Given up, and recovered: each start but the last one is a loss that is told.
    assert [job.attempts for job in jobs] == [job.losses + 1 for job in jobs]
    await ended(feeder, (await fed(feeder, "idle", 1))[0])
    for process in processes[:3]:
        assert not process.has_died()
        assert len(crew.records("worker.started", process=process.name)) == 1
        assert len(crew.records("store.recovered", process=process.name)) >= 1


async def join(crew: Workers, name: str) -> WorkerProcess:
    """Start a worker of the queue of its name; the hasty one's leases are short."""
    lease = 1 if name == "hasty" else 60
    return await crew.start(
        "gated", name, queues=[name], lease=lease, shutdown_timeout=STOP_S
    )


@asynccontextmanager
async def outage(server: Cluster, seconds: float) -> AsyncIterator[None]:
    """Have a server crash, and be away for so long."""
    await asyncio.to_thread(server.stop, "immediate")
    until = time.monotonic() + seconds
    yield
    await asyncio.sleep(max(until - time.monotonic(), 0))  # real: the outage
    await asyncio.to_thread(server.start)


def starts(crew: Workers, process: str) -> dict[int, int]:
    """Count by job how often a process began it."""
    records = crew.records("started", process=process)
    return dict(Counter(record.of["job_id"] for record in records))


async def test_b67_a_worker_of_a_frozen_server_ends_in_its_time(
    server: Cluster,
    folder: Path,
    start: type[Command],
    monkeypatch: pytest.MonkeyPatch,
    feeder: App,
) -> None:
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", server.url)
    worker = start("worker", "shop:app", "--shutdown-timeout", str(STOP_S))
    await fed(feeder, "default", 20, seconds=0.5)
    await eventually(lambda: worker.output.count("began ") >= 5, within=20)

    server.pause()
    try:
        told_at = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.ends) == 1
        assert time.monotonic() - told_at < STOP_S + 5
    finally:
        server.resume()


async def test_b67_a_close_waits_for_a_frozen_server_ten_seconds(
    server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = 1.0
    for module in ("pool", "home"):
        monkeypatch.setattr(f"rowlock.stores.postgres.{module}.PATIENCE", patience)
    # So the second enqueue is still to be told of.
    monkeypatch.setattr("rowlock.stores.postgres.notify.QUIET", 3600.0)
    async with opened(server.url) as store:
        wakeups = store.wakeups()
        await store.enqueue([job()])
        store._database.listen()
        await eventually(lambda: store._database.is_hearing)
        await store.enqueue([job()])
        server.pause()
        try:
            calls = [asyncio.create_task(store.enqueue([job()])) for _ in range(20)]
            await asyncio.sleep(0.1)  # real: they are under way
            began_at = time.monotonic()
            wakeups.close()
            await store.close()
            assert time.monotonic() - began_at < 2 * patience + 3
        finally:
            server.resume()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_server_that_takes_the_place_of_another_has_every_committed_job(
    own_cluster: OwnCluster, journal: Journal
) -> None:
    """By synchronous replication: what the other kind may lose, nobody can know."""
    first = own_cluster(synchronous_standby_names="*", max_connections="300")
    with psycopg.connect(first.url, autocommit=True) as own:
        own.execute("ALTER SYSTEM SET synchronous_commit = local")
        own.execute("SELECT pg_reload_conf()")
    await PostgresStore.from_url(first.url).migrate()
    with standby_of(first, first.directory / "standby") as second:
        with psycopg.connect(first.url, autocommit=True) as own:
            own.execute("ALTER SYSTEM RESET synchronous_commit")
            own.execute("SELECT pg_reload_conf()")
        crew = Workers(both(first, second), journal.folder)
        try:
            await fail_over(first, second, crew)
        finally:
            crew.close()


@pytest.mark.parametrize("through", ["nothing", "a pooler"])
async def test_a_server_that_does_not_write_yet_is_an_outage(
    own_cluster: OwnCluster, pooler: Pooler, through: str
) -> None:
    """A name, a pooler or a balancer leads to the standby before it is promoted."""
    first = own_cluster()
    await PostgresStore.from_url(first.url).migrate()
    with standby_of(first, first.directory / "standby") as second:
        url = second.url if through == "nothing" else pooler(second.url)
        async with opened(url) as store:
            await store.stats()
            for call in (
                store.enqueue([job()]),
                store.enqueue([job(), job(idempotency_key="k")]),
                store.prune(Retention(), limit=10),
            ):
                with pytest.raises(StoreUnavailable, match="only reads"):
                    await call
            with psycopg.connect(second.url, autocommit=True) as own:
                own.execute("SELECT pg_promote()")

            assert None not in await store.enqueue([job()])


def both(first: Cluster, second: Cluster) -> str:
    """Name two servers in one URL, of which one takes writes."""
    login = first.url.partition("@")[0]
    hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
    return f"{login}@{hosts}/postgres?target_session_attrs=read-write"


async def fail_over(first: Cluster, second: Cluster, crew: Workers) -> None:
    url = both(first, second)
    # As slowly as they come, so that it happens in the midst of them.
    worker = await crew.start("gated", lease=60)
    async with feeding(url) as feeder:
        committed = await fed(feeder, "default", 30, seconds=0.2)
        await crew.until("started", count=10)
        enqueueing = asyncio.create_task(enqueue_until_refused(feeder))
        await asyncio.sleep(0.3)  # real: some jobs' worth
        await asyncio.to_thread(first.stop, "immediate")
        committed += await enqueueing
        with psycopg.connect(second.url, autocommit=True) as own:
            own.execute("SELECT pg_promote()")

        jobs = await finished(feeder, committed, within=60)

        assert {job.status for job in jobs} == {Status.SUCCEEDED}
        assert len(committed) > 40
        assert max(Counter(started(crew)).values()) == 1
        assert not worker.has_died()
        assert len(crew.records("worker.started")) == 1
        await hears_at_once(feeder, second)


def started(crew: Workers) -> list[int]:
    return [record.of["job_id"] for record in crew.records("started")]


async def enqueue_until_refused(feeder: App) -> list[int]:
    """Enqueue one by one; the ids of those that were committed."""
    ids: list[int] = []
    while True:
        try:
            ids += await fed(feeder, "default", 1, seconds=0.01)
        except Exception:  # noqa: BLE001 - whatever an outage is to who enqueues
            return ids


async def hears_at_once(feeder: App, second: Cluster) -> None:
    """See that a worker is told of news by the server that is left."""

    def is_heard() -> bool:
        with psycopg.connect(second.url, autocommit=True) as own:
            found = own.execute(
                "SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            ).fetchall()
        return found != []

    await eventually(is_heard, within=20)
    waits = []
    for _ in range(5):
        (job_id,) = await fed(feeder, "default", 1, seconds=0)
        waits.append(waited(await ended(feeder, job_id)))
    assert max(waits) < 1


def waited(job: Job) -> float:
    assert job.started_at is not None
    return (job.started_at - job.run_at).total_seconds()
