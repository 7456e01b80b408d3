"""When a supervisor fills an empty place, at a time that a test says."""

from __future__ import annotations

from rowlock.cli.slot import LONGEST_DELAY_S, WELL_S, Slot


def test_one_that_dies_at_its_start_is_waited_for_twice_as_long_each_time() -> None:
    slot = Slot(0.0)
    delays = [slot.lost(0.0, None) for _ in range(11)]

    assert delays[:9] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6]
    assert delays[9:] == [LONGEST_DELAY_S] * 2
    assert slot.lost(0.0, ready_at=1.0 - WELL_S) == LONGEST_DELAY_S


def test_no_number_of_failures_breaks_the_delay() -> None:
    slot = Slot(0.0)

    assert {slot.lost(0.0, None) for _ in range(5000)} >= {LONGEST_DELAY_S}


def test_one_that_was_well_for_a_while_begins_again_with_the_shortest() -> None:
    slot = Slot(0.0)
    for _ in range(5):
        slot.lost(0.0, None)

    assert slot.lost(100.0, ready_at=100.0 - WELL_S) == 0.1
    assert slot.lost(100.0, ready_at=99.0) == 0.2


def test_a_place_is_due_when_its_delay_is_over() -> None:
    slot = Slot(5.0)
    assert not slot.is_due(4.9)
    assert slot.is_due(5.0)

    delay_s = slot.lost(10.0, None)

    assert not slot.is_due(10.0)
    assert slot.is_due(10.0 + delay_s)


def test_how_long_it_is_empty_counts_from_the_last_that_claimed() -> None:
    slot = Slot(5.0)
    slot.lost(10.0, None)
    assert slot.empty_since == 5.0

    slot.lost(20.0, ready_at=15.0)

    assert slot.empty_since == 20.0
