"""
How long to wait before the next attempt, as a pure function of the failures.

`Backoff` is data: it is stored with a job where it was given per job. Randomness is
handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._job import JSON

DEFAULT_CAP = 3600.0
DEFAULT_JITTER = 0.1

# After a loss the job is due at once, then after 5 s, 25 s: it may have been the
# machine's fault, and if it wasn't, the next machine must not follow at once.
LOSS_DELAYS = (timedelta(0), timedelta(seconds=5), timedelta(seconds=25))
MAX_LOSSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """
    The delay after each failure, in seconds.

    Up to `jitter` (a share of the delay) is added below `cap`, and taken off where
    the sum would pass it, so that delays spread and never exceed the cap. With
    `jitter=0` they are exact.

        >>> Backoff.exponential(2, factor=2, cap=300, jitter=0).preview(4)
        [(2.0, 2.0), (4.0, 4.0), (8.0, 8.0), (16.0, 16.0)]
    """

    kind: str
    values: tuple[float, ...]
    cap: float | None
    jitter: float = DEFAULT_JITTER

    @classmethod
    def exponential(
        cls,
        first: float | timedelta = 1,
        *,
        factor: float = 5,
        cap: float | timedelta = DEFAULT_CAP,
        jitter: float = DEFAULT_JITTER,
    ) -> Backoff:
        """
        Multiply the delay by `factor` each time: `first`, `first * factor` ...

            >>> Backoff.exponential(1, factor=5, jitter=0).preview(3)
            [(1.0, 1.0), (5.0, 5.0), (25.0, 25.0)]
        """
        if not math.isfinite(factor) or factor < 1:
            msg = f"Backoff.exponential(factor=) must be 1 or more; it was {factor!r}."
            raise UsageError(msg)
        first_s = _seconds(first, "Backoff.exponential(first)")
        cap_s = _seconds(cap, "Backoff.exponential(cap=)")
        _check_cap(first_s, cap_s, "exponential")
        return cls._make("exponential", (first_s, float(factor)), cap_s, jitter)

    @classmethod
    def linear(
        cls,
        step: float | timedelta,
        *,
        cap: float | timedelta = DEFAULT_CAP,
        jitter: float = DEFAULT_JITTER,
    ) -> Backoff:
        """
        Add `step` each time: `step`, `2 * step` ...

            >>> Backoff.linear(10, jitter=0).preview(3)
            [(10.0, 10.0), (20.0, 20.0), (30.0, 30.0)]
        """
        step_s = _seconds(step, "Backoff.linear(step)")
        cap_s = _seconds(cap, "Backoff.linear(cap=)")
        _check_cap(step_s, cap_s, "linear")
        return cls._make("linear", (step_s,), cap_s, jitter)

    @classmethod
    def fixed(
        cls, delay: float | timedelta, *, jitter: float = DEFAULT_JITTER
    ) -> Backoff:
        """
        Wait the same each time; 0 is at once.

            >>> Backoff.fixed(30, jitter=0).preview(2)
            [(30.0, 30.0), (30.0, 30.0)]
        """
        return cls._make(
            "fixed", (_seconds(delay, "Backoff.fixed(delay)"),), None, jitter
        )

    @classmethod
    def steps(
        cls,
        delays: Sequence[float | timedelta],
        *,
        jitter: float = DEFAULT_JITTER,
    ) -> Backoff:
        """
        Wait as listed; the last delay repeats.

            >>> Backoff.steps([1, 60], jitter=0).preview(3)
            [(1.0, 1.0), (60.0, 60.0), (60.0, 60.0)]
        """
        if not delays:
            msg = "Backoff.steps(delays) needs at least one delay."
            raise UsageError(msg)
        values = tuple(_seconds(delay, "Backoff.steps(delays)") for delay in delays)
        return cls._make("steps", values, None, jitter)

    @classmethod
    def _make(
        cls, kind: str, values: tuple[float, ...], cap: float | None, jitter: float
    ) -> Backoff:
        if not 0 <= jitter <= 1:
            msg = f"Backoff.{kind}(jitter=) is a share from 0 to 1; it was {jitter!r}."
            raise UsageError(msg)
        return cls(kind=kind, values=values, cap=cap, jitter=float(jitter))

    def delay(self, failures: int, random: float) -> timedelta:
        """
        Tell the delay after so many failures (1 is the first).

        `random` is a number from 0 to 1.

            >>> Backoff.fixed(10).delay(1, random=0.5).total_seconds()
            10.5
        """
        planned = self._planned(failures)
        spread = planned * self.jitter
        if self.cap is not None and planned + spread > self.cap:
            return timedelta(seconds=planned - spread * random)
        return timedelta(seconds=planned + spread * random)

    def preview(self, failures: int) -> list[tuple[float, float]]:
        """
        Show the least and the longest delay after each of so many failures, in seconds.

            >>> Backoff.fixed(100).preview(1)
            [(100.0, 110.0)]
        """
        return [
            (min(ends), max(ends))
            for n in range(1, failures + 1)
            for ends in [[self.delay(n, end).total_seconds() for end in (0.0, 1.0)]]
        ]

    def _planned(self, failures: int) -> float:
        if self.kind == "fixed":
            return self.values[0]
        if self.kind == "steps":
            return self.values[min(failures, len(self.values)) - 1]
        cap = self.cap if self.cap is not None else math.inf
        if self.kind == "linear":
            return min(self.values[0] * failures, cap)
        if self.kind != "exponential":
            raise ValueError(self.kind)
        first, factor = self.values
        if first == 0:
            return 0.0
        # factor ** n overflows long before anybody stops snoozing, so the power is
        # only taken where it stays below the cap.
        if (failures - 1) * math.log(factor) >= math.log(cap / first):
            return cap
        return min(first * factor ** (failures - 1), cap)

    def to_json(self) -> dict[str, JSON]:
        """
        Write this backoff as JSON data, to be stored with a job.

            >>> Backoff.fixed(1, jitter=0).to_json()
            {'kind': 'fixed', 'values': [1.0], 'cap': None, 'jitter': 0.0}
        """
        return {
            "kind": self.kind,
            "values": list(self.values),
            "cap": self.cap,
            "jitter": self.jitter,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Backoff:
        """
        Read what `to_json` wrote.

            >>> Backoff.from_json(Backoff.fixed(1).to_json()) == Backoff.fixed(1)
            True
        """
        try:
            values = tuple(float(value) for value in data["values"])  # type: ignore[attr-defined]  # checked by the except
            cap = None if data["cap"] is None else float(data["cap"])  # type: ignore[arg-type]  # the same
            backoff = cls(
                kind=str(data["kind"]),
                values=values,
                cap=cap,
                jitter=float(data["jitter"]),  # type: ignore[arg-type]  # the same
            )
            backoff._planned(1)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            msg = f"{data!r} isn't a backoff that this version knows."
            raise UsageError(msg) from error
        return backoff


BackoffLike: TypeAlias = Backoff | float | timedelta | Sequence[float | timedelta]
"""What `backoff=` takes: a `Backoff`, one delay, or a list of delays."""

BackoffRule: TypeAlias = Backoff | Callable[[int], float | timedelta]


def to_backoff(value: BackoffLike, argument: str) -> Backoff:
    """Read a backoff: itself, one delay for every time, or a list of them."""
    if isinstance(value, Backoff):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return Backoff.steps(value)
    if isinstance(value, int | float | timedelta):
        return Backoff.fixed(to_delay(value, argument))
    msg = f"{argument} takes a Backoff, a delay or a list of delays, not {value!r}."
    raise UsageError(msg)


def after_failure(rule: BackoffRule, failures: int, random: float) -> timedelta:
    """Tell the delay after so many failures, by data or by a task's own callable."""
    if isinstance(rule, Backoff):
        return rule.delay(failures, random)
    return to_delay(rule(failures), "the delay returned by backoff")


def _seconds(value: float | timedelta, argument: str) -> float:
    return to_delay(value, argument).total_seconds()


def _check_cap(first: float, cap: float, kind: str) -> None:
    if first > cap:
        msg = (
            f"Backoff.{kind} starts at {first:g} s, above its cap of {cap:g} s:"
            " raise cap= or lower the delay."
        )
        raise UsageError(msg)


DEFAULT_BACKOFF = Backoff.exponential(1, factor=5)
