"""`python -m rowlock` is `rowlock`."""

from __future__ import annotations

from rowlock.cli.main import main

if __name__ == "__main__":
    main(prog_name="rowlock")
