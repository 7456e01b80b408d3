"""How long to wait before the next attempt."""

from __future__ import annotations

import math
import random
import statistics
import time
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock._errors import UsageError
from rowlock._retry import (
    DEFAULT_BACKOFF,
    LOSS_DELAYS,
    MAX_LOSSES,
    Backoff,
    after_failure,
    to_backoff,
)

B18_FAILURES = (1, 2, 63, 64, 1023, 1100, 10**6)


def seconds(backoff: Backoff, failures: int, random: float = 0.0) -> float:
    return backoff.delay(failures, random).total_seconds()


@pytest.mark.parametrize("factor", [1, 1.5, 2, 10])
def test_b18_no_number_of_failures_breaks_the_backoff(factor: float) -> None:
    backoff = Backoff.exponential(1, factor=factor, cap=3600, jitter=0)

    delays = [seconds(backoff, failures) for failures in B18_FAILURES]

    assert all(math.isfinite(delay) and 0 <= delay <= 3600 for delay in delays)
    assert all(before <= after for before, after in pairwise(delays))


@pytest.mark.parametrize("factor", [1, 1.5, 2, 10])
@pytest.mark.parametrize("failures", B18_FAILURES)
def test_b18_a_delay_takes_less_than_a_millisecond(
    factor: float, failures: int
) -> None:
    backoff = Backoff.exponential(1, factor=factor)

    # The best of five: the bound is on the work, not on a busy machine.
    took = []
    for _ in range(5):
        start = time.perf_counter()
        backoff.delay(failures, 0.5)
        took.append(time.perf_counter() - start)

    assert min(took) < 0.001


@given(
    first=st.floats(0, 3600),
    factor=st.floats(1, 1e6),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10**7),
    draw=st.floats(0, 1),
)
def test_b20_no_delay_exceeds_the_cap(
    first: float, factor: float, jitter: float, failures: int, draw: float
) -> None:
    backoff = Backoff.exponential(first, factor=factor, cap=3600, jitter=jitter)

    assert 0 <= seconds(backoff, failures, draw) <= 3600


def test_b20_delays_at_the_cap_still_spread() -> None:
    rng = random.Random(20)
    backoff = Backoff.exponential(1, factor=2, cap=60)

    draws = [seconds(backoff, 50, rng.random()) for _ in range(10_000)]

    assert max(draws) <= 60
    # The design's jitter is a tenth of the delay: uniform on it, 2.9 % of 60 s.
    assert statistics.stdev(draws) > 0.025 * 60


@pytest.mark.parametrize(
    "backoff",
    [
        Backoff.exponential(2, factor=3, cap=100),
        Backoff.linear(7, cap=40),
        Backoff.fixed(30),
        Backoff.steps([1, 60, 10]),
        DEFAULT_BACKOFF,
    ],
    ids=["exponential", "linear", "fixed", "steps", "default"],
)
def test_b23_the_preview_is_what_is_drawn(backoff: Backoff) -> None:
    rng = random.Random(23)

    for failures, (least, longest) in enumerate(backoff.preview(5), start=1):
        draws = [seconds(backoff, failures, rng.random()) for _ in range(500)]
        width = longest - least
        assert least <= min(draws) <= least + 0.05 * width
        assert longest - 0.05 * width <= max(draws) <= longest


def test_b23_a_first_delay_above_the_cap_is_refused() -> None:
    with pytest.raises(UsageError, match=r"7200 s, above its cap of 3600 s"):
        Backoff.exponential(7200)
    with pytest.raises(UsageError, match=r"61 s, above its cap of 60 s"):
        Backoff.linear(61, cap=60)


def test_b23_a_first_delay_at_the_cap_is_kept() -> None:
    assert Backoff.exponential(3600).preview(3) == [(3240.0, 3600.0)] * 3


@pytest.mark.parametrize("given", [0, 0.0, timedelta(0)])
def test_b22_zero_is_at_once(given: float | timedelta) -> None:
    backoff = to_backoff(given, "backoff=")

    assert backoff.preview(3) == [(0.0, 0.0)] * 3
    assert Backoff.exponential(given).preview(3) == [(0.0, 0.0)] * 3
    assert Backoff.steps([given, 5], jitter=0).preview(2) == [(0.0, 0.0), (5.0, 5.0)]


def test_b22_a_fraction_of_a_second_is_kept() -> None:
    least, longest = to_backoff(0.2, "backoff=").preview(1)[0]

    assert (least, longest) == pytest.approx((0.2, 0.22))


