"""An app at a time that stands still until the test moves it, and what it tells."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rowlock import App
from rowlock._events import Event
from rowlock.testing import FakeClock


@pytest.fixture
async def app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app without tasks."""
    async with App(database_url, clock=clock) as app:
        yield app


@pytest.fixture
def told(app: App) -> list[Event]:
    """The events of the app, in order, while they come."""
    events: list[Event] = []
    app.listen(events.append)
    return events
