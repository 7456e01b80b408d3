"""
Law 19: in the calm, who has room takes what is due, whatever wake-ups are lost.

A worker has no room for a job while it runs all it may, or all of its queue; while it
runs a suspect; and while it ends what it runs to give way to one, which it may once a
suspect has been due for the safety interval, and not again until it has served the
others for as long. A suspect has to be taken by who is idle, and by who was chosen:
within the safety interval, and what its longest attempt takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from rowlock._worker.fetch import LONGEST_FLUSH_S

from .history import Event
from .jobs import SETTLE_S
from .record import Broken
from .weather import BREATH_S, LEASE_S
from .worker import SAFETY_S
from .world import Up, World

LONGEST_WAIT_S = SAFETY_S + BREATH_S


class Wait(NamedTuple):
    """A job that was due, until it was taken or the run was over."""

    job: int
    queue: str
    is_suspect: bool
    since: float
    until: float


@dataclass(slots=True)
class Stay:
    """That a worker ran a claim, from its start until its handler left."""

    queue: str
    is_suspect: bool
    since: float
    until: float = math.inf


@dataclass(slots=True)
class Life:
    """A worker, from its start until it claims no more."""

    up: Up
    since: float
    until: float = math.inf
    stays: dict[tuple[int, int], Stay] = field(default_factory=dict)
    # By the store's clock: of those that live the one that started last is chosen.
    started_at: datetime | None = None
    # Until when the store takes it for one that lives.
    is_seen_until: datetime | None = None

    def has_room(self, at: float, queue: str) -> bool:
        """Tell whether it might have started another job of a queue."""
        stays = self.stays.values()
        running = [each for each in stays if each.since <= at < each.until]
        limit = self.up.limits.get(queue, self.up.served.concurrency)
        return (
            len(running) < self.up.served.concurrency
            and sum(each.queue == queue for each in running) < limit
            and not any(each.is_suspect for each in running)
        )

    def runs_until(self, at: float) -> float:
        """Tell when all that it runs at a time will have left."""
        return max(
            (each.until for each in self.stays.values() if each.since <= at),
            default=0.0,
        )

    def suspects(self, since: float, until: float) -> list[Stay]:
        """Give the suspects that it ran within a time, in order."""
        found = [
            each
            for each in self.stays.values()
            if each.is_suspect and each.since <= until and each.until > since
        ]
        return sorted(found, key=lambda each: each.since)


class Waits:
    """Who waited, and who ran what meanwhile, as a history has it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lives: dict[str, Life] = {}
        self.waits: list[Wait] = []
        self._due_at: dict[int, float] = {}
        self._suspects: set[int] = set()
        self._alone: set[tuple[int, int]] = set()
        for event in world.history:
            if event.verb == "stops everybody":
                break
            self._hear(event)
        self.last = event
        for job in tuple(self._due_at):
            self._taken(event._replace(job=job))

    def _hear(self, event: Event) -> None:
        who, key = event.who, (event.job, event.claim)
        match event.verb:
            case "is up":
                self.lives[who] = Life(event.note, event.time)
            case "dies" | "has ended" | "can't start" | "is told to stop":
                life = self.lives[who]
                life.until = min(life.until, event.time)
            case "is seen":
                life = self.lives[who]
                life.started_at = event.note or life.started_at
                lease = timedelta(seconds=LEASE_S)
                life.is_seen_until = event.note and event.now + lease
            case "starts":
                queue, is_alone = self._queue_of(event), key in self._alone
                self.lives[who].stays[key] = Stay(queue, is_alone, event.time)
            case "leaves":
                self.lives[who].stays[key].until = event.time
            case "sets the clock":
                by_s = event.note.seconds
                self._due_at = {job: at - by_s for job, at in self._due_at.items()}
            case _:
                self._follow(event)

    def _queue_of(self, event: Event) -> str:
        return self.world.database.jobs[event.job].queue

    def _follow(self, event: Event) -> None:
        """Note since when a job is due, and when it isn't any more."""
        match event.verb:
            case "enqueues":
                self._due(event, event.note)
            case "ends" if event.note.accepted and event.note.run_at:
                outcome = event.note.outcome
                if outcome.lost:
                    self._suspects.add(event.job)
                elif not outcome.unstarted:
                    self._suspects.discard(event.job)
                self._due(event, event.note.run_at)
            case "replays":
                self._suspects.discard(event.job)
                self._due(event, event.now)
            case "claims":
                if event.note.suspects:
                    self._alone.add((event.job, event.claim))
                self._taken(event)
            case "cancels" | "expires":
                self._taken(event)

    def _due(self, event: Event, run_at: datetime) -> None:
        self._due_at[event.job] = event.time + max(
            (run_at - event.now).total_seconds(), 0.0
        )

    def _taken(self, event: Event) -> None:
        due_at = self._due_at.pop(event.job, None)
        if due_at is not None:
            is_suspect = event.job in self._suspects
            queue = self._queue_of(event)
            until = min(event.time, self._expires_at(event))
            self.waits.append(Wait(event.job, queue, is_suspect, due_at, until))

    def _expires_at(self, event: Event) -> float:
        """Tell since when nobody may take it: what has expired is noted later."""
        database = self.world.database
        expires_at = database.jobs[event.job].expires_at
        row = database.model.rows.get(event.job)
        if event.verb == "stops everybody" and row is not None:
            expires_at = None if row.attempts else row.expires_at
        elif event.verb not in ("stops everybody", "expires"):
            expires_at = None
        if expires_at is None:
            return math.inf
        return event.time + (expires_at - event.now).total_seconds()


