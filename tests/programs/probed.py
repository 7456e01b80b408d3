"""A worker that replays dead letters while a gate is open, and says when it looks."""

from __future__ import annotations

from rowlock import App
from tests.journal import Gate, Journal
from tests.serve import serve

EVERY_S = 2.0


def register(app: App, journal: Journal) -> None:
    @app.task(max_attempts=1)
    async def send() -> str:
        return journal.label

    async def probe() -> bool:
        journal.record("probed")
        # The worker that has the turn is killed here.
        await Gate(journal.folder, f"{journal.label}-probe").passed()
        return True

    app.replay_when("send", probe, every=EVERY_S)


if __name__ == "__main__":
    serve(register)
