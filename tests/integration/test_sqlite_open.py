"""Opening: what becomes of the file, and which files are refused, in one sentence."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
import warnings
from pathlib import Path

import pytest

from rowlock._errors import ConfigError, SchemaMismatch, StoreUnavailable
from rowlock._filter import Filter
from rowlock.stores import connect
from rowlock.stores.sqlite import connection as connections

from .sqlite_given import a_users, claim, new_job, opened, run, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


async def refused(path: Path) -> str:
    """Open what can't be opened; the sentence, which names it."""
    store = connect(f"sqlite:///{path}")
    with pytest.raises(ConfigError) as refusal:
        await store.open()
    await store.close()
    sentence = str(refusal.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


async def test_a_file_is_made_and_is_new_once(path: Path) -> None:
    async with opened(path) as store:
        assert store.is_new
        assert path.exists()
    async with opened(path) as store:
        assert not store.is_new


async def test_a_store_in_memory_is_no_new_file() -> None:
    async with opened(":memory:") as store:
        assert not store.is_new


async def test_the_database_of_a_program_gets_tables_beside_its_own(path: Path) -> None:
    with a_users(path) as own:
        own.execute("CREATE TABLE orders (id INTEGER)")
        own.execute("INSERT INTO orders VALUES (42)")
        own.commit()

    async with opened(path) as store:
        assert not store.is_new
        await store.enqueue([new_job()])

    with a_users(path) as own:
        assert own.execute("SELECT id FROM orders").fetchall() == [(42,)]
        names = own.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        others = {name for (name,) in names} - {"orders", "sqlite_sequence"}
        assert all(name.startswith("rowlock_") for name in others)


async def test_each_answer_is_on_disk_unless_told_otherwise(path: Path) -> None:
    settings = []
    for synchronous in ("full", "normal"):
        async with opened(path, synchronous=synchronous) as store:
            found = await store._database.read(_synchronous)  # the reader's
            written = await store._database.write(_synchronous)
            settings.append((found, written))

    assert [written for _, written in settings] == [2, 1]


def _synchronous(connection: sqlite3.Connection, _now: int) -> int:
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("no database at all, but longer than a header of 100 bytes" * 9)
    before = path.read_bytes()

    assert "isn't an SQLite database" in await refused(path)
    assert path.read_bytes() == before


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in await refused(tmp_path)


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    sentence = await refused(tmp_path / "missing" / "jobs.db")

    assert f"no folder {tmp_path / 'missing'}" in sentence
    assert not (tmp_path / "missing").exists()


async def test_a_name_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    assert "can't be reached" in await refused(tmp_path / ("long" * 100))


REFUSED = """
    async def main(path):
        store = SQLiteStore(Address(path=path))
        try:
            await store.open()
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        await store.close()
    if os.geteuid() == 0:
        os.setuid(65534)  # root may write everywhere
    asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_that_cannot_be_written_is_refused(
    tmp_path: Path, *, exists: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "jobs.db"
    if exists:
        with a_users(path) as own:
            own.execute("CREATE TABLE orders (id INTEGER)")
        path.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.owner() == folder.owner() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)

    try:
        said = run(REFUSED, path)
    finally:
        folder.chmod(0o755)

    assert said.startswith(f"ConfigError: The database {path} can't be ")
    assert said.count("\n") == 1


async def test_a_damaged_file_is_refused(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()] * 100)
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)

    assert "is damaged" in await refused(path)


async def test_a_schema_that_is_too_new_names_both_versions(path: Path) -> None:
    async with opened(path):
        pass
    with a_users(path) as own:
        own.execute("UPDATE rowlock_migrations SET version = 7000")
        own.commit()

    with pytest.raises(SchemaMismatch, match=r"7000.*upgrade Rowlock"):
        async with opened(path):
            pass


async def test_a_migration_whose_text_has_changed_is_refused(path: Path) -> None:
    async with opened(path):
        pass
    with a_users(path) as own:
        own.execute("UPDATE rowlock_migrations SET checksum = 'another'")
        own.commit()

    with pytest.raises(SchemaMismatch, match=r"another text of schema version 1"):
        async with opened(path):
            pass


async def test_a_migration_that_fails_leaves_nothing_behind(path: Path) -> None:
    with a_users(path) as own:
        # The last but one statement of the first migration meets this.
        own.execute("CREATE VIEW rowlock_jobs AS SELECT 1")
        own.commit()
        before = own.execute("SELECT name FROM sqlite_master").fetchall()

        with pytest.raises(Exception, match="rowlock_jobs"):
            async with opened(path):
                pass

        assert own.execute("SELECT name FROM sqlite_master").fetchall() == before


OPENING = """
    async def main(path):
        print("ready", flush=True)
        sys.stdin.readline()
        async with opened(path) as store:
            await store.enqueue([new_job()])
            print(store.is_new)
    asyncio.run(main(sys.argv[1]))
"""


async def test_processes_that_open_one_new_file_at_once_are_fine(path: Path) -> None:
    processes = [start(OPENING, path) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    ends = [process.communicate("go\n", timeout=60) for process in processes]

    assert [err for _, err in ends] == [""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert [out for out, _ in ends].count("True\n") == 1
    async with opened(path) as store:
        assert len((await store.list(Filter())).jobs) == 4


async def test_a_locked_new_file_is_passing(path: Path) -> None:
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN EXCLUSIVE")
        own.execute("CREATE TABLE orders (id INTEGER)")
        store = connect(f"sqlite:///{path}")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.open()
        own.execute("ROLLBACK")

        await store.open()

    assert None not in await store.enqueue([new_job()])
    await store.close()


async def test_a_file_with_the_schema_opens_under_a_users_transaction(
    path: Path,
) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN IMMEDIATE")
        async with opened(path) as store:
            assert len((await store.list(Filter())).jobs) == 1


async def test_a_store_opens_again_after_it_was_closed(path: Path) -> None:
    store = connect(f"sqlite:///{path}")
    for number in range(1, 4):
        await store.open()
        await store.enqueue([new_job()])
        assert len((await store.list(Filter())).jobs) == number
        await store.close()


async def test_a_closed_store_says_so(path: Path) -> None:
    store = connect(f"sqlite:///{path}")
    with pytest.raises(StoreUnavailable, match="open it first"):
        await store.enqueue([new_job()])
    await store.open()
    await store.close()
    with pytest.raises(StoreUnavailable, match="open it first"):
        await store.get([1])


async def test_many_open_and_close_at_once(path: Path) -> None:
    store = connect(f"sqlite:///{path}")
    await asyncio.gather(*(store.open() for _ in range(20)))
    assert None not in await store.enqueue([new_job()])
    await asyncio.gather(*(store.close() for _ in range(20)))


async def test_an_opening_that_was_given_up_can_be_repeated(path: Path) -> None:
    store = connect(f"sqlite:///{path}")
    opening = asyncio.create_task(store.open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    await store.open()

    assert None not in await store.enqueue([new_job()])
    await store.close()


async def test_b145_nothing_is_left_open(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with opened(path) as store:
            await store.enqueue([new_job()])
            await claim(store)
            await store.get([1])
        del store
        gc.collect()

    assert not [file for file in open_files() if file.name.startswith("jobs.db")]
    # The last connection takes the log with it.
    left = sorted(file.name for file in path.parent.iterdir())
    assert left == ["jobs.db", "jobs.db.wake"]


def open_files() -> list[Path]:
    """List what this process has open, where the system tells."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return []
    # The folder's own descriptor is gone again.
    return [fd.readlink() for fd in folder.iterdir() if fd.is_symlink()]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_goes_away_under_the_store_is_opened_anew(
    path: Path, how: str
) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"jobs.db{suffix}").rename(path.with_name(f"old{suffix}"))
        if how == "replaced":
            async with opened(path) as another:
                await another.enqueue([new_job(task="new")])

        # What is written now must not go where nobody finds it.
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await store.enqueue([new_job()])

        (job_id,) = await store.enqueue([new_job()])
        async with opened(path) as another:
            found = [job.id for job in (await another.list(Filter())).jobs]
        assert found == ([2, 1] if how == "replaced" else [1])
        assert job_id == found[0]


