"""What a worker says of itself when it is asked how it is."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rowlock import App, Health, OutcomeUnknown, StoreUnavailable
from rowlock._worker.fetch import LONGEST_TURN_S
from rowlock._worker.health import Signs, judge
from tests.endings import ended
from tests.eventually import eventually
from tests.holding import Hold

WELL = Signs(
    worker="w-1",
    max_stuck=20,
    concurrency=5,
    lease_s=300,
    is_renewing=True,
    is_started=True,
)


def signs(**ills: float | bool) -> Signs:
    return Signs(**{**{f: getattr(WELL, f) for f in WELL.__slots__}, **ills})


async def test_a_worker_that_works_is_healthy_and_ready(app: App) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    worker = app.worker(concurrency=3)
    before = worker.health()
    async with worker:
        job_id = await wait.enqueue()
        await eventually(lambda: worker.health().running == 1)
        during = worker.health()
        worker.stop()
        draining = worker.health()
        gate.set()
        await ended(app, job_id)

    assert (before.healthy, before.ready) == (True, False)
    assert (during.healthy, during.ready, during.reasons) == (True, True, ())
    assert (during.worker, during.running, during.concurrency) == (worker.id, 1, 3)
    assert (draining.healthy, draining.ready) == (True, False)
    assert draining.reasons == ("it is stopping",)


async def test_a_handler_that_blocks_the_loop_is_seen_from_another_thread(
    app: App,
) -> None:
    seen: list[Health] = []

    @app.task
    async def block() -> None:
        time.sleep(1.2)  # noqa: ASYNC251 - blocks the loop, which is what is tested

    async with app.worker() as worker:

        def look() -> None:
            time.sleep(1.0)  # until the loop has been blocked for a while
            seen.append(worker.health())

        looking = threading.Thread(target=look)
        looking.start()
        await ended(app, await block.enqueue())
        looking.join()

    (health,) = seen
    assert health.loop_blocked_s > 0.2
    assert health.healthy


async def test_a_worker_whose_store_is_away_isnt_ready_and_then_not_healthy(
    app: App, hold_writes: Hold
) -> None:
    @app.task
    async def greet() -> None: ...

    async with app.worker(lease=1.5) as worker:
        await eventually(lambda: worker.health().ready)
        async with hold_writes():
            await eventually(lambda: not worker.health().ready, within=20)
            assert worker.health().healthy
            await eventually(lambda: not worker.health().healthy, within=20)
            (reason,) = worker.health().reasons
            assert reason.startswith("the store has been out of reach for ")
            assert reason.endswith(", longer than the lease of 1.5 s")
        await eventually(lambda: worker.health().ready, within=20)


@pytest.mark.parametrize(
    ("ills", "reason"),
    [
        ({"loop_blocked_s": 30.4}, "a handler has blocked the event loop for 30 s"),
        ({"stuck": 21}, "21 handlers can't be stopped, and 20 may be (max_stuck)"),
        (
            {"store_away_s": 301.0},
            "the store has been out of reach for 301 s, longer than the lease of 300 s",
        ),
        ({"fetch_late_s": 3.0}, "it should have looked for jobs 3 s ago"),
        ({"is_renewing": False}, "its leases aren't renewed any more"),
    ],
)
def test_each_ill_has_its_reason(ills: dict[str, float | bool], reason: str) -> None:
    health = judge(signs(**ills))

    assert (health.healthy, health.ready) == (False, False)
    assert health.reasons == (reason,)


@pytest.mark.parametrize(
    ("waits", "reason"),
    [
        ({"is_started": False, "is_renewing": False}, "it hasn't started yet"),
        ({"is_stopping": True}, "it is stopping"),
        ({"store_away_s": 3.0}, "the store has been out of reach for 3 s"),
    ],
)
def test_what_passes_by_itself_is_no_ill(
    waits: dict[str, float | bool], reason: str
) -> None:
    health = judge(signs(**waits))

    assert (health.healthy, health.ready) == (True, False)
    assert health.reasons == (reason,)


@pytest.mark.parametrize(
    "borne", [{"loop_blocked_s": 29.0}, {"stuck": 20}, {"running": 5}]
)
def test_what_is_borne_is_no_reason(borne: dict[str, float | bool]) -> None:
    health = judge(signs(**borne))

    assert (health.healthy, health.ready, health.reasons) == (True, True, ())


async def test_a_fetch_loop_that_waits_for_a_store_that_is_away_is_not_late(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def greet() -> None: ...

    asked = asyncio.Event()

    async def claim(*_: object, **__: object) -> None:
        raise OutcomeUnknown

    async def lost(*_: object, **__: object) -> None:
        asked.set()
        raise StoreUnavailable

    async with app.worker(shutdown_timeout=0.1) as worker:
        monkeypatch.setattr(app._store, "claim", claim)
        monkeypatch.setattr(app._store, "lost", lost)
        monkeypatch.setattr("rowlock._worker.fetch.LONGEST_TURN_S", 0.1)
        await greet.enqueue()
        await asked.wait()
        await asyncio.sleep(0.3)  # until its turn would be overdue

        assert worker.health().healthy


async def test_a_fetch_loop_that_hangs_in_a_claim_is_late(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def greet() -> None: ...

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(app._store, "claim", hang)
    monkeypatch.setattr("rowlock._worker.fetch.LONGEST_TURN_S", 0.1)
    assert LONGEST_TURN_S == 60
    worker = app.worker(shutdown_timeout=0.1)
    async with worker:
        await eventually(lambda: not worker.health().healthy)
        (reason,) = worker.health().reasons
        assert reason.startswith("it should have looked for jobs ")
