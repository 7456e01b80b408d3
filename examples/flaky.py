"""
How many retries a service costs that fails half of the time.

    python flaky.py 50

The service is run here, on a free port, and answers 503 to half of the requests, as
chance has it. Each job is tried until it is through, six times at most; what the
service refuses for good (400) isn't tried again.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rowlock import App, Backoff, Filter, Status, Unrecoverable, events

# In memory: it is gone when the program ends.
app = App("sqlite://")
seen: Counter[str] = Counter()


class Service(BaseHTTPRequestHandler):
    """Answers 400 to number 13, and else 200 or 503, as chance has it."""

    chance = random.Random(1)

    def do_GET(self) -> None:
        """Answer, and say nothing more."""
        refused = self.path == "/13"
        self.send_response(400 if refused else self.chance.choice((200, 503)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing."""


@app.task(max_attempts=6, backoff=Backoff.exponential(0.01, factor=2), timeout=5)
def fetch(url: str) -> int:
    """Ask the service; a plain function, so it may block."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        if error.code < 500:
            raise Unrecoverable(f"the service refuses it: {error}") from error
        raise


def count(event: events.Event) -> None:
    """Count what happens; called on the worker's loop, so it must not block."""
    seen[event.name] += 1


async def main(total: int) -> None:
    """Enqueue, wait for the last one, and tell."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    app.listen(count)
    async with app, app.worker(concurrency=10):
        ids = await app.enqueue_many(fetch.job(f"{url}/{n}") for n in range(total))
        for job_id in filter(None, ids):
            await app.wait(job_id, timeout=60)
        failed = (await app.list(Filter(status=Status.FAILED))).jobs
    server.shutdown()
    tried = seen["attempt.succeeded"] + seen["attempt.failed"]
    print(f"{total} jobs, {tried} attempts: {tried / total:.1f} a job")
    for job in failed:
        print(f"dead after {job.failures}: {job.last_error}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
