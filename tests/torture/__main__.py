"""Tortures a store: `python -m tests.torture --minutes 10 --store sqlite`."""

from __future__ import annotations

import argparse
import random
import sys

from .run import StoreName, Torture, torture
from .weather import RHYTHMS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--minutes", type=float, default=1.0, help="of storm, each")
    parser.add_argument("--store", choices=["postgres", "sqlite"], help="else both")
    parser.add_argument("--seed", type=int, help="of the acts; else any")
    parser.add_argument(
        "--fault",
        choices=["fence", "twice", "effect"],
        default="",
        help="planted, to be found",
    )
    parser.add_argument("--keep", action="store_true", help="the journal and the logs")
    parser.add_argument(
        "--only", action="append", choices=RHYTHMS, default=[], help="this kind of act"
    )
    asked = parser.parse_args()
    seed = random.randrange(10**6) if asked.seed is None else asked.seed
    stores: list[StoreName] = [asked.store] if asked.store else ["postgres", "sqlite"]
    is_clean = True
    for store in stores:
        outcome = torture(
            Torture(
                store,
                60 * asked.minutes,
                seed,
                fault=asked.fault,
                keep=asked.keep,
                only=asked.only,
            )
        )
        print("\n".join(outcome.lines()), flush=True)  # noqa: T201
        is_clean &= outcome.is_clean
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
