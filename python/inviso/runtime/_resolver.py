"""Finds the files and functions that requests name.

Requests of this process itself may name any. A request through a socket may name files below one folder, and functions
of modules that were allowed when the process was prepared.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from inviso.terms import Atom

from ._tracerdata import Refused

__all__ = ["CALLBACKS", "Remote", "Resolver"]

CALLBACKS = frozenset({("inviso.meta", "clean_std_publld"), ("inviso.meta", "init_std_publld")})
"""Functions of this package that any control may name."""


class Resolver:
    """For requests from this process: any file, any function. ``on_open`` is called as :meth:`wrote`."""

    def __init__(self, on_open: Callable[[tuple[str, str]], None] = lambda files: None) -> None:
        self._on_open = on_open

    def path(self, name: str) -> str:
        """The full path of a log.

        >>> Resolver().path("/logs/a.log")
        '/logs/a.log'
        """
        return os.path.abspath(name)

    def make_folder(self, path: str) -> None:
        """Makes the folder of a log that is about to be opened, if this resolver makes folders."""

    def wrote(self, files: tuple[str, str]) -> None:
        """Notes that a log was opened.

        ``files`` is the path of its file and "", or the parts before and after the number in the paths of a wrap set.
        """
        self._on_open(files)

    def may_delete(self, path: str) -> bool:
        """Whether a request may delete this file."""
        return True

    def function(self, named: Any) -> Callable[..., Any]:
        """The function of ``(module, function)``; a function is returned unchanged. ``Refused`` if there is no such
        function.

        >>> Resolver().function(("json", "loads"))("[1]")
        [1]
        """
        if callable(named):
            function: Callable[..., Any] = named
            return function
        module, name = named
        try:
            found = getattr(importlib.import_module(module), name)
        except Exception:
            raise Refused((Atom("bad_function"), named)) from None
        if not callable(found):
            raise Refused((Atom("bad_function"), named))
        return found  # type: ignore[no-any-return]


class Remote(Resolver):
    """For requests from other processes: files below ``folder``, functions of the modules ``allow`` and their
    submodules.
    """

    def __init__(self, folder: str, allow: tuple[str, ...]) -> None:
        super().__init__()
        self._folder = os.path.abspath(folder)
        self._allow = allow
        self._written: set[tuple[str, str]] = set()

    def path(self, name: str) -> str:
        path = os.path.normpath(os.path.join(self._folder, name))
        if "\0" in name or not path.startswith(self._folder + os.sep):
            raise Refused((Atom("not_allowed"), name))
        real, inside = os.path.realpath(os.path.dirname(path)), os.path.realpath(self._folder)
        if (real != inside and not real.startswith(inside + os.sep)) or os.path.islink(path):
            raise Refused((Atom("not_allowed"), name))
        return path

    def make_folder(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)

    def wrote(self, files: tuple[str, str]) -> None:
        self._written.add(files)

    def may_delete(self, path: str) -> bool:
        """Whether it is a file of a log that this process wrote."""
        return any(
            (path == before and not behind) or _is_of_set(path, before, behind) for before, behind in self._written
        )

    def function(self, named: Any) -> Callable[..., Any]:
        if not isinstance(named, tuple) or not all(isinstance(word, str) for word in named):
            raise Refused((Atom("not_allowed"), named))
        module, name = named
        admitted = any(module == one or module.startswith(one + ".") for one in self._allow)
        if not (admitted or named in CALLBACKS) or not name.isidentifier():
            raise Refused((Atom("not_allowed"), named))
        found = super().function(named)
        if getattr(found, "__module__", None) != module and named not in CALLBACKS:
            raise Refused((Atom("not_allowed"), named))
        return found


def _is_of_set(path: str, before: str, behind: str) -> bool:
    number = path.removeprefix(before).removesuffix(behind)
    return number.isdecimal() and path == before + number + behind
