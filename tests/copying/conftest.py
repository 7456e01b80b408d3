"""Databases of either kind to copy from and to, and open stores on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rowlock._store import Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import KINDS, Make, Open


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Make databases of either kind; their URLs."""

    def make(kind: str) -> str:
        if kind == "postgres":
            url: str = request.getfixturevalue("fresh_database")()
            return url
        return f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}.db"

    return make


@pytest.fixture
async def opened(clock: FakeClock) -> AsyncIterator[Open]:
    """Open stores on URLs, at a time that stands still."""
    made: list[Store] = []

    async def open_(url: str) -> Store:
        store = connect(url, clock=clock)
        await store.open()
        made.append(store)
        return store

    yield open_
    for store in made:
        await store.close()


@pytest.fixture(params=KINDS)
def source_url(request: pytest.FixtureRequest, make: Make) -> str:
    """The URL of a database to copy."""
    return make(request.param)


@pytest.fixture(params=KINDS)
def target_url(request: pytest.FixtureRequest, make: Make) -> str:
    """The URL of a database to copy to."""
    return make(request.param)


@pytest.fixture
async def source(source_url: str, opened: Open) -> Store:
    """An open store to copy."""
    return await opened(source_url)


@pytest.fixture
async def target(target_url: str, opened: Open) -> Store:
    """An open store to copy to."""
    return await opened(target_url)


@pytest.fixture
async def other(make: Make, opened: Open) -> Store:
    """An open store of which the kind doesn't matter."""
    return await opened(make("sqlite"))
