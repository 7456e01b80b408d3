"""A pace: slots for very many jobs, given out from the last to the first."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import cast

import pytest

from rowlock import UsageError
from rowlock._pace import HANDING_OVER, UNSURE, Pace, check_pace, step_of

SECOND = timedelta(seconds=1)


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """This machine's clock: the one number in it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.usefixtures("monotonic")
def test_the_last_slots_are_taken_first() -> None:
    pace = Pace(5, 2 * SECOND, 10 * SECOND)

    assert pace.take(2) == 16 * SECOND
    assert pace.take(2) == 12 * SECOND - UNSURE
    assert pace.take(1) == 10 * SECOND - 2 * UNSURE


def test_slots_stay_where_they_were_in_time(monotonic: list[float]) -> None:
    pace = Pace(5, 2 * SECOND, 10 * SECOND)

    monotonic[0] += 100  # nothing is given out yet
    assert pace.take(2) == 16 * SECOND
    monotonic[0] += 3
    assert pace.take(2) == 9 * SECOND - UNSURE


def test_what_is_handed_over_too_late_follows_behind_the_last(
    monotonic: list[float],
) -> None:
    pace = Pace(6, 2 * SECOND, 0 * SECOND)

    assert pace.take(2) == 8 * SECOND  # until 12
    monotonic[0] += 5
    assert pace.take(2) == 12 * SECOND + UNSURE - 5 * SECOND  # 4 is over: until 16
    assert pace.take(2) == 16 * SECOND + 2 * UNSURE - 5 * SECOND


def test_the_first_are_later_by_the_time_that_handing_over_takes(
    monotonic: list[float],
) -> None:
    pace = Pace(9000, SECOND, 0 * SECOND)

    assert pace.take(1000, of=9000) == 8000 * SECOND + 8 * (HANDING_OVER + UNSURE)
    monotonic[0] += 1
    assert pace.take(8000, of=9000) == 8 * HANDING_OVER + 7 * UNSURE - SECOND


@pytest.mark.usefixtures("monotonic")
def test_without_a_pace_all_are_due_at_once() -> None:
    pace = Pace(9000, 0 * SECOND, 5 * SECOND)

    assert [pace.take(1000, of=9000) for _ in range(9)] == [5 * SECOND] * 9


@pytest.mark.parametrize(
    ("rate", "spread", "count", "step"),
    [
        (50, None, 1000, SECOND / 50),
        (0.5, None, 3, 2 * SECOND),
        (None, 3600 * SECOND, 1800, 2 * SECOND),
        (None, 0 * SECOND, 10, 0 * SECOND),
        (None, 60 * SECOND, 0, 60 * SECOND),
    ],
)
def test_jobs_are_so_far_apart(
    rate: float | None, spread: timedelta | None, count: int, step: timedelta
) -> None:
    assert step_of(rate, spread, count) == step


@pytest.mark.parametrize(
    "rate", [0, -1, float("inf"), float("nan"), "50", True, 1 + 2j]
)
def test_what_is_no_rate_is_refused(rate: object) -> None:
    with pytest.raises(UsageError, match="a number of jobs a second above zero"):
        check_pace(cast("float", rate), None)


def test_a_rate_and_a_spread_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="either rate= or spread="):
        check_pace(1, 60)
    with pytest.raises(UsageError, match="spread= can't be negative"):
        check_pace(None, -1)


def test_a_rate_by_which_nobody_lives_to_see_the_last_is_refused() -> None:
    with pytest.raises(UsageError, match="more than a century"):
        Pace(10_000, step_of(1e-6, None, 10_000), 0 * SECOND)
    with pytest.raises(UsageError, match="more than a century"):
        Pace(2, step_of(5e-324, None, 2), 0 * SECOND)
    with pytest.raises(UsageError, match="the last of 200,000 jobs"):
        Pace(200_000, step_of(1e-10, None, 200_000), 0 * SECOND)
