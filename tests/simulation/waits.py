"""Law 19: in the calm, who has room takes what is due, whatever wake-ups are lost."""

from __future__ import annotations

import math
from datetime import datetime

from rowlock._job import Status

from .history import Event
from .laws import Broken
from .weather import BREATH_S
from .worker import SAFETY_S
from .world import SETTLE_S, Up, World


class Waits:
    """Follows, through the calm, which worker has had room since when."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settled_at = world.calm_at + SETTLE_S
        self.up: dict[str, Up] = {}
        self.running: dict[str, set[tuple[int, int]]] = {}
        self.room_since: dict[str, float] = {}
        self.due_at: dict[int, float] = {}
        self.broken: list[Broken] = []

    def hear(self, event: Event) -> None:
        who, key = event.who, (event.job, event.claim)
        match event.verb:
            case "is up":
                self.up[who], self.running[who] = event.note, set()
                self.room_since[who] = event.time
            case "dies" | "has ended" | "can't start" | "is told to stop":
                self.up.pop(who, None)
            case "starts":
                self.running[who].add(key)
                if len(self.running[who]) >= self.up_of(who):
                    self.room_since[who] = math.inf
            case "leaves":
                self.running[who].discard(key)
                if self.room_since[who] == math.inf:
                    self.room_since[who] = event.time
            case _:
                self.follow(event)

    def follow(self, event: Event) -> None:
        """Note since when a job is due, and when it isn't any more."""
        match event.verb:
            case "enqueues":
                self.due(event, event.note)
            case "ends" if event.note.accepted and event.note.run_at:
                self.due(event, event.note.run_at)
            case "replays":
                self.due(event, event.now)
            case "claims" | "cancels" | "expires":
                self.taken(event)
            case "sets the clock":
                by_s = event.note.seconds
                self.due_at = {job: at - by_s for job, at in self.due_at.items()}

    def up_of(self, who: str) -> int:
        up = self.up.get(who)
        return up.concurrency if up else 0

    def due(self, event: Event, run_at: datetime) -> None:
        self.due_at[event.job] = event.time + max(
            (run_at - event.now).total_seconds(), 0.0
        )

    def taken(self, event: Event) -> None:
        due_at = self.due_at.pop(event.job, None)
        if due_at is None:
            return
        queue = self.world.database.jobs[event.job].queue
        rooms = [
            max(self.room_since[who], due_at, self.settled_at)
            for who, up in self.up.items()
            if up.queues is None or queue in up.queues
        ]
        waited = event.time - min(rooms, default=self.settled_at)
        if waited > SAFETY_S + BREATH_S:
            how = f"it was due, and waited for {waited:.1f} s beside room"
            self.broken.append(Broken("law 19", event.job, event.time, how))


def check_waits(world: World, *, has_losses: bool) -> list[Broken]:
    """
    Tell which jobs waited too long in the calm, or wait still.

    Where there are suspects, who runs one has no room: then only the end counts.
    """
    waits = Waits(world)
    for event in world.history:
        if event.verb == "stops everybody":
            break
        waits.hear(event)
    if has_losses:
        waits.broken.clear()
    for job_id in tuple(waits.due_at):
        if world.database.model.rows[job_id].status is Status.PENDING:
            waits.taken(event._replace(job=job_id))
    return waits.broken
