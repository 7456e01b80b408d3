"""A worker in this process: what becomes of it, and who is told."""

from __future__ import annotations

import logging

import pytest

from rowlock import App, StoreError
from tests.eventually import eventually


async def test_a_worker_that_breaks_says_so_at_once_not_only_where_its_block_ends(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def step() -> None: ...

    async def break_down(*_: object, **__: object) -> None:
        msg = "The database refused a statement."
        raise StoreError(msg)

    async def told() -> list[logging.LogRecord]:
        return [r for r in caplog.records if "has broken down" in r.message]

    app._store.claim = break_down  # type: ignore[method-assign,assignment]  # a fault
    with pytest.raises(ExceptionGroup):
        async with app.worker():
            (line,) = await eventually(told)
    assert "The database refused a statement." in caplog.text
    assert line.levelno == logging.CRITICAL
