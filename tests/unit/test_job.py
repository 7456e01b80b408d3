"""The states and the transitions between them, as data."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock._job import TRANSITIONS, ClaimKey, NewJob, Outcome, Status

ACTIVE = {Status.PENDING, Status.RUNNING}


def test_every_status_has_its_row_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_the_table_is_the_one_of_the_design() -> None:
    arrows = {
        (start, verb, end)
        for start, verbs in TRANSITIONS.items()
        for verb, ends in verbs.items()
        for end in ends
    }

    assert arrows == {
        ("pending", "claim", "running"),
        ("pending", "cancel", "cancelled"),
        ("pending", "expire", "cancelled"),
        ("running", "finish", "succeeded"),
        ("running", "finish", "pending"),
        ("running", "finish", "failed"),
        ("running", "finish", "cancelled"),
        ("failed", "replay", "pending"),
        ("cancelled", "replay", "pending"),
    }


def test_nothing_but_a_claim_leads_to_running() -> None:
    into_running = {
        verb
        for verbs in TRANSITIONS.values()
        for verb, ends in verbs.items()
        if Status.RUNNING in ends
    }

    assert into_running == {"claim"}


@pytest.mark.parametrize("status", Status)
def test_a_final_status_is_left_by_replay_alone(status: Status) -> None:
    assert status.is_final is (status not in ACTIVE)
    if status.is_final:
        assert set(TRANSITIONS[status]) <= {"replay"}


def test_a_status_is_its_word() -> None:
    assert [str(status) for status in Status] == [
        "pending",
        "running",
        "succeeded",
        "failed",
        "cancelled",
    ]


def test_a_later_claim_of_a_job_is_another_key() -> None:
    assert ClaimKey(1, 1) == (1, 1)
    assert ClaimKey(1, 1) != ClaimKey(1, 2)
    assert len({ClaimKey(1, 1), ClaimKey(1, 1), ClaimKey(1, 2)}) == 2


def test_values_cannot_be_changed_in_place() -> None:
    job = NewJob(task="t", queue="q", payload="{}")
    outcome = Outcome(key=ClaimKey(1, 1), status=Status.SUCCEEDED)

    with pytest.raises(AttributeError):
        job.priority = 5  # type: ignore[misc]  # the point of the test
    with pytest.raises(AttributeError):
        outcome.delay = timedelta(1)  # type: ignore[misc]  # the point of the test
