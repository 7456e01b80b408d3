"""
Has the reference read a docstring's example as one.

Examples close a docstring without a heading, and under `Raises:` they would be taken
for more errors.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"\n\n(?=    >>> )")


class Examples(griffe.Extension):
    """Put the heading that the parser looks for over each docstring's example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - the extension's signature
        """Change the docstring of what was just read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = EXAMPLE.sub("\n\nExamples:\n", text, count=1)
