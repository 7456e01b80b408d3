"""Deaths of processes, also on systems that tell less of them than Linux."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from .supervising import lives

# Apart from the tests' own children, which it would reap as well. What it starts dies
# at once, and leaves another behind in its group.
REAPS = """
import os, signal, subprocess, sys, time
from rowlock.cli.reaping import reap
if sys.argv[1] == "without":
    del os.waitid
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
leaves = f"import subprocess, sys; print(subprocess.Popen({sleeps}).pid); sys.exit(3)"
leader = subprocess.Popen([sys.executable, "-c", leaves], process_group=0)
while not (dead := [*reap(lambda pid: os.killpg(pid, signal.SIGKILL))]):
    time.sleep(0.01)
assert dead == [(leader.pid, 3)]
leader.returncode = 3
"""


@pytest.mark.parametrize("waitid", ["with", "without"])
def test_of_who_has_died_the_group_is_killed(waitid: str) -> None:
    """Python has no `waitid` on macOS before 3.13."""
    reaping = subprocess.run(
        [sys.executable, "-c", REAPS, waitid],
        stdout=subprocess.PIPE,
        timeout=30,
        check=True,
    )

    until = time.monotonic() + 10
    while lives(int(reaping.stdout)):
        assert time.monotonic() < until
        time.sleep(0.01)  # a process dies in its own time
