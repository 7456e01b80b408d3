"""Where a job stands, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import click
import pytest

from rowlock import Job, Status
from rowlock._answers import Why
from rowlock._job import JSON
from rowlock.cli.story import quiet_attempts, standing, tell

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PENDING = Job(
    id=17,
    queue="mail",
    task="greet",
    payload={},
    status=Status.PENDING,
    priority=0,
    run_at=NOW,
    expires_at=None,
    claims=0,
    attempts=0,
    failures=0,
    losses=0,
    max_attempts=3,
    timeout=None,
    backoff=None,
    idempotency_key=None,
    leased_until=None,
    worker=None,
    cancel_requested_at=None,
    last_error=None,
    fingerprint=None,
    errors=(),
    result=None,
    state=None,
    progress=None,
    meta={},
    created_at=NOW - timedelta(hours=3),
    started_at=None,
    finished_at=None,
    updated_at=NOW,
)
TRIED = replace(PENDING, attempts=2, started_at=NOW - timedelta(seconds=5))
RUNNING = replace(TRIED, status=Status.RUNNING)
ENDED = replace(TRIED, finished_at=NOW)
FAILED_FIRST: Mapping[str, JSON] = {"event": "failed", "attempt": 1}
LOST_FIRST: Mapping[str, JSON] = {"event": "lost", "attempt": 1}
AGAIN = "`rowlock jobs replay 17` runs it again"


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (PENDING, "due now"),
        (replace(PENDING, run_at=NOW + timedelta(seconds=40)), "due in 40 s"),
        (
            replace(
                TRIED,
                failures=1,
                losses=2,
                run_at=NOW - timedelta(minutes=3),
                errors=(FAILED_FIRST, {"event": "lost", "attempt": 2}),
            ),
            "attempt 3 due 3 min ago, after 1 of 3 failures and 2 lost workers",
        ),
        (
            replace(TRIED, run_at=NOW + timedelta(minutes=3)),
            "attempt 3 due in 3 min, after 2 snoozes or releases",
        ),
        (
            replace(TRIED, failures=1, errors=(FAILED_FIRST,)),
            "attempt 3 due now, after 1 of 3 failures and 1 snooze or release",
        ),
        (RUNNING, "attempt 2 runs for 5 s"),
        (
            replace(RUNNING, cancel_requested_at=NOW),
            "attempt 2 runs for 5 s, and is asked to stop",
        ),
        (
            replace(ENDED, status=Status.SUCCEEDED, losses=1, errors=(LOST_FIRST,)),
            "attempt 2 succeeded in 5 s, after 1 lost worker",
        ),
        (
            replace(ENDED, status=Status.FAILED, failures=1, errors=(LOST_FIRST,)),
            f"a dead letter, after 1 of 3 failures; {AGAIN}",
        ),
        (
            replace(ENDED, status=Status.CANCELLED, cancel_requested_at=NOW),
            "cancelled in attempt 2",
        ),
        (replace(ENDED, status=Status.CANCELLED), "cancelled after attempt 2"),
        (replace(PENDING, status=Status.CANCELLED), "cancelled before it started"),
    ],
)
def test_a_job_stands_where_its_status_says(job: Job, said: str) -> None:
    assert standing(job, NOW) == said


def test_a_story_runs_from_the_enqueue_to_the_end() -> None:
    at = "2026-01-01T11:59:57.000000Z"
    errors: tuple[Mapping[str, JSON], ...] = (
        {
            "event": "lost",
            "attempt": 1,
            "type": "WorkerLost",
            "message": "w-1 was lost",
        },
        {"event": "replay", "by": "ada", "at": at},
    )
    progress: Mapping[str, JSON] = {"fraction": 0.4, "note": "page 7"}
    job = replace(ENDED, status=Status.SUCCEEDED, errors=errors, progress=progress)

    lines = [click.unstyle(line) for line in tell(replace(job, worker="w-2"), NOW)]

    assert lines[2] == "  progress 40 %: page 7"
    assert lines[lines.index("story, oldest first") + 1 :] == [
        "  enqueued",
        "    at  2026-01-01T09:00:00.000000Z  3 h ago",
        "  attempt 1 lost",
        "    WorkerLost: w-1 was lost",
        "  replay by ada",
        f"    at  {at}  3 s ago",
        "  attempt 2 succeeded",
        "    worker      w-2",
        "    started_at  2026-01-01T11:59:55.000000Z  5 s ago",
        "    ended_at    2026-01-01T12:00:00.000000Z  now",
    ]


def test_a_story_says_where_earlier_events_are_not_kept() -> None:
    failed: Mapping[str, JSON] = {"event": "failed"}
    errors = tuple({**failed, "attempt": n} for n in range(5, 15))

    told = "\n".join(tell(replace(TRIED, errors=errors), NOW))

    assert "of what comes here the last 10 are kept" in told
    assert "attempt 5 failed" in told


def test_a_story_tells_of_attempts_that_left_no_entry() -> None:
    errors: tuple[Mapping[str, JSON], ...] = (
        {"event": "failed", "attempt": 3},
        {"event": "move", "by": "ada"},
    )
    job = replace(TRIED, attempts=6, failures=1, errors=errors)

    def titles(job: Job) -> list[str]:
        lines = [click.unstyle(line) for line in tell(job, NOW)]
        story = lines[lines.index("story, oldest first") + 1 :]
        return [line.strip() for line in story if not line.startswith("    ")]

    assert titles(job) == [
        "enqueued",
        "attempts 1 to 2 snoozed or released",
        "attempt 3 failed",
        "move by ada",
        "attempts 4 to 6 snoozed or released",
    ]
    assert titles(replace(job, status=Status.RUNNING))[-2:] == [
        "attempts 4 to 5 snoozed or released",
        "attempt 6 started",
    ]


def test_of_attempts_before_the_first_entry_that_is_kept_nothing_is_told() -> None:
    failed: Mapping[str, JSON] = {"event": "failed"}
    errors = tuple({**failed, "attempt": n} for n in range(5, 25, 2))

    assert quiet_attempts(replace(TRIED, attempts=24, errors=errors)) == [
        *range(6, 25, 2)
    ]
    acts = ({"event": "move", "by": "ada"},) * 10
    assert quiet_attempts(replace(TRIED, attempts=24, errors=acts)) == []


def test_a_job_whose_lease_is_over_is_told_with_what_is_to_become_of_it() -> None:
    job = replace(RUNNING, leased_until=NOW - timedelta(seconds=4))
    sentence = "Job 17 runs for 5 s, and a transaction has its row."
    why = Why(job_id=17, status=job.status, reason="held", sentence=sentence)

    told = list(tell(job, NOW, why=why))
    changed = replace(ENDED, status=Status.SUCCEEDED)

    assert told[1:3] == ["  attempt 2 runs for 5 s", f"  {sentence}"]
    assert not any("may be lost" in line for line in told)
    assert f"  {sentence}" not in list(tell(changed, NOW, why=why))
