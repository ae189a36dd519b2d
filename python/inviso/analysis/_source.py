"""The sources of an analysis: logs that can be read repeatedly, or a stored list of messages."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .. import _native, merge
from ..errors import BadArg, shown
from ..export import _source as exports
from ..trace import Session

__all__ = ["Source", "opened"]

_NO_SOURCE = (
    "pass the path of a log, a wrap set (name, 'wrap', suffix), several logs (a list, a folder, or a mapping of nodes "
    "to logs), a session without a tracer, or a list of trace messages"
)


class Source:
    """The trace behind tables. It owns its temporary files, and removes them when it is collected."""

    __slots__ = ("__weakref__", "erlang", "is_log", "logs", "messages", "names", "wall", "what")

    def __init__(self, what: str, erlang: bool) -> None:
        self.what = what
        """Its name in warnings."""
        self.erlang = erlang
        self.logs: list[tuple[str, str | None]] = []
        self.messages: list[Any] | None = None
        # logs of this process use its present names, too
        self.names: dict[Any, str] = dict(_native.process.process_names())
        self.is_log = True
        self.wall: int | None = None
        """The difference from monotonic time to wall time in nanoseconds, or None."""

    def rows(
        self, table: str, values: int, label: str | None = None, of: int | None = None, shortest: int = 0
    ) -> _native.export.ArrowRows:
        """The rows of a table. They can be read once."""
        messages = self._messages() if self.messages is not None else None
        return _native.export.ArrowRows.analysis(
            table, self.logs, messages, self.names, self.is_log, self.erlang, values, self.wall, label, of, shortest
        )

    def events(self) -> _native.export.ArrowRows:
        """The messages as rows. They can be read once."""
        return _native.export.ArrowRows("text", self.logs, self._messages() if self.messages is not None else None)

    def _messages(self) -> tuple[Callable[[], list[Any] | None], Callable[[TypeError], Exception]]:
        parts = iter([self.messages])
        where = "tables/1"

        def refused(error: TypeError) -> Exception:
            return BadArg(
                where, "source", f"a message that is not a term: {error}; pass messages as a tracer gets them"
            )

        return (lambda: next(parts, None), refused)

    def folder(self) -> str:
        """A private folder, which is removed with this source."""
        folder = tempfile.mkdtemp(prefix="inviso-analysis-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        return folder


def opened(where: str, source: Any, erlang: bool) -> Source:
    """The source of an argument. A session's messages are taken now; several logs are merged now."""
    if isinstance(source, Session):
        return _session(where, source, erlang)
    if isinstance(source, Mapping) or (_is_path(source) and os.path.isdir(source)):
        return _merged(source, shown_path(source), erlang)
    logs = exports.logs(where, source)
    if logs is not None:
        if len(logs) > 1:
            return _merged(_by_name(where, logs), f"{len(logs)} logs", erlang)
        made = Source(shown_path(logs[0][0]), erlang)
        made.logs = logs
        return made
    if not isinstance(source, Collection):
        raise BadArg(where, "source", f"{shown(source)} can be read once at most; {_NO_SOURCE}")
    made = Source("a list of messages", erlang)
    made.messages, made.is_log = list(source), False
    return made


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, bytes, os.PathLike)) and exports.is_log(source)


def shown_path(source: Any) -> str:
    """The name of a source in a warning."""
    return os.fsdecode(source) if isinstance(source, (str, bytes, os.PathLike)) else f"{len(source)} logs"


def _session(where: str, session: Session, erlang: bool) -> Source:
    session._own(where)
    if session._takes_objects():
        raise BadArg(
            where, "source", f"{session!r} has objects (capture 'ref'), and tables are made of copies; drop that option"
        )
    made = Source(f"session {session.name}", erlang)
    path = os.path.join(made.folder(), "session.log")
    session._native.dump_to_file(path, True)
    made.logs = [(path, None)]
    made.wall = session._native.wall_offset()
    return made


def _merged(sources: Any, what: str, erlang: bool) -> Source:
    made = Source(what, erlang)
    path = os.path.join(made.folder(), "merged.log")
    merge.logs(sources, path, "blocks")
    made.logs = [(path, None)]
    return made


def _by_name(where: str, logs: list[tuple[str, str | None]]) -> dict[str, Any]:
    """Maps names of nodes to logs. A node without a name gets the name of its file."""
    named: dict[str, Any] = {}
    for path, suffix in logs:
        stem = os.path.splitext(os.path.basename(path))[0] or "log"
        name, n = stem, 1
        while name in named:
            n += 1
            name = f"{stem}-{n}"
        named[name] = path if suffix is None else (path, "wrap", suffix)
    return named
