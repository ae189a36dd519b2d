"""The target of an export: a file that appears when it is whole, or a binary file."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from inviso import trace_ports
from inviso.errors import BadArg, shown

if TYPE_CHECKING:
    from typing import TypeAlias

    Out: TypeAlias = str | bytes | os.PathLike[Any] | BinaryIO

__all__ = ["file", "target"]


def target(where: str, out: Out) -> str | BinaryIO:
    """Checks a target before anything is read, as a session's messages can be read only once."""
    if hasattr(out, "write"):
        if isinstance(out, io.TextIOBase):
            raise BadArg(where, "out", f"{shown(out)} takes text; open it with 'wb'")
        return cast("BinaryIO", out)
    if not isinstance(out, (str, bytes, os.PathLike)):
        raise BadArg(where, "out", f"{shown(out)} is neither a path nor a file; pass a path")
    path = trace_ports.path_of(where, "out", out)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise BadArg(where, "out", f"there is no folder {shown(folder)}; make it first")
    return path


@contextlib.contextmanager
def file(path: str | BinaryIO) -> Iterator[BinaryIO]:
    """Opens a target, compressed if its name ends with ``.gz``."""
    if not isinstance(path, str):
        yield path
        return
    with _opened(path) as file:
        if path.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                yield cast("BinaryIO", packed)
        else:
            yield file


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Opens a path. A regular file appears when it is whole, or not at all. Anything else is written directly."""
    real = os.path.realpath(path)
    try:
        os.stat(path)
    except FileNotFoundError:
        in_place = False
    else:
        # a link of /proc may lead to something without a path (a pipe, a removed file)
        in_place = not os.path.isfile(real)
    if in_place:
        with open(path, "wb") as there:
            yield there
        return
    try:
        handle, temporary = tempfile.mkstemp(prefix=".inviso-", dir=os.path.dirname(real))
    except OSError as error:
        error.filename = path
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
