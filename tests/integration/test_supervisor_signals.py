"""What a supervisor does of signals, and what it tells probes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from rowlock import App, Status
from tests.endings import ended, known
from tests.eventually import eventually

from .command_line import Command, run_json
from .supervising import SHOP, children_of, ends, lives, prints, started


async def test_sighup_replaces_workers_under_load_and_no_job_runs_twice(
    crew: App, start: type[Command], folder: Path, scale: int
) -> None:
    """The new code runs, and some worker claims all the time."""
    count = 300 if scale == 1 else 3000
    worker = start("worker", "shop:app", "--processes", "2", "--concurrency", "2")
    await started(worker, 2)
    ids = await crew.enqueue_many(crew.tasks["count"].job(n=n) for n in range(count))
    (folder / "shop.py").write_text(SHOP.replace("VERSION = 1", "VERSION = 2"))
    worker.signal(signal.SIGHUP)
    await prints(worker, "All workers have been replaced")
    ids += await crew.enqueue_many(crew.tasks["count"].job(n=n) for n in range(10))
    jobs = [await ended(crew, each) for each in ids]

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    counted = [line.split() for line in (folder / "counted").read_text().splitlines()]
    assert len(counted) == len(ids)
    assert {version for _, version, _ in counted} == {"1", "2"}
    assert {job.result for job in jobs[count:]} == {2}
    story = re.findall(r"worker\.(started|draining|stopped)", worker.output)
    assert story == [*["started"] * 2, *["started", "draining", "stopped"] * 2]
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_sighup_to_every_process_replaces_workers_and_costs_no_job(
    crew: App, start: type[Command]
) -> None:
    """As `pkill -HUP -f 'rowlock worker'` sends it: they have one command line."""
    job_id = known(await crew.tasks["nap"].enqueue(seconds=0.5))
    worker = start("worker", "shop:app", "--processes", "2")
    await prints(worker, f"began nap {job_id}/1")
    await started(worker, 2)
    for pid in (*children_of(worker.process.pid), worker.process.pid):
        os.kill(pid, signal.SIGHUP)
    await prints(worker, "All workers have been replaced")

    job = await ended(crew, job_id)
    assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)
    assert "was ended by" not in worker.output


async def test_a_sighup_to_every_process_spares_a_worker_that_starts(
    crew: App, start: type[Command]
) -> None:
    """As a second `pkill -HUP` soon after the first would end the replacement."""
    worker = start("worker", "shop:app")
    await eventually(lambda: len(children_of(worker.process.pid)) == 1)
    (pid,) = children_of(worker.process.pid)
    os.kill(pid, signal.SIGHUP)
    await started(worker, 1)
    os.kill(pid, signal.SIGHUP)
    await ended(crew, known(await crew.tasks["nap"].enqueue(seconds=0)))

    assert children_of(worker.process.pid) == [pid]
    # Nobody who is started there finds it held back.
    status = Path(f"/proc/{pid}/status").read_text()
    assert int(re.findall(r"SigBlk:\t(\w+)", status)[0], 16) & 1 == 0


async def test_new_code_that_cant_start_leaves_the_old_workers_at_work(
    crew: App, start: type[Command], folder: Path
) -> None:
    worker = start("worker", "shop:app", "--processes", "2")
    await started(worker, 2)
    (folder / "shop.py").write_text("import nothing_of_the_kind\n")
    worker.signal(signal.SIGHUP)
    await prints(worker, "so the old ones go on; SIGHUP tries again. Importing 'shop'")

    job = await ended(crew, known(await crew.tasks["nap"].enqueue(seconds=0)))
    assert job.status is Status.SUCCEEDED
    assert "draining" not in worker.output
    (folder / "shop.py").write_text(SHOP)
    worker.signal(signal.SIGHUP)
    await prints(worker, "All workers have been replaced")
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_an_old_worker_that_never_ends_is_killed_and_its_job_runs_again(
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["hold_lock"].enqueue())
    worker = start("worker", "shop:app", "--shutdown-timeout", "0.5")
    await prints(worker, f"began hold_lock {job_id}/1")
    worker.signal(signal.SIGHUP)
    await prints(worker, f"began hold_lock {job_id}/2")

    assert (await crew.get(job_id)).losses == 1
    await prints(worker, "All workers have been replaced")


@pytest.mark.parametrize(("task", "code"), [("nap", 0), ("hangs", 0), ("hold_lock", 1)])
async def test_a_signal_stops_all_and_the_gravest_code_counts(
    crew: App, start: type[Command], task: str, code: int
) -> None:
    """One whose handler holds the interpreter's lock is killed when its time is up."""
    await crew.tasks[task].enqueue()
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
    crew: App, start: type[Command]
) -> None:
    for _ in range(2):
        await crew.tasks["hold_lock"].enqueue()
    worker = start("worker", "shop:app", "--processes", "2", "--concurrency", "1")
    await prints(worker, r"(?s)began hold_lock.*began hold_lock")
    pids = children_of(worker.process.pid)
    worker.signal(signal.SIGINT)
    await asyncio.sleep(0.7)  # the process tells two signals apart by real time
    worker.signal(signal.SIGINT)

    assert await ends(worker, within=2) == 130
    assert not any(map(lives, pids))


@pytest.mark.usefixtures("crew")
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
    stopped, killed = children_of(worker.process.pid)
    os.kill(stopped, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)

    async def misses_one() -> bool:
        return await told(healthy=True, ready=True, reasons=["1 worker of 2 to start"])

    await eventually(misses_one)
    os.kill(stopped, signal.SIGCONT)
    await eventually(is_well, within=20)


@pytest.mark.usefixtures("crew")
async def test_a_worker_that_imports_for_long_is_no_silent_one(
    start: type[Command], folder: Path
) -> None:
    """As it would be replaced for that, and import again."""
    program = (
        "from rowlock.cli import crew, main\n"
        "crew.LONGEST_SILENCE_S = 0.3\n"
        "main.main(prog_name='rowlock')\n"
    )
    (folder / "shop.py").write_text(f"import time\ntime.sleep(600)\n{SHOP}")
    worker = start(*("worker", "shop:app", "--health", "127.0.0.1:0"), program=program)
    found = await prints(worker, r"answered at http://(127.0.0.1:\d+)")
    await asyncio.sleep(0.5)  # silence is a time
    told = await asyncio.to_thread(run_json_health, found[1])

    assert (told["healthy"], told["reasons"]) == (True, ["1 worker of 1 to start"])


def run_json_health(address: str) -> dict[str, object]:
    found = run_json("health", address)
    assert isinstance(found, dict)
    return found
