"""Who may do what: a worker's role, and producers' ones, where there are any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowlock._errors import ConfigError, StoreError
from rowlock.stores.postgres.errors import told_by_us
from rowlock.stores.postgres.sessions import Session

# The schema version that brought them.
SINCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles to be granted what they need, beside those that have it already."""

    worker: str | None = None
    producers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.worker is not None or bool(self.producers)

    def grants(self) -> Iterator[tuple[str, str]]:
        """Name the statement for each role."""
        if self.worker is not None:
            yield "grant_worker", self.worker
        for producer in self.producers:
            yield "grant_producer", producer


NO_ROLES = Roles()


async def grant(session: Session, roles: Roles) -> None:
    """
    Grant these roles what they need; again it does nothing.

    Raises:
        ConfigError: there is no such role, or this user can't make the history its own.
    """
    for operation, role in roles.grants():
        try:
            await session.run(operation, role=role)
        except StoreError as error:
            sentence = told_by_us(error)
            if sentence is None:
                raise
            raise ConfigError(sentence) from error


async def doubt(session: Session, worker: str) -> str | None:
    """Say in a sentence why a worker's role binds nobody; None where it does."""
    found = await session.run("powers", role=worker)
    if not found:
        return None
    ((owner, is_supers, is_super, may_be_owner),) = found
    if is_super:
        return (
            f"The role {worker} is a superuser, whom no grant binds: give the workers"
            " another."
        )
    if may_be_owner:
        what = "is" if worker == owner else "is a member of"
        return (
            f"The role {worker} {what} the schema's owner, and may do everything in it:"
            " give the workers another, or leave out --worker-role."
        )
    if is_supers:
        return (
            f"The schema's owner {owner} is a superuser, as which {worker} could act by"
            " a trigger on the history, that rowlock.replay runs: let a role that is"
            " none own the schema."
        )
    return None
