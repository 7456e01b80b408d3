"""
Runs what a page shows of a terminal, and compares what it shows with what comes.

A line that begins with `$ ` is a command, those below it are its output, and `...`
stands for any part of it. `^C` is a Ctrl-C, pressed when all above it has come. What
differs from run to run (instants, spans, a worker's id) isn't compared.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = "/home/ada/shop"
TIMEOUT = 60.0
VARYING = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "INSTANT"),
    (r"\bw-[0-9a-f]{16}\b", "WORKER"),
    (r"\b[\d.]+ ?m?s\b( ago)?|\bnow$|\bnow(?=  )", "SPAN"),
    (r"_s=[\d.]+", "_s=SPAN"),
    (r"[ \t]+", " "),
    (r" $", ""),
)


class Command(NamedTuple):
    """A command, what it shows, and what more after a Ctrl-C, None without one."""

    line: str
    output: str
    after: str | None


def commands(transcript: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        before, interrupt, after = shown.partition("^C\n")
        yield Command(line, before, after if interrupt else None)


def check(command: Command, folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command in a folder; fails where it doesn't show what it should."""
    program = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command.line}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = threading.Timer(TIMEOUT, program.kill)
    deadline.start()
    try:
        seen = read(program, command, folder)
    finally:
        deadline.cancel()
        program.kill()
        program.communicate()
    expected = command.output + (command.after or "")
    assert pattern(expected).fullmatch(steady(seen, folder)), f"{command.line}\n{seen}"
    refused = command.output.startswith("Error: ")
    assert (program.returncode != 0) == refused, f"{command.line}\n{seen}"


def read(program: subprocess.Popen[str], command: Command, folder: Path) -> str:
    """Give all that a program shows, and press Ctrl-C when its time has come."""
    assert program.stdout is not None
    seen, waits = "", command.after is not None
    for line in program.stdout:
        seen += line
        if waits and pattern(command.output).fullmatch(steady(seen, folder)):
            program.send_signal(signal.SIGINT)
            waits = False
    program.wait()
    return seen


def pattern(shown: str) -> re.Pattern[str]:
    """Make a pattern of what is shown, in which `...` is anything."""
    parts = re.split(r"^\.\.\.\n|\.\.\.", steady(shown), flags=re.MULTILINE)
    return re.compile("(?s:.*)".join(map(re.escape, parts)))


def steady(text: str, folder: Path | None = None) -> str:
    """Take out what differs from run to run."""
    if folder is not None:
        text = text.replace(str(folder.resolve()), FOLDER)
    for what, word in VARYING:
        text = re.sub(what, word, text, flags=re.MULTILINE)
    return text
