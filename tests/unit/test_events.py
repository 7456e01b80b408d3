"""Events as log records."""

from __future__ import annotations

import logging
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from rowlock import events
from rowlock._log import log
from rowlock.events import AttemptFailed, AttemptRaisedLate, Event

SRC = Path(events.__file__).parent


def test_a_record_has_the_events_name_and_fields_apart_from_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="rowlock.worker"):
        log(failed("no"))

    (record,) = caplog.records
    assert record.getMessage().startswith("attempt.failed job_id=1 task=greet ")
    values = record.__dict__["rowlock"]
    assert values["event"] == "attempt.failed"
    assert (values["job_id"], values["ran_s"], values["error"]) == (1, 0.5, "no")


@pytest.mark.parametrize("error", ["a\nforged line", "a\tb", "\x1b[31m", "a b", "\x9b"])
def test_a_text_from_outside_stays_on_its_line(
    error: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="rowlock.worker"):
        log(failed(error))

    message = caplog.records[0].getMessage()
    assert message.isprintable()
    assert f" error={error!r} " in f"{message} "


def test_what_was_raised_too_late_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = (
        "Traceback (most recent call last):\n  File ...\nOSError: a\n\x1b[31m forged"
    )
    event = AttemptRaisedLate(
        job_id=1,
        task="greet",
        queue="default",
        attempt=2,
        error_type="OSError",
        error="OSError: a",
        traceback=trace,
    )
    with caplog.at_level(logging.WARNING, logger="rowlock.worker"):
        log(event)

    (record,) = caplog.records
    line, *lines = logging.Formatter().format(record).splitlines()
    assert line == (
        "attempt.raised_late job_id=1 task=greet queue=default attempt=2"
        " error_type=OSError error='OSError: a'"
    )
    assert lines == [
        "  Traceback (most recent call last):",
        "    File ...",
        "  OSError: a",
        "  \\x1b[31m forged",
    ]
    assert "traceback" not in record.__dict__["rowlock"]


def test_an_instant_is_written_as_everywhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=1)))
    with caplog.at_level(logging.WARNING, logger="rowlock.worker"):
        log(failed("no", retry_at=at))

    assert (
        caplog.records[0].getMessage().endswith(" retry_at=2026-01-01T09:00:00.000000Z")
    )


def kinds() -> dict[str, type[Event]]:
    return {
        name: kind
        for name, kind in vars(events).items()
        if isinstance(kind, type) and issubclass(kind, Event) and hasattr(kind, "name")
    }


def test_every_event_has_a_name_of_its_own_and_is_emitted_somewhere() -> None:
    names = [kind.name for kind in kinds().values()]
    assert len(set(names)) == len(names) > 20

    elsewhere = "".join(
        path.read_text()
        for path in SRC.rglob("*.py")
        if path.parent.name != "_events" and path.name != "events.py"
    )
    assert not [name for name in kinds() if f"{name}(" not in elsewhere]


def test_no_event_carries_what_is_the_users() -> None:
    carried = {field.name for kind in kinds().values() for field in fields(kind)}

    assert not carried & {"payload", "arguments", "result", "state", "progress", "note"}


def test_of_very_many_ids_a_line_shows_some_and_the_record_has_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="rowlock"):
        log(events.JobsReplayed(by="ada", ids=tuple(range(1, 1001))))

    (record,) = caplog.records
    expected = "jobs.replayed by=ada ids=1,2,3,4,5,6,7,8,9,10,...990_more"
    assert record.getMessage() == expected
    assert len(record.__dict__["rowlock"]["ids"]) == 1000


def failed(error: str, retry_at: datetime | None = None) -> AttemptFailed:
    return AttemptFailed(
        job_id=1,
        task="greet",
        queue="default",
        attempt=1,
        ran_s=0.5,
        failures=1,
        error_type="ValueError",
        error=error,
        retry_at=retry_at,
    )
