"""Real payloads, on their way through the database and two worker processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from rowlock import App, Status
from tests.endings import finished
from tests.journal import Journal, Record
from tests.programs import webhooks
from tests.workers import START_S, Workers

EVENTS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "github-webhooks.jsonl")
    .read_text()
    .splitlines()
]


async def test_two_workers_handle_each_of_329_payloads_once_and_unchanged(
    app: App, journal: Journal, workers: Workers
) -> None:
    webhooks.register(app, journal)
    keep = app.find_task("keep")
    # Both are there before the first job, so that both get some.
    processes = [workers.launch("webhooks", label) for label in ("one", "two")]
    await workers.until("worker.started", count=2, within=START_S)

    ids = await app.enqueue_many(
        keep.job(number=number, event=event) for number, event in enumerate(EVENTS)
    )

    assert len(set(ids)) == len(EVENTS) == 329
    jobs = await finished(app, ids, within=60)
    assert {(job.status, job.claims) for job in jobs} == {(Status.SUCCEEDED, 1)}
    kept = workers.records("kept")
    assert [text(record.of["event"]) for record in sorted(kept, key=number_of)] == [
        text(event) for event in EVENTS
    ]
    assert [process.stop() for process in processes] == [0, 0]
    assert len(Counter(record.process for record in kept)) == 2


def text(event: object) -> str:
    """Write JSON in one way, in which 1, 1.0 and true differ."""
    return json.dumps(event, sort_keys=True)


def number_of(record: Record) -> int:
    number: int = record.of["number"]
    return number
