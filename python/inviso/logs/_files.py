"""The file of names beside a log."""

from __future__ import annotations

import os

from ._read import Named

__all__ = ["beside"]


def beside(files: list[Named]) -> list[str]:
    """The trace information file beside a log, if there is one: ``shop.ti`` for ``shop.log``, or for a wrap set
    ``shop``.

    >>> beside([("/nowhere/shop.log", None)])
    []
    """
    if len(files) != 1:
        return []
    path, suffix = files[0]
    base = path.rstrip(".") if suffix is not None else os.path.splitext(path)[0]
    name = f"{base}.ti"
    return [name] if name != path and os.path.isfile(name) else []
