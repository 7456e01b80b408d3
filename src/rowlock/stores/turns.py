"""
Whose turn it is: which queue gets the next start, where several have due jobs.

The busy queues are laid out on a wheel. Each has as many places as it weighs, spread
evenly, so that of the first places, however many, it has its share within one. A claim
gets the next places, as many as it has room for; so claims of one job each are in
proportion too, over time. What a queue can't use goes to the others in the same order.

Each set of busy queues has a wheel of its own, which stands where it was left. With
one turn for all of them, sets that alternate in step with it would pass by the same
queue again and again.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from heapq import heappop, heappush
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

T = TypeVar("T")

# The busy queues and what each weighs.
Weighed: TypeAlias = "tuple[tuple[str, int], ...]"

MOST_WHEELS = 64


class Turns:
    """Whose turn it is, for the claims of one process; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wheels: OrderedDict[Weighed, Wheel] = OrderedDict()
        self._given = 0

    def take(
        self, queues: Collection[str], weights: Mapping[str, int], total: int
    ) -> Turn:
        """
        Begin where the turn is, and move it on by `total`.

        A queue without a weight weighs 1.
        """
        if len(queues) <= 1:
            return Turn(list(queues), total)
        weighed = tuple((queue, weights.get(queue, 1)) for queue in sorted(queues))
        with self._lock:
            wheel = self._wheels.get(weighed)
            if wheel is None:
                wheel = self._wheels[weighed] = Wheel(laid_out(weighed), self._given)
                if len(self._wheels) > MOST_WHEELS:
                    self._wheels.popitem(last=False)
            self._wheels.move_to_end(weighed)
            self._given += total
            return Turn(wheel.turn(total), total, wheel)


class Wheel:
    """The places of some queues, and which of them is next."""

    def __init__(self, places: Sequence[str], start: int) -> None:
        self._places = places
        self._next = start

    def turn(self, total: int) -> Sequence[str]:
        """Give all places from the next one, and move on by `total`."""
        start = self._next % len(self._places)
        self._next += total
        return [*self._places[start:], *self._places[:start]]

    def pass_by(self, places: int) -> None:
        """Move on by some more."""
        # Two threads at once may count as one, which costs some queue one start.
        self._next += places


class Turn:
    """The `total` next starts, and the places of which they are."""

    def __init__(
        self, places: Sequence[str], total: int, wheel: Wheel | None = None
    ) -> None:
        self._places = places
        self._total = total
        self._wheel = wheel

    def shares(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """
        Tell how many starts each queue gets, in order of their turns.

        None gets more than its limit; what is over that goes to the others.
        """
        if len(self._places) == 1:
            (queue,) = self._places
            return {queue: min(limits[queue], self._total)}
        return shares(self._places, limits, self._total)

    def more(self, limits: Mapping[str, int], rest: int) -> Mapping[str, int]:
        """Tell how many of the starts that were left each of these queues gets."""
        begin = self._total % len(self._places)
        places = [*self._places[begin:], *self._places[:begin]]
        return shares([queue for queue in places if queue in limits], limits, rest)

    def deal(self, jobs: Mapping[str, Iterator[T]]) -> list[T]:
        """
        Take a job of the queue whose turn it is, until there is enough or none left.

        The turn moves on by the places that had none, too: else, where a claim goes
        round as a whole, what one can't use would go to the same other every time.
        """
        if len(jobs) <= 1:
            return list(islice(chain(*jobs.values()), self._total))
        dealt: list[T] = []
        left = [(place, jobs[queue]) for place, queue in enumerate(self._places, 1)]
        rounds = 0
        while left and self._total > 0:
            spent = set()
            for place, waiting in left:
                job = next(waiting, None)
                if job is None:
                    spent.add(waiting)
                    continue
                dealt.append(job)
                if len(dealt) == self._total:
                    self._pass_by(rounds * len(self._places) + place - self._total)
                    return dealt
            if spent:
                left = [place for place in left if place[1] not in spent]
            rounds += 1
        return dealt

    def _pass_by(self, places: int) -> None:
        if self._wheel is not None:
            self._wheel.pass_by(places)


def laid_out(weighed: Weighed) -> Sequence[str]:
    """
    Lay out queues in as many places as they weigh, spread evenly.

    Each place of a queue belongs to one of the equal parts that its weight cuts the
    wheel into. Of the parts that have begun, the one that ends first is served, which
    keeps every part (the greedy choice, whose queue is furthest behind, does not).
    """
    common = math.gcd(*(weight for _, weight in weighed))
    if all(weight == common for _, weight in weighed):
        return [queue for queue, _ in weighed]
    size = sum(weight for _, weight in weighed) // common
    parts = sorted(
        (number * size // weight, math.ceil((number + 1) * size / weight), queue)
        for queue, heavy in weighed
        for weight in [heavy // common]
        for number in range(weight)
    )
    places: list[str] = []
    begun: list[tuple[int, str]] = []
    coming = iter(parts)
    following = next(coming, None)
    for place in range(size):
        while following is not None and following[0] <= place:
            heappush(begun, following[1:])
            following = next(coming, None)
        places.append(heappop(begun)[1])
    return places


def shares(
    places: Sequence[str], limits: Mapping[str, int], total: int
) -> Mapping[str, int]:
    """Tell how many starts each queue gets that has these places, one after another."""
    most = dict.fromkeys(places, 0)
    turning = [queue for queue in places if limits[queue] > 0]
    while total > 0 and turning:
        counts = Counter(islice(cycle(turning), total))
        full = {
            queue: limits[queue]
            for queue, count in counts.items()
            if count >= limits[queue]
        }
        most |= full or counts
        total -= sum((full or counts).values())
        turning = [queue for queue in turning if queue not in full]
    return most
