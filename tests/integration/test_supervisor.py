"""`rowlock worker --processes`: workers that die, are replaced, and are told to end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rowlock import App, Status
from tests.endings import ended, jobs_of, known
from tests.eventually import eventually

from .command_line import Command, run, run_json

SHOP = '''
import asyncio
import os
import re
import subprocess
import sys

from rowlock import App, current_attempt

VERSION = 1

app = App()


def began(more: object = "") -> None:
    job = current_attempt()
    where = f"{job.task} {job.job_id}/{job.number} in {os.getpid()}"
    print("began", where, more, flush=True)


@app.task
async def nap(seconds: float = 600.0) -> int:
    began()
    await asyncio.sleep(seconds)
    return os.getpid()


@app.task
async def count(n: int) -> int:
    with open("counted", "a") as file:
        file.write(f"{n} {VERSION} {os.getpid()}\\n")
    await asyncio.sleep(0.02)
    return VERSION


@app.task
async def hold_lock() -> None:
    """Block the loop in C code that holds the interpreter's lock."""
    began()
    re.match("(a+)+$", "a" * 60 + "b")


@app.task
def start_another() -> None:
    """Start a process that outlives its handler's."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    began(child.pid)
    child.wait()


@app.task(executor="process")
def apart() -> None:
    began(os.getppid())
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])


@app.task
def leave_orphans() -> None:
    """Start processes that end when their parent is gone."""
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)


@app.task
def quit() -> None:
    os._exit(0)


@app.task(timeout=0.1, max_attempts=1)
def hangs() -> None:
    import threading
    threading.Event().wait()
'''

# At which the lease of a job says nothing of when it starts again.
SOON_S = 2.0


@pytest.fixture
async def shop(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """A working folder with that app, on each store, and the same app in here."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    namespace: dict[str, App] = {}
    exec(SHOP, namespace)  # noqa: S102 - the very text that the worker imports
    async with namespace["app"] as app:
        yield app


async def prints(worker: Command, text: str, within: float = 30) -> re.Match[str]:
    """Wait until a pattern is in what it has printed."""

    async def printed() -> re.Match[str] | None:
        return re.search(text, worker.output)

    try:
        return await eventually(printed, within=within, what=text)
    except AssertionError as error:
        msg = f"{error}\n{worker.output}"
        raise AssertionError(msg) from None


async def started(worker: Command, count: int) -> None:
    """Wait until so many workers have started in all."""
    await eventually(
        lambda: worker.output.count("worker.started") >= count,
        within=40,
        what=f"{count} started:\n{worker.output}",
    )


async def ends(worker: Command, within: float = 20) -> int:
    return await asyncio.to_thread(worker.ends, within)


def children_of(pid: int) -> list[int]:
    """Give the processes that one has started, or adopted, zombies too."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def lives(pid: int) -> bool:
    """Tell whether a process runs; a zombie doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("processes", [1, 2])
async def test_the_job_of_a_killed_worker_starts_again_at_once(
    shop: App, start: type[Command], processes: int
) -> None:
    """At a lease of 300 s: by a worker that lives, or by the one that follows."""
    job_id = known(await shop.tasks["nap"].enqueue())
    began_at = time.monotonic()
    worker = start("worker", "shop:app", "--processes", processes)
    first = await prints(worker, rf"began nap {job_id}/1 in (\d+)")
    # Without another, a process has to start, which takes what it takes.
    start_s = time.monotonic() - began_at if processes == 1 else 0.0
    await started(worker, processes)
    killed_at = time.monotonic()
    os.kill(int(first[1]), signal.SIGKILL)
    second = await prints(worker, rf"began nap {job_id}/2 in (\d+)")

    assert time.monotonic() - killed_at < max(SOON_S, start_s), worker.output
    assert first[1] != second[1]
    job = await shop.get(job_id)
    assert (job.status, job.losses, job.failures) == (Status.RUNNING, 1, 0)
    await started(worker, processes + 1)
    assert worker.output.count("was ended by SIGKILL; what it held is recovered") == 1


async def test_a_worker_that_a_handler_ends_well_is_recovered_too(
    shop: App, start: type[Command]
) -> None:
    job_id = known(await shop.tasks["quit"].options(max_attempts=1).enqueue())
    start("worker", "shop:app")

    job = await ended(shop, job_id)
    assert job.status is Status.FAILED
    assert "WorkerLost" in str(job.last_error)


async def test_what_a_dead_worker_has_started_is_gone_before_its_job_runs_again(
    shop: App, start: type[Command]
) -> None:
    job_id = known(await shop.tasks["start_another"].enqueue())
    worker = start("worker", "shop:app", "--processes", "2")
    first = await prints(worker, rf"began start_another {job_id}/1 in (\d+) (\d+)")
    await started(worker, 2)
    os.kill(int(first[1]), signal.SIGKILL)
    await prints(worker, rf"began start_another {job_id}/2")

    assert not lives(int(first[2]))


