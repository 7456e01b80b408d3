"""`rowlock doctor`: what hurts, and its cure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import click

from rowlock._answers import Finding, Severity
from rowlock._words import count
from rowlock.cli import colour
from rowlock.cli.database import opened
from rowlock.cli.documents import Output
from rowlock.cli.errors import DONE, FAILED
from rowlock.cli.parameters import Place, output_options, place_options
from rowlock.cli.table import printable, terminal_width

OF_SEVERITY: Mapping[Severity, str] = {
    "wrong": "red",
    "warning": "yellow",
    "ok": "green",
}
INDENT = " " * 9


@click.command(epilog="Example: rowlock doctor --json")
@output_options
@place_options
def doctor(output: Output, *, place: Place) -> int:
    """
    Look for what hurts the jobs, and name its cure.

    What is wrong comes first, then warnings, then what is well. It locks, writes and
    waits for nothing, and needs no more than a worker's rights. The exit code is 1
    where something is wrong, 0 with warnings alone.
    """
    with opened(place) as app:
        findings = app.doctor_sync()
    if not output.prints(findings, findings):
        for line in tell(findings):
            click.echo(line)
    is_wrong = any(finding.severity == "wrong" for finding in findings)
    return FAILED if is_wrong else DONE


def tell(findings: Sequence[Finding]) -> Iterator[str]:
    """Tell the findings to people, and at the end how it stands altogether."""
    for finding in findings:
        word = click.style(f"{finding.severity:<8}", fg=OF_SEVERITY[finding.severity])
        first, *rest = _lines(finding.what)
        yield f"{word} {first}"
        yield from (f"{INDENT}{line}" for line in rest)
        if finding.cure is not None:
            yield from (f"{INDENT}{colour.dim(line)}" for line in _lines(finding.cure))
    yield ""
    yield _altogether(findings)


def _lines(text: str) -> list[str]:
    """Break a sentence where the terminal ends; in a pipe not at all."""
    width = terminal_width()
    text = printable(text)
    if width is None:
        return [text]
    # A command is copied from it, so no word of it may be broken.
    return textwrap.wrap(
        text,
        max(width - len(INDENT), 20),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _altogether(findings: Sequence[Finding]) -> str:
    counts = {
        severity: sum(finding.severity == severity for finding in findings)
        for severity in OF_SEVERITY
    }
    if counts["wrong"]:
        things = "thing is" if counts["wrong"] == 1 else "things are"
        return f"{counts['wrong']} {things} wrong."
    if counts["warning"]:
        return f"Nothing is wrong; {count(counts['warning'], 'warning')}."
    return "All is well."
