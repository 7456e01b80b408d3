"""Runs seeds: `python -m tests.simulation --seed 17` repeats one, and tells it all."""

from __future__ import annotations

import argparse
import sys

from .run import run, survey


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="run one seed, and show its history")
    parser.add_argument("--seeds", type=int, default=1000, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--fault", help="with this fault of `faults.py` planted")
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
