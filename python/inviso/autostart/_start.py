"""Starts tracing in a process with INVISO_AUTOSTART: finds the plan, and begins before ``__main__``.

Errors don't stop the program: each is one line on standard error.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from inviso._children._interpreter import place_of_program, runs, take_back_path, uncover

from ._file import DEFAULT_TAG, Plan, Wrong, check, load
from ._trust import environment_counts
from ._variables import ARGUMENT, PREPARED, STARTED, VARIABLE

__all__ = ["is_file", "plan_of", "start"]

_WITH_A_PROGRAM = ("run", "trace", "tprof")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


_has_begun = False


def start(known: set[str]) -> None:
    """Begins, if the environment says so. Afterwards it hides no module of the program."""
    global _has_begun
    if _has_begun:
        return  # in a virtual environment the interpreter reads start files twice
    _has_begun = True
    take_back_path(os.environ._data)  # type: ignore[attr-defined]
    try:
        _start()
    except Wrong as why:
        print(f"inviso: autostart: {why}; this process is not traced", file=sys.stderr)
    finally:
        uncover(known, [place_of_program(sys.orig_argv)])


def _start() -> None:
    value = os.environ[VARIABLE]
    base, _, earlier = os.environ.get(STARTED, "").partition(" ")
    settings = _hidden() if value == PREPARED else ""
    if value in ("", "no") or runs("multiprocessing.resource_tracker") or not environment_counts():
        return
    if value == PREPARED:
        if not _is_own_command(sys.orig_argv, _WITH_A_PROGRAM[1:]):  # `inviso run` prepares by its own arguments
            from ._process import begin_prepared

            begin_prepared(settings, base)
        return
    if _is_own_command(sys.orig_argv):
        return
    if is_file(value):
        value = os.environ[VARIABLE] = os.path.abspath(value)
    is_child = bool(base) and earlier == value
    plan = plan_of(value, counts=not is_child)
    if plan is None or (is_child and not plan.follow):
        return
    from ._process import begin

    begin(plan, value, base, is_child=is_child)


def _hidden() -> str:
    """The settings from a prepared parent. The variables are removed from ``os.environ`` only, so children still get
    them.
    """
    environment: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    found = [environment.pop(name.encode(), b"") for name in (ARGUMENT, STARTED, VARIABLE)]
    return os.fsdecode(found[0])


def _is_own_command(words: list[str], with_a_program: tuple[str, ...] = _WITH_A_PROGRAM) -> bool:
    """Whether a command line is a command of this package that runs no program. Such a process is not traced.

    >>> _is_own_command(["python", "-X", "dev", "/bin/inviso", "log"])
    True
    >>> _is_own_command(["python", "-m", "inviso", "run", "a.py"])
    False
    >>> _is_own_command(["python", "inviso.py"])
    False
    """
    rest = iter(words[1:])
    for word in rest:
        if word in ("-X", "-W"):
            next(rest, None)
        elif word == "-m":
            return next(rest, None) == "inviso" and next(rest, None) not in with_a_program
        elif not word.startswith("-"):
            return os.path.basename(word) == "inviso" and next(rest, None) not in with_a_program
        elif word.startswith("-c"):
            return False
    return False


def is_file(value: str) -> bool:
    """Whether a value of the variable names a file.

    >>> is_file("/etc/inviso.config"), is_file("my.module:autostart"), is_file("no")
    (True, False, False)
    """
    return value not in ("", "no", PREPARED) and not value.startswith("conf=") and not _FUNCTION.fullmatch(value)


def plan_of(value: str, *, counts: bool) -> Plan | None:
    """The plan of a value of the variable; None for no tracing. With ``counts`` it decrements the counter."""
    if value.startswith("conf="):
        named = value.removeprefix("conf=")
        if not _FUNCTION.fullmatch(named):
            raise Wrong(f"{VARIABLE}={value} names no function; write conf=module:function")
        from inviso.runtime import node_name

        answer = _call(named, node_name())
        if answer is None or answer == "no_autostart":
            return None
        if not isinstance(answer, str):
            raise Wrong(f"{named} answered {answer!r:.80}; answer a file's name, or 'no_autostart'")
        return load(os.path.abspath(answer), counts=counts)
    if _FUNCTION.fullmatch(value):
        return _from_answer(value, _call(value, os.environ.get(ARGUMENT)))
    return load(value, counts=counts)


def _from_answer(name: str, answer: Any) -> Plan | None:
    """The plan of ``(mfa, options, tag)``. Anything else means no autostart, as in Inviso."""
    if not isinstance(answer, tuple) or len(answer) != 3:
        return None
    mfa, options, tag = answer
    check("options", options, name)
    match mfa:
        case (str(), str(), list()):
            return Plan(mfa=mfa, options=options, tag=tag)
    return Plan(mfa=None, options=options, tag=DEFAULT_TAG if tag is None else tag)


def _call(name: str, argument: Any) -> Any:
    module, _, function = name.partition(":")
    try:
        found = getattr(__import__(module, fromlist=[function]), function)
        return found(argument)
    except Exception as error:
        raise Wrong(f"{name} failed: {type(error).__name__}: {error}") from None
