"""
An order and the job that follows from it, in one transaction, with psycopg.

    rowlock migrate --database postgresql:///shop
    python orders_postgres.py postgresql:///shop

Either both are there or neither: no receipt for an order that was rolled back, and no
order whose receipt was forgotten because the process died between two commits.
"""

from __future__ import annotations

import asyncio
import sys

import psycopg

from rowlock import App

URL = sys.argv[1] if len(sys.argv) > 1 else "postgresql:///shop"
app = App(URL)


@app.task
async def send_receipt(order_id: int) -> None:
    """Send it."""
    print("receipt for order", order_id)


async def place_order(
    connection: psycopg.AsyncConnection, item: str, stock: int
) -> int | None:
    """Write an order and enqueue its receipt; None where the stock is empty."""
    try:
        # Commits at the end, or rolls back what raises.
        async with connection.transaction():
            row = await connection.execute(
                "INSERT INTO orders (item) VALUES (%s) RETURNING id", (item,)
            )
            ((order_id,),) = await row.fetchall()
            await send_receipt.options(connection=connection).enqueue(order_id)
            if not stock:
                raise LookupError(item)
    except LookupError:
        return None
    return int(order_id)


async def main() -> None:
    """Place two orders, of which one is rolled back, and look at the jobs."""
    connecting = psycopg.AsyncConnection.connect(URL, autocommit=True)
    async with app, await connecting as connection:
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS orders"
            " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text)"
        )
        print("order", await place_order(connection, "lamp", stock=1))
        print("order", await place_order(connection, "sold out", stock=0))
        print("jobs", [job.payload for job in (await app.list()).jobs])


if __name__ == "__main__":
    asyncio.run(main())
