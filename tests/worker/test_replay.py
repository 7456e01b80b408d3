"""Dead letters that are replayed while a probe passes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from rowlock import App, Filter, Status, Unrecoverable
from rowlock._worker import probe as probing
from rowlock.events import Event, JobsReplayed, ReplayProbed
from rowlock.testing import FakeClock
from tests.endings import ended, jobs_of, known, reached
from tests.eventually import eventually
from tests.holding import Hold
from tests.journal import Gate, Journal
from tests.programs.probed import EVERY_S
from tests.workers import Workers

FAILED = Filter(status=Status.FAILED)


class Shop:
    """An app with one task that fails while its provider is down."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.is_up = False
        self.sent: list[int] = []
        self.told: list[Event] = []
        app.listen(self.told.append)

        @app.task(max_attempts=1)
        async def send(number: int) -> None:
            self.sent.append(number)
            if number < 0:
                raise Unrecoverable(f"no {number}")  # noqa: EM102, TRY003 - its reason
            if not self.is_up:
                msg = f"refused {number}"
                raise ConnectionError(msg)

        self.send = send

    async def die(self, *numbers: int) -> list[int]:
        """Have jobs die; their ids."""
        ids = [known(await self.send.enqueue(number)) for number in numbers]
        async with self.app.worker():
            for job_id in ids:
                await reached(self.app, job_id, Status.FAILED)
        self.told.clear()
        return ids

    def probed(self) -> list[ReplayProbed]:
        return [event for event in self.told if isinstance(event, ReplayProbed)]

    async def asked(self, count: int) -> list[ReplayProbed]:
        """Wait until the probe was asked so often; what it said."""
        await eventually(lambda: len(self.probed()) >= count, what=f"{count} probes")
        return self.probed()


@pytest.fixture
def shop(app: App) -> Shop:
    """The shop of this test, whose time stands still."""
    return Shop(app)


async def test_dead_letters_go_back_when_the_probe_passes(
    shop: Shop, clock: FakeClock
) -> None:
    ids = await shop.die(1, 2, 3)
    shop.app.replay_when("send", lambda: shop.is_up, every=1)

    async with shop.app.worker():
        (first,) = await shop.asked(1)
        assert (first.task, first.passed, first.replayed) == ("send", False, 0)
        assert len((await shop.app.list(FAILED)).jobs) == 3
        shop.is_up = True
        clock.advance(1)
        second = (await shop.asked(2))[1]
        assert (second.passed, second.replayed, second.error) == (True, 3, None)
        clock.advance(1)  # until the last of them is due
        jobs = [await ended(shop.app, job_id) for job_id in ids]

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    acts = [job.errors[-1]["by"] for job in jobs]
    assert acts == ["probe of send (1 of 2)"] * 3
    assert [e for e in shop.told if isinstance(e, JobsReplayed)] == [
        JobsReplayed(by="probe of send", ids=tuple(ids))
    ]


async def test_they_are_due_at_the_rate_and_no_more_than_the_limit(
    shop: Shop, clock: FakeClock
) -> None:
    ids = await shop.die(1, 2, 3)
    shop.is_up = True
    shop.app.replay_when(shop.send, lambda: True, every=1, limit=2, rate=0.1)

    async with shop.app.worker():
        (probed,) = await shop.asked(1)
        assert probed.replayed == 2
        jobs = await jobs_of(shop.app, ids)
        await ended(shop.app, ids[0])

    assert [(job.run_at - clock.now()).total_seconds() for job in jobs[:2]] == [0, 10]
    assert jobs[2].status is Status.FAILED


async def test_a_job_goes_back_twice_at_most(shop: Shop, clock: FakeClock) -> None:
    (job_id,) = await shop.die(7)
    shop.app.replay_when("send", lambda: True, every=1)

    async with shop.app.worker():
        for turn in range(1, 5):
            await shop.asked(turn)
            await reached(shop.app, job_id, Status.FAILED)
            clock.advance(1)

    assert [event.replayed for event in shop.probed()[:4]] == [1, 1, 0, 0]
    assert shop.sent == [7, 7, 7]


async def test_what_its_handler_gave_up_for_good_stays(shop: Shop) -> None:
    ids = await shop.die(-1, 1)
    shop.is_up = True
    shop.app.replay_when("send", lambda: True, every=1)

    async with shop.app.worker():
        assert (await shop.asked(1))[0].replayed == 1
        await ended(shop.app, ids[1])

    assert (await shop.app.get(ids[0])).status is Status.FAILED


