"""
Chance of our own: a program that seeds `random` draws what it would without us.

It spreads what would else happen in one instant; nothing here is a secret.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

CHANCE: Final = Random()  # noqa: S311 - it spreads

# As `random` does for its own: all that were forked from one would go in step.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CHANCE.seed)