async def test_only_a_worker_whose_death_was_seen_is_recovered(
    shop: App, start: type[Command]
) -> None:
    """Law 9: another supervisor's knows nothing of it, and leaves it to its lease."""
    job_id = known(await shop.tasks["nap"].enqueue())
    alone = start("worker", "shop:app", "--no-supervisor")
    await prints(alone, f"began nap {job_id}/1")
    alone.kill()
    other = start("worker", "shop:app")
    await started(other, 1)
    done = await ended(shop, known(await shop.tasks["nap"].enqueue(seconds=0)))

    assert done.status is Status.SUCCEEDED
    assert (await shop.get(job_id)).attempts == 1


@pytest.mark.parametrize("task", ["nap", "hold_lock", "start_another", "apart"])
async def test_the_children_of_a_killed_supervisor_die_with_it(
    shop: App, start: type[Command], task: str
) -> None:
    """Also where a handler holds the interpreter's lock, and to the last grandchild."""
    await shop.tasks[task].enqueue()
    worker = start("worker", "shop:app")
    found = await prints(worker, rf"began {task} \d+/1 in (\d+) (\d*)")
    pids = {int(pid) for pid in found.groups() if pid} - {worker.process.pid}
    for pid in tuple(pids):
        pids |= set(children_of(pid))
    pids |= set(children_of(worker.process.pid))
    assert pids
    worker.process.kill()

    await eventually(lambda: not any(map(lives, pids)), within=SOON_S)


async def test_a_grandchild_that_is_killed_costs_no_worker(
    shop: App, start: type[Command]
) -> None:
    job_id = known(await shop.tasks["apart"].options(max_attempts=1).enqueue())
    worker = start("worker", "shop:app")
    found = await prints(worker, r"began apart \d+/1 in (\d+)")
    os.kill(int(found[1]), signal.SIGKILL)

    job = await ended(shop, job_id)
    assert (job.failures, job.losses) == (1, 0)
    assert "ChildDied" in str(job.last_error)
    assert worker.output.count("worker.started") == 1


async def test_sighup_replaces_workers_under_load_and_no_job_runs_twice(
    shop: App, start: type[Command], folder: Path, scale: int
) -> None:
    """The new code runs, and some worker claims all the time."""
    count = 300 if scale == 1 else 3000
    worker = start("worker", "shop:app", "--processes", "2", "--concurrency", "2")
    await started(worker, 2)
    ids = await shop.enqueue_many(shop.tasks["count"].job(n=n) for n in range(count))
    (folder / "shop.py").write_text(SHOP.replace("VERSION = 1", "VERSION = 2"))
    worker.signal(signal.SIGHUP)
    await prints(worker, "All workers have been replaced")
    ids += await shop.enqueue_many(shop.tasks["count"].job(n=n) for n in range(10))
    jobs = [await ended(shop, each) for each in ids]

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    counted = [line.split() for line in (folder / "counted").read_text().splitlines()]
    assert len(counted) == len(ids)
    assert {version for _, version, _ in counted} == {"1", "2"}
    assert {job.result for job in jobs[count:]} == {2}
    story = re.findall(r"worker\.(started|draining|stopped)", worker.output)
    assert story == [*["started"] * 2, *["started", "draining", "stopped"] * 2]
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_new_code_that_cant_start_leaves_the_old_workers_at_work(
    shop: App, start: type[Command], folder: Path
) -> None:
    worker = start("worker", "shop:app", "--processes", "2")
    await started(worker, 2)
    (folder / "shop.py").write_text("import nothing_of_the_kind\n")
    worker.signal(signal.SIGHUP)
    await prints(worker, "so the old ones go on; SIGHUP tries again. Importing 'shop'")

    job = await ended(shop, known(await shop.tasks["nap"].enqueue(seconds=0)))
    assert job.status is Status.SUCCEEDED
    assert "draining" not in worker.output
    (folder / "shop.py").write_text(SHOP)
    worker.signal(signal.SIGHUP)
    await prints(worker, "All workers have been replaced")
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


@pytest.mark.parametrize(("task", "code"), [("nap", 0), ("hangs", 0), ("hold_lock", 1)])
async def test_a_signal_stops_all_and_the_gravest_code_counts(
    shop: App, start: type[Command], task: str, code: int
) -> None:
    """One whose handler holds the interpreter's lock is killed when its time is up."""
    await shop.tasks[task].enqueue()
    worker = start(
        *("worker", "shop:app", "--processes", "2", "--shutdown-timeout", "1")
    )
    await started(worker, 2)
    if task != "hangs":
        await prints(worker, f"began {task}")
    worker.signal(signal.SIGTERM)

    assert await ends(worker, within=1 + 5 + 2) == code
    assert worker.output.count("worker.stopped") >= 1