async def test_of_two_workers_one_asks_in_each_turn(
    shop: Shop, clock: FakeClock, database_url: str
) -> None:
    asked: list[str] = []
    async with App(database_url, clock=clock) as other_app:
        other = Shop(other_app)
        for each, name in ((shop, "one"), (other, "other")):
            each.app.replay_when("send", partial(asked.append, name), every=1)
        async with shop.app.worker(), other.app.worker():
            for turn in range(1, 4):
                await eventually(partial(has, asked, turn))
                # Both workers look again after a second of their own time.
                await asyncio.sleep(1.3)
                assert len(asked) == turn
                clock.advance(1)


def has(asked: list[str], count: int) -> bool:
    return len(asked) >= count


async def test_the_turn_of_a_worker_that_was_killed_is_anothers(
    workers: Workers, journal: Journal
) -> None:
    first = await workers.start("probed", "first")
    await workers.until("probed", process=first.name)
    second = await workers.start("probed", "second")
    Gate(journal.folder, "second-probe").open()
    first.kill()

    await workers.until("replay.probed", process=second.name, within=EVERY_S * 1.05 + 8)

    (killed,) = workers.records("probed", process=first.name)
    came = workers.records("probed", process=second.name)[0]
    assert came.at - killed.at >= EVERY_S * 0.95


# What probes do


@asynccontextmanager
async def working(shop: Shop, probe: Callable[[], object]) -> AsyncIterator[Shop]:
    """Have a worker ask this probe."""
    shop.app.replay_when("send", probe, every=1)
    async with shop.app.worker():
        yield shop


async def test_a_probe_that_raises_does_not_pass_and_is_told_on_one_line(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def probe() -> bool:
        msg = "the provider\nis down"
        raise ConnectionError(msg)

    caplog.set_level(logging.INFO, "rowlock.worker")
    (job_id,) = await shop.die(1)
    async with working(shop, probe):
        (probed,) = await shop.asked(1)

    assert (probed.passed, probed.error) == (
        False,
        "ConnectionError: the provider is down",
    )
    assert (await shop.app.get(job_id)).status is Status.FAILED
    (line,) = [r for r in caplog.messages if r.startswith("replay.probed")]
    assert "\n" not in line
    (rule,) = await shop.app._store.dead_letters.rules()
    assert (rule.passed, rule.error, rule.replayed) == (False, probed.error, 0)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_no_probe_ends_its_worker(
    shop: Shop, error: BaseException, kind: str, clock: FakeClock
) -> None:
    def plain() -> bool:
        raise error

    async def waited() -> bool:
        raise error

    async with working(shop, plain if kind == "plain" else waited):
        await shop.asked(1)
        clock.advance(1)
        assert [each.passed for each in await shop.asked(2)] == [False, False]


async def test_an_async_probe_is_awaited(shop: Shop) -> None:
    class Probe:
        async def __call__(self) -> bool:
            await asyncio.sleep(0)
            return True

    async with working(shop, Probe()):
        assert (await shop.asked(1))[0].passed


async def test_a_coroutine_that_nobody_awaits_passes_for_no_answer(shop: Shop) -> None:
    async def probe() -> bool:
        return True

    async with working(shop, lambda: probe()):  # noqa: PLW0108 - it hides that it is async
        (probed,) = await shop.asked(1)

    assert not probed.passed
    assert "`async def`" in (probed.error or "")


async def test_a_probe_that_hangs_does_not_pass_and_holds_nothing_up(
    shop: Shop, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "TIMEOUT_S", 0.1)
    free, calls = threading.Event(), []

    def probe() -> bool:
        calls.append(1)
        return free.wait()

    async with working(shop, probe):
        assert (await shop.asked(1))[0].error == "the probe took longer than 0.1 s"
        clock.advance(1)
        second = (await shop.asked(2))[1]
        assert second.error == "the probe before this one still runs"
        free.set()
        clock.advance(1)
        assert (await shop.asked(3))[2].passed

    assert len(calls) == 2


async def test_a_worker_stops_though_a_probe_refuses_to(shop: Shop) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def probe() -> bool:
        begun.set()
        try:
            await free.wait()
        except asyncio.CancelledError:
            await free.wait()
        return True

    async with asyncio.timeout(5):
        async with working(shop, probe):
            await begun.wait()
    free.set()

    assert shop.probed() == []


async def test_an_outage_is_outlasted(
    shop: Shop,
    clock: FakeClock,
    hold_writes: Hold,
) -> None:
    asked = 0

    def probe() -> None:
        nonlocal asked
        asked += 1

    async with working(shop, probe):
        await shop.asked(1)
        async with hold_writes():
            clock.advance(1)
            # Longer than the store's patience of a second, after the pause of one.
            await asyncio.sleep(2.5)
            assert asked == 1
        await shop.asked(2)
