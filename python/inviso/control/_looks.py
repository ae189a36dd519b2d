"""Polls nodes, added or not, over connections that stay open. Each node has one request at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from inviso._system import Flag
from inviso.terms import Atom

from ._control import Control
from ._hub import GONE, TIMEOUT, Link
from ._local import LocalLink

__all__ = ["Looks"]

OK, ERROR = Atom("ok"), Atom("error")
UNREACHED = ERROR, Atom("nodedown")

MOST = 100
"""Ended nodes that stay in the answers, at most. The oldest go first."""


class _Line:
    """A link, and the answer to its latest request."""

    __slots__ = ("answer", "answered", "link")

    def __init__(self, link: Link | LocalLink) -> None:
        self.link = link
        self.answer: Any = None
        self.answered = Flag()
        self.answered.set()

    def put(self, answer: Any) -> None:
        """Stores the answer; runs in another thread."""
        self.answer = answer
        self.answered.set()


class Looks:
    """Polls the nodes that match patterns, also those that start later. One thread at a time uses it.

    >>> control = Control(name="docs@here")
    >>> looks = Looks(control, ["no-such-node"], "sample")
    >>> looks.look(1.0)
    {}
    >>> looks.close()
    >>> control.close()
    """

    def __init__(self, control: Control, patterns: Iterable[str], request: str) -> None:
        self._control = control
        self._patterns = list(patterns)
        self._request = request
        self._lines: dict[str, _Line] = {}
        self._gone: dict[str, Any] = {}
        self._unreached: set[str] = set()
        """Names that had no reachable process at the last poll."""

    def look(self, timeout: float, arguments: Mapping[str, list[Any]] | None = None) -> dict[str, Any]:
        """Returns the answer of each node.

        A node that has not answered in ``timeout`` seconds has ``("error", "timeout")``, and gets no other request
        until its answer has come. A node that has ended stays, with the reason.

        Args:
            timeout: seconds.
            arguments: of the request, for some nodes.
        """
        self._reach()
        asked = {name: line for name, line in self._lines.items() if line.answered.is_set()}
        for name, line in asked.items():
            line.answer, line.answered = None, Flag()
            self._control.ask(line.link, self._request, (arguments or {}).get(name, []), line.put)
        end = time.monotonic() + timeout
        answers: dict[str, Any] = {}
        for name, line in self._lines.items():
            is_here = name in asked and line.answered.wait(end - time.monotonic())
            answer = answers[name] = line.answer if is_here else TIMEOUT
            if isinstance(answer, tuple) and answer[:1] == (OK,):
                self._gone.pop(name, None)
        # an ending node may accept one more connection and not answer it: the first reason stays
        return dict(sorted({**answers, **self._gone}.items()))

    def _reach(self) -> None:
        found: dict[str, Link | LocalLink | None] = {}
        with suppress(OSError):  # without the folder, the known nodes are polled
            found = self._control.reached(self._patterns, {name: line.link for name, line in self._lines.items()})
        for name, line in list(self._lines.items()):
            if not line.link.is_open:
                del self._lines[name]
                self._gone.setdefault(name, line.link.ended or GONE if isinstance(line.link, Link) else GONE)
        for name, link in found.items():
            known = self._lines.get(name)
            if link is None:
                if name in self._unreached:  # twice: a node that has just ended is still in the folder once
                    self._gone.setdefault(name, UNREACHED)
            elif known is None or known.link is not link:
                if known is not None:
                    self._control.leave(known.link)
                self._lines[name] = _Line(link)
        self._unreached = {name for name, link in found.items() if link is None}
        while len(self._gone) > MOST:
            del self._gone[next(iter(self._gone))]

    def close(self) -> None:
        """Ends the connections."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            self._control.leave(line.link)
