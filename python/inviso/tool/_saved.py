"""Saves sessions: the history in a file, and data for processes that trace themselves in the same way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

from inviso import etf
from inviso.control import _arguments as given
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._base import BAD_TDG, ERROR, OK, Session
from ._history import Call, Run, from_terms
from ._running import Running

__all__ = ["Saved"]

HISTORY = "inviso_tool_history"
VERSION = 1


class Saved(Running):
    """The part of a tool that writes and reads histories."""

    def save_history(self, file: str | os.PathLike[str]) -> Any:
        """Writes the history of the present or last session to a file in the external term format.

        :meth:`restore_session` reads it.

        Args:
            file: its name. A name without a folder is relative to ``history_dir``.

        Returns:
            ``("ok", path)``; ``("error", "no_history")``; ``("error", ("open", reason))``; ``("error", ("format",
            text))`` if a call has an argument that can't be written, such as a function.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     tool.save_history("yesterday")
        ('error', 'no_history')
        """
        self._check("save_history")
        with self._lock:
            if self._last is None:
                return ERROR, Atom("no_history")
            terms = self._last.history.terms()
        path = os.path.join(self._history_dir, os.fspath(file))
        try:
            data = etf.dumps((Atom(HISTORY), VERSION, terms))
        except BadArg as wrong:
            return ERROR, (Atom("format"), wrong.why)
        try:
            _replace(path, data)
        except OSError as error:
            return ERROR, (Atom("open"), error.strerror or str(error))
        return OK, path

    def get_autostart_data(self, *words: Any, nodes: Iterable[str] | None = None) -> Any:
        """The data of a config file with which processes trace themselves from their start, as in this session:
        ``(dependency)``, or ``(nodes, dependency)``. Write the file with :func:`inviso.autostart.setup_autostart`.

        Args:
            words: the dependency of the runtime components: milliseconds, or ``"infinity"``.

        Returns:
            ``("ok", (items, [(node, ("ok", (options, ("tdg", (module, function, arguments)))))]))``. An item is
            ``("file", (path, bindings))``, or ``("mfa", ("inviso.runtime", function, arguments))``: an item of
            ``cmdfiles`` without its first element. ``("error", "bad_tdg")`` stands in a node's place if the generator
            was given as a function and not by name. ``("error", "no_session")`` if there was no session.

        >>> from inviso.tool import Tool
        >>> with Tool("no-such-node") as tool:
        ...     _ = tool.start_session()
        ...     items, [(node, answer)] = tool.get_autostart_data(5000)[1]
        ...     items, answer[1][0]
        ([], [('dependency', 5000)])
        """
        self._check("get_autostart_data")
        if len(words) not in (1, 2):
            raise BadArg("Tool.get_autostart_data", "arguments", "pass the dependency, after nodes if you like")
        dependency = words[-1]
        if isinstance(given.settings("get_autostart_data", {"dependency": dependency}), tuple):
            why = f"{shown(dependency)} is not a dependency; pass milliseconds, or 'infinity'"
            raise BadArg("Tool.get_autostart_data", "dependency", why)
        names = self._chosen("get_autostart_data", words[0] if len(words) == 2 else nodes, list(self._nodes))
        with self._lock:
            session = self._last
            if session is None:
                return ERROR, Atom("no_session")
            entries = session.history.entries()
        items: list[Any] = []
        for entry in entries:
            if isinstance(entry, Call):
                items.append((Atom("mfa"), ("inviso.runtime", entry.command, list(entry.arguments))))
            elif entry.name in self.cases:
                items.append((Atom("file"), (self.cases[entry.name].on, list(entry.variables.items()))))
        return OK, (items, [(name, self._autostart_data(session, name, dependency)) for name in names])

    def _earlier(self, file: Any) -> list[Call | Run] | tuple[Atom, Any]:
        """The entries of an earlier history, or the error."""
        if file is None:
            return (ERROR, Atom("no_history")) if self._last is None else self._last.history.entries()
        path = os.path.join(self._history_dir, os.fspath(file))
        try:
            with open(path, "rb") as opened:
                term = etf.loads(opened.read())
        except OSError as error:
            return ERROR, (Atom("open"), error.strerror or str(error))
        except (BadArg, ValueError):
            term = None
        match term:
            case (name, int(version), terms) if name == HISTORY and version == VERSION:
                found = from_terms(terms)
                if found is not None:
                    return found
        return ERROR, (Atom("bad_history"), path)

    def _autostart_data(self, session: Session, name: str, dependency: Any) -> Any:
        if name not in self._nodes:
            return ERROR, Atom("unknown_node")
        settings = self._settings(name)
        if isinstance(settings, tuple):
            return settings
        if self._tdg.named is None:
            return BAD_TDG
        options = [(key, value) for key, value in {**settings, "dependency": dependency}.items()]
        module, function = self._tdg.named
        return OK, (options, (Atom("tdg"), (module, function, [name, session.moment, *session.more, *self._tdg.last])))


def _replace(path: str, data: bytes) -> None:
    """Writes a file atomically, readable by its owner only."""
    number, part = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
    try:
        with open(number, "wb") as file:
            file.write(data)
        os.rename(part, path)
    except BaseException:
        os.unlink(part)
        raise
