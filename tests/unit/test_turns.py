"""Turns: which queue gets the next start, where several have due jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise, repeat

from hypothesis import given
from hypothesis import strategies as st

from rowlock.stores.turns import MOST_WHEELS, Turns, laid_out, shares

WEIGHTS = st.dictionaries(
    st.sampled_from("abcdefghij"),
    st.integers(1, 100) | st.sampled_from([1, 2, 99, 100]),
    min_size=1,
)


def starts(turns: Turns, weights: Mapping[str, int], total: int) -> Counter[str]:
    """Claim `total` jobs of queues that have any number of them."""
    turn = turns.take(weights, weights, total)
    return Counter(turn.deal({queue: repeat(queue) for queue in weights}))


def order(turns: Turns, queues: Collection[str], total: int, **weights: int) -> str:
    """Claim `total` jobs of queues that have any number of them, in order."""
    turn = turns.take(queues, weights, total)
    return "".join(turn.deal({queue: repeat(queue) for queue in queues}))


@given(weights=WEIGHTS, totals=st.lists(st.integers(1, 500), max_size=50))
def test_each_busy_queue_has_its_share_within_one_whatever_a_claim_takes(
    weights: dict[str, int], totals: list[int]
) -> None:
    turns = Turns()
    started: Counter[str] = Counter()

    for total in totals:
        started += starts(turns, weights, total)
        of_each = started.total() / sum(weights.values())
        assert all(
            abs(started[queue] - weight * of_each) < 1
            for queue, weight in weights.items()
        )


@given(weights=WEIGHTS)
def test_claims_of_one_job_each_are_in_proportion_and_pass_nobody_by(
    weights: dict[str, int],
) -> None:
    turns = Turns()
    size = sum(weights.values())

    served = [next(iter(starts(turns, weights, 1))) for _ in range(size)]

    assert Counter(served) == weights
    for queue, weight in weights.items():
        places = [place for place, found in enumerate(served * 2) if found == queue]
        gaps = [later - place for place, later in pairwise(places)]
        assert max(gaps) < 2 * size / weight + 1


def test_a_queue_of_weight_1_beside_one_of_100_has_every_101st_start() -> None:
    turns = Turns()

    for _ in range(10):
        assert starts(turns, {"busy": 100, "small": 1}, 101)["small"] == 1


def test_what_is_heavy_is_not_served_in_runs() -> None:
    assert "".join(laid_out((("a", 3), ("b", 2), ("c", 1)))) == "ababac"
    assert "".join(laid_out((("a", 1), ("b", 4)))) == "bbbab"
    assert "".join(laid_out((("a", 20), ("b", 40)))) == "bab"


def test_queues_that_weigh_the_same_take_turns_by_name() -> None:
    for weight in (1, 7):
        turns = Turns()
        weights = {"c": weight, "a": weight, "b": weight}
        served = [order(turns, "cab", total, **weights) for total in (4, 3, 1, 5)]
        assert served == ["abca", "bca", "b", "cabca"]


def test_a_queue_that_has_no_weight_weighs_1() -> None:
    assert Counter(order(Turns(), "ab", 4, a=3, elsewhere=9)) == {"a": 3, "b": 1}


def test_one_queue_and_none_need_no_turns() -> None:
    assert order(Turns(), "a", 5, a=9) == "aaaaa"
    assert order(Turns(), "", 5) == ""
    assert Turns().take("a", {}, 5).shares({"a": 3}) == {"a": 3}


def test_a_claim_of_nothing_moves_no_turn() -> None:
    turns = Turns()

    assert [order(turns, "ab", total) for total in (0, 1, 0, 1)] == ["", "a", "", "b"]


def test_sets_of_busy_queues_that_alternate_take_turns_each_for_itself() -> None:
    turns = Turns()

    served = [order(turns, queues, 1) for _ in range(6) for queues in ("ab", "cd")]

    assert Counter(served) == {"a": 3, "b": 3, "c": 3, "d": 3}


def test_what_one_cannot_use_goes_to_the_others_alike() -> None:
    turns = Turns()
    served: Counter[str] = Counter()

    # Six is twice the wheel, and the turn would be the same queue's for ever.
    for _ in range(100):
        turn = turns.take("abc", {}, 6)
        served.update(turn.deal({"a": repeat("a"), "b": repeat("b"), "c": iter("c")}))

    assert served["c"] == 100
    assert abs(served["a"] - served["b"]) <= 1


def test_though_the_busy_queues_are_never_the_same_the_first_is_not_preferred() -> None:
    turns = Turns()
    sets = [["a", "b", f"c{number}"] for number in range(3 * MOST_WHEELS)]

    served = Counter(order(turns, queues, 1)[0] for _ in range(2) for queues in sets)

    assert served["a"] == served["b"] == 2 * MOST_WHEELS


@given(
    limits=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), min_size=1),
    weights=WEIGHTS,
    total=st.integers(0, 30),
    turn=st.integers(0, 300),
)
def test_no_share_is_above_its_limit_and_no_room_is_left(
    limits: dict[str, int], weights: dict[str, int], total: int, turn: int
) -> None:
    turns = Turns()
    turns.take(limits, weights, turn)

    most = turns.take(limits, weights, total).shares(limits)

    assert most.keys() == limits.keys()
    assert all(most[queue] <= limit for queue, limit in limits.items())
    assert sum(most.values()) == min(total, sum(limits.values()))


@given(weights=WEIGHTS, total=st.integers(0, 300), turn=st.integers(0, 300))
def test_shares_are_what_is_dealt_where_no_limit_is_in_the_way(
    weights: dict[str, int], total: int, turn: int
) -> None:
    turns, again = Turns(), Turns()
    for each in (turns, again):
        each.take(weights, weights, turn)

    most = turns.take(weights, weights, total).shares(dict.fromkeys(weights, total))

    assert Counter(most) == starts(again, weights, total)


def test_what_is_over_a_limit_goes_to_the_others_in_proportion() -> None:
    places = laid_out((("a", 6), ("b", 2), ("c", 1)))

    assert shares(places, {"a": 3, "b": 90, "c": 90}, 12) == {"a": 3, "b": 6, "c": 3}


def test_what_was_left_of_the_starts_goes_on_where_the_turn_ended() -> None:
    # One of a, b, c and a each; c had none to give.
    assert Turns().take("abc", {}, 4).more({"a": 9, "b": 9}, 1) == {"b": 1, "a": 0}


@given(
    jobs=st.dictionaries(
        st.sampled_from("abcde"), st.lists(st.integers(), max_size=9), min_size=1
    ),
    weights=WEIGHTS,
    total=st.integers(0, 50),
)
def test_what_is_dealt_is_in_order_of_each_queue_and_leaves_no_room(
    jobs: dict[str, list[int]], weights: dict[str, int], total: int
) -> None:
    dealt = (
        Turns()
        .take(jobs, weights, total)
        .deal({queue: iter([(queue, job) for job in jobs[queue]]) for queue in jobs})
    )

    assert len(dealt) == min(total, sum(map(len, jobs.values())))
    for queue, some in jobs.items():
        came = [job for of, job in dealt if of == queue]
        assert came == some[: len(came)]
