"""The policy: what a claim ends as."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._job import Claim, ClaimKey, NewJob, Outcome, Status
from rowlock._retry import DEFAULT_BACKOFF

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ClaimKey(7, 3)
ERROR = {"type": "ValueError", "message": "no", "traceback": None}


def claim(**fields: Any) -> Claim:  # noqa: ANN401 - any field of a claim
    defaults: dict[str, Any] = {
        "key": KEY,
        "task": "send",
        "queue": "default",
        "payload": "{}",
        "priority": 0,
        "attempts": 1,
        "failures": 0,
        "losses": 0,
        "max_attempts": 3,
        "timeout": None,
        "backoff": None,
        "idempotency_key": None,
        "worker": "w1",
        "alone": False,
        "abandoned": False,
        "state": None,
        "run_at": NOON,
        "created_at": NOON,
        "started_at": NOON,
        "leased_until": NOON + timedelta(minutes=5),
        "cancel_requested_at": None,
    }
    return Claim(**(defaults | fields))


def charges(outcome: Outcome) -> tuple[bool, bool, bool]:
    return outcome.failed, outcome.lost, outcome.unstarted


def test_a_success_carries_its_result_and_what_it_spawns() -> None:
    job = NewJob(task="next", queue="default", payload="{}")

    outcome = _outcome.succeeded(KEY, '{"a": 1}', meta={"m": 1}, spawned=(job,))

    assert outcome.key == KEY
    assert outcome.status is Status.SUCCEEDED
    assert outcome.result == '{"a": 1}'
    assert outcome.meta == {"m": 1}
    assert outcome.spawned == (job,)
    assert charges(outcome) == (False, False, False)


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_b19_max_attempts_is_exactly_the_number_of_runs(max_attempts: int) -> None:
    runs = 0
    outcome = None
    while outcome is None or outcome.status is Status.PENDING:
        held = claim(failures=runs, max_attempts=max_attempts)
        outcome = _outcome.failed(held, ERROR, timedelta(seconds=1))
        runs += 1
        assert outcome.failed

    assert outcome.status is Status.FAILED
    assert runs == max_attempts


def test_a_failure_with_failures_left_waits_for_its_backoff() -> None:
    outcome = _outcome.failed(claim(failures=1), ERROR, timedelta(seconds=5))

    assert outcome.status is Status.PENDING
    assert outcome.delay == timedelta(seconds=5)
    assert outcome.error == ERROR
    assert charges(outcome) == (True, False, False)


def test_an_unrecoverable_failure_is_dead_at_once() -> None:
    outcome = _outcome.failed(claim(), ERROR, timedelta(0), dead=True)

    assert outcome.status is Status.FAILED
    # Told apart from failures that are spent, which may go back automatically.
    assert outcome.error == {**ERROR, "unrecoverable": True}
    assert outcome.failed


def test_b21_postponements_count_as_no_failure() -> None:
    outcome = _outcome.snoozed(KEY, timedelta(minutes=5))

    assert outcome.status is Status.PENDING
    assert outcome.delay == timedelta(minutes=5)
    assert charges(outcome) == (False, False, False)
    assert outcome.error is None


def test_b21_after_thirty_postponements_a_failure_is_still_the_first() -> None:
    held = claim(key=ClaimKey(7, 31), attempts=31, failures=0)
    first = DEFAULT_BACKOFF.delay(1, 0.0)

    outcome = _outcome.failed(
        held, ERROR, DEFAULT_BACKOFF.delay(held.failures + 1, 0.0)
    )

    assert outcome.status is Status.PENDING
    assert outcome.delay == first


@pytest.mark.parametrize("unstarted", [True, False])
def test_a_release_is_due_at_once_and_no_failure(*, unstarted: bool) -> None:
    outcome = _outcome.released(KEY, unstarted=unstarted)

    assert outcome.status is Status.PENDING
    assert outcome.delay == timedelta(0)
    assert charges(outcome) == (False, False, unstarted)


def test_a_cancelled_claim_ends_cancelled_and_charges_nothing() -> None:
    outcome = _outcome.cancelled(KEY)

    assert outcome.status is Status.CANCELLED
    assert charges(outcome) == (False, False, False)


@pytest.mark.parametrize(
    ("losses", "status", "delay"),
    [(0, Status.PENDING, 0), (1, Status.PENDING, 5), (2, Status.FAILED, 25)],
)
def test_the_third_loss_is_the_last(losses: int, status: Status, delay: int) -> None:
    outcome = _outcome.lost(claim(losses=losses))

    assert outcome.status is status
    assert outcome.delay == timedelta(seconds=delay)
    assert charges(outcome) == (False, True, False)


@pytest.mark.parametrize("losses", [3, 10])
def test_a_job_with_more_losses_than_delays_is_dead(losses: int) -> None:
    assert _outcome.lost(claim(losses=losses)).status is Status.FAILED


def test_the_loss_of_a_claim_in_company_is_charged_as_no_failure() -> None:
    outcome = _outcome.lost(claim(failures=2, max_attempts=3))

    assert outcome.status is Status.PENDING
    assert charges(outcome) == (False, True, False)


@pytest.mark.parametrize(
    ("failures", "status"),
    [(0, Status.PENDING), (1, Status.PENDING), (2, Status.FAILED)],
)
def test_b24_the_loss_of_a_claim_that_was_alone_is_charged_as_a_failure(
    failures: int, status: Status
) -> None:
    outcome = _outcome.lost(claim(alone=True, failures=failures, max_attempts=3))

    assert outcome.status is status
    assert charges(outcome) == (True, True, False)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("abandoned", [True, False])
def test_b12_at_most_once_is_kept_whatever_the_loss(
    *, alone: bool, abandoned: bool
) -> None:
    outcome = _outcome.lost(claim(max_attempts=1, alone=alone, abandoned=abandoned))

    assert outcome.status is Status.FAILED
    assert outcome.lost


@pytest.mark.parametrize("alone", [True, False])
def test_a_claim_abandoned_at_shutdown_is_no_loss(*, alone: bool) -> None:
    held = claim(abandoned=True, alone=alone, losses=2, failures=2)

    outcome = _outcome.lost(held)

    assert outcome.status is Status.PENDING
    assert outcome.delay == timedelta(0)
    assert charges(outcome) == (False, False, False)


@pytest.mark.parametrize("losses", [0, 2])
@pytest.mark.parametrize("max_attempts", [1, 3])
@pytest.mark.parametrize("abandoned", [True, False])
def test_law_21_a_lost_claim_whose_cancel_was_asked_is_cancelled(
    losses: int, max_attempts: int, *, abandoned: bool
) -> None:
    outcome = _outcome.lost(
        claim(
            cancel_requested_at=NOON,
            losses=losses,
            max_attempts=max_attempts,
            abandoned=abandoned,
        )
    )

    assert outcome.status is Status.CANCELLED
    assert outcome.lost is not abandoned


@pytest.mark.parametrize(
    ("abandoned", "words"), [(False, "was lost"), (True, "while the handler still ran")]
)
def test_a_loss_says_which_worker_was_lost_and_how(
    *, abandoned: bool, words: str
) -> None:
    outcome = _outcome.lost(claim(worker="w-42", abandoned=abandoned))

    assert outcome.error is not None
    assert outcome.error["type"] == "WorkerLost"
    assert "worker w-42" in str(outcome.error["message"])
    assert words in str(outcome.error["message"])


@pytest.mark.parametrize(
    "fields",
    [{}, {"abandoned": True}, {"cancel_requested_at": NOON}, {"max_attempts": 1}],
)
def test_a_loss_names_the_lease_that_was_read(fields: dict[str, Any]) -> None:
    held = claim(**fields)

    assert _outcome.lost(held).leased_until == held.leased_until


@pytest.mark.parametrize(
    "outcome",
    [
        _outcome.succeeded(KEY),
        _outcome.failed(claim(), ERROR, timedelta(0)),
        _outcome.snoozed(KEY, timedelta(0)),
        _outcome.released(KEY, unstarted=True),
        _outcome.cancelled(KEY),
        _outcome.lost(claim()),
    ],
)
def test_every_outcome_carries_its_fence(outcome: Outcome) -> None:
    assert outcome.key == KEY
