"""
An order and the job that follows from it, in one transaction, with `sqlite3`.

Either both are there or neither: no receipt for an order that was rolled back, and no
order whose receipt was forgotten because the process died between two commits.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from rowlock import App

app = App("sqlite:///orders.db")


@app.task
def send_receipt(order_id: int) -> None:
    """Send it."""
    print("receipt for order", order_id)


def place_order(connection: sqlite3.Connection, item: str, stock: int) -> int | None:
    """Write an order and enqueue its receipt; None where the stock is empty."""
    try:
        # Commits at the end, or rolls back what raises.
        with connection:
            row = connection.execute("INSERT INTO orders (item) VALUES (?)", (item,))
            order_id = row.lastrowid or 0
            send_receipt.options(connection=connection).enqueue_sync(order_id)
            if not stock:
                raise LookupError(item)
    except LookupError:
        return None
    return order_id


def main() -> None:
    """Place two orders, of which one is rolled back, and look at the jobs."""
    with closing(sqlite3.connect("orders.db")) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"
        )
        print("order", place_order(connection, "lamp", stock=1))
        print("order", place_order(connection, "sold out", stock=0))
    print("jobs", [job.payload for job in app.list_sync().jobs])
    app.close_sync()


if __name__ == "__main__":
    main()
