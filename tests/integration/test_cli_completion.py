"""What a shell completes, asked as bash asks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command_line import run
from .test_cli_jobs import enqueue


def completed(line: str, **env: str) -> list[str]:
    """Complete the last word of a line."""
    words = line.split(" ")
    asked = {
        "_ROWLOCK_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = run(env=asked | env)
    assert result.stderr == ""
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


@pytest.fixture
def jobs(shop: Path) -> Path:
    """A job of `greet` that is due in queue `mail`."""
    enqueue("greet", '{"name": "Ada"}')
    return shop


def test_commands_options_and_statuses_are_completed() -> None:
    assert completed("rowlock wo") == ["worker", "workers"]
    assert "--dry-run" in completed("rowlock jobs replay --")
    assert completed("rowlock jobs list --status s") == ["succeeded"]


@pytest.mark.usefixtures("jobs")
def test_tasks_and_queues_are_those_of_the_database() -> None:
    url = {"ROWLOCK_DATABASE_URL": "sqlite:///shop.db"}

    assert completed("rowlock jobs list --task ", **url) == ["greet"]
    assert completed("rowlock queues pause ", **url) == ["mail"]
    assert completed("rowlock jobs move 1 --to-queue m", **url) == ["mail"]


@pytest.mark.usefixtures("jobs")
def test_tasks_are_those_of_the_app_that_is_named() -> None:
    assert completed("rowlock enqueue -A shop:app gr") == ["greet"]
    assert completed("rowlock tasks pause d", ROWLOCK_APP="shop:app") == ["die"]


@pytest.mark.parametrize(
    "url", ["sqlite:///nowhere.db", "postgresql://127.0.0.1:1/shop", "mongodb://x"]
)
@pytest.mark.usefixtures("folder")
def test_where_there_is_no_database_nothing_is_completed(url: str) -> None:
    assert completed("rowlock jobs list --task ", ROWLOCK_DATABASE_URL=url) == []
