"""
A web server with a worker in the same process, on nothing but the standard library.

    python web.py 8000
    curl -X POST localhost:8000/reports/2026      # 202, and where to look
    curl localhost:8000/jobs/1                    # {"status": "succeeded", ...}

`main` is what the lifespan of a framework is: it opens the app, runs a worker, serves,
and stops both in the reverse order. Ctrl-C lets running jobs end first.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

from rowlock import App, JobNotFound

app = App("sqlite:///web.db")


@app.task(timeout=60)
async def make_report(year: int) -> dict[str, int]:
    """Stand for something that takes too long for a request."""
    await asyncio.sleep(0.1)
    return {"year": year, "orders": 42}


async def respond(method: str, path: str) -> tuple[str, object]:
    """Answer a request with a status and a document."""
    match method, path.strip("/").split("/"):
        case "POST", ["reports", year] if year.isdecimal():
            # A second request while the first report is unfinished makes no second job.
            key = f"report:{year}"
            task = make_report.options(idempotency_key=key)
            job_id = await task.enqueue(int(year))
            if job_id is None:
                job = await app.find(make_report, key)
                job_id = job.id if job else None
            return "202 Accepted", {"job": f"/jobs/{job_id}"}
        case "GET", ["jobs", job_id] if job_id.isdecimal():
            with suppress(JobNotFound):
                job = await app.get(int(job_id))
                return "200 OK", {"status": job.status, "result": job.result}
        case _:
            pass
    return "404 Not Found", {"error": "there is no such thing"}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, write one response."""
    request = await reader.readuntil(b"\r\n\r\n")
    method, path, _ = request.split(b"\r\n")[0].decode().split(" ")
    status, document = await respond(method, path)
    body = json.dumps(document).encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    )
    writer.write(body)
    await writer.drain()
    writer.close()


async def main(port: int) -> None:
    """Serve and work until stopped."""
    async with app, app.worker(concurrency=2):
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        # Port 0 is any free one.
        print("listening on port", server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
