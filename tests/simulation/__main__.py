"""Runs seeds: `python -m tests.simulation --seed 17` repeats one, and tells it all."""

from __future__ import annotations

import argparse
import sys

from .faults import FAULTS
from .run import run, survey


def a_fault(name: str) -> str:
    """Give the name of a fault; argparse says what else it is."""
    if name not in FAULTS:
        msg = f"there is no fault {name!r}, but these:\n{_list()}"
        raise argparse.ArgumentTypeError(msg)
    return name


def _list() -> str:
    return "\n".join(f"  {name}" for name in FAULTS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"faults:\n{_list()}",
    )
    parser.add_argument("--seed", type=int, help="run one seed, and show its history")
    parser.add_argument("--seeds", type=int, default=1000, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--fault", type=a_fault, help="with one of these planted")
    parser.add_argument("--most", type=int, default=1, help="until so many have failed")
    asked = parser.parse_args()
    if asked.seed is not None:
        verdict = run(asked.seed, asked.fault)
        print("\n".join(verdict.lines()))  # noqa: T201
        return 1 if verdict.broken else 0
    failed = survey(asked.first, asked.seeds, asked.fault, tell=print, most=asked.most)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
