"""The page on growing keeps its word: its commands are run, one after the other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .command_line import SHOP, Command, run, run_json

PAGE = Path(__file__).parents[2] / "docs" / "growing.md"
COMMANDS = re.findall(r"^    (\S.*)$", PAGE.read_text(), re.MULTILINE)
ELSEWHERE = "postgresql:///shop"


@pytest.fixture
def shop(folder: Path) -> Path:
    """A folder with an app, and with jobs of it in a file."""
    (folder / "shop.py").write_text(SHOP.replace('App("sqlite:///shop.db")', "App()"))
    enqueue = ("enqueue", "-A", "shop:app")
    run(*enqueue, "die", "{}")
    run(*enqueue, "greet", '{"name": "Ada"}')
    run(*enqueue, "greet", '{"name": "Bo"}', "--delay", 3600, "--idempotency-key", "k")
    return folder


def work(start: type[Command], until: str) -> str:
    """Run a worker until it prints something; all that it prints."""
    worker = start("worker", "shop:app")
    worker.prints(until)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    return worker.output


def shell(command: str, folder: Path) -> str:
    """Run a command as its reader does; what it shows."""
    programs = Path(sys.executable).parent
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.usefixtures("shop")
def test_the_commands_of_the_page_lead_to_postgres_and_back(
    folder: Path,
    each_empty_url: str,
    start: type[Command],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "succeeded" in work(start, "attempt.succeeded")
    shown = {}
    for command in COMMANDS:
        asked = command.replace(ELSEWHERE, each_empty_url)
        if asked.startswith("export "):
            name, _, value = asked.removeprefix("export ").partition("=")
            monkeypatch.setenv(name, value)
        elif command == "rowlock worker shop:app":
            shell("""rowlock enqueue -A shop:app greet '{"name": "Cy"}'""", folder)
            assert "job_id=4" in work(start, "attempt.succeeded")
        else:
            shown[command] = shell(asked, folder)

    statuses = {"failed": 1, "pending": 1, "succeeded": 1}
    moved = "rowlock copy --from sqlite:///rowlock.db --to postgresql:///shop"
    for command in (moved, f"{moved} --dry-run"):
        for status, count in statuses.items():
            assert f"{count} {status}\n" in shown[command]
    before, after = (
        text for command, text in shown.items() if command.startswith("rowlock stats")
    )
    assert before == after
    assert "broken" in shown["rowlock jobs show 1 --database postgresql:///shop"]
    assert "Copied 4 jobs" in shown[COMMANDS[-1]]
    back = run_json("jobs", "list", "--database", "sqlite:///back.db")["jobs"]
    assert [job["id"] for job in back] == [4, 3, 2, 1]
    assert json.dumps(back).count('"idempotency_key": "k"') == 1
