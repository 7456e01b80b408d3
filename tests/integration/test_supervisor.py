"""`rowlock worker --processes`: workers that die, and what becomes of their jobs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from rowlock import App, Status
from tests.endings import ended, jobs_of, known
from tests.eventually import eventually

from .command_line import Command, run
from .supervising import SOON_S, children_of, ends, lives, prints, started


@pytest.mark.parametrize("processes", [1, 2])
async def test_the_job_of_a_killed_worker_starts_again_at_once(
    crew: App, start: type[Command], processes: int
) -> None:
    """At a lease of 300 s: by a worker that lives, or by the one that follows."""
    job_id = known(await crew.tasks["nap"].enqueue())
    began_at = time.monotonic()
    worker = start("worker", "shop:app", "--processes", processes)
    first = await prints(worker, rf"began nap {job_id}/1 in (\d+)")
    # Without another, a process has to start, which takes what it takes: on busy cores
    # not the same each time.
    start_s = 2 * (time.monotonic() - began_at) if processes == 1 else 0.0
    await started(worker, processes)
    killed_at = time.monotonic()
    os.kill(int(first[1]), signal.SIGKILL)
    second = await prints(worker, rf"began nap {job_id}/2 in (\d+)")

    assert time.monotonic() - killed_at < max(SOON_S, start_s), worker.output
    assert first[1] != second[1]
    job = await crew.get(job_id)
    assert (job.status, job.losses, job.failures) == (Status.RUNNING, 1, 0)
    await started(worker, processes + 1)
    assert worker.output.count("was ended by SIGKILL; what it held is recovered") == 1
    # The dead one is no live worker, whatever its lease.

    async def has_the_living() -> bool:
        live = {info.pid for info in (await crew.stats()).workers}
        return len(live) == processes and int(first[1]) not in live

    await eventually(has_the_living)


async def test_a_worker_that_a_handler_ends_well_is_recovered_too(
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["quit"].options(max_attempts=1).enqueue())
    start("worker", "shop:app")

    job = await ended(crew, job_id)
    assert job.status is Status.FAILED
    assert "WorkerLost" in str(job.last_error)


async def test_what_a_dead_worker_has_started_is_gone_before_its_job_runs_again(
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["start_another"].enqueue())
    worker = start("worker", "shop:app", "--processes", "2")
    first = await prints(worker, rf"began start_another {job_id}/1 in (\d+) (\d+)")
    await started(worker, 2)
    os.kill(int(first[1]), signal.SIGKILL)
    await prints(worker, rf"began start_another {job_id}/2")

    assert not lives(int(first[2]))


async def test_what_no_worker_is_left_to_recover_is_told(
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["nap"].enqueue())
    worker = start("worker", "shop:app")
    first = await prints(worker, rf"began nap {job_id}/1 in (\d+)")
    worker.signal(signal.SIGSTOP)
    os.kill(int(first[1]), signal.SIGKILL)
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGCONT)

    await ends(worker)
    assert "No worker is left to recover what w-" in worker.output


async def test_only_a_worker_whose_death_was_seen_is_recovered(
    crew: App, start: type[Command]
) -> None:
    """Law 9: another supervisor's knows nothing of it, and leaves it to its lease."""
    job_id = known(await crew.tasks["nap"].enqueue())
    alone = start("worker", "shop:app", "--no-supervisor")
    await prints(alone, f"began nap {job_id}/1")
    alone.kill()
    other = start("worker", "shop:app")
    await started(other, 1)
    done = await ended(crew, known(await crew.tasks["nap"].enqueue(seconds=0)))

    assert done.status is Status.SUCCEEDED
    assert (await crew.get(job_id)).attempts == 1


@pytest.mark.parametrize("task", ["nap", "hold_lock", "start_another", "apart"])
async def test_the_children_of_a_killed_supervisor_die_with_it(
    crew: App, start: type[Command], task: str
) -> None:
    """Also where a handler holds the interpreter's lock, and to the last grandchild."""
    await crew.tasks[task].enqueue()
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
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["apart"].options(max_attempts=1).enqueue())
    worker = start("worker", "shop:app")
    found = await prints(worker, r"began apart \d+/1 in (\d+)")
    os.kill(int(found[1]), signal.SIGKILL)

    job = await ended(crew, job_id)
    assert (job.failures, job.losses) == (1, 0)
    assert "ChildDied" in str(job.last_error)
    assert worker.output.count("worker.started") == 1


async def test_a_worker_with_too_many_stuck_handlers_is_replaced(
    crew: App, start: type[Command]
) -> None:
    for _ in range(2):
        await crew.tasks["hangs"].enqueue()
    worker = start("worker", "shop:app", "--max-stuck", "1", "--cancel-grace", "0.1")
    await prints(worker, "worker.overrun")
    await started(worker, 2)

    assert "ended with exit code 1; what it held" in worker.output
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


async def test_as_process_1_it_reaps_what_it_didnt_start(
    crew: App, start: type[Command]
) -> None:
    """In a namespace of its own, where a signal that isn't handled does nothing."""
    job_id = known(await crew.tasks["leave_orphans"].enqueue())
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
    assert (await ended(crew, job_id)).status is Status.SUCCEEDED
    await started(worker, 2)
    os.kill(supervisor, signal.SIGTERM)

    assert await ends(worker) == 0
    assert worker.output.count("worker.stopped") == 2


async def first_words(worker: Command) -> str:
    await eventually(lambda: bool(worker.lines), within=40)
    return worker.lines[0]


async def test_orphans_are_adopted_and_reaped_where_nobody_else_does(
    crew: App, start: type[Command]
) -> None:
    job_id = known(await crew.tasks["leave_orphans"].enqueue())
    worker = start("worker", "shop:app")
    assert (await ended(crew, job_id)).status is Status.SUCCEEDED

    await eventually(lambda: len(children_of(worker.process.pid)) == 1)


async def test_eight_processes_share_one_database(
    crew: App, start: type[Command], folder: Path
) -> None:
    worker = start("worker", "shop:app", "--processes", "8", "--concurrency", "2")
    await started(worker, 8)
    ids = await crew.enqueue_many(crew.tasks["count"].job(n=n) for n in range(400))
    for job_id in ids:
        await ended(crew, known(job_id))

    jobs = await jobs_of(crew, ids)
    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    pids = [line.split()[2] for line in (folder / "counted").read_text().splitlines()]
    assert len(pids) == 400
    assert len(set(pids)) == 8
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0


def test_several_processes_need_a_supervisor() -> None:
    said = run("worker", "shop:app", "--processes", "2", "--no-supervisor").stderr

    assert "Several processes need a supervisor" in said
