"""Events as log records."""

from __future__ import annotations

import logging

import pytest

from rowlock._events import AttemptFailed, log


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


def failed(error: str) -> AttemptFailed:
    return AttemptFailed(
        job_id=1,
        task="greet",
        queue="default",
        attempt=1,
        ran_s=0.5,
        failures=1,
        error=error,
        retry_at=None,
    )
