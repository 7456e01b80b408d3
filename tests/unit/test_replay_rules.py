"""What `replay_when` and `App(version=)` take, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from rowlock import App, RowlockError, TaskNotFound, UsageError


@pytest.fixture
def app() -> App:
    """An app with one task."""
    app = App("sqlite://")

    @app.task
    def send_receipt(order_id: int) -> None: ...

    return app


def up() -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "send_reciept"}, "no task 'send_reciept'; did you mean"),
        ({"task": 7}, "task= takes a text"),
        ({"probe": None}, "probe= takes a function that is called without arguments"),
        ({"probe": lambda order: order}, "probe= is called without arguments"),
        ({"every": 0}, "every= is at least 1 s; it was 0 s"),
        ({"every": 0.5}, "every= is at least 1 s; it was 0.5 s"),
        ({"every": -1}, "every= can't be negative"),
        ({"every": "5m"}, "every= takes seconds"),
        ({"every": float("nan")}, "every= takes a finite number"),
        ({"limit": 0}, "limit= is a whole number of 1 or more"),
        ({"limit": 1.5}, "limit= is a whole number"),
        ({"rate": 0}, "rate= is how many a second"),
        ({"rate": -1}, "rate= is how many a second"),
        ({"rate": float("nan")}, "rate= is how many a second"),
        ({"rate": float("inf")}, "rate= is how many a second"),
        ({"rate": True}, "rate= is how many a second"),
        ({"rate": "10/s"}, "rate= is how many a second"),
    ],
)
def test_what_is_no_rule_is_refused_in_a_sentence(
    app: App, given: dict[str, Any], said: str
) -> None:
    whole: dict[str, Any] = {"task": "send_receipt", "probe": up, **given}
    with pytest.raises(RowlockError) as refused:
        app.replay_when(**whole)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_task_is_named(app: App) -> None:
    with pytest.raises(TaskNotFound) as refused:
        app.replay_when("x", up)

    assert refused.value.task == "x"


def test_a_task_has_one_rule(app: App) -> None:
    app.replay_when(app.tasks["send_receipt"], up)

    with pytest.raises(UsageError, match="'send_receipt' is replayed by another probe"):
        app.replay_when("send_receipt", up)


@pytest.mark.parametrize(
    "probe",
    [up, bool, lambda: 1, lambda retries=3: retries, partial(max, 1, 2), object],
)
def test_what_can_be_called_without_arguments_is_a_probe(
    app: App, probe: Callable[[], object]
) -> None:
    app.replay_when("send_receipt", probe, every=timedelta(minutes=1), rate=0.5)


@pytest.mark.parametrize("version", ["", 7, "x" * 201, "a\0"], ids=repr)
def test_a_version_is_a_text(version: Any) -> None:  # noqa: ANN401 - what is refused
    with pytest.raises(UsageError, match="version="):
        App("sqlite://", version=version)


def test_a_version_is_what_was_given() -> None:
    assert App("sqlite://", version="2026.11.3").version == "2026.11.3"
    assert App("sqlite://").version is None
