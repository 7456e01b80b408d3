"""Rowlock's own benchmarks: `python -m benchmarks --help`."""
