"""An app at a time that stands still, for cases of delays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rowlock import App
from rowlock.testing import FakeClock


@pytest.fixture
async def still_app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app without tasks, whose time is moved by `clock`."""
    async with App(database_url, clock=clock) as app:
        yield app
