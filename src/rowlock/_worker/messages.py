"""What a worker and its children say to each other, as pickled tuples over a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rowlock._cancelled import Reason
from rowlock._job import Claim, Outcome
from rowlock._worker.places import Place


class Setup(NamedTuple):
    """What a child is told at its start; `levels` are those of the worker's loggers."""

    places: tuple[Place, ...]
    environment: Mapping[str, str]
    levels: Mapping[str, int]
    max_payload: int


class Start(NamedTuple):
    """To a child: run the handler of this claim."""

    claim: Claim
    place: Place


class Stop(NamedTuple):
    """To a child: have the handler stop."""

    reason: Reason


class Answer(NamedTuple):
    """To a child: whether the claim held, or why its checkpoint can't be written."""

    number: int
    held: bool
    error: Exception | None = None


class End(NamedTuple):
    """To an idle child: go."""


class Ready(NamedTuple):
    """From a child: it has found its tasks, or says why not."""

    problem: str | None = None


class Begun(NamedTuple):
    """From a child: from here on, its death is the handler's."""


class Checkpoint(NamedTuple):
    """From a child: write this state, and answer by this number."""

    number: int
    state: str


class Progress(NamedTuple):
    """From a child: so far has it come."""

    progress: str


class Logged(NamedTuple):
    """From a child: what goes to the worker's log."""

    record: Mapping[str, Any]


class Ended(NamedTuple):
    """From a child: what the attempt came to, and the signals that ended nothing."""

    outcome: Outcome
    swallowed: tuple[str, ...]
