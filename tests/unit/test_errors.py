"""The tree of errors is the one that its docstring draws."""

from __future__ import annotations

import inspect
import re

import pytest

from rowlock import _errors, _signals
from rowlock._errors import (
    ClaimLost,
    ConfigError,
    DuplicateTask,
    InvalidTask,
    JobNotFound,
    JobUnfinished,
    PayloadError,
    RowlockError,
    StoreError,
    TaskNotFound,
    UsageError,
    WrongConnection,
)
from rowlock._signals import Retry, Signal, Snooze, Unrecoverable


def drawn(docstring: str) -> dict[str, str | None]:
    """Read the drawing: each class and the one above it."""
    parents: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in docstring.splitlines():
        entry = re.match(r"^([│├└─ ]*)([A-Z]\w+)(?:\s{2,}.*)?$", line)
        if entry is None:
            continue
        depth, name = len(entry[1]), entry[2]
        path = [(d, n) for d, n in path if d < depth]
        parents[name] = path[-1][1] if path else None
        path.append((depth, name))
    return parents


def real() -> dict[str, str | None]:
    """Read the classes: each and its parent inside the tree."""
    return {
        name: next(
            (
                base.__name__
                for base in kind.__bases__
                if issubclass(base, RowlockError)
            ),
            None,
        )
        for name, kind in inspect.getmembers(_errors, inspect.isclass)
        if issubclass(kind, RowlockError)
    }


def test_the_tree_drawn_is_the_tree_that_is() -> None:
    assert _errors.__doc__ is not None
    assert drawn(_errors.__doc__) == real()


def test_the_tree_of_signals_is_drawn_too() -> None:
    kinds = [Signal, Retry, Snooze, Unrecoverable]
    parents = {kind.__name__: kind.__bases__[0].__name__ for kind in kinds}

    assert _signals.__doc__ is not None
    assert drawn(_signals.__doc__) == {**parents, "Signal": None}


def test_the_drawing_is_read_right() -> None:
    drawing = (
        "Root\n├── Left      what it is\n│   └── Leaf    more\n└── Right   the end"
    )

    assert drawn(drawing) == {
        "Root": None,
        "Left": "Root",
        "Leaf": "Left",
        "Right": "Root",
    }


@pytest.mark.parametrize("name", sorted(real()))
def test_each_error_tells_what_to_do(name: str) -> None:
    documentation = getattr(_errors, name).__doc__

    assert documentation
    assert documentation.strip().endswith(".")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InvalidTask, TypeError),
        (UsageError, ValueError),
        (WrongConnection, TypeError),
        (PayloadError, ValueError),
        (JobNotFound, LookupError),
        (JobUnfinished, TimeoutError),
    ],
)
def test_an_error_is_also_the_builtin_that_callers_expect(
    error: type[RowlockError], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_a_start_up_error_is_never_a_store_error() -> None:
    assert not issubclass(StoreError, ConfigError)
    assert not issubclass(ConfigError, StoreError)


def test_an_error_carries_its_values_as_attributes() -> None:
    assert TaskNotFound("mail", "no task mail").task == "mail"
    assert DuplicateTask("mail", "two tasks mail").task == "mail"
    assert PayloadError("bad", path="$.order").path == "$.order"
    assert PayloadError("bad").path == "$"
    assert JobNotFound(17).job_id == 17
    assert "job 17" in str(JobNotFound(17))
    unfinished = JobUnfinished(17, "running", 2.5)
    assert (unfinished.job_id, unfinished.status) == (17, "running")
    assert "Job 17 was still running after 2.5 s" in str(unfinished)
    lost = ClaimLost(17, 3)
    assert (lost.job_id, lost.claim) == (17, 3)
    assert "Claim 3 of job 17" in str(lost)
