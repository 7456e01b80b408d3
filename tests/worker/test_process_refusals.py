"""`executor="process"`: what is refused before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rowlock import App, ConfigError, InvalidTask, UsageError

from . import apart

UNGUARDED = """\
import asyncio

from rowlock import App

app = App()


@app.task(executor="process")
def greet() -> None: ...


async def main() -> None:
    async with app.worker():
        await asyncio.Event().wait()


asyncio.run(main())
"""


def test_bounds_of_a_child_without_a_child_are_refused() -> None:
    app = App("sqlite://")

    with pytest.raises(UsageError, match="max_memory_mb= bounds a child process"):
        app.task(max_memory_mb=10)
    with pytest.raises(UsageError, match="max_jobs_per_child= bounds"):
        app.task(max_jobs_per_child=10)
    with pytest.raises(UsageError, match="executor= is 'process'"):
        app.task(executor="thread")  # type: ignore[call-overload]  # what is refused


async def test_a_task_that_no_child_finds_is_refused() -> None:
    app = App("sqlite://")

    with pytest.raises(InvalidTask, match="inside of a function"):

        @app.task(executor="process")
        def inner() -> None: ...

    app.task(executor="process", name="elsewhere")(apart.pid.function)
    with pytest.raises(ConfigError, match=r"looks for it at tests\.worker\.apart\.pid"):
        app.worker().check()


def test_a_script_without_its_guard_is_told_so_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "unguarded.py").write_text(UNGUARDED)

    ran = subprocess.run(
        [sys.executable, tmp_path / "unguarded.py"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "ROWLOCK_DATABASE_URL": f"sqlite:///{tmp_path}/jobs.db"},
    )

    assert ran.returncode == 1
    assert "if __name__ == '__main__'" in ran.stderr.splitlines()[-1]
