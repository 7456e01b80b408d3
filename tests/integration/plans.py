"""
Plans of statements as they were run, and what each part of one read.

The server tells them to the session itself (`auto_explain`): so a plan is that of the
very statement, prepared as the store prepares it, with its settings and parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg.errors import Diagnostic

from rowlock.stores.postgres.sessions import Session

TELL = b"""
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_analyze = on;
    SET auto_explain.log_buffers = on;
    SET auto_explain.log_timing = off;
    SET auto_explain.log_format = json;
    SET auto_explain.log_level = info;
"""
_TOLD = re.compile(r"duration: ([\d.]+) ms  plan:\n(.*)", re.DOTALL)
_PARAMETER = re.compile(r"\$\d+|%\(\w+\)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a plan that reads: a relation, or what another part left."""

    kind: str
    source: str
    """The relation's name, the index's after it; or that of a CTE or function."""
    loops: int
    given: float
    """Rows that it gave, over all loops; rounded by each loop before version 18."""
    left_out: float
    """Rows that it read and a condition dropped."""
    buffers: int

    @property
    def is_of_jobs(self) -> bool:
        """Whether it reads a table of jobs."""
        return self.source.startswith(("live", "history"))

    def __str__(self) -> str:
        return (
            f"{self.kind} on {self.source}: {self.loops} loops gave {self.given:.0f}"
            f" rows, left out {self.left_out:.0f}, {self.buffers} buffers"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one statement that was run."""

    operation: str
    tree: Mapping[str, Any]
    took_ms: float

    @property
    def parts(self) -> list[Part]:
        return list(_parts(self.tree))

    @property
    def rows_read(self) -> float:
        """How many rows of jobs it read, dropped ones too."""
        return sum(p.given + p.left_out for p in self.parts if p.is_of_jobs)

    @property
    def pages_read(self) -> int:
        """How many pages it touched to read jobs; one touched twice counts twice."""
        return sum(p.buffers for p in self.parts if p.is_of_jobs)


@dataclass(slots=True)
class Plans:
    """What a session told of its statements, in their order."""

    _operations: Mapping[str, str]
    told: list[Plan] = field(default_factory=list)

    @classmethod
    async def of(cls, session: Session, statements: Mapping[str, bytes]) -> Plans:
        """Have a session tell, from now on."""
        plans = cls({_bare(text.decode()): name for name, text in statements.items()})
        session.connection.add_notice_handler(plans._hear)
        await session.execute(TELL)
        return plans

    def named(self, operation: str) -> list[Plan]:
        return [plan for plan in self.told if plan.operation == operation]

    def _hear(self, notice: Diagnostic) -> None:
        found = _TOLD.fullmatch(notice.message_primary or "")
        if found is None:
            return
        told = json.loads(found[2])
        operation = self._operations.get(_bare(told["Query Text"]))
        if operation is not None:
            self.told.append(Plan(operation, told["Plan"], float(found[1])))


def _bare(statement: str) -> str:
    return _PARAMETER.sub("?", statement.replace("%%", "%"))


def _parts(node: Mapping[str, Any]) -> Iterator[Part]:
    # A part that was never run read nothing.
    if node["Node Type"].endswith("Scan") and (loops := node["Actual Loops"]):
        left_out = node.get("Rows Removed by Filter", 0)
        left_out += node.get("Rows Removed by Index Recheck", 0)
        yield Part(
            kind=node["Node Type"],
            source=_source(node),
            loops=loops,
            given=node["Actual Rows"] * loops,
            left_out=left_out * loops,
            buffers=_buffers(node),
        )
    for child in node.get("Plans", ()):
        yield from _parts(child)


def _source(node: Mapping[str, Any]) -> str:
    names = ("Relation Name", "CTE Name", "Function Name", "Index Name", "Alias")
    return " ".join(str(node[name]) for name in names if name in node)


def _buffers(node: Mapping[str, Any]) -> int:
    return int(node["Shared Hit Blocks"]) + int(node["Shared Read Blocks"])
