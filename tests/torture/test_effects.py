"""The verdict finds effects that are there twice, or never, or of a lost claim."""

from __future__ import annotations

from typing import Any

import pytest

from .claims import Effect, Row
from .effects import COMMITTED, HOLDER, NOWHERE, ONCE, ROLLED_BACK
from .story import Story, judged, laws, row
from .verdict import LATE

FIRST, SECOND = Effect("a", 1, 1), Effect("a", 1, 2)
COMMITS = ("completes", "commits", "committed")


def paid(status: str = "succeeded", claims: int = 1, **of: Any) -> Row:  # noqa: ANN401 - a row's other columns
    return row(status=status, claims=claims, task="paid", **of)


def paying(*steps: str) -> Story:
    """Have the handler of a job's first claim go through these steps."""
    return Story().enqueued().claimed().started().pays(*steps)


def paid_again(story: Story) -> Story:
    """Have the second claim's handler commit, and end well."""
    story.claimed(2, 6).started(2, 6).pays(*COMMITS, claim=2, pid=6)
    return story.ended(2, 6)


def ended(story: Story, how: str) -> Story:
    return story.add("app-5", how, job_id=1, claim=1)


def test_an_effect_that_committed_is_the_end_of_its_claim() -> None:
    verdict = judged(paying(*COMMITS).ended(), paid(), effects=[FIRST])

    assert not verdict.broken
    told = "\n".join(verdict.lines())
    assert "effects 1; handlers' transactions 1: committed 1" in told
    assert "completions refused 0" in told


@pytest.mark.parametrize("how", ["raised", "gave up", "is killed"])
def test_whatever_a_handler_does_after_its_commit_it_has_succeeded(how: str) -> None:
    story = ended(paying(*COMMITS), how)

    assert not judged(story, paid(), effects=[FIRST]).broken


@pytest.mark.parametrize("effects", [[], [FIRST, FIRST]])
def test_a_job_that_succeeded_has_one_effect(effects: list[Effect]) -> None:
    story = paying("completes", "commits")

    assert laws(judged(story, paid(), effects=effects)) == {ONCE}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_didnt_succeed_has_no_effect(status: str) -> None:
    story = ended(paying("completes", "commits"), "raised").settled(status, failed=True)

    left = paid(status, failures=1)
    assert not judged(story, left).broken
    assert laws(judged(story, left, effects=[FIRST])) == {ONCE}


def test_a_job_that_promises_no_effect_has_none() -> None:
    story = Story().enqueued().ran().settled()

    assert laws(judged(story, row(), effects=[FIRST])) == {ONCE}


@pytest.mark.parametrize("effect", [Effect("b", 1, 1), Effect("a", 2, 1)])
def test_an_effect_that_is_nobodys_is_found(effect: Effect) -> None:
    verdict = judged(paying(*COMMITS).ended(), paid(), effects=[effect, FIRST])

    assert NOWHERE in laws(verdict)


def test_an_effect_that_was_committed_and_is_gone_is_found() -> None:
    verdict = judged(paying(*COMMITS).ended(), paid())

    assert laws(verdict) == {COMMITTED, ONCE}


NEVER = [
    ("raised", ()),
    ("raised", ("completes",)),
    ("raised", ("completes", "broke")),
    ("raised", ("refused",)),
    ("raised", ("completes", "commits", "refused")),
    ("ended", ("completes", "rolled back")),
]


@pytest.mark.parametrize(("how", "steps"), NEVER)
def test_an_effect_of_a_transaction_that_was_never_committed_is_found(
    how: str, steps: tuple[str, ...]
) -> None:
    story = ended(paying(*steps), how).settled("pending", failed=True)
    left = paid(claims=2, failures=1)
    paid_again(story)

    verdict = judged(story, left, effects=[SECOND])
    # A second run after one that was rolled back is no second one.
    assert not verdict.broken
    assert not verdict.duplicates
    verdict = judged(story, left, effects=[FIRST, SECOND])
    assert laws(verdict) == {ONCE, HOLDER, ROLLED_BACK}


def test_an_effect_of_another_claim_than_the_last_is_found() -> None:
    story = ended(paying("completes", "rolled back"), "ended")
    paid_again(story.settled("pending", failed=True))

    verdict = judged(story, paid(claims=2, failures=1), effects=[FIRST])
    assert {HOLDER, COMMITTED} <= laws(verdict)


