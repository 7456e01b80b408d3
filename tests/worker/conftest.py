"""The app of these tests is one at a time that stands still until the test moves it."""

from __future__ import annotations

import pytest

from rowlock import App

from .yard import Yard


@pytest.fixture
def app(still_app: App) -> App:
    """An app without tasks, whose time is moved by `clock`."""
    return still_app


@pytest.fixture
def yard(app: App) -> Yard:
    """An app with one task."""
    return Yard(app)
