"""Looks at nodes again and again, whether or not they were added, over connections that stay open.

Each node has one request at a time.
"""

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
"""Nodes that have ended and are still in the answers: the latest."""


class _Line:
    """A link, and the request that was made last."""

    __slots__ = ("answer", "answered", "link")

    def __init__(self, link: Link | LocalLink) -> None:
        self.link = link
        self.answer: Any = None
        self.answered = Flag()
        self.answered.set()

    def put(self, answer: Any) -> None:
        """The answer has come, in another thread."""
        self.answer = answer
        self.answered.set()


class Looks:
    """The nodes that match patterns, also those that begin later. One thread at a time calls it.

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
        """Names that nobody could be reached by at the last look."""

    def look(self, timeout: float, arguments: Mapping[str, list[Any]] | None = None) -> dict[str, Any]:
        """The answer of each node.

        One that has not answered in ``timeout`` seconds has ``("error", "timeout")``. It is waited for no longer, and
        gets no other request until its answer has come. One that has ended stays, with the reason.

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
        # one that ends can be connected to once more, and does not answer: what was said first stays
        return dict(sorted({**answers, **self._gone}.items()))

    def _reach(self) -> None:
        found: dict[str, Link | LocalLink | None] = {}
        with suppress(OSError):  # of the folder: those that are known are asked
            found = self._control.reached(self._patterns, {name: line.link for name, line in self._lines.items()})
        for name, line in list(self._lines.items()):
            if not line.link.is_open:
                del self._lines[name]
                self._gone.setdefault(name, line.link.ended or GONE if isinstance(line.link, Link) else GONE)
        for name, link in found.items():
            known = self._lines.get(name)
            if link is None:
                if name in self._unreached:  # one that has ended before is in the folder no more
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
