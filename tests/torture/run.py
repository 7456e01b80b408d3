"""One run: a database, a crowd, a storm, the calm after it, and the verdict."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import psycopg

from tests import journal
from tests.cluster.binaries import find
from tests.cluster.databases import Databases
from tests.cluster.membership import own
from tests.cluster.server import Cluster
from tests.conformance import on_postgres

from . import skew
from .claims import Effect, Row
from .crowd import PRODUCERS, WORKERS, Crowd
from .history import History
from .page import FAULT, FOLDER
from .pay import TABLE
from .verdict import Verdict, judge
from .weather import Weather

StoreName: TypeAlias = Literal["postgres", "sqlite"]

LEASE_S = 2.0
RATE = 12.0
DRAIN_S = 90.0
STOP_S = 30.0
# How wrong a worker's clock may be. On SQLite it is the store's too, and a job that was
# due waits until it has come back.
FURTHEST_S: Mapping[StoreName, float] = {"postgres": 7200.0, "sqlite": 5.0}

# Whose clocks are wrong on Postgres, each by itself: looks at such a clock are dear.
SKEWED = ("twins", "single")

COLUMNS = "id, task, payload, status, claims, attempts, failures, losses, max_attempts"
UNFINISHED = "status IN ('pending', 'running')"


class Torture(NamedTuple):
    """What is asked for."""

    store: StoreName
    seconds: float
    seed: int
    fault: str = ""
    rate: float = RATE
    keep: bool = False
    only: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a run, as others than Rowlock see it."""

    url: str
    cluster: Cluster | None

    @property
    def path(self) -> str:
        """The file, where it is one."""
        return self.url.removeprefix("sqlite:///")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Read from its relation of jobs, `{jobs}` in the statement."""
        if self.cluster is None:
            with closing(sqlite3.connect(self.path, timeout=30)) as connection:
                return connection.execute(sql.format(jobs="rowlock_jobs")).fetchall()
        with psycopg.connect(self.url, autocommit=True) as admin:
            filled = sql.format(jobs="rowlock.jobs").encode()
            return admin.execute(filled).fetchall()

    def rows(self) -> list[Row]:
        """Read all jobs."""
        found = self.ask(f"SELECT {COLUMNS} FROM {{jobs}} ORDER BY id")  # noqa: S608 - our own columns
        return [_row(*values) for values in found]

    def make_effects(self) -> None:
        """Make the table that handlers write to, as a user would."""
        if self.cluster is None:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute(TABLE)
            return
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(TABLE)

    def effects(self) -> list[Effect]:
        """Read all that handlers have written."""
        return [Effect(*row) for row in self.ask("SELECT * FROM effects")]

    def unfinished(self) -> int:
        """Count the jobs that wait or run."""
        ((count,),) = self.ask(f"SELECT count(*) FROM {{jobs}} WHERE {UNFINISHED}")  # noqa: S608 - our own condition
        return int(count)


def _row(job_id: int, task: str, payload: Any, *more: Any) -> Row:  # noqa: ANN401 - of either database
    read = json.loads(payload) if isinstance(payload, str | bytes) else payload
    return Row(job_id, task, read["mark"], *more)


class Outcome(NamedTuple):
    """What came of a run."""

    asked: Torture
    verdict: Verdict
    acts: Counter[str]
    late: Sequence[str]
    took_s: float

    @property
    def is_clean(self) -> bool:
        return not self.verdict.broken and not self.late

    def lines(self) -> Iterator[str]:
        """Tell it all."""
        minutes = self.asked.seconds / 60
        yield (
            f"{self.asked.store}, seed {self.asked.seed}: {minutes:.1f} minutes of"
            f" storm, {self.took_s:.0f} s in all, leases of {LEASE_S:g} s"
        )
        if skew.faketime() is None:
            yield skew.NONE
        words = {
            "kill": "killed",
            "stop": "stopped",
            "term": "told to stop",
            "replace": "crews replaced",
            "terminate": "connections terminated",
            "restart": "restarts of the database",
            "set clock": "clocks set wrong",
            "sleep": "sleeps of the machine",
            "lock": "outages by a lock on the file",
        }
        yield ", ".join(
            f"{word} {self.acts[act]}" for act, word in words.items() if self.acts[act]
        )
        yield from self.verdict.lines()
        for name in self.late:
            yield f"{name} didn't stop within {STOP_S:g} s of SIGTERM"


def torture(asked: Torture, tell: Callable[[str], object] = print) -> Outcome:
    """Run it; where a law is broken the journal and the logs stay."""
    folder = Path(tempfile.mkdtemp(prefix="rowlock-torture-"))
    began = time.monotonic()
    with database(asked.store, folder) as served:
        served.make_effects()
        acts, late = _rage(asked, served, folder)
        rows, effects = served.rows(), served.effects()
    history = History(journal.read(folder))
    is_server = asked.store == "postgres"
    verdict = judge(history, rows, effects, lease=LEASE_S, is_server=is_server)
    outcome = Outcome(asked, verdict, acts, late, time.monotonic() - began)
    if outcome.is_clean and not asked.keep:
        shutil.rmtree(folder)
    else:
        tell(f"The journal and the logs are in {folder}.")
    return outcome


def _rage(
    asked: Torture, served: Database, folder: Path
) -> tuple[Counter[str], list[str]]:
    page = journal.Journal(folder, "torturer")
    clocks = _clocks(asked.store, folder)
    environment = {FOLDER: str(folder), FAULT: asked.fault}
    crowd = Crowd(
        served.url,
        folder,
        page,
        environment=environment,
        lease=LEASE_S,
        clocks=clocks,
        seed=asked.seed,
        rate=asked.rate,
    )
    weather = Weather(
        asked.seed,
        crowd,
        page,
        lease=LEASE_S,
        clocks=clocks,
        furthest_s=FURTHEST_S[asked.store],
        cluster=served.cluster,
        url=served.url,
        only=asked.only,
    )
    try:
        crowd.keep()
        weather.storm(asked.seconds)
        crowd.stop_producing()
        _drain(crowd, served)
        late = crowd.stop(STOP_S)
    finally:
        crowd.close()
        page.close()
    return weather.counts, late


def _clocks(store: StoreName, folder: Path) -> Mapping[str, skew.Clock]:
    """One clock a place; on SQLite one for all, as they share a machine."""
    if store == "sqlite":
        return dict.fromkeys([*WORKERS, *PRODUCERS], skew.Clock(folder / "clock"))
    return {name: skew.Clock(folder / f"clock-{name}") for name in SKEWED}


def _drain(crowd: Crowd, served: Database) -> None:
    """Wait until every job is over, or for long enough to say that one never is."""
    until = time.monotonic() + DRAIN_S
    while served.unfinished() and time.monotonic() < until:
        crowd.keep()
        time.sleep(0.5)  # other processes work meanwhile


@contextmanager
def database(store: StoreName, folder: Path) -> Iterator[Database]:
    """Have a database of this run's own."""
    if store == "sqlite":
        yield Database(f"sqlite:///{folder / 'torture.db'}", None)
        return
    with own(find()) as cluster:
        databases = Databases(admin_url=cluster.url, session="", cluster=cluster)
        url = databases.empty("torture")
        on_postgres.migrate(url)
        yield Database(url, cluster)
