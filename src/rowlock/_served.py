"""What a worker serves: which queues, how many jobs of each at once, in which share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from rowlock._errors import UsageError
from rowlock._options import check_count, check_name, check_names

Queues: TypeAlias = Iterable[str] | Mapping[str, int | None]
"""What `queues=` takes: names, or for each how many of its jobs run at once."""

DEFAULT_CONCURRENCY = 5
# Beside it the least is one start in a hundred, which is late enough.
HEAVIEST = 100


class Served(NamedTuple):
    """
    What a worker serves; `queues` None is every queue.

    A queue without a limit has the worker's concurrency, one without a weight weighs 1.
    """

    concurrency: int
    queues: tuple[str, ...] | None
    limits: Mapping[str, int]
    weights: Mapping[str, int]


def check_served(
    concurrency: int | None, queues: Queues | None, weights: Mapping[str, int] | None
) -> Served:
    """Read what a worker is to serve."""
    names = None if queues is None else check_names(queues, "queues=")
    limits = _check_limits(queues) if isinstance(queues, Mapping) else {}
    if concurrency is None:
        concurrency = _concurrency(names, limits)
    check_count(concurrency, "concurrency=")
    for queue, limit in limits.items():
        if limit > concurrency:
            msg = (
                f"The queue {queue!r} may run {limit} jobs at once, and the worker"
                f" {concurrency}: raise its concurrency, or leave that out, and it is"
                " what its queues have together."
            )
            raise UsageError(msg)
    return Served(concurrency, names, limits, _check_weights(weights or {}, names))


def _check_limits(queues: Mapping[str, int | None]) -> Mapping[str, int]:
    return {
        queue: check_count(limit, f"queues[{queue!r}]=")
        for queue, limit in queues.items()
        if limit is not None
    }


def _concurrency(names: tuple[str, ...] | None, limits: Mapping[str, int]) -> int:
    """Tell how many jobs run at once where only the queues say."""
    are_all_limited = names is not None and limits.keys() == set(names)
    return sum(limits.values()) + (0 if are_all_limited else DEFAULT_CONCURRENCY)


def _check_weights(
    weights: Mapping[str, int], names: tuple[str, ...] | None
) -> Mapping[str, int]:
    for queue, weight in weights.items():
        check_name(queue, "weights=")
        if check_count(weight, f"weights[{queue!r}]=") > HEAVIEST:
            msg = f"weights[{queue!r}]= is {HEAVIEST} at most, not {weight}."
            raise UsageError(msg)
        if names is not None and queue not in names:
            msg = (
                f"The queue {queue!r} has a weight, and the worker doesn't serve it:"
                " name it among the queues too."
            )
            raise UsageError(msg)
    return dict(weights)
