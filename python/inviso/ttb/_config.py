"""The history of calls, and files with calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from inviso._descriptor import private
from inviso._literal import NotLiteral, read_all, written
from inviso.errors import BadArg, shown
from inviso.terms import Atom

__all__ = ["RUNNABLE", "list_config", "list_history", "remember", "run_config", "run_history", "write_config"]

OK, ERROR = Atom("ok"), Atom("error")
RUNNABLE: dict[str, Callable[..., Any]] = {}
"""The functions that can be called from the history or a file."""

_history: list[tuple[str, tuple[Any, ...]]] = []


def remember(function: str, *arguments: Any) -> None:
    """Adds a call to the history."""
    _history.append((function, arguments))


def list_history() -> list[tuple[int, str, tuple[Any, ...]]]:
    """Lists the calls that :func:`run_history` can repeat: ``(number, function, arguments)``.

    >>> isinstance(list_history(), list)
    True
    """
    return [(number, function, arguments) for number, (function, arguments) in enumerate(_history, 1)]


def run_history(which: Any) -> Any:
    """Repeats calls of the history, and prints each answer.

    Args:
        which: a number, a list of numbers, ``"all"``, or ``"all_silent"``, which prints nothing.

    Returns:
        None, or ``("error", "not_found")``.

    >>> run_history([])
    >>> run_history(0)
    ('error', 'not_found')
    """
    numbers = _numbers("run_history/1", which, len(_history))
    calls = [_history[number - 1] for number in numbers if 0 < number <= len(_history)]
    if len(calls) < len(numbers):
        return ERROR, Atom("not_found")
    _run_calls(calls, is_silent=which == "all_silent")
    return None


def _numbers(where: str, which: Any, count: int) -> list[int]:
    if which in ("all", "all_silent"):
        return list(range(1, count + 1))
    given = [which] if isinstance(which, int) else which
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, int) for one in given):
        raise BadArg(where, "which", f"{shown(which)} names no calls; pass numbers, 'all' or 'all_silent'")
    return list(given)


def _run_calls(calls: Iterable[tuple[str, tuple[Any, ...]]], *, is_silent: bool = False) -> None:
    for function, arguments in list(calls):
        answer = RUNNABLE[function](*arguments)
        if not is_silent:
            print(f"ttb.{function}({', '.join(map(repr, arguments))}) ->\n{answer!r}\n")


def write_config(file: str, config: Any, opts: Any = ()) -> Any:
    """Saves calls for :func:`run_config`.

    Args:
        file: the file's name; only its owner can read it.
        config: ``"all"`` for the whole history, a list of its numbers, or a list of calls,
            ``("ttb", function, arguments)``.
        opts: ``["append"]`` appends to an existing file.

    Returns:
        None, or ``("error", reason)``: ``"not_found"`` for a number, ``("not_literal", text)`` for a call that contains
        a pid or a function.

    >>> import os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "calls")
    >>> write_config(file, [("ttb", "tp", ["json", "loads", []]), ("ttb", "p", ["all", "call"])])
    >>> list_config(file)
    [(1, 'tp', ('json', 'loads', [])), (2, 'p', ('all', 'call'))]
    """
    if opts not in ((), [], "append", ["append"], ("append",)):
        raise BadArg("write_config/3", "opts", f"{shown(opts)} are not options; pass ['append'], or nothing")
    if config == "all" or (isinstance(config, list) and all(isinstance(one, int) for one in config)):
        numbers = _numbers("write_config/2", config, len(_history))
        if any(not 0 < number <= len(_history) for number in numbers):
            return ERROR, Atom("not_found")
        calls = [_history[number - 1] for number in numbers]
    elif isinstance(config, list):
        calls = [_call("write_config/2", one) for one in config]
    else:
        raise BadArg(
            "write_config/2", "config", f"{shown(config)} is not a configuration; pass 'all', numbers, or calls"
        )
    text = ""
    for function, arguments in calls:
        try:
            text += written(("ttb", function, list(arguments))) + "\n"
        except NotLiteral as wrong:
            return ERROR, (Atom("not_literal"), str(wrong))
    try:
        if opts and os.path.exists(file):
            with open(file, encoding="utf-8") as old:
                text = old.read() + text
        with open(private(file), "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        return ERROR, (error.strerror, file)
    return None


def _call(where: str, given: Any) -> tuple[str, tuple[Any, ...]]:
    match given:
        case ("ttb", str(function), list() | tuple() as arguments) if function in RUNNABLE:
            return function, tuple(arguments)
    known = ", ".join(RUNNABLE)
    raise BadArg(where, "config", f"{shown(given)} is not a call; pass ('ttb', function, [arguments]) of {known}")


def _read_config(file: str) -> list[tuple[str, tuple[Any, ...]]] | tuple[Any, Any]:
    try:
        with open(file, encoding="utf-8") as found:
            return [_call("run_config/1", one) for one in read_all(found.read())]
    except OSError as error:
        return ERROR, (error.strerror, file)
    except (NotLiteral, UnicodeDecodeError, BadArg) as wrong:
        return ERROR, (Atom("bad_config"), str(wrong))


def list_config(file: str) -> Any:
    """Lists the calls of a file: ``[(number, function, arguments)]``, or ``("error", reason)``.

    >>> list_config("no such file")
    ('error', ('No such file or directory', 'no such file'))
    """
    found = _read_config(file)
    return found if isinstance(found, tuple) else [(n, name, arguments) for n, (name, arguments) in enumerate(found, 1)]


def run_config(file: str, which: Any = "all") -> Any:
    """Makes the calls of a file, and prints each answer. It calls only functions of this module.

    Args:
        which: numbers of calls, or ``"all"``.

    Returns:
        None, or ``("error", reason)``.

    >>> run_config("no such file")
    ('error', ('No such file or directory', 'no such file'))
    """
    found = _read_config(file)
    if isinstance(found, tuple):
        return found
    numbers = _numbers("run_config/2", which, len(found))
    if any(not 0 < number <= len(found) for number in numbers):
        return ERROR, Atom("not_found")
    _run_calls([found[number - 1] for number in numbers])
    return None
