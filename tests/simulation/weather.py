"""
What goes wrong in one run, and how often: drawn once a run from its seed.

Each kind of fault is on in about half of the runs only: where everything fails at
once, whatever needs one fault and calm otherwise is never seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple, TypeAlias

LEASE_S = 4.0
# How long most storms last; some last twice that.
STORM_S = 7.0
# The longest way of a request in the calm, and turns of loops that had others to take.
BREATH_S = 1.0

Ends: TypeAlias = Literal["answered", "refused", "unheard", "unanswered"]


class Fate(NamedTuple):
    """How long a request and its answer travel, and what becomes of it."""

    there: float
    back: float
    ends: Ends


@dataclass(slots=True)
class Planned:
    """Something that befalls the workers, at a time; `who` is a place, not a name."""

    at: float
    what: str
    who: int = 0
    lasts: float = 0.0


class Weather:
    """The faults of one run; calm, it lets everything through but wake-ups."""

    def __init__(self, random: Random, places: int) -> None:
        self._random = random
        self.is_calm = False
        self._away: dict[str, int] = {}
        self.storm_s = STORM_S * random.choice([1, 1, 1, 1, 2])
        some = self._some
        self.only_outages = random.random() < 0.1
        faulty = not self.only_outages
        self.refused = some(0.05, 0.3) * faulty
        self.unanswered = some(0.05, 0.3) * faulty
        self.slow = some(0.02, 0.2) * faulty
        self.deaf = random.choice([0.0, 0.3, 1.0])
        # Whether the calm has more jobs than places, and one death.
        self.is_busy = faulty and random.random() < 0.05
        self.places = min(places, 2) if self.is_busy else places
        self.plan = self._draw_plan()

    def _some(self, least: float, most: float) -> float:
        is_on = self._random.random() < 0.5
        return self._random.uniform(least, most) if is_on else 0.0

    def _draw_plan(self) -> list[Planned]:
        """Draw what befalls the workers, at which times."""
        random = self._random
        if self.only_outages:
            at = random.uniform(1.0, 3.0)
            lasts = LEASE_S * random.uniform(1.0, 3.0)
            self.storm_s = at + lasts + 1.0
            return [Planned(at, "outage", -1, lasts)]
        kinds = [
            what
            for what in ("outage", "dies", "stops", "jumps", "pause", "lock")
            if random.random() < 0.4
        ]
        plan = []
        for what in kinds:
            for _ in range(random.choice([1, 1, 2])):
                who = random.randrange(-1 if what == "outage" else 0, self.places)
                lasts = LEASE_S * random.choice([0.2, 0.6, 1.5, 2.5])
                at = random.uniform(0.0, self.storm_s)
                plan.append(Planned(at, what, who, lasts))
        return plan

    @property
    def is_gentle(self) -> bool:
        """Whether no worker is dead, or out of reach for long."""
        return self.slow == 0 and all(
            each.what in ("stops", "pause") for each in self.plan
        )

    def __str__(self) -> str:
        told = [
            f"{name} {chance:.0%}"
            for name, chance in (
                ("refused", self.refused),
                ("answers lost", self.unanswered),
                ("slow", self.slow),
                ("wake-ups lost", self.deaf),
            )
            if chance
        ]
        told += sorted({each.what for each in self.plan})
        return ", ".join([*told, "busy"] if self.is_busy else told)

    def fate(self, worker: str, *, writing: bool) -> Fate:
        """Draw what becomes of a call."""
        random = self._random.random
        there, back = 0.001 + 0.01 * random(), 0.001 + 0.01 * random()
        if self.is_calm:
            return Fate(there, back, "answered")
        if self.is_away(worker):
            # A server that is gone refuses at once, one behind a dead line is silent.
            return Fate(there, back + random() * 0.3, "refused")
        if random() < self.slow:
            late = LEASE_S * 1.2 * random() ** 2
            there, back = (there + late, back) if random() < 0.5 else (there, late)
        ends: Ends = "answered"
        if random() < self.refused:
            ends = "refused"
        elif random() < self.unanswered:
            ends = "unanswered" if random() < 0.7 else "unheard"
        if not writing and ends in ("unanswered", "unheard"):
            ends = "refused"
        return Fate(there, back, ends)

    def posthumous_s(self) -> float:
        """Draw for how long a dead worker's last request is on its way."""
        return self._random.random() * 0.9

    def news(self) -> float | None:
        """Draw after how long a wake-up comes; None: never."""
        if self._random.random() < self.deaf:
            return None
        return 0.001 + 0.02 * self._random.random()

    def is_away(self, worker: str) -> bool:
        """Tell whether a worker can't reach the database."""
        away = self._away
        if self.is_calm or not away:
            return False
        return bool(away.get("", 0) or away.get(worker.partition(".")[0], 0))

    def begin_outage(self, place: str) -> None:
        """Cut off a place, or all of them where it is empty."""
        self._away[place] = self._away.get(place, 0) + 1

    def end_outage(self, place: str) -> None:
        self._away[place] -= 1
