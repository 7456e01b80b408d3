"""Sessions of tests in processes of their own, to be watched and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.cluster.keeper import postmaster

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a session."""

    process: subprocess.Popen[str]
    directory: Path
    url: str

    def leave(self) -> None:
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0

    def fork(self) -> int:
        """Let it have a child that outlives it; the child's process number."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("fork\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def server(self) -> int:
        found = postmaster(self.directory)
        assert found is not None
        return found[0]


class Sessions:
    """Starts members, with clusters in a folder of their own."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self._environment = environment(TMPDIR=str(folder))
        self._notes = notes
        self._started: list[subprocess.Popen[str]] = []

    def start(self, session: str, **variables: str) -> Member:
        module = "tests.integration.cluster_member"
        process = subprocess.Popen(
            [sys.executable, "-m", module, session, str(self._notes)],
            cwd=ROOT,
            env=self._environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        return Member(process, Path(told["directory"] or ""), told["url"])

    def prepared(self) -> list[str]:
        return self._notes.read_text().splitlines()

    def close(self) -> None:
        for process in self._started:
            with process:
                process.kill()


def environment(**variables: str) -> dict[str, str]:
    """What a session of its own sees: the choice of this one, and nothing else."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
        and name not in {"CI", "ROWLOCK_TEST_POSTGRES_URL"}
    }
    path = [str(ROOT), str(ROOT / "src"), kept.get("PYTHONPATH", "")]
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, path))} | variables


def rows(url: str, query: str, *parameters: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def is_running(process: int) -> bool:
    if sys.platform == "linux":
        # Where the first process reaps nobody, as in a container, the dead stay listed.
        try:
            return stat_of(process)[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def parent_of(process: int) -> int:
    return int(stat_of(process)[1])


def stat_of(process: int) -> list[str]:
    """Tell what Linux says of a process, from its state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def until(holds: Callable[[], bool], *, within: float) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.02)  # other processes are waited for, whose clock is the real one
