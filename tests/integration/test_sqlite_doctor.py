"""The doctor on SQLite: each illness is a real one, and is cured by what it says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rowlock import App, ConfigError, StoreUnavailable
from rowlock.stores.sqlite import SQLiteStore, connection, doctor
from rowlock.stores.sqlite.readers import readers
from tests.eventually import eventually

from . import ills
from .ills import cures, ill, only
from .sqlite_given import a_users, new_job, opened, start

MEGABYTE = 2**20


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A database, closed."""
    path = tmp_path / "jobs.db"
    async with opened(path):
        pass
    return path


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    """An open store on it."""
    async with opened(path) as store:
        yield store


def url(path: Path) -> str:
    return f"sqlite:///{path}"


async def test_a_fresh_database_is_well_but_for_the_library(path: Path) -> None:
    findings = await ills.examine(url(path))

    assert {each.about for each in ill(findings)} <= {"version"}
    assert {each.about for each in findings} == {
        *("version", "disk", "log", "file system", "rights", "journal", "integrity"),
        *("schema", "tasks"),
    }


async def test_it_changes_nothing_even_of_what_a_crash_left_in_the_log(
    path: Path,
) -> None:
    program = """
        async def main():
            async with opened(sys.argv[1]) as store:
                await store.enqueue([new_job()])
                os._exit(0)
        asyncio.run(main())
    """
    crashed = start(program, path)
    crashed.communicate(timeout=20)
    assert crashed.returncode == 0
    log = Path(f"{path}-wal")
    before = path.read_bytes(), log.read_bytes()
    assert before[1]

    (finding,) = await ills.examine(url(path), "tasks")

    assert finding.what.startswith("No live worker has the task 'task'")
    assert (path.read_bytes(), log.read_bytes()) == before


async def test_it_migrates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    with a_users(path) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE orders (id)")

    finding = await only(url(path), "schema")

    assert finding.severity == "ok"
    assert finding.what.startswith("The next opening applies what is pending")
    with a_users(path) as own:
        assert own.execute("SELECT name FROM sqlite_schema").fetchall() == [("orders",)]


async def test_it_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"There is no database .*new\.db"):
        await ills.examine(url(tmp_path / "new.db"))

    assert list(tmp_path.iterdir()) == []


async def test_what_is_no_database_is_refused_as_by_every_command(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and long enough to be seen as none" * 20)

    with pytest.raises(ConfigError, match="isn't an SQLite database"):
        await ills.examine(url(path))


async def test_a_database_that_somebody_has_for_himself_is_out_of_reach(
    path: Path,
) -> None:
    with a_users(path, isolation_level=None) as own:
        own.execute("PRAGMA locking_mode = EXCLUSIVE")
        own.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailable, match="locked by another connection"):
            await ills.examine(url(path))


async def test_it_waits_for_no_writer(path: Path) -> None:
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN IMMEDIATE")
        own.execute("DELETE FROM rowlock_tasks")

        findings = await ills.examine(url(path))

    assert {each.about for each in ill(findings)} <= {"version"}


async def test_a_schema_of_a_later_release_is_told_so(path: Path) -> None:
    with a_users(path) as own:
        own.execute("INSERT INTO rowlock_migrations VALUES (9999, 'later', '', 0)")
        own.commit()

    finding = await only(url(path), "schema")

    assert finding.severity == "wrong"
    assert finding.what.endswith("and this Rowlock knows 1.")
    assert finding.cure == "Upgrade Rowlock."


@pytest.mark.parametrize(
    ("version", "is_well"),
    [
        ((3, 6, 23), True),
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 54, 1), True),
    ],
)
def test_it_knows_the_releases_with_the_wal_reset_fault(
    version: tuple[int, ...], *, is_well: bool
) -> None:
    finding = doctor.version(version)

    assert (finding.severity == "ok") is is_well
    assert ".".join(map(str, version)) in finding.what


async def test_it_names_another_journal_mode(path: Path) -> None:
    with a_users(path) as own:
        own.execute("PRAGMA journal_mode = DELETE")

    finding = await only(url(path), "journal")

    assert finding.severity == "warning"
    assert "journal mode is delete" in finding.what
    with a_users(path) as own:
        own.execute(cures(finding)[0])
    assert (await only(url(path), "journal")).severity == "ok"


async def test_it_names_who_reads_while_the_log_grows(
    path: Path, store: SQLiteStore
) -> None:
    program = """
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM rowlock_jobs").fetchall()
        print("reads", flush=True)
        sys.stdin.readline()
    """
    reader = start(program, path)
    assert reader.stdout
    assert reader.stdout.readline() == "reads\n"
    payload = '{"text": "' + "x" * MEGABYTE + '"}'
    for _ in range(20):
        await store.enqueue([new_job(payload=payload)])

    finding = await only(url(path), "log")

    assert finding.severity == "warning"
    assert finding.what.startswith("The write-ahead log has grown to 2")
    assert f"at this moment process {reader.pid} (python" in finding.what
    reader.communicate("", timeout=20)
    # A worker's next commits.
    await store.enqueue([new_job()])
    await eventually(lambda: Path(f"{path}-wal").stat().st_size < 16 * MEGABYTE)
    assert (await only(url(path), "log")).severity == "ok"


def test_where_the_kernel_tells_no_locks_nobody_is_named(
    path: Path, tmp_path: Path
) -> None:
    assert readers(str(path)) == []
    assert readers(str(path), str(tmp_path / "nowhere")) == []


async def test_it_finds_a_damaged_file(path: Path) -> None:
    with a_users(path) as own:
        for n in range(2000):
            own.execute(
                "INSERT INTO rowlock_tasks VALUES (?, 'default', '{}', 0)", (f"t{n}",)
            )
        own.commit()
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(-3 * 4096, os.SEEK_END)
        file.write(b"\xff" * 4096)

    finding = await only(url(path), "integrity")

    assert finding.severity == "wrong"
    assert finding.what.startswith("The file is damaged: ")


def test_it_tells_a_full_disk(tmp_path: Path) -> None:
    severities = [
        doctor.disk(tmp_path, free * MEGABYTE).severity for free in (10, 100, 1000)
    ]

    assert severities == ["wrong", "warning", "ok"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
async def test_it_says_where_this_user_may_not_write(path: Path) -> None:
    path.chmod(0o444)

    finding = await only(url(path), "rights")

    assert finding.severity == "wrong"
    assert str(path) in finding.what


async def test_it_names_a_network_file_system(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What isn't mounted here can't be had for real.
    monkeypatch.setattr(connection, "network_of", lambda _: "nfs4")

    finding = await only(url(path), "file system")

    assert finding.severity == "wrong"
    assert "(nfs4)" in finding.what


def test_a_database_in_memory_is_examined_by_its_own_process() -> None:
    findings = App("sqlite://").doctor_sync()

    assert {each.about for each in findings} == {"version", "schema", "tasks"}
