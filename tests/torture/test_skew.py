"""A clock that is set wrong: what a process makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import skew
from .crowd import ROOT

LOOK = """
import time
from tests.torture import skew

skew.mend_sleep()
time.sleep(0.01)
print(time.time(), time.monotonic())
"""


@pytest.mark.parametrize("offset", [-3600.0, 7200.0])
def test_a_wrong_clock_is_wrong_by_that_and_the_monotonic_one_is_right(
    tmp_path: Path, offset: float
) -> None:
    if skew.faketime() is None and os.environ.get("CI", "").lower() in {
        "",
        "0",
        "false",
    }:
        pytest.skip(skew.NONE)
    assert skew.faketime() is not None
    clock = skew.Clock(tmp_path / "clock")
    clock.set(offset)

    looked = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**os.environ, **clock.environment},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    told, monotonic = map(float, looked.stdout.split())
    assert time.time() + offset - told == pytest.approx(0, abs=30)
    assert time.monotonic() - monotonic == pytest.approx(0, abs=30)
