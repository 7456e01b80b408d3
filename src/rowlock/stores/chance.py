"""
Chance of our own: a program that seeds `random` draws what it would without us.

It spreads what would else happen in one instant; nothing here is a secret.
"""

from __future__ import annotations

from random import Random
from typing import Final

CHANCE: Final = Random()  # noqa: S311 - it spreads
