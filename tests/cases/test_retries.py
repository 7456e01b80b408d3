"""Cases of the kind *retry counting*: how often a job runs."""

from __future__ import annotations

import pytest

from rowlock import App, Status, UsageError, current_attempt
from tests.endings import finished


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
