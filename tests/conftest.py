"""How tests are run: the clock they move, and how much of the slow ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from rowlock.testing import FakeClock

# The examples of one run are the same on every machine: a failure in CI is seen again
# at home. `--slow` draws new ones each time, ten times as many.
settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("slow", parent=settings.get_profile("quick"), derandomize=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let slow cases be run at full size."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the slow cases at full size (ten times the quick one)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile for hypothesis."""
    settings.load_profile("slow" if config.getoption("--slow") else "quick")


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> int:
    """By how much a slow case multiplies its rounds: 1, or 10 with `--slow`."""
    return 10 if request.config.getoption("--slow") else 1


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()
