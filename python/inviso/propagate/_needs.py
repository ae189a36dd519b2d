"""Errors for wrong applications and clients, and for a missing third-party package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BadArg, shown

__all__ = ["check_application", "check_client", "needs"]


@contextmanager
def needs(package: str, distribution: str | None = None) -> Iterator[None]:
    """Wraps the import of ``package``. If it is missing, the error names the distribution to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        importer = sys._getframe(2).f_globals["__name__"]
        name = distribution or package
        raise ModuleNotFoundError(f"{importer} needs the package {name}; install {name}", name=missing.name) from None


def check_application(application: object) -> None:
    """Refuses an application that is not callable."""
    if not callable(application):
        raise BadArg("Middleware/1", "application", f"{shown(application)} can't be called; pass an application")


def check_client(argument: str, client: object, *kinds: type[Any]) -> None:
    """Refuses a client that is of none of these classes."""
    if not isinstance(client, kinds):
        names = " or ".join(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds)
        raise BadArg("attach/1", argument, f"{shown(client)} is not a client; pass one of {names}")
