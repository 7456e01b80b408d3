"""What a handler raises to steer its job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock._errors import RowlockError, UsageError
from rowlock._signals import Retry, Signal, Snooze, Unrecoverable


@pytest.mark.parametrize("signal", [Retry, Snooze, Unrecoverable])
def test_a_signal_is_an_exception_but_no_error_of_ours(signal: type[Signal]) -> None:
    assert issubclass(signal, Exception)
    assert not issubclass(signal, RowlockError)


@pytest.mark.parametrize(
    ("given", "delay"),
    [
        (0, timedelta(0)),
        (0.2, timedelta(milliseconds=200)),
        (60, timedelta(minutes=1)),
        (timedelta(hours=1), timedelta(hours=1)),
        (None, None),
    ],
)
def test_b22_retry_keeps_zero_and_fractions_apart_from_none(
    given: float | timedelta | None, delay: timedelta | None
) -> None:
    assert Retry(delay=given).delay == delay


@pytest.mark.parametrize(
    ("given", "delay"), [(0, timedelta(0)), (0.2, timedelta(milliseconds=200))]
)
def test_b22_snooze_keeps_zero_and_fractions(given: float, delay: timedelta) -> None:
    assert Snooze(given).delay == delay


def test_a_signal_says_what_it_asks_for() -> None:
    assert str(Retry()) == "try again"
    assert str(Retry(delay=0)) == "try again in 0 s"
    assert str(Retry("rate limited", delay=60)) == "rate limited"
    assert Retry("rate limited").reason == "rate limited"
    assert str(Snooze(0.5)) == "snoozed for 0.5 s"
    assert str(Unrecoverable("no such order")) == "no such order"
    assert Unrecoverable("no such order").reason == "no such order"


def test_a_negative_delay_is_refused_with_the_name_of_the_signal() -> None:
    with pytest.raises(UsageError, match=r"Retry\(delay=\) can't be negative"):
        Retry(delay=-1)
    with pytest.raises(UsageError, match=r"Snooze\(delay\) can't be negative"):
        Snooze(timedelta(seconds=-1))


def test_a_delay_in_the_place_of_the_reason_is_refused() -> None:
    with pytest.raises(UsageError, match=r"write Retry\(delay=60\)\."):
        Retry(60)  # type: ignore[arg-type]  # what is refused


def test_an_unrecoverable_that_is_raised_bare_is_one() -> None:
    with pytest.raises(Unrecoverable, match="no attempt can succeed"):
        raise Unrecoverable
