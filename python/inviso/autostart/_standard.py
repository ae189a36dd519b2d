"""The standard initiator (``inviso_autostart_server``): opens the log, then carries out lists of trace cases and calls.

Each list has its own thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from inviso import case, runtime
from inviso.errors import BadArg, shown
from inviso.runtime._initiator import current, leave_if_stopped

from ._process import this
from ._trust import opened

__all__ = ["init"]

_PARAMETERS = ("tracerdata", "cmdfiles", "bindings", "translations", "debug")


def init(parameters: Any) -> None:
    """Initiates tracing by parameters. A config file has it as ``("inviso.autostart", "init", [parameters])``.

    Args:
        parameters: pairs, or a dict.

            * ``tracerdata``: as for :func:`inviso.runtime.init_tracing`, or ``("mfa", (module, function, arguments))``
              for a function that returns it. ``{pid}``, ``{node}`` and ``{program}`` are replaced in names of files.
              Without it nothing is done.
            * ``cmdfiles``: a list of lists, each carried out in order by its own thread, or one such list. An item is a
              file with a trace case, ``(file, bindings)``, ``("inviso", function, arguments)``, which is translated
              like a line of a file, or ``(module, function, arguments)``, which is called directly.
            * ``bindings``: pairs of a name and a value, or a dict, for all files.
            * ``translations``: as for :func:`inviso.case.run`.
            * ``debug``: ``"off"``. With anything else each statement is printed with its value when it is carried out.

    Raises:
        BadArg: an unknown parameter.
        RuntimeError: the runtime component refused the tracer data.

    >>> from inviso import autostart
    >>> autostart.init([("tracefile", "x")])
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: init/1, parameters: unknown parameter 'tracefile'; there are tracerdata, cmdfiles, ...
    """
    given = _pairs(parameters)
    for name in given:
        if name not in _PARAMETERS:
            why = f"unknown parameter {name!r:.80}; there are {', '.join(_PARAMETERS)}"
            raise BadArg("init/1", "parameters", why)
    tracerdata = _tracerdata(given.get("tracerdata"))
    if tracerdata is None:
        return
    answer = runtime.init_tracing(tracerdata)
    if answer[0] != "ok":
        raise RuntimeError(f"tracing was not initiated: {answer[1]!r}")
    work = _Work(given)
    works = [work.of(items) for items in _lists(given.get("cmdfiles", []))]
    initiator = current()
    if initiator is None or len(works) == 1:
        for one in works:
            one()
    else:
        initiator.together(works)


def _pairs(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, (list, tuple)) and all(isinstance(one, tuple) and len(one) == 2 for one in given):
        return dict(given)
    raise BadArg("init/1", "parameters", f"{shown(given)} are not pairs; pass a list of pairs, or a dict")


def _tracerdata(given: Any) -> Any:
    """Tracer data for this process; None if there is none, or the function for it failed."""
    match given:
        case ("mfa", (str(module), str(function), list(arguments))):
            try:
                given = getattr(__import__(module, fromlist=[function]), function)(*arguments)
            except Exception as error:
                _say(f"{module}:{function} gave no tracer data: {type(error).__name__}: {error}")
                return None
    process = this()
    if given is None or process is None:
        return given
    if process.plan.log_dir is not None:
        os.makedirs(process.plan.log_dir, mode=0o700, exist_ok=True)
    return process.names.tracerdata(given, process.node, process.plan.log_dir)


def _lists(given: Any) -> list[list[Any]]:
    """The lists of ``cmdfiles``. A flat list counts as one list."""
    if not isinstance(given, (list, tuple)):
        raise BadArg("init/1", "cmdfiles", f"{shown(given)} is not a list; pass a list of lists of items")
    if not any(isinstance(one, list) for one in given):
        return [list(given)] if given else []
    return [one if isinstance(one, list) else [one] for one in given]


class _Work:
    """Carries out items of ``cmdfiles``."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._bindings = dict(given.get("bindings") or {})
        self._translations = given.get("translations") or []
        self._traced = None if given.get("debug", "off") == "off" else _say

    def of(self, items: list[Any]) -> Callable[[], None]:
        def work() -> None:
            for item in items:
                self._do(item)

        return work

    def _do(self, item: Any) -> None:
        leave_if_stopped()
        match item:
            case str():
                self._file(item, {})
            case (str(name), dict() | list() as bindings):
                self._file(name, dict(bindings))
            case ("inviso", str(function), list(arguments)):
                done = case.call("inviso", function, arguments, self._bindings, self._translations, trace=self._traced)
                for problem in done.problems + done.refused:
                    _say(f"inviso.{function}: {problem.why}")
            case (str(module), str(function), list(arguments)):
                try:
                    getattr(__import__(module, fromlist=[function]), function)(*arguments)
                except Exception as error:
                    _say(f"{module}:{function}: {type(error).__name__}: {error}")
            case _:
                _say(f"{item!r:.200} is not an item of cmdfiles; it is skipped")

    def _file(self, name: str, local: dict[str, Any]) -> None:
        process = this()
        folder = process.folder if process is not None else None
        path = name if folder is None else os.path.join(folder, name)
        try:
            if process is None:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            else:
                with opened(path) as place:
                    text = place.read()
        except (OSError, UnicodeDecodeError) as error:
            return _say(f"{path} can't be read: {getattr(error, 'strerror', None) or error}")
        done = case.run_text(text, {**self._bindings, **local}, self._translations, name=path, trace=self._traced)
        for problem in sorted(done.problems + done.refused, key=lambda one: one.line):
            _say(f"{path}, line {problem.line}: {problem.why}")


def _say(text: str) -> None:
    sys.stderr.write(f"inviso: autostart: {text}\n")  # one call: other threads write, too
