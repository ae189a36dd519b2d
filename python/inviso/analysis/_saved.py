"""Tables that were saved as Parquet files."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

from ..errors import BadArg, needed, shown
from ._tables import NAMES

__all__ = ["SavedTables", "load"]


class SavedTables:
    """Tables that :meth:`Tables.to_parquet` has written. Each is an attribute: a ``pyarrow.Table``, or a
    ``polars.DataFrame`` if only polars is installed.

    >>> SavedTables("folder")
    <saved tables of 'folder'>
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"no table {name!r}; there are {', '.join(NAMES)}")
        path = os.path.join(self._folder, f"{name}.parquet")
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module("pyarrow.parquet").read_table(path)
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module("polars").read_parquet(path)
        return needed("pyarrow")

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in NAMES)

    def __repr__(self) -> str:
        return f"<saved tables of {self._folder!r}>"


def load(folder: str | os.PathLike[str]) -> SavedTables:
    """The tables of a folder that :meth:`Tables.to_parquet` has written.

    Raises:
        BadArg: there is no such folder, or a table is missing in it.

    >>> load("nowhere")
    Traceback (most recent call last):
    inviso.errors.BadArg: load/1, folder: there is no folder 'nowhere'; pass one that to_parquet has written
    """
    where = "load/1"
    if not isinstance(folder, (str, os.PathLike)) or not os.path.isdir(folder):
        raise BadArg(where, "folder", f"there is no folder {shown(folder)}; pass one that to_parquet has written")
    path = os.fspath(folder)
    for name in NAMES:
        if not os.path.isfile(os.path.join(path, f"{name}.parquet")):
            raise BadArg(
                where, "folder", f"there is no {name}.parquet in {shown(path)}; pass one that to_parquet has written"
            )
    return SavedTables(path)
