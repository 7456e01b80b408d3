"""Chance of our own, which spreads what would else happen in one instant."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from rowlock._chance import CHANCE

FORKS = """
import os
from rowlock._chance import CHANCE

for _ in range(3):
    if os.fork() == 0:
        print(CHANCE.random(), flush=True)
        os._exit(0)
    os.wait()
print(CHANCE.random())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_processes_that_were_forked_from_one_draw_differently() -> None:
    told = subprocess.run(
        [sys.executable, "-c", FORKS], check=True, capture_output=True, text=True
    )

    assert len(set(told.stdout.split())) == 4


def test_a_program_that_seeds_random_draws_what_it_would_without_us() -> None:
    random.seed(1)
    alone = random.random()
    random.seed(1)
    CHANCE.random()

    assert random.random() == alone
