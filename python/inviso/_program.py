"""The name and command line of this program."""

from __future__ import annotations

import os
import sys

__all__ = ["command", "name"]


def command() -> str:
    """The program's command line, shortened; "" if the program has emptied ``sys.argv``. A package stands with its
    name.
    """
    words = [word for word in sys.argv if isinstance(word, str)] if isinstance(sys.argv, list) else []
    if not words:
        return ""
    folder, base = os.path.split(words[0])
    return " ".join([os.path.basename(folder) if folder and base == "__main__.py" else base, *words[1:8]])[:200]


def name() -> str:
    """The name of the script or package; ``python`` without one.

    >>> bool(name())
    True
    """
    first = sys.argv[0] if isinstance(sys.argv, list) and sys.argv and isinstance(sys.argv[0], str) else ""
    folder, base = os.path.split(first)
    found = os.path.basename(folder) if folder and base == "__main__.py" else base
    return "python" if found in ("", "-c", "-") else found
