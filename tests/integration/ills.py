"""What a test of the doctor starts from: findings by what they are about, and cures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg

from rowlock import App, Finding
from rowlock._clock import Clock

# Each subtransaction that writes is a transaction to whoever holds a snapshot.
MANY_TRANSACTIONS = """
    DO $$
    BEGIN
        CREATE TEMP TABLE written (n integer);
        FOR n IN 1..10000 LOOP
            BEGIN
                INSERT INTO written VALUES (n);
            EXCEPTION WHEN division_by_zero THEN NULL;
            END;
        END LOOP;
    END
    $$
"""


async def examine(
    url: str, about: str | None = None, *, clock: Clock | None = None
) -> list[Finding]:
    """Examine a database; of the findings those about one thing."""
    app = App(url, clock=clock)
    try:
        findings = await app.doctor()
    finally:
        await app.close()
    return [each for each in findings if about in (None, each.about)]


async def only(url: str, about: str, *, clock: Clock | None = None) -> Finding:
    """Examine a database, which has one finding about this."""
    (finding,) = await examine(url, about, clock=clock)
    return finding


def ill(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what is well."""
    return [finding for finding in findings if finding.severity != "ok"]


def cures(finding: Finding) -> list[str]:
    """Read what a cure says is to be run."""
    assert finding.cure is not None
    return re.findall("`([^`]*)`", finding.cure)


def cure(connection: psycopg.Connection[Any], finding: Finding) -> None:
    """Run the very cure that is printed."""
    statements = cures(finding)
    assert statements
    for statement in statements:
        connection.execute(statement.encode())
