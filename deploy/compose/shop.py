"""The app that the image holds: yours goes here."""

from __future__ import annotations

from rowlock import App

app = App()


@app.task
async def send_receipt(order_id: int) -> str:
    """Stand for a task of yours."""
    return f"receipt of order {order_id}"
