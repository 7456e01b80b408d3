"""The laws, through ten thousand storms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .run import survey

ROOT = Path(__file__).parent.parent.parent
RUNS = 10_000
PARTS = 20

DIGESTS = """
import hashlib
from tests.simulation.run import run
for seed in range(40):
    told = "\\n".join(map(str, run(seed).world.history))
    print(seed, hashlib.sha256(told.encode()).hexdigest())
"""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_whatever_befalls_the_workers(part: int, scale: int) -> None:
    runs = RUNS // PARTS * scale

    assert not survey(part * runs, runs, tell=print)


def test_a_seed_repeats_a_run_exactly() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }

    assert len(told) == 1
