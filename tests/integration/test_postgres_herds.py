"""Many idle workers: they neither all run for one job, nor look in step."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowlock import App, Job, Status
from rowlock.stores.postgres import polling
from rowlock.stores.postgres.polling import Polling
from tests.cluster_fixtures import OwnCluster
from tests.conformance import on_postgres
from tests.endings import ended, finished, known, reached
from tests.eventually import eventually
from tests.leaping import LeapingLoop, counted_app, run

from .proxy import between

if TYPE_CHECKING:
    from rowlock._store import Claimed, Store

WORKERS = 40
A_SECOND = 50


class Crowd:
    """Idle workers, and when each asked for work."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []
        self.stores: list[Any] = []

    def app(self, url: str) -> App:
        app = App(url)
        app.task(name="mail")(nothing)
        crowd, store = self, app._store
        self.stores.append(store)

        class Asked:
            def __getattr__(self, name: str) -> object:
                return getattr(store, name)

            async def claim(self, *args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
                crowd.asked_at.append(time.monotonic())
                return await store.claim(*args, **options)

        app._access.store = cast("Store", Asked())
        return app

    def hear(self) -> bool:
        return all(store._database.is_hearing for store in self.stores)


@asynccontextmanager
async def idle(url: str, count: int) -> AsyncIterator[Crowd]:
    """Have so many idle workers, each in an app of its own."""
    crowd = Crowd()
    async with AsyncExitStack() as stack:
        for _ in range(count):
            app = await stack.enter_async_context(crowd.app(url))
            await stack.enter_async_context(app.worker())
        await eventually(crowd.hear, within=30)
        await asyncio.sleep(2)  # real: their first looks, and a full one after these
        crowd.asked_at.clear()
        yield crowd


@pytest.fixture
def roomy_url(own_cluster: OwnCluster) -> str:
    """The URL of a server that lets very many in."""
    server = own_cluster(max_connections="600")
    on_postgres.migrate(server.url)
    return server.url


async def test_b62_a_job_does_not_wake_every_worker(roomy_url: str, scale: int) -> None:
    """Nor has it to wait for the others' sake."""
    async with idle(roomy_url, WORKERS) as crowd, App(roomy_url) as feeder:
        mail = feeder.task(name="mail")(nothing)

        async def feed(seconds: float) -> list[int]:
            ids = []
            for _ in range(round(seconds * A_SECOND)):
                ids.append(known(await mail.enqueue()))
                await asyncio.sleep(1 / A_SECOND)  # real: as fast as they come
            return ids

        # Until they know that there are many of them.
        await feed(1)
        crowd.asked_at.clear()
        jobs = await finished(feeder, await feed(2 * scale))

        # Seven where the machine is calm, as many more as it is late; else all forty.
        assert len(crowd.asked_at) / len(jobs) <= WORKERS / 3
        waits = sorted(waited(job) for job in jobs)
        assert waits[len(waits) // 2] < 0.1
        assert waits[-1] < 2


async def test_one_that_finds_nothing_for_others_sake_works_when_they_are_busy(
    url: str,
) -> None:
    """The quick one has no room; the slow one is there in less than a second."""
    gate = asyncio.Event()
    apps = [App(url), App(url)]

    async def wait(number: int) -> int:
        await gate.wait()
        return number

    for app in apps:
        app.task(name="wait")(wait)
        app.task(name="mail")(nothing)
    async with App(url) as feeder, apps[0], apps[1]:
        mail = feeder.task(name="mail")(nothing)
        wait_task = feeder.task(name="wait")(wait)
        async with apps[0].worker(concurrency=1), apps[1].worker(concurrency=1):
            for _ in range(20):
                await ended(feeder, await mail.enqueue())
            held = await wait_task.enqueue(number=1)
            await reached(feeder, held, Status.RUNNING)
            # Real: a second after a short look comes a full one.
            await asyncio.sleep(1.5)

            assert waited(await ended(feeder, await mail.enqueue())) < 1
            gate.set()


def test_b61_workers_that_were_woken_together_do_not_look_in_step(
    roomy_url: str,
) -> None:
    """In the two minutes after a resume, which is told to all at once."""
    count = 30
    looked_at: list[float] = []

    async def look(loop: LeapingLoop) -> None:
        stores = []
        async with AsyncExitStack() as stack:
            for _ in range(count):
                app, store = counted_app(roomy_url, loop)
                app.task(name="mail")(nothing)
                await stack.enter_async_context(app)
                await stack.enter_async_context(app.worker())
                stores.append(store)
            await asyncio.sleep(2)  # real: their threads connect, listen and tell
            await app.resume(queue="default")
            await asyncio.sleep(1)  # real: all hear of it, and look
            since = loop.time()
            loop.leaps = True
            await asyncio.sleep(120)  # leapt over
            loop.leaps = False
        looked_at.extend(
            at for store in stores for at in store.called_at["claim"] if at > since
        )

    run(look)

    assert len(looked_at) > 3 * count
    assert most_at_once(looked_at) <= count / 4


def test_b61_polls_that_began_together_do_not_stay_in_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "CHANCE", random.Random(61))
    polled_at: list[float] = []
    for _ in range(count := 30):
        sleeper, at = Polling(), 0.0
        while at < 120:
            at += sleeper.pause(0).total_seconds()
            sleeper.slept()
            polled_at.append(at)

    assert len(polled_at) > 6 * count
    assert most_at_once(polled_at) <= count / 4


async def test_b61_after_an_outage_they_do_not_come_back_in_one_instant(
    url: str, scale: int
) -> None:
    away_s = 3.0 if scale == 1 else 20.0
    count = 12
    async with between(url) as proxy, idle(proxy.url, count) as crowd:
        proxy.refuse()
        refused_at = asyncio.get_running_loop().time()
        await asyncio.sleep(away_s)  # real: the outage
        tries = [at for at in proxy.connected if at > refused_at + 1]
        crowd.asked_at.clear()
        proxy.accept()
        await eventually(lambda: len(crowd.asked_at) >= count, within=15)
        back_at = sorted(crowd.asked_at)[:count]

        # Of each worker three loops and a thread.
        assert most_at_once(tries) <= count
        assert most_at_once(back_at) <= count / 3
        assert back_at[-1] - back_at[0] > min(away_s, 5) / 4
        await eventually(crowd.hear, within=15)


def most_at_once(instants: Iterable[float]) -> int:
    """Count the most that fall into one twentieth of a second."""
    return max(Counter(int(at / 0.05) for at in instants).values())


def waited(job: Job) -> float:
    assert job.started_at is not None
    return (job.started_at - job.run_at).total_seconds()


async def nothing() -> None:
    """Do nothing."""
