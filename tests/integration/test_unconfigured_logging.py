"""What a program that has configured no logging sees on its stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .command_line import Command

PROGRAM = """
import asyncio
import logging
import sys

from rowlock import App, Unrecoverable

app = App("sqlite://")
CONFIGURE

@app.task
async def die() -> None:
    raise Unrecoverable("no such order")

async def main() -> None:
    async with app, app.worker():
        job = await app.wait(await die.enqueue(), 10)
    print(job.status)
    die.enqueue()

asyncio.run(main())
"""
TRAP = "die.enqueue(...) was called without await"


def run(folder: Path, configure: str = "") -> str:
    """Run a program with a worker in it; what it writes to stderr."""
    program = folder / "program.py"
    program.write_text(PROGRAM.replace("CONFIGURE", configure))
    ran = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "failed\n"), ran.stderr
    return ran.stderr


def test_no_event_is_written_and_a_mistake_in_the_program_is(tmp_path: Path) -> None:
    (line,) = run(tmp_path).splitlines()

    assert line.startswith(TRAP)


@pytest.mark.parametrize(
    "configure",
    [
        "logging.basicConfig()",
        "logging.getLogger('rowlock').addHandler(logging.StreamHandler())",
    ],
)
def test_where_it_is_configured_each_is_written_once(
    tmp_path: Path, configure: str
) -> None:
    told = run(tmp_path, configure)

    assert told.count("job.dead_lettered") == 1
    assert told.count("attempt.failed") == 1
    assert told.count(TRAP) == 1


def test_who_wants_none_of_it_has_none(tmp_path: Path) -> None:
    configure = "logging.getLogger('rowlock').addHandler(logging.NullHandler())"

    assert run(tmp_path, configure) == ""


def test_a_command_says_what_it_is_warned_of(
    folder: Path, start: type[Command]
) -> None:
    (folder / "shop.py").write_text(
        "import logging\n"
        "from rowlock import App\n"
        "app = App('sqlite:///shop.db')\n"
        "app.open_sync()\n"
        "logging.getLogger('rowlock.store').warning('the disk is elsewhere')\n"
    )

    command = start("jobs", "list", "-A", "shop:app")

    assert command.ends() == 0
    assert "the disk is elsewhere\nNo jobs.\n" in command.output
