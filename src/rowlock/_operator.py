"""Who acts on jobs and queues, for their story."""

from __future__ import annotations

from rowlock._options import check_name
from rowlock._payload import storable


def who(by: str | None) -> str:
    """Read who acts; it is the user of this process unless said."""
    return current_user() if by is None else check_name(by, "by=")


def current_user() -> str:
    """Name who runs this process."""
    import getpass

    try:
        return storable(getpass.getuser())
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        return "unknown"
