"""The calls of a program's children, for ``inviso trace``: what a child writes, and how it comes among the leader's lines.

A child adds each line, with its time in microseconds, to a file of its own in the run's folder. The leader reads what is
new there, and holds everything back for ``HELD`` seconds while there are children, so that lines stand in the order of
their times. A child's log is a file beside the leader's.
"""

from __future__ import annotations

import posix
import time
from contextlib import suppress
from typing import Any

from . import trace
from ._beside import Beside
from ._children import title
from ._children._folder import Folder
from ._limits import LOST
from .dbg._lines import Paint, line
from .tprof._child import MAIN, MAIN_OF_CHILD, of_child

__all__ = ["ChildLine", "Lines", "Others", "log_of"]

EVERY = 0.005
HELD = 0.03
PATIENCE = 2.0
STOP = "stop"


class ChildLine:
    """A line that is made already."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Who:
    """A process of a child, as lines name it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def micros(stamp: Any) -> int:
    """A time stamp as one number."""
    mega, seconds, micro = stamp
    return int((mega * 1_000_000 + seconds) * 1_000_000 + micro)


def log_of(path: str, pid: int | str) -> str:
    """The file of a child's log, beside the leader's.

    >>> log_of("calls.log", 42)
    'calls.42.log'
    """
    return f"{path.removesuffix('.log')}.{pid}.log"


class Lines:
    """What a child traces."""

    def __init__(self, config: dict[str, Any]) -> None:
        from . import _trace_cli as cli

        self._config = config
        self._request = cli.request_of(config["options"], config["patterns"])
        self._paint: Paint = cli.color if config["color"] else cli.plain
        self._make = cli.timed if self._request.time else line
        self._folder = Folder(config["folder"])
        self._file = ""
        self._session: trace.Session | None = None
        self._port: Any = None
        self._thread = Beside(self._step)
        self._patterns = [of_child([pattern]) for pattern in self._request.patterns]
        self._called: set[tuple[str, str, int]] = set()
        self._last = 0

    def begin(self) -> None:
        """Trace from here on."""
        from . import _trace_cli as cli

        request = self._request
        if self._folder.has(STOP):
            raise RuntimeError("tracing was over")
        if request.is_log:
            assert request.output is not None
            self._port = cli.open_log(log_of(request.output, posix.getpid()))
            self._port.limit(request.limit, rate=request.rate, lost=LOST)
        self._file = f"{posix.getpid()}-{time.monotonic_ns()}.lines"
        self._session = session = trace.session_create(cli.NAME, self._port)
        session.process("all", True, ["call"] if request.is_log and not request.time else ["call", "timestamp"])
        spec = request.spec or True
        patterns = [pattern for each in self._patterns for pattern in each]
        for pattern in patterns:
            session.function(pattern, spec, ["local"])
        trace._on_load(session, "local", patterns, spec)
        self.resume()

    def pause(self) -> None:
        """A fork comes."""
        self._thread.stop()

    def resume(self) -> None:
        """It's over."""
        if self._port is None and self._session is not None:
            self._thread.start(EVERY)

    def read(self, *, last: bool) -> dict[str, Any]:
        """Write the lines that are not written yet. Answers which patterns there were functions for."""
        session = self._session
        if session is None:
            return {"matched": []}
        if not last:
            return {"matched": [], "log": self._request.is_log}
        self._session = None
        self._thread.end()
        self._write(session)
        matched = []
        if session.is_alive():
            for at, patterns in enumerate(self._patterns):
                if any([session.function(pattern, False, ["local"]) for pattern in patterns]):
                    matched.append(at)
        if self._port is not None:
            trace._settle(session, PATIENCE)
            self._port.flush()
            session.destroy()
            self._port.close()
        session.destroy()
        return {"matched": matched, "log": self._port is not None, "called": list(self._called)}

    def _step(self) -> float | None:
        session = self._session
        if session is None:
            return None
        if self._folder.has(STOP):
            session.destroy()
            return None
        self._write(session)
        return EVERY

    def _write(self, session: trace.Session) -> None:
        if self._port is not None:
            return
        made = []
        name = f"@{posix.getpid()} {title(self._config)}"
        for message in session.drain():
            match message:
                case ("drop", number):
                    made.append(f"{self._last} !{number}\n")
                    continue
                case (_, _, "call", (str(module), str(function), list(arguments)), *_):
                    self._called.add((_main(str(module)), str(function), len(arguments)))
            head, who, *rest, stamp = message
            self._last = micros(stamp)
            shown = (head, _Who(repr(who) + name), *map(_as_main, rest))
            text = self._make((*shown, stamp) if self._request.time else ("trace", *shown[1:]), self._paint)
            made.append(f"{self._last} {text}\n")
        if made:
            try:
                self._folder.append(self._file, "".join(made).encode("utf-8", "backslashreplace"))
            except OSError:
                session.destroy()  # the run is over


def _main(module: str) -> str:
    return MAIN if module == MAIN_OF_CHILD else module


def _as_main(part: Any) -> Any:
    """A function of the program's main module by the name that this has in the leader."""
    if isinstance(part, tuple) and part and part[0] == MAIN_OF_CHILD:
        return (MAIN, *part[1:])
    return part


class Others:
    """What children have written, for the leader."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}
        self._waiting: list[tuple[int, int, Any]] = []
        self._number = 0

    def among(self, messages: list[Any], *, has_time: bool, last: bool) -> list[Any]:
        """Own messages, and lines of children, in the order of their times, as far as that is known by now."""
        at = self._waiting[-1][0] if self._waiting else 0
        for message in messages:
            if len(message) > 2:
                *rest, stamp = message
                at = micros(stamp)
                message = message if has_time else ("trace", *rest[1:])
            self._add(at, message)
        names = [name for name in posix.listdir(self._folder.path) if name.endswith(".lines")]
        for name in names:
            start = self._read.get(name, 0)
            data = self._folder.read(name, start) or b""
            end = data.rfind(b"\n") + 1
            self._read[name] = start + end
            for each in data[:end].decode("utf-8", "replace").split("\n")[:-1]:
                stamp, _, text = each.partition(" ")
                self._add(int(stamp), ("drop", int(text[1:])) if text.startswith("!") else ChildLine(text))
        self._waiting.sort(key=lambda item: item[:2])
        if last or not self._has_children():
            ready, self._waiting = self._waiting, []
        else:
            until = int((time.time() - HELD) * 1_000_000)
            number = sum(item[0] <= until for item in self._waiting)
            ready, self._waiting = self._waiting[:number], self._waiting[number:]
        return [item[2] for item in ready]

    def stop(self) -> None:
        """Nothing more is wanted of children."""
        with suppress(OSError):
            self._folder.append(STOP, b"")

    def _has_children(self) -> bool:
        return self._folder.has("log")

    def _add(self, at: int, what: Any) -> None:
        self._number += 1
        self._waiting.append((at, self._number, what))
