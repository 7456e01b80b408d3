"""The verdict finds what is broken: histories that are made up, one for each law."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.journal import Record

from .history import LONGEST
from .story import Story, judged, laws, row
from .verdict import LATE


def test_a_job_that_is_enqueued_and_runs_breaks_nothing() -> None:
    verdict = judged(Story().enqueued().ran().settled(), row())

    assert not verdict.broken
    assert not verdict.duplicates


def test_a_job_that_was_committed_and_is_gone_is_lost() -> None:
    assert laws(judged(Story().enqueued())) == {"no job is lost"}


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_job_that_never_ends_is_found(status: str) -> None:
    verdict = judged(Story().enqueued().claimed(), row(status=status))

    assert laws(verdict) == {"every job ends"}


@pytest.mark.parametrize("fate", ["rolled back", "refused", "duplicate"])
def test_a_job_that_was_never_committed_may_not_be_there(fate: str) -> None:
    story = Story().add("producer-9", "asked", mark="a", task="quick")
    story.add("producer-9", fate, mark="a").ran().settled()

    assert laws(judged(story, row())) == {"what rolls back never existed"}
    assert laws(judged(story)) == {"what rolls back never existed"}


def test_a_job_whose_commit_broke_may_be_there_or_not() -> None:
    story = Story().add("producer-9", "asked", mark="a", task="quick")
    story.add("producer-9", "commits", mark="a").add("producer-9", "broke", mark="a")

    assert not judged(story).broken
    assert not judged(story.ran().settled(), row()).broken


def test_a_job_whose_transaction_broke_before_its_commit_may_not_be_there() -> None:
    story = Story().add("producer-9", "asked", mark="a", task="quick")
    story.add("producer-9", "broke", mark="a").ran().settled()

    assert laws(judged(story, row())) == {"what rolls back never existed"}


def test_a_job_that_nobody_asked_for_is_found() -> None:
    assert laws(judged(Story().ran().settled(), row())) == {"no job comes from nowhere"}


def twice(before: Story) -> Story:
    """Have a job that has run well be lost, and run well again."""
    return before.lost().ran(2, 6).settled(claim=2, pid=6)


TWICE = row(claims=2, losses=1)


def test_a_second_run_has_no_cause_where_nothing_happened() -> None:
    verdict = judged(twice(Story().enqueued().ran()), TWICE)

    assert laws(verdict) == {"no duplicate without a cause", "no loss without a cause"}


@pytest.mark.parametrize("is_quiet", [True, False])
@pytest.mark.parametrize("is_server", [True, False])
def test_one_that_is_stopped_in_a_write_keeps_all_others_out_of_a_file(
    *, is_quiet: bool, is_server: bool
) -> None:
    story = Story().enqueued().ran().add("torturer-1", "stop", pid=8).wait(2)
    if not is_quiet:
        # Somebody else has written meanwhile.
        story.enqueued("b", job_id=2).started(job_id=2, mark="b").settled(job_id=2)
    twice(story.wait(2).add("torturer-1", "continue", pid=8))
    rows = [TWICE] if is_quiet else [TWICE, row(2, "b")]
    verdict = judged(story, *rows, is_server=is_server)

    is_excused = verdict.duplicates.total() > 0
    assert is_excused == (is_quiet and not is_server)


def causes() -> Iterable[tuple[str, Story]]:
    begun = Story().enqueued().claimed().started()
    yield "killed", begun.ended().add("torturer-1", "kill", pid=5).wait(3)
    begun = Story().add("app-5", "worker.started", worker="w-5", parent=4)
    begun.enqueued().ran().add("torturer-1", "kill", pid=4)
    yield "killed", begun
    begun = Story().enqueued().claimed().started().add("torturer-1", "stop", pid=5)
    begun.wait(3).add("torturer-1", "continue", pid=5).ended()
    yield "stopped past its lease", begun
    begun = Story().enqueued().claimed().started().add("torturer-1", "server stops")
    begun.add("app-5", "store.unavailable").wait(3).ended()
    begun.add("torturer-1", "server is back")
    yield "out of the database's reach", begun
    begun = Story().enqueued().ran().add("app-5", "worker.draining").wait(3)
    yield "told to stop", begun


@pytest.mark.parametrize(("cause", "before"), [*causes()])
def test_a_second_run_has_the_cause_that_the_history_shows(
    cause: str, before: Story
) -> None:
    verdict = judged(twice(before), TWICE)

    assert not verdict.broken
    assert verdict.duplicates == verdict.losses == {cause: 1}


@pytest.mark.parametrize("act", ["kill", "stop"])
def test_what_befell_another_is_no_cause(act: str) -> None:
    before = Story().enqueued().ran().add("torturer-1", act, pid=77).wait(3)

    assert "no duplicate without a cause" in laws(judged(twice(before), TWICE))


def test_an_outage_within_the_lease_is_no_cause() -> None:
    before = Story().enqueued().ran().add("torturer-1", "server stops")
    before.add("app-5", "store.unavailable").wait(0.5)
    before.add("torturer-1", "server is back").add("app-5", "store.recovered").wait(3)

    assert "no duplicate without a cause" in laws(judged(twice(before), TWICE))


def test_what_a_worker_says_of_an_outage_is_no_cause_where_there_was_none() -> None:
    before = Story().enqueued().ran().add("app-5", "store.unavailable").wait(3)

    assert "no duplicate without a cause" in laws(judged(twice(before), TWICE))


def test_an_outcome_that_came_too_late_may_not_be_accepted() -> None:
    story = Story().enqueued().claimed().started().add("torturer-1", "stop", pid=5)
    story.wait(3).lost().claimed(2, 6).started(2, 6)
    story.add("torturer-1", "continue", pid=5).ended()
    refused = story.settled(accepted=False).ended(2, 6).settled(claim=2, pid=6)
    assert not judged(refused, TWICE).broken

    story.records = [
        record
        if record.what != "settled" or record.of["accepted"]
        else Record(record.at, record.process, "settled", {**record.of, "accepted": 1})
        for record in story.records
    ]
    assert LATE in laws(judged(story, TWICE))


def test_a_claim_that_ends_twice_is_found() -> None:
    story = Story().enqueued().ran().settled().settled(pid=6)

    assert laws(judged(story, row())) == {"a claim ends once"}


def test_a_claim_whose_end_nobody_wrote_is_found() -> None:
    story = Story().enqueued().ran(1).ran(2, 6).settled(claim=2, pid=6)

    assert "every claim has an end" in laws(judged(story, row(claims=2)))


def test_an_outcome_without_an_answer_may_have_been_the_end() -> None:
    verdict = judged(Story().enqueued().ran().handed(), row())

    assert not verdict.broken


def test_a_claim_that_runs_twice_is_found() -> None:
    story = Story().enqueued().ran().ended().settled()

    assert laws(judged(story, row())) == {"a claim runs once"}


def test_a_row_that_says_other_than_its_last_claim_is_found() -> None:
    story = Story().enqueued().ran().settled()

    verdict = judged(story, row(status="failed"))
    assert laws(verdict) == {"the last claim ends a job"}


def test_an_outcome_that_is_other_than_what_the_handler_did_is_found() -> None:
    story = Story().enqueued().ran().settled("failed", failed=True)

    verdict = judged(story, row(status="failed", failures=1))
    assert laws(verdict) == {"an outcome is what the handler did"}


@pytest.mark.parametrize("number", [1, 3])
def test_attempts_that_arent_numbered_1_2_3_are_found(number: int) -> None:
    story = Story().enqueued().claimed().started().add("torturer-1", "kill", pid=5)
    story.wait(3).lost().claimed(2, 6).started(2, 6, number=number).ended(2, 6)

    verdict = judged(story.settled(claim=2, pid=6), TWICE)
    assert laws(verdict) == {"attempts are numbered 1, 2, 3"}


@pytest.mark.parametrize("column", ["attempts", "failures", "losses"])
def test_counts_that_dont_add_up_are_found(column: str) -> None:
    story = Story().enqueued().ran().settled()

    off: dict[str, Any] = {column: 2 if column != "attempts" else 0}
    verdict = judged(story, row(**off))
    assert "starts and failures add up" in laws(verdict)


def test_a_claim_beyond_those_of_the_row_is_found() -> None:
    story = Story().enqueued().ran().settled().claimed(2, 6)

    assert "claims only grow" in laws(judged(story, row()))


def test_a_job_that_may_start_once_starts_once() -> None:
    before = Story().enqueued().claimed().started().add("torturer-1", "kill", pid=5)

    verdict = judged(twice(before.wait(3)), row(claims=2, losses=1, max_attempts=1))
    assert laws(verdict) == {"at most once"}


def test_a_job_that_runs_beside_itself_is_found_and_a_kill_doesnt_excuse_it() -> None:
    story = Story().enqueued().claimed().started().add("torturer-1", "kill", pid=5)
    story.wait(3).lost().claimed(2, 6).started(2, 6).ended()
    story.ended(2, 6).settled(claim=2, pid=6)

    assert laws(judged(story, TWICE)) == {"no job runs beside itself"}


def test_a_job_that_starts_before_it_is_due_is_found() -> None:
    story = Story().enqueued(delay=5).ran().settled()

    assert laws(judged(story, row())) == {"nothing starts before it is due"}


def test_two_unfinished_jobs_of_one_key_are_found() -> None:
    story = Story().enqueued(idempotency_key="k")
    story.enqueued("b", 2, idempotency_key="k").ran().settled()
    story.claimed(job_id=2).started(job_id=2, mark="b").ended(job_id=2)
    story.settled(job_id=2)

    verdict = judged(story, row(), row(2, "b"))
    assert laws(verdict) == {"a key has one unfinished job"}


def test_a_key_that_stays_taken_is_found() -> None:
    story = Story().enqueued(idempotency_key="k").ran().settled()
    asked = {"mark": "b", "task": "quick", "idempotency_key": "k"}
    story.add("producer-9", "asked", **asked).add("producer-9", "duplicate", mark="b")

    assert laws(judged(story, row())) == {"a key is free when its job is over"}


@pytest.mark.parametrize("status", ["failed", "succeeded"])
def test_a_cancel_that_comes_to_nothing_is_found(status: str) -> None:
    story = Story().enqueued()
    answer = {"job_id": 1, "done": True, "status": "cancelled"}
    story.add("producer-9", "cancel answered", **answer).ran()

    of = {"failed": status == "failed"}
    verdict = judged(
        story.settled(status, **of), row(status=status, failures=of["failed"])
    )
    assert "what is cancelled ends so, or well" in laws(verdict)


@pytest.mark.parametrize("children", [0, 2])
def test_a_parent_has_one_child(children: int) -> None:
    story = Story().enqueued().ran().settled()
    born = []
    for job_id in range(2, 2 + children):
        story.claimed(job_id=job_id).settled(job_id=job_id)
        born.append(row(job_id, "a.child"))

    verdict = judged(story, row(task="parent"), *born)
    assert "an outcome and what it spawns are one" in laws(verdict)


def test_the_history_of_a_job_is_short_and_ends_where_it_went_wrong() -> None:
    story = Story().enqueued().ran()
    for _ in range(100):
        story.add("torturer-1", "terminate", count=1)
    verdict = judged(twice(story), TWICE)

    told = verdict.history.about(1)
    assert len(told) == LONGEST
    assert "asked" in told[0]
    assert "settled" in told[-1]
    assert "\n".join(told) in "\n".join(verdict.lines())