def test_a_commit_after_the_job_was_lost_is_a_late_outcome() -> None:
    story = paying("completes").add("torturer-1", "stop", pid=5).wait(3).lost()
    story.claimed(2, 6).started(2, 6).add("torturer-1", "continue", pid=5)
    for step in ("commits", "committed"):
        story.add("app-5", f"effect {step}", job_id=1, claim=1)
    story.ended().pays(*COMMITS, claim=2, pid=6).ended(2, 6)

    verdict = judged(story, paid(claims=2, losses=1), effects=[FIRST, SECOND])
    assert {LATE, ONCE, HOLDER} <= laws(verdict)


def test_a_completion_that_is_refused_is_told_with_its_error() -> None:
    story = paying("completes").add("torturer-1", "stop", pid=5).wait(3).lost()
    story.claimed(2, 6).started(2, 6).add("torturer-1", "continue", pid=5)
    refused = {"job_id": 1, "claim": 1, "error": "ClaimLost"}
    story.add("app-5", "effect refused", **refused)
    ended(story, "raised").settled("pending", accepted=False, failed=True)
    story.pays(*COMMITS, claim=2, pid=6).ended(2, 6)

    verdict = judged(story, paid(claims=2, losses=1), effects=[SECOND])
    assert not verdict.broken
    assert "completions refused 1: ClaimLost 1" in list(verdict.lines())


def test_a_commit_that_is_refused_is_no_outcome_that_came_too_late() -> None:
    story = ended(paying("completes", "commits", "refused"), "raised")

    told = list(judged(story.settled("failed", failed=True), paid("failed")).lines())
    assert "jobs lost 0; late outcomes accepted 0, refused 0" in told


def test_a_commit_in_doubt_may_be_the_end_or_not_as_the_effects_tell() -> None:
    story = paying("completes", "commits", "broke")
    ended(story, "raised")
    verdict = judged(story, paid(), effects=[FIRST])
    assert not verdict.broken
    assert any("in doubt, committed 1" in line for line in verdict.lines())

    paid_again(story.settled("pending", failed=True))
    verdict = judged(story, paid(claims=2, failures=1), effects=[SECOND])
    assert not verdict.broken
    assert any("in doubt, not committed 1" in line for line in verdict.lines())


def test_a_rollback_that_is_written_as_a_success_is_found() -> None:
    story = ended(paying("completes", "rolled back"), "ended").settled()

    verdict = judged(story, paid())
    assert laws(verdict) == {ONCE, "an outcome is what the handler did"}


def test_a_parent_that_was_paid_has_its_child() -> None:
    story = paying(*COMMITS).ended()

    verdict = judged(story, row(task="paid_parent"), effects=[FIRST])
    assert laws(verdict) == {"an outcome and what it spawns are one"}


def test_a_commit_is_a_write_which_shows_that_nobody_was_kept_out() -> None:
    story = Story().enqueued().ran().add("torturer-1", "stop", pid=8).wait(2)
    story.enqueued("b", job_id=2).started(job_id=2, mark="b")
    story.pays(*COMMITS, job_id=2).ended(job_id=2).wait(2)
    story.add("torturer-1", "continue", pid=8).lost()
    story.ran(2, 6).settled(claim=2, pid=6)
    rows = [row(claims=2, losses=1), row(2, "b", task="paid")]

    verdict = judged(story, *rows, effects=[Effect("b", 2, 1)], is_server=False)
    assert "no loss without a cause" in laws(verdict)


@pytest.mark.parametrize("step", ["rolled back", "refused"])
def test_a_transaction_that_outlasts_the_lease_is_no_cause_of_a_loss(step: str) -> None:
    story = paying("completes").wait(3)
    story.add("app-5", f"effect {step}", job_id=1, claim=1)
    story.lost().claimed(2, 6).started(2, 6)
    ended(story, "raised").pays(*COMMITS, claim=2, pid=6).ended(2, 6)

    verdict = judged(story, paid(claims=2, losses=1), effects=[SECOND])
    assert laws(verdict) == {"no loss without a cause", "no job runs beside itself"}
