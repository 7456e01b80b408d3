"""
What fresh processes cost: user and system time, by their medians.

Their bytecode is written, as it is where a package is installed. Programs take turns,
so that what else the machine does falls on all of them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

import click

_APP = """
from rowlock import App
app = App("sqlite://")
@app.task
def greet(name: str) -> None: ...
"""
PROGRAMS = {
    "bare interpreter": ("-c", "pass"),
    "import rowlock": ("-c", "import rowlock"),
    "rowlock --help": ("-m", "rowlock", "--help"),
    "an app with a task": ("-c", _APP),
    "the same, and enqueue_sync": ("-c", f"{_APP}greet.enqueue_sync(name='Ada')"),
}


def run(*, runs: int) -> None:
    """Measure, and print a line a program."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for program in PROGRAMS.values():
            _cpu_ms(program, environment)
        took = [
            [_cpu_ms(program, environment) for program in PROGRAMS.values()]
            for _ in range(runs)
        ]
    for name, of_one in zip(PROGRAMS, zip(*took, strict=True), strict=True):
        click.echo(f"{name:28}{median(of_one):6.0f} ms")


def _cpu_ms(program: tuple[str, ...], environment: dict[str, str]) -> float:
    before = _of_children_ms()
    ran = [sys.executable, *program]
    subprocess.run(ran, check=True, capture_output=True, env=environment)
    return _of_children_ms() - before


def _of_children_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)