class Patience:
    """Judges who waited for too long in the calm."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._settled_at = waits.world.calm_at + SETTLE_S
        self._chosen_since = self._without_ghosts()
        self.broken: list[Broken] = []

    def _without_ghosts(self) -> float:
        """Tell since when only those are chosen that live."""
        last = self._waits.last
        since = self._settled_at
        for life in self._waits.lives.values():
            if life.until < math.inf and life.is_seen_until is not None:
                left = life.is_seen_until - last.now
                since = max(since, last.time + left.total_seconds())
        return since

    def judge(self) -> list[Broken]:
        for wait in self._waits.waits:
            since = max(wait.since, self._settled_at)
            # Nearly all of them.
            if wait.until - since <= LONGEST_WAIT_S:
                continue
            every = self._waits.lives.values()
            lives = [life for life in every if life.up.serves(wait.queue)]
            for life in lives:
                if wait.is_suspect:
                    self._judge_idle(wait, life)
                else:
                    self._judge_room(wait, life)
            if wait.is_suspect:
                self._judge_chosen(wait, lives)
        return self.broken

    def _judge_room(self, wait: Wait, life: Life) -> None:
        since = max(wait.since, self._settled_at, life.since)
        until = min(wait.until, life.until)
        excuses = list(self._gives_way(life, since, until))

        def has_room(at: float) -> bool:
            is_excused = any(begin <= at < end for begin, end in excuses)
            return not is_excused and life.has_room(at, wait.queue)

        edges = [edge for excuse in excuses for edge in excuse]
        edges += [at for each in life.stays.values() for at in (each.since, each.until)]
        waited = _longest(has_room, since, until, edges)
        if waited > LONGEST_WAIT_S:
            self._break(wait, f"it was due, and waited for {waited:.1f} s beside room")

    def _gives_way(
        self, life: Life, since: float, until: float
    ) -> Iterator[tuple[float, float]]:
        """Give the times in which it may take nothing else, for a suspect."""
        for wait in self._waits.waits:
            if not wait.is_suspect or not life.up.serves(wait.queue):
                continue
            begins = {wait.since + SAFETY_S, self._chosen_since}
            begins |= {
                each.until + SAFETY_S for each in life.suspects(wait.since, until)
            }
            for begin in begins:
                if wait.since + SAFETY_S <= begin < wait.until:
                    end = life.runs_until(begin + BREATH_S) + LONGEST_FLUSH_S
                    if end > max(begin, since):
                        yield begin, end

    def _judge_idle(self, wait: Wait, life: Life) -> None:
        since = max(wait.since, self._settled_at, life.since)
        until = min(wait.until, life.until)
        edges = [at for each in life.stays.values() for at in (each.since, each.until)]
        waited = _longest(
            lambda at: not any(s.since <= at < s.until for s in life.stays.values()),
            since,
            until,
            edges,
        )
        # While outcomes are written before it, of which some wait for transactions.
        if waited > LONGEST_WAIT_S + LONGEST_FLUSH_S:
            self._break(wait, f"a suspect waited for {waited:.1f} s beside an idle one")

    def _judge_chosen(self, wait: Wait, lives: Iterable[Life]) -> None:
        chosen = sorted(
            (life.started_at, life.since, index, life)
            for index, life in enumerate(lives)
            if life.started_at is not None
        )
        until = wait.until
        for _, _, _, life in reversed(chosen):
            since = max(wait.since, self._chosen_since, life.since)
            ends_at = min(until, life.until)
            overdue_s = _overdue_s(life, since, ends_at)
            if overdue_s > 0:
                how = f"a suspect waited for {overdue_s:.1f} s after all had left"
                self._break(wait, how)
            until = min(until, life.since) if life.until == math.inf else until

    def _break(self, wait: Wait, how: str) -> None:
        self.broken.append(Broken("law 19", wait.job, wait.until, how))


def _overdue_s(life: Life, since: float, until: float) -> float:
    """Tell for how long a suspect has waited that the chosen one had to take."""
    while True:
        gives_way_at = since + SAFETY_S
        left_at = max(gives_way_at, life.runs_until(gives_way_at + BREATH_S))
        takes_at = left_at + LONGEST_FLUSH_S + BREATH_S
        taken = life.suspects(since, takes_at)
        if until <= takes_at or not taken:
            return until - takes_at
        # Then the others have their turn, for as long again.
        since = taken[0].until


def _longest(
    holds: Callable[[float], bool], since: float, until: float, edges: Iterable[float]
) -> float:
    """Tell for how long at once something held that changes at edges only."""
    longest = begun = 0.0
    inner = sorted({since, *(edge for edge in edges if since < edge < until)})
    for at, following in zip(inner, [*inner[1:], until], strict=True):
        begun = begun + following - at if holds(at) else 0.0
        longest = max(longest, begun)
    return longest


def check_waits(world: World) -> list[Broken]:
    """Tell which jobs waited too long in the calm, or wait still."""
    return Patience(Waits(world)).judge()
