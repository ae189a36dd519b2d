"""Saved match specifications by number, and the built-in ones by name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from inviso._descriptor import private
from inviso._literal import NotLiteral, read_all, written
from inviso.match_spec import match_spec_test

__all__ = ["BUILT_IN", "Saved"]

BUILT_IN: Final[dict[str, Any]] = {
    "c": [("_", [], [("message", ("caller_line",))])],
    "caller_exception_trace": "cx",
    "caller_trace": "c",
    "cx": [("_", [], [("exception_trace",), ("message", ("caller_line",))])],
    "exception_trace": "x",
    "x": [("_", [], [("exception_trace",)])],
}


class Saved:
    """The specifications of one dbg. A new one gets the number after the largest.

    >>> saved = Saved()
    >>> saved.save([("_", [], [("return_trace",)])]), saved.save([("_", [], [("return_trace",)])])
    (1, 1)
    >>> saved.save(saved.find("exception_trace")), saved.save([])
    ('x', None)
    """

    __slots__ = ("_numbered",)

    def __init__(self) -> None:
        self._numbered: dict[int, list[Any]] = {}

    def find(self, key: int | str) -> list[Any] | None:
        """The specification with this number or name; None without one."""
        found = self._numbered.get(key) if isinstance(key, int) else BUILT_IN.get(key)
        return self.find(found) if isinstance(found, str) else found

    def save(self, spec: list[Any]) -> int | str | None:
        """Saves a specification, if it is not saved or built in. Returns its number or name; None for the empty one."""
        if not spec:
            return None
        for key, value in self:
            if isinstance(value, list) and _same(value, spec):
                return key
        number = max(self._numbered, default=0) + 1
        self._numbered[number] = list(spec)
        return number

    def delete(self, number: int) -> None:
        """Deletes one; built-in ones stay."""
        self._numbered.pop(number, None)

    def clear(self) -> None:
        """Deletes all but the built-in ones."""
        self._numbered.clear()

    def __iter__(self) -> Iterator[tuple[int | str, Any]]:
        """Iterates over all, numbers first. The value of a built-in name may be another name."""
        yield from sorted(self._numbered.items())
        yield from BUILT_IN.items()

    def write(self, path: str) -> tuple[str, Any] | None:
        """Writes all to a file that only its owner can read, one specification a line. If one can't be read back,
        nothing is written.
        """
        text = ""
        for key, value in self:
            if isinstance(value, list):
                try:
                    line = written(value) + "\n"
                    read_all(line)
                except (NotLiteral, RecursionError) as error:
                    return ("error", ("write_error", f"specification {key}: {error}"))
                text += line
        try:
            with open(private(path, os.O_NONBLOCK), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            return ("error", reason(error))
        return None

    def read(self, path: str) -> tuple[str, Any] | None:
        """Adds the specifications of a file: all of them, or none if one is wrong."""
        try:
            with open(path, encoding="utf-8", opener=_without_waiting) as file:
                specs = read_all(file.read())
        except OSError as error:
            return ("error", ("read_error", reason(error)))
        except (NotLiteral, UnicodeDecodeError) as error:
            return ("error", ("read_error", str(error)))
        for spec in specs:
            try:
                good = isinstance(spec, list) and match_spec_test([], spec)[0] == "ok"
            except (ValueError, RuntimeError):
                good = False
            if not good:
                return ("error", ("file_format_error", "bad_match_spec"))
        for spec in specs:
            self.save(spec)
        return None


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file without waiting. Refuses a pipe or device, which may have no end, like a directory, as in Erlang."""
    number = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return number


def reason(error: OSError) -> str:
    """Erlang's name for an error of the system, such as ``enoent``.

    >>> reason(FileNotFoundError(2, "No such file"))
    'enoent'
    """
    return errno.errorcode.get(error.errno or 0, "").lower() or os.strerror(error.errno or 0)


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same types: 1 differs from True, and an Atom from a str."""
    if type(a) is not type(b):
        return isinstance(a, list) and isinstance(b, list) and _all_same(a, b)
    if isinstance(a, (list, tuple)):
        return _all_same(a, b)
    if isinstance(a, dict):
        return len(a) == len(b) and all(any(_same(pair, other) for other in b.items()) for pair in a.items())
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)


def _all_same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(map(_same, a, b))