async def test_a_second_signal_kills_all_at_once(
    shop: App, start: type[Command]
) -> None:
    for _ in range(2):
        await shop.tasks["hold_lock"].enqueue()
    worker = start("worker", "shop:app", "--processes", "2", "--concurrency", "1")
    await prints(worker, r"(?s)began hold_lock.*began hold_lock")
    pids = children_of(worker.process.pid)
    worker.signal(signal.SIGINT)
    await asyncio.sleep(0.7)  # the process tells two signals apart by real time
    worker.signal(signal.SIGINT)

    assert await ends(worker, within=2) == 130
    assert not any(map(lives, pids))


async def test_a_worker_with_too_many_stuck_handlers_is_replaced(
    shop: App, start: type[Command]
) -> None:
    for _ in range(2):
        await shop.tasks["hangs"].enqueue()
    worker = start("worker", "shop:app", "--max-stuck", "1", "--cancel-grace", "0.1")
    await prints(worker, "worker.overrun")
    await started(worker, 2)

    assert "ended with exit code 1; what it held" in worker.output
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


@pytest.mark.usefixtures("shop")
async def test_probes_name_the_worker_that_is_missing(start: type[Command]) -> None:
    worker = start(
        *("worker", "shop:app", "--processes", "2", "--health", "127.0.0.1:0")
    )
    found = await prints(worker, r"answered at http://(127.0.0.1:\d+)")
    await started(worker, 2)

    async def told(**of: object) -> bool:
        said = await asyncio.to_thread(run_json_health, found[1])
        return all(said[name] == value for name, value in of.items())

    async def is_well() -> bool:
        return await told(healthy=True, ready=True, reasons=[], concurrency=10)

    await eventually(is_well)
    os.kill(children_of(worker.process.pid)[0], signal.SIGSTOP)
    os.kill(children_of(worker.process.pid)[1], signal.SIGKILL)

    async def misses_one() -> bool:
        return await told(healthy=True, ready=True, reasons=["1 worker of 2 to start"])

    await eventually(misses_one)
    for pid in children_of(worker.process.pid):
        os.kill(pid, signal.SIGCONT)
    await eventually(is_well, within=20)


def run_json_health(address: str) -> dict[str, object]:
    found = run_json("health", address)
    assert isinstance(found, dict)
    return found


async def test_as_process_1_it_reaps_what_it_didnt_start(
    shop: App, start: type[Command]
) -> None:
    """In a namespace of its own, where a signal that isn't handled does nothing."""
    job_id = known(await shop.tasks["leave_orphans"].enqueue())
    program = (
        "import os, subprocess, sys\n"
        "command = ['unshare', '--pid', '--fork', '--kill-child', sys.executable,"
        " '-m', 'rowlock', *sys.argv[1:]]\n"
        "os.execvp(command[0], command)\n"
    )
    worker = start("worker", "shop:app", "--processes", "2", program=program)
    if "unshare failed" in await first_words(worker):
        pytest.skip("this machine makes no namespaces")
    (supervisor,) = children_of(worker.process.pid)
    assert (await ended(shop, job_id)).status is Status.SUCCEEDED
    await eventually(lambda: len(children_of(supervisor)) == 2)
    os.kill(supervisor, signal.SIGTERM)

    assert await ends(worker) == 0
    assert worker.output.count("worker.stopped") == 2


async def first_words(worker: Command) -> str:
    await eventually(lambda: bool(worker.lines), within=40)
    return worker.lines[0]


async def test_orphans_are_adopted_and_reaped_where_nobody_else_does(
    shop: App, start: type[Command]
) -> None:
    job_id = known(await shop.tasks["leave_orphans"].enqueue())
    worker = start("worker", "shop:app")
    assert (await ended(shop, job_id)).status is Status.SUCCEEDED

    await eventually(lambda: len(children_of(worker.process.pid)) == 1)


async def test_eight_processes_share_one_database(
    shop: App, start: type[Command], folder: Path
) -> None:
    worker = start("worker", "shop:app", "--processes", "8", "--concurrency", "2")
    await started(worker, 8)
    ids = await shop.enqueue_many(shop.tasks["count"].job(n=n) for n in range(400))
    for job_id in ids:
        await ended(shop, known(job_id))

    jobs = await jobs_of(shop, ids)
    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    pids = [line.split()[2] for line in (folder / "counted").read_text().splitlines()]
    assert len(pids) == 400
    assert len(set(pids)) == 8
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


def test_several_processes_need_a_supervisor() -> None:
    said = run("worker", "shop:app", "--processes", "2", "--no-supervisor").stderr

    assert "Several processes need a supervisor" in said
