"""Traces a child for ``inviso trace``: writes the lines that ``_trace_others`` reads."""

from __future__ import annotations

import posix
import time
from typing import Any

from inviso import tracing
from inviso._background import Timer
from inviso._children import MAIN, MAIN_OF_CHILD, Folder, of_child, title
from inviso.dbg._lines import Paint, line, plain

from ._trace import EVERY, NAME, color, open_log, request_of, timed
from ._trace_others import LINES, STOP, log_of, micros

__all__ = ["Lines"]


class _Who:
    """A process of a child, with its text in lines."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Lines:
    """The tracing in a child."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._request = request_of(config["options"], config["patterns"])
        self._paint: Paint = color if config["color"] else plain
        self._make = timed if self._request.time else line
        self._folder = Folder(config["folder"])
        self._file = ""
        self._tracing: tracing.Tracing | None = None
        self._thread = Timer(self._step)
        self._patterns = [of_child([pattern]) for pattern in self._request.patterns]
        self._called: set[tuple[str, str, int]] = set()
        self._last = 0

    def begin(self) -> None:
        """Begins tracing."""
        request = self._request
        if self._folder.has(STOP):
            raise RuntimeError("tracing was over")
        port: Any = None
        limits: dict[str, Any] = {}  # the leader counts lines
        if request.is_log:
            assert request.output is not None
            port = open_log(log_of(request.output, posix.getpid()))
            limits = {"limit": request.limit, "rate": request.rate, "lost": tracing.LOST}
        self._file = f"{posix.getpid()}-{time.monotonic_ns()}{LINES}"
        self._tracing = tracing.begin(
            NAME,
            port,
            processes={"all": ["call"] if request.is_log and not request.time else ["call", "timestamp"]},
            patterns=[pattern for each in self._patterns for pattern in each],
            match_spec=request.spec or True,
            **limits,
        )
        self.resume()

    def pause(self) -> None:
        """Stops the thread before a fork."""
        self._thread.stop()

    def resume(self) -> None:
        """Starts the thread again after a fork."""
        if self._tracing is not None and not self._request.is_log:
            self._thread.start(EVERY)

    def read(self, *, last: bool) -> dict[str, Any]:
        """With ``last``, writes the remaining lines. Returns the numbers of patterns that match functions."""
        traced = self._tracing
        if traced is None:
            return {"matched": []}
        if not last:
            return {"matched": [], "log": self._request.is_log}
        self._tracing = None
        self._thread.end()
        self._write(traced)
        matched = []
        session = traced.session
        if session.is_alive():
            for at, patterns in enumerate(self._patterns):
                if any([session.function(pattern, False, ["local"]) for pattern in patterns]):
                    matched.append(at)
        traced.end("program")
        return {"matched": matched, "log": self._request.is_log, "called": list(self._called)}

    def _step(self) -> float | None:
        traced = self._tracing
        if traced is None:
            return None
        if self._folder.has(STOP):
            traced.end()
            return None
        self._write(traced)
        return EVERY

    def _write(self, traced: tracing.Tracing) -> None:
        if self._request.is_log:
            return
        made = []
        name = f"@{posix.getpid()} {title(self._config)}"
        for message in traced.session.drain():
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
                traced.end()  # the run is over


def _main(module: str) -> str:
    return MAIN if module == MAIN_OF_CHILD else module


def _as_main(part: Any) -> Any:
    """A function of the program's main module, with the module's name in the leader."""
    if isinstance(part, tuple) and part and part[0] == MAIN_OF_CHILD:
        return (MAIN, *part[1:])
    return part
