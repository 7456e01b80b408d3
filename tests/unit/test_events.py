"""Events as log records."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone

import pytest

from rowlock._events import AttemptFailed
from rowlock._log import log


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


def test_an_instant_is_written_as_everywhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=1)))
    with caplog.at_level(logging.WARNING, logger="rowlock.worker"):
        log(failed("no", retry_at=at))

    assert (
        caplog.records[0].getMessage().endswith(" retry_at=2026-01-01T09:00:00.000000Z")
    )


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
