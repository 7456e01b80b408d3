"""Which queues a worker serves, how many jobs at once, and what is refused of that."""

from __future__ import annotations

import pytest

from rowlock import UsageError
from rowlock._served import Queues, Served, check_served


@pytest.mark.parametrize(
    ("queues", "concurrency"),
    [
        (None, 5),
        (["mail"], 5),
        (["mail", "sms"], 5),
        ({"mail": None}, 5),
        ({"mail": 10}, 10),
        ({"mail": 10, "sms": 2}, 12),
        ({"mail": 10, "default": None}, 15),
        ({"mail": 10, "default": None, "sms": None}, 15),
    ],
)
def test_concurrency_is_what_the_queues_have_together(
    queues: Queues | None, concurrency: int
) -> None:
    assert check_served(None, queues, None).concurrency == concurrency


def test_a_concurrency_that_is_said_bounds_all_together() -> None:
    served = check_served(12, {"mail": 10, "default": None}, {"mail": 3})

    assert served == Served(12, ("mail", "default"), {"mail": 10}, {"mail": 3})


def test_weights_hold_for_every_queue_where_none_is_named() -> None:
    assert check_served(None, None, {"mail": 100}).weights == {"mail": 100}


@pytest.mark.parametrize(
    ("concurrency", "queues", "weights", "told"),
    [
        (0, None, None, "concurrency= is a whole number of 1 or more; it was 0"),
        (3, {"mail": 4}, None, "'mail' may run 4 jobs at once, and the worker 3"),
        (None, {"mail": 0}, None, "queues['mail']= is a whole number of 1 or more"),
        (None, {"mail": "2"}, None, "queues['mail']= is a whole number of 1 or more"),
        (None, {"mail": True}, None, "queues['mail']= is a whole number of 1 or more"),
        (None, {}, None, "queues= has no name in it"),
        (None, "mail", None, "queues= takes several names"),
        (None, None, {"mail": 0}, "weights['mail']= is a whole number of 1 or more"),
        (None, None, {"mail": 101}, "weights['mail']= is 100 at most, not 101"),
        (None, ["sms"], {"mail": 2}, "'mail' has a weight, and the worker doesn't"),
        (None, None, {"": 2}, "weights= "),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    concurrency: int | None,
    queues: Queues | None,
    weights: dict[str, int] | None,
    told: str,
) -> None:
    with pytest.raises(UsageError) as refused:
        check_served(concurrency, queues, weights)

    assert told in str(refused.value)
