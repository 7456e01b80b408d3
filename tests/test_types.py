"""Every public name has a type that no checker has to guess (`py.typed`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"

# What isn't imported by users: their names are private, though their modules aren't.
INSIDE = ("rowlock.cli.",)


def test_every_public_name_has_a_known_type() -> None:
    pytest.importorskip("pyright", reason="scripts/check brings it")
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "pyright",
            "--verifytypes",
            "rowlock",
            "--ignoreexternal",
            "--outputjson",
        ],
        env=os.environ
        | {
            "PYTHONPATH": str(SRC),
            "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
            # It looks for drivers where the path's first Python has them.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    symbols = json.loads(checked.stdout)["typeCompleteness"]["symbols"]
    guessed = {
        symbol["name"]
        for symbol in symbols
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    }

    assert {symbol["name"] for symbol in symbols} >= {"rowlock.App", "rowlock.Job"}
    assert not {name for name in guessed if not name.startswith(INSIDE)}
