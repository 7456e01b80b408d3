"""Law 17: the grace, by both clocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock.stores.grace import Grace
from rowlock.testing import FakeClock

LEASE = timedelta(seconds=300)


@pytest.fixture
def grace(clock: FakeClock) -> Grace:
    grace = Grace(clock)
    grace.learn(LEASE)
    return grace


def write_on(grace: Grace, clock: FakeClock, seconds: float, every: float = 90) -> None:
    """Write now and every so often; 90 is when a worker renews a lease of 300."""
    grace.wrote()
    while seconds > 0:
        step = min(every, seconds)
        clock.advance(step)
        grace.wrote()
        seconds -= step


def test_law_17_who_never_wrote_is_in_the_grace(grace: Grace, clock: FakeClock) -> None:
    clock.advance(10_000)

    assert not grace.is_over()


def test_law_17_the_grace_is_one_lease_from_the_first_write(
    grace: Grace, clock: FakeClock
) -> None:
    clock.advance(10_000)

    write_on(grace, clock, 299)
    assert not grace.is_over()
    clock.advance(1)
    assert grace.is_over()


def test_law_17_a_worker_that_renews_in_time_stays_out_of_it(
    grace: Grace, clock: FakeClock
) -> None:
    write_on(grace, clock, 300)

    for _ in range(100):
        clock.advance(99.9)
        assert grace.is_over()
        grace.wrote()


def test_law_17_a_gap_of_more_than_a_third_begins_it_again(
    grace: Grace, clock: FakeClock
) -> None:
    write_on(grace, clock, 300)
    clock.advance(101)
    assert not grace.is_over()

    write_on(grace, clock, 299)
    assert not grace.is_over()
    clock.advance(1)
    assert grace.is_over()


@pytest.mark.parametrize("lease", [1, 2, 5, 10, 60])
def test_law_17_short_leases_leave_a_busy_machine_its_time(
    clock: FakeClock, lease: float
) -> None:
    grace = Grace(clock)
    grace.learn(timedelta(seconds=lease))
    write_on(grace, clock, lease, lease * 0.3)

    # Renewed at 0.3 of it, and the thread had to wait for its turn.
    clock.advance(lease * 0.3 + min(0.5, lease * 0.3))
    assert grace.is_over()
    # But never so long that others' leases could have run out meanwhile.
    clock.advance(lease * 0.4)
    assert not grace.is_over()


@pytest.mark.parametrize("jump", [-3600, -1.5, 1.5, 3600])
def test_law_17_a_wall_clock_that_moved_by_itself_begins_it_again(
    grace: Grace, clock: FakeClock, jump: float
) -> None:
    write_on(grace, clock, 300)
    assert grace.is_over()

    clock.jump(jump)
    assert not grace.is_over()
    write_on(grace, clock, 299)
    assert not grace.is_over()
    clock.advance(1)
    assert grace.is_over()


def test_law_17_a_clock_that_is_slewed_is_no_jump(
    grace: Grace, clock: FakeClock
) -> None:
    write_on(grace, clock, 300)

    for _ in range(100):
        clock.advance(90)
        clock.jump(0.05)
        assert grace.is_over()
        grace.wrote()


def test_law_17_the_lease_is_the_one_last_learned(
    grace: Grace, clock: FakeClock
) -> None:
    grace.learn(timedelta(seconds=10))
    write_on(grace, clock, 10, 3)
    assert grace.is_over()

    grace.learn(LEASE)
    assert not grace.is_over()
