"""What the random machine draws: jobs, demands, pauses."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st

from rowlock._store import Demand, Pause, Pruned


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


DAY = timedelta(days=1)
TASKS = {"a", "b", "poison"}
WORKERS = st.sampled_from(["w1", "w2"])
JOBS = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["a", *sorted(TASKS)]),
        "queue": st.sampled_from(["x", "y"]),
        "priority": st.integers(-1, 1),
        "delay": st.sampled_from([0, 0, 0, 0, 5, 3600]).map(seconds),
        "max_attempts": st.sampled_from([3, 1, 2, 9, 9]),
        "expires_in": st.sampled_from([None, None, None, None, 7.5, 100.5]),
        "key": st.sampled_from(
            [
                {},
                {},
                {"idempotency_key": "k1"},
                {"idempotency_key": "k2"},
                {"idempotency_key": "k1", "on_conflict": "replace"},
                {"idempotency_key": "k2", "idempotency_for": seconds(90)},
                {"idempotency_key": "k2", "idempotency_for": 2 * DAY},
            ]
        ),
        "payload": st.sampled_from(["{}", '{"n":1}']),
    }
)
DEMANDS = st.builds(
    Demand,
    total=st.sampled_from([2, 1, 3, 4, 4, 0]),
    tasks=st.sampled_from([TASKS, TASKS, TASKS - {"b"}, {"a"}, set()]).map(frozenset),
    queues=st.sampled_from([None, None, {"x": 1, "y": 2}, {"y": 3, "x": 0}]),
    weights=st.sampled_from([{}, {}, {"x": 3}, {"x": 100, "y": 2, "z": 9}]),
)
PAUSES = st.sampled_from([Pause(queue="x"), Pause(queue="y"), Pause(task="a")])
NOTHING = Pruned(expired=0, deleted=0)