def test_an_sqlite_that_is_too_old_is_refused() -> None:
    connections.check_version((3, 35, 0))
    with pytest.raises(ConfigError, match=r"SQLite 3\.35 .* has 3\.34\.1"):
        connections.check_version((3, 34, 1))


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /srv/nfs nfs4 rw 0 0
//nas/share /srv/with\\040space cifs rw 0 0
/dev/sdb1 /srv/nfs/local ext4 rw 0 0
tmpfs /srv/nfsx tmpfs rw 0 0
tmpfs /srv/odd\x85name tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/nfs/jobs.db", "nfs4"),
        ("/srv/with space/jobs.db", "cifs"),
        ("/srv/nfs/local/jobs.db", None),
        ("/srv/nfsx/jobs.db", None),
        ("/home/jobs.db", None),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(
    tmp_path: Path, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)

    assert connections.network_of(path, str(mounts)) == kind
    assert connections.network_of(path, str(tmp_path / "none")) is None


async def test_a_network_file_system_is_warned_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "network_of", lambda _: "nfs4")

    with caplog.at_level(logging.WARNING, "rowlock.store"):
        async with opened(path):
            pass

    (record,) = caplog.records
    assert "network file system (nfs4)" in record.getMessage()
    assert record.name == "rowlock.store"