def test_b22_none_is_no_backoff_and_left_to_the_caller() -> None:
    with pytest.raises(UsageError, match=r"backoff= takes a Backoff.*not None"):
        to_backoff(None, "backoff=")  # type: ignore[arg-type]  # the point of the test


def test_the_default_is_1_5_25_seconds_and_up_to_an_hour() -> None:
    exact = Backoff.exponential(1, factor=5, jitter=0)

    assert [seconds(exact, n) for n in range(1, 8)] == [
        1,
        5,
        25,
        125,
        625,
        3125,
        3600,
    ]
    assert DEFAULT_BACKOFF.preview(1) == [(1.0, 1.1)]
    assert DEFAULT_BACKOFF.preview(20)[-1] == (3240.0, 3600.0)


def test_each_kind_grows_as_it_says() -> None:
    def plan(backoff: Backoff) -> list[float]:
        return [seconds(backoff, n) for n in range(1, 5)]

    assert plan(Backoff.exponential(2, factor=2, jitter=0)) == [2, 4, 8, 16]
    assert plan(Backoff.linear(10, cap=25, jitter=0)) == [10, 20, 25, 25]
    assert plan(Backoff.fixed(30, jitter=0)) == [30, 30, 30, 30]
    assert plan(Backoff.steps([1, 60], jitter=0)) == [1, 60, 60, 60]


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan])
def test_a_jitter_that_is_no_share_is_refused(jitter: float) -> None:
    with pytest.raises(UsageError, match=r"jitter=\) is a share from 0 to 1"):
        Backoff.fixed(1, jitter=jitter)


@pytest.mark.parametrize("factor", [0.5, -2, math.nan, math.inf])
def test_a_factor_that_does_not_grow_is_refused(factor: float) -> None:
    with pytest.raises(UsageError, match=r"factor=\) must be 1 or more"):
        Backoff.exponential(1, factor=factor)


def test_a_negative_or_missing_delay_is_refused() -> None:
    with pytest.raises(UsageError, match="can't be negative"):
        Backoff.fixed(-1)
    with pytest.raises(UsageError, match="at least one delay"):
        Backoff.steps([])
    with pytest.raises(UsageError, match="not 'soon'"):
        to_backoff("soon", "backoff=")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    "backoff",
    [
        Backoff.exponential(2, factor=3, cap=100),
        Backoff.linear(7),
        Backoff.fixed(0, jitter=0),
        Backoff.steps([1, 60.5]),
    ],
)
def test_a_backoff_comes_back_from_its_json(backoff: Backoff) -> None:
    assert Backoff.from_json(backoff.to_json()) == backoff


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "fixed", "values": [], "cap": None, "jitter": 0},
        {"kind": "fixed", "values": ["x"], "cap": None, "jitter": 0},
        {"kind": "tides", "values": [1], "cap": None, "jitter": 0},
        {"kind": "tides", "values": [1, 2], "cap": None, "jitter": 0},
        {"kind": "fixed", "values": 5, "cap": None, "jitter": 0},
    ],
)
def test_json_that_is_no_backoff_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="isn't a backoff that this version knows"):
        Backoff.from_json(data)


def test_a_list_or_a_delay_will_do_for_a_backoff() -> None:
    backoff = Backoff.linear(3)

    assert to_backoff(backoff, "backoff=") is backoff
    assert to_backoff(5, "backoff=") == Backoff.fixed(5)
    assert to_backoff([1, 2], "backoff=") == Backoff.steps([1, 2])


def test_a_callable_rule_is_asked_with_the_failures() -> None:
    asked: list[int] = []

    def rule(failures: int) -> float:
        asked.append(failures)
        return 7.5

    assert after_failure(rule, 3, random=0.9) == timedelta(seconds=7.5)
    assert asked == [3]
    assert after_failure(Backoff.fixed(10), 1, random=0.5) == timedelta(seconds=10.5)


def test_a_callable_rule_that_goes_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="the delay returned by backoff"):
        after_failure(lambda _failures: -1, 1, random=0.0)


def test_after_a_loss_a_job_is_due_at_once_then_after_5_and_25_seconds() -> None:
    assert [delay.total_seconds() for delay in LOSS_DELAYS] == [0, 5, 25]
    assert len(LOSS_DELAYS) == MAX_LOSSES
