"""The doctor on every store: what hangs on none of them."""

from __future__ import annotations

from typing import get_args

from rowlock._answers import Finding, Severity
from rowlock._store import Store, TaskInfo, WorkerInfo

from .given import LEASE, Enqueue

WORKER = WorkerInfo(
    id="w1",
    host="here",
    pid=1,
    version=None,
    rowlock="0.1.0",
    tasks=("task",),
    queues=None,
    concurrency=5,
    lease=LEASE,
)


async def about(store: Store, what: str) -> list[Finding]:
    return [each for each in await store.doctor.examine() if each.about == what]


async def test_a_store_is_examined_though_it_is_closed(store: Store) -> None:
    await store.close()

    (finding,) = await about(store, "schema")

    assert finding.severity == "ok"


async def test_findings_are_sentences_the_worst_first(store: Store) -> None:
    findings = await store.doctor.examine()

    order = list(reversed(get_args(Severity)))
    assert [each.severity for each in findings] == sorted(
        (each.severity for each in findings), key=order.index
    )
    for finding in findings:
        assert finding.what.endswith(".")
        assert (finding.cure is None) == (finding.severity == "ok")


async def test_a_task_with_due_jobs_needs_a_live_worker(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(2)

    (finding,) = await about(store, "tasks")
    assert finding.severity == "wrong"
    assert (
        finding.what == "No live worker has the task 'task', of which 2 jobs are due."
    )
    await store.register(WORKER, [TaskInfo(name="task", queue="default", defaults={})])
    (finding,) = await about(store, "tasks")
    assert finding.severity == "ok"
