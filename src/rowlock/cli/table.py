"""
Tables that fit the terminal.

Columns that may shrink give way, the widest first, until the row fits. Where there is
no terminal nothing is cut: a pipe gets everything.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import click

GAP = "  "
NARROWEST = 8
# These turn the order of a line around, so that it reads as what it isn't.
TURNING = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


class Column(NamedTuple):
    """A title, whether numbers stand under it, and whether it may be cut."""

    title: str
    is_number: bool = False
    may_shrink: bool = False


class Cell(NamedTuple):
    """A text, and its colour where it has one."""

    text: str
    colour: str | None = None


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    *,
    titled: bool = True,
) -> None:
    """Print a table on stdout, as wide as the terminal is."""
    for line in render(columns, rows, width=terminal_width())[not titled :]:
        click.echo(line)


def terminal_width() -> int | None:
    """Tell how wide stdout is, None where it is no terminal."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    *,
    width: int | None,
) -> list[str]:
    """
    Lay a table out in lines of at most `width`, where its columns can shrink that far.

        >>> render([Column("ID", is_number=True), Column("TASK")], [["17", "greet"]],
        ...        width=None)
        ['ID  TASK', '17  greet']
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = _fit(columns, cells, width)
    titles = [Cell(column.title) for column in columns]
    return [
        GAP.join(
            _pad(cell, column, width)
            for cell, column, width in zip(row, columns, widths, strict=True)
        ).rstrip()
        for row in [titles, *cells]
    ]


def _cell(cell: str | Cell) -> Cell:
    text, colour = cell if isinstance(cell, Cell) else (cell, None)
    return Cell(printable(text), colour)


def _fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None
) -> list[int]:
    widths = [
        max(cells_of(column.title), *(cells_of(row[index].text) for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    if width is None:
        return widths
    shrinking = [index for index, column in enumerate(columns) if column.may_shrink]
    room = width - len(GAP) * (len(columns) - 1)
    while shrinking and sum(widths) > room:
        widest = max(shrinking, key=lambda index: widths[index])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _pad(cell: Cell, column: Column, width: int) -> str:
    text = cut(cell.text, width)
    space = " " * (width - cells_of(text))
    painted = click.style(text, fg=cell.colour) if cell.colour else text
    return space + painted if column.is_number else painted + space


def cut(text: str, width: int) -> str:
    """
    Cut a text to so many cells of a terminal, with a mark where it was.

        >>> cut("send_receipt", 8)
        'send_re…'
    """
    if cells_of(text) <= width:
        return text
    kept, room = "", width - 1
    for char in text:
        room -= cells_of(char)
        if room < 0:
            break
        kept += char
    return f"{kept}…"


def cells_of(text: str) -> int:
    """
    Count the cells that a text takes on a terminal.

    An ideograph takes two, an accent that stands by itself none.

        >>> cells_of("ne\u0301"), cells_of("日本")
        (2, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def printable(text: str) -> str:
    r"""
    Show control characters as escapes: a payload must not steer the terminal.

        >>> printable("red\x1b[31m\n")
        'red\\x1b[31m\\n'
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if _is_control(char) else char
        for char in text
    )


def _is_control(char: str) -> bool:
    return char in TURNING or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
