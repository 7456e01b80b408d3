"""
Exactly once: what a handler commits is a success, and what it rolls back is none.

What a worker tells of a claim is that, too. Of a job that is gone it can't know more
than that it had ended, and takes that for the success that it has asked about.
"""

from __future__ import annotations

from rowlock._job import Status

from .history import Event
from .record import Broken
from .world import World


class Effects:
    """Follows what became of claims, of the transactions of handlers among them."""

    def __init__(self) -> None:
        self.committed: set[tuple[int, int]] = set()
        self.rolled_back: set[tuple[int, int]] = set()
        self.succeeded: set[tuple[int, int]] = set()
        self.deleted: set[int] = set()
        # By who started it, and as which attempt: it tells no more of a success.
        self.started: dict[tuple[str, int, int], int] = {}
        self.broken: list[Broken] = []

    def hear(self, event: Event) -> None:
        key = event.job, event.claim
        match event.verb:
            case "starts":
                self.started[event.who, event.job, event.note] = event.claim
            case "commits":
                self.committed.add(key)
                self.check(event.note, event, "its success wasn't written")
            case "rolls back":
                self.rolled_back.add(key)
            case "ends" if event.note.accepted:
                is_success = event.note.status is Status.SUCCEEDED
                if is_success:
                    self.succeeded.add(key)
                    is_right = key not in self.rolled_back
                    self.check(is_right, event, "a success without its effect")
            case "deletes":
                self.deleted.add(event.job)
            case "tells claim.refused":
                is_right = key not in self.committed and (
                    key not in self.succeeded or event.job in self.deleted
                )
                self.check(is_right, event, "told as refused, and a success")
            case "tells attempt.succeeded":
                claim = self.started[event.who, event.job, event.note]
                is_right = (event.job, claim) in self.succeeded
                is_right |= event.job in self.deleted
                self.check(is_right, event, "told as a success, and none")

    def check(self, holds: bool, event: Event, how: str) -> None:  # noqa: FBT001 - what is checked
        if not holds:
            self.broken.append(Broken("exactly once", event.job, event.time, how))


def check_effects(world: World) -> list[Broken]:
    """Tell which jobs had another effect than their status says, or their worker."""
    effects = Effects()
    for event in world.history:
        effects.hear(event)
    return effects.broken
