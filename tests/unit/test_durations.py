"""Durations and instants are refused at the door, with the name of the argument."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowlock._durations import LONGEST, to_delay, to_instant
from rowlock._errors import UsageError


def repr_in_short(value: object) -> str:
    """Name a case; a number of 400 digits would fill the screen."""
    return repr(value)[:20]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(0, 0), (0.0, 0), (0.2, 0.2), (90, 90), (timedelta(minutes=2), 120)],
)
def test_a_delay_is_seconds_or_a_timedelta(
    given: float | timedelta, seconds: float
) -> None:
    assert to_delay(given, "delay=") == timedelta(seconds=seconds)


def test_the_longest_delay_is_a_century_and_still_a_valid_date() -> None:
    assert to_delay(LONGEST, "delay=") == LONGEST
    assert datetime(2026, 1, 1, tzinfo=UTC) + LONGEST > datetime(2125, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (-1, "can't be negative; it was -1 s"),
        (timedelta(microseconds=-1), "can't be negative"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (LONGEST + timedelta(seconds=1), "century"),
        (10**400, "finite"),
        (-(10**400), "finite"),
        (True, "not True"),
        ("5", "not '5'"),
        (None, "not None"),
    ],
    ids=repr_in_short,
)
def test_a_delay_that_makes_no_sense_is_refused_by_name(
    given: object, why: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        to_delay(given, "delay=")  # type: ignore[arg-type]  # the point of the test

    assert str(refusal.value).startswith("delay= ")
    assert why in str(refusal.value)


def test_an_instant_is_read_as_utc() -> None:
    given = datetime(2026, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))

    read = to_instant(given, "run_at=")

    assert read == given
    assert read.tzinfo is UTC
    assert read.hour == 7


def test_a_naive_instant_is_refused_and_told_what_to_write() -> None:
    naive = datetime(2026, 3, 1, 9, 30)  # noqa: DTZ001 - the point of the test

    with pytest.raises(UsageError, match=r"run_at= .*no time zone.*now\(UTC\)"):
        to_instant(naive, "run_at=")


@pytest.mark.parametrize("given", [0, "2026-03-01", None])
def test_what_is_no_datetime_is_no_instant(given: object) -> None:
    with pytest.raises(UsageError, match=r"run_at= takes an aware datetime"):
        to_instant(given, "run_at=")  # type: ignore[arg-type]  # the point of the test
