"""The Postgres store, on psycopg."""

from rowlock.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
