"""The measurement of ``inviso tprof``, and its report after the program's end.

The profile is written by the ``atexit`` function that is registered first and so runs last: after the traceback, after
the threads for which the interpreter waits, after the program's own functions. A forked child writes no profile.

Standard error is duplicated at the beginning, so that the report isn't lost if the program closes or replaces it; a
forked child closes the duplicate. The table is written before JSON on standard output, whose reader may have gone.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from inviso._children import Leader, lead
from inviso._descriptor import Own, duplicate, private, stderr
from inviso._pattern import Pattern
from inviso.tprof import Profile, Profiler
from inviso.tprof import format as format_
from inviso.tprof._child import merged
from inviso.tprof._model import CallType, Sort

from ._command import CannotBegin, greenlets_unseen, wants_color
from ._progress import Progress

__all__ = ["Measurement", "Request"]

TREE_LINES = 40
"""Lines of the call tree without ``--limit``; JSON has all."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options. ``json`` is a path, ``"-"`` for standard output, or None; ``output`` is a path or None."""

    type: CallType
    tree: bool
    patterns: list[Pattern]
    per_process: bool
    sort: Sort
    limit: int | None
    json: str | None
    output: str | None
    title: str
    children: bool
    beside: str


class Measurement:
    """The profiler of one run, from before the program's first line until after its last."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._process = os.getpid()
        self._profiler: Profiler | None = None
        self._stderr: Stderr | None = None
        self._progress: Progress | None = None
        self._begun = False
        self._children: Leader | None = None
        self._dumps: Callable[..., str] = repr

    def prepare(self) -> None:
        """Finds problems before a long run, and raises ``CannotBegin`` for them."""
        for path in (self._request.output, self._request.json):
            if path is not None and path != "-":
                _check_writable(path)
        if self._request.json is not None:
            import json  # at the end a module of the program may have this name

            self._dumps = json.dumps
        try:
            self._profiler = Profiler(type=self._request.type, tree=self._request.tree)
        except RuntimeError as error:
            raise CannotBegin(str(error)) from error
        self._stderr = Stderr.copy()
        if self._stderr is not None:
            self._progress = Progress(self._stderr.number, self._request.title)
        atexit.register(self._finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        if self._request.children:
            request = self._request
            what = {"command": "tprof", "type": request.type, "tree": request.tree, "patterns": request.patterns}
            self._children = lead({**what, "title": request.title, "beside": request.beside})
            self._children.at_exit(lambda: self._finish(flushes=False))

    def begin(self) -> None:
        """Begins measuring."""
        assert self._profiler is not None
        self._begun = True
        if self._progress is not None:
            self._progress.start()
        try:
            if self._request.type != "call_count":
                self._profiler.enable_trace("all", set_on_spawn=True)
            self._profiler.set_pattern(list(self._request.patterns))
        except RuntimeError as error:
            self.cancel()
            raise CannotBegin(str(error)) from error

    def cancel(self) -> None:
        """Ends measuring without a report: there is no program after all."""
        profiler, self._profiler = self._profiler, None
        if self._progress is not None:
            self._progress.stop()
        if profiler is not None:
            profiler.stop()
        if self._children is not None:
            self._children.cancel()

    def _finish(self, *, flushes: bool = True) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None or not self._begun or os.getpid() != self._process:
            return
        profiler.pause()
        if self._progress is not None:
            self._progress.stop()
        profile = profiler.collect(view="process" if self._request.per_process else "total", sort=self._request.sort)
        profiler.stop()
        if self._children is not None:
            profile = merged(profile, self._children.outcome())
            self._children.cancel()
        if flushes:
            _flush_what_the_program_wrote()
        self._write_table(profile)
        self._write_json(profile)

    def _write_table(self, profile: Profile) -> None:
        path = self._request.output
        if path is not None:
            try:
                _write_file(path, self._text(profile, color=False))
                return
            except OSError as error:
                self._say(f"inviso tprof: {path}: {error.strerror}; the profile follows here\n")
        self._say(self._text(profile, color=wants_color(None if self._stderr is None else self._stderr.number)))

    def _write_json(self, profile: Profile) -> None:
        path = self._request.json
        if path is None:
            return
        text = self._dumps(profile.to_dict(), indent=2) + "\n"
        try:
            if path == "-":
                _write_fd(1, text)
            else:
                _write_file(path, text)
        except OSError as error:
            where = "standard output" if path == "-" else path
            self._say(f"inviso tprof: {where}: {error.strerror}; the JSON follows here\n{text}")

    def _text(self, profile: Profile, *, color: bool) -> str:
        request = self._request
        functions = len(profile.functions)
        noun = "function" if functions == 1 else "functions"
        seconds = profile.elapsed_ns / 1e9
        head = f"inviso tprof: {request.type} of {request.title}: "
        head += f"{functions} {noun}, {profile.calls} call{'s' * (profile.calls != 1)}, {seconds:.3f} s"
        if profile.children:
            head += f", with {profile.children} child process{'es' * (profile.children > 1)}"
        head += "\n"
        note = "(call_count does not know processes; use -t call_time)\n"
        missing = f"{profile.missing}\n" if profile.missing else ""
        if request.type != "call_count" and (unseen := greenlets_unseen()):
            missing += f"({unseen})\n"
        together = request.per_process and request.type == "call_count"
        table = format_(profile, limit=request.limit, color=color)
        tree = f"\n{profile.tree().format(limit=request.limit or TREE_LINES)}\n" if profile.nodes else ""
        return head + (note if together else "") + table + tree + missing

    def _say(self, text: str) -> None:
        if self._stderr is not None:
            with suppress(OSError):  # there is no other place to report it
                self._stderr.write(text)

    def _forget(self) -> None:
        """Resets the state in a forked child, which has no session; a copy of the descriptor would keep a pipe open."""
        self._profiler = self._children = None
        descriptor, self._stderr = self._stderr, None
        if descriptor is not None:
            descriptor.close()


class Stderr(Own):
    """A duplicate of standard error."""

    __slots__ = ()

    @classmethod
    def copy(cls) -> Stderr | None:
        """Duplicates standard error; None without one."""
        number = stderr()
        try:
            return None if number is None else cls(duplicate(number))
        except OSError:
            return None

    def write(self, text: str) -> None:
        """Writes to the duplicate; to the present standard error if the duplicate was closed."""
        _write_fd(self.number if self.is_there() else 2, text)


def _check_writable(path: str) -> None:
    """Raises ``CannotBegin`` if a file can't be written. The file isn't opened, because that would end a pipe."""
    if os.path.exists(path) and not os.path.isfile(path):
        if os.path.isdir(path):
            raise CannotBegin(f"{path}: is a directory")
        return
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CannotBegin(f"{path}: No such file or directory")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise CannotBegin(f"{path}: Permission denied")


def _flush_what_the_program_wrote() -> None:
    """Flushes the program's streams, so that the report comes after its output. A stream that fails here fails again at
    the interpreter's end, as without measuring.
    """
    streams: tuple[IO[str] | None, ...] = (sys.__stdout__, sys.__stderr__)
    for stream in streams:
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            pass


def _write_file(path: str, text: str) -> None:
    with open(private(path), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def _write_fd(descriptor: int, text: str) -> None:
    """Writes the whole text, even if the program has made the descriptor non-blocking."""
    left = memoryview(text.encode("utf-8", "backslashreplace"))
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
