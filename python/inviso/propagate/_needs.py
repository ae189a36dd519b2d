"""What a module says whose third-party package is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(package: str, distribution: str | None = None) -> Iterator[None]:
    """Within, ``package`` is imported; if there is none, the error says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        asker = sys._getframe(2).f_globals["__name__"]
        name = distribution or package
        raise ModuleNotFoundError(f"{asker} needs the package {name}; install {name}", name=missing.name) from None
