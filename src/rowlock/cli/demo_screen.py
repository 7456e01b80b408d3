"""
Where the demo prints: lines that scroll, and on a terminal a panel beneath them.

Elsewhere there are only the lines.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

import click

from rowlock.cli.table import cut, printable

FULL, EMPTY, BAR = "#", ".", 20


class Screen:
    """A terminal, or whatever stdout is."""

    def __init__(self) -> None:
        self.is_live: bool = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._panel: list[str] = []
        self._drawn = 0

    def say(self, text: str = "") -> None:
        """Print lines above the panel."""
        self._erase()
        click.echo(text)
        self._draw()

    def show(self, panel: Sequence[str]) -> None:
        """Draw the panel anew."""
        self._erase()
        self._panel = list(panel)
        self._draw()

    def close(self) -> None:
        """Take the panel away."""
        self.show([])

    def _erase(self) -> None:
        if self._drawn:
            # Not by click, which takes it for a colour where those are refused.
            sys.stdout.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        if not self.is_live or not self._panel:
            return
        size = shutil.get_terminal_size()
        # A panel higher than the terminal couldn't be taken away again.
        lines = self._panel[: size.lines - 2]
        for line in lines:
            click.echo(fit(line, size.columns - 1))
        self._drawn = len(lines)
        sys.stdout.flush()


def fit(line: str, width: int) -> str:
    """Cut a line that may be painted; one that is too long loses its colours."""
    plain = printable(click.unstyle(line))
    return line if (short := cut(plain, width)) == plain else short


def bar(share: float) -> str:
    """
    Draw how much of something is done.

        >>> bar(0.25)
        '[#####...............]  25 %'
    """
    full = round(share * BAR)
    return f"[{FULL * full}{EMPTY * (BAR - full)}] {share:4.0%}".replace("%", " %")
