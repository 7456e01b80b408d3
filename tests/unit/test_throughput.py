"""How many jobs are worth having at hand, by how many have ended of late."""

from __future__ import annotations

import pytest

from rowlock._worker import throughput
from rowlock._worker.throughput import Throughput


class Time:
    """The monotonic clock, moved by a test."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(throughput, "time", moved)
    return moved


def end(paced: Throughput, time: Time, *, jobs: int, every: float) -> None:
    for _ in range(jobs):
        time.now += every
        paced.ended()


@pytest.mark.usefixtures("time")
def test_a_new_worker_has_nothing_at_hand() -> None:
    assert Throughput().at_hand == 0


@pytest.mark.parametrize(
    ("every", "at_hand"), [(0.001, 20), (0.0001, 200), (0.000_01, 500), (0.01, 2)]
)
def test_at_hand_is_what_ends_within_twenty_milliseconds(
    time: Time, every: float, at_hand: int
) -> None:
    paced = Throughput()
    end(paced, time, jobs=20_000, every=every)

    assert at_hand * 0.99 - 1 <= paced.at_hand <= at_hand * 1.01


@pytest.mark.parametrize("every", [0.06, 0.5, 30])
def test_of_longer_jobs_none_is_at_hand_or_one(time: Time, every: float) -> None:
    paced = Throughput()
    end(paced, time, jobs=100, every=every)

    assert paced.at_hand == 0


def test_where_nothing_has_ended_of_late_nothing_is_at_hand(time: Time) -> None:
    paced = Throughput()
    end(paced, time, jobs=1_000, every=0.001)
    assert paced.at_hand > 0
    time.now += 0.11

    assert paced.at_hand == 0


def test_after_a_rest_the_pace_is_measured_anew(time: Time) -> None:
    paced = Throughput()
    end(paced, time, jobs=1_000, every=0.0001)
    time.now += 60
    end(paced, time, jobs=3, every=0.0001)

    assert paced.at_hand == 0
