"""Cases of the kind *retry counting*: how often a job runs, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rowlock import App, Retry, Snooze, Status, Task, UsageError, current_attempt
from rowlock.testing import FakeClock
from tests.endings import finished, rested

Declare: TypeAlias = Callable[[App, float | None], Task[[], Any]]


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
async def test_b19_a_job_that_always_fails_runs_max_attempts_times(
    app: App, max_attempts: int
) -> None:
    numbers: list[int] = []

    @app.task(max_attempts=max_attempts, backoff=0)
    async def fail() -> None:
        numbers.append(current_attempt().number)
        raise ValueError

    async with app.worker():
        (job,) = await finished(app, [await fail.enqueue()])

    assert numbers == list(range(1, max_attempts + 1))
    assert (job.status, job.attempts, job.failures) == (
        Status.FAILED,
        max_attempts,
        max_attempts,
    )


@pytest.mark.parametrize("max_attempts", [0, -1])
def test_b19_a_limit_below_one_is_refused_where_it_is_declared(
    max_attempts: int,
) -> None:
    app = App("sqlite://")

    @app.task
    async def step() -> None: ...

    with pytest.raises(
        UsageError, match="max_attempts= is a whole number of 1 or more"
    ):
        app.task(max_attempts=max_attempts)
    with pytest.raises(
        UsageError, match="options\\(max_attempts=\\) is a whole number"
    ):
        step.options(max_attempts=max_attempts)
    with pytest.raises(
        UsageError, match="max_attempts= is a whole number of 1 or more"
    ):
        App("sqlite://", max_attempts=max_attempts)


async def test_b21_after_30_snoozes_a_failure_is_the_first(
    still_app: App, clock: FakeClock
) -> None:
    snoozes = 30

    @still_app.task(max_attempts=3)
    async def put_off() -> None:
        if current_attempt().number <= snoozes:
            raise Snooze(60)
        raise ValueError

    job_id = await put_off.enqueue()
    async with still_app.worker():
        for number in range(1, snoozes + 1):
            job = await rested(still_app, job_id, after=number)
            assert job.run_at == clock.now() + timedelta(seconds=60)
            clock.advance(60)
        job = await rested(still_app, job_id, after=snoozes + 1)

    assert (job.status, job.failures) == (Status.PENDING, 1)
    first_delay = job.run_at - clock.now()
    assert timedelta(seconds=1) <= first_delay <= timedelta(seconds=1.1)


def by_decorator(app: App, delay: float | None) -> Task[[], Any]:
    @app.task(backoff=delay)
    async def fail_as_declared() -> None:
        raise ValueError

    return fail_as_declared


def by_option(app: App, delay: float | None) -> Task[[], Any]:
    @app.task
    async def fail() -> None:
        raise ValueError

    return fail.options(backoff=delay)


def by_signal(app: App, delay: float | None) -> Task[[], Any]:
    @app.task
    async def ask() -> None:
        raise Retry(delay=delay)

    return ask


@pytest.mark.parametrize("declare", [by_decorator, by_option, by_signal])
@pytest.mark.parametrize(("delay", "planned"), [(0.2, 0.2), (None, 1)])
async def test_b22_a_fraction_of_a_second_is_kept_and_none_is_the_default(
    still_app: App,
    clock: FakeClock,
    declare: Declare,
    delay: float | None,
    planned: float,
) -> None:
    job_id = await declare(still_app, delay).enqueue()
    async with still_app.worker():
        job = await rested(still_app, job_id)

    delayed = job.run_at - clock.now()
    assert timedelta(seconds=planned) <= delayed <= timedelta(seconds=planned * 1.1)


@pytest.mark.parametrize("declare", [by_decorator, by_option, by_signal])
async def test_b22_no_delay_is_an_immediate_retry(
    still_app: App, declare: Declare
) -> None:
    job_id = await declare(still_app, 0).enqueue()

    # Time stands still: what isn't due at once is never tried again.
    async with still_app.worker():
        (job,) = await finished(still_app, [job_id], within=2)

    assert (job.status, job.attempts) == (Status.FAILED, 3)
