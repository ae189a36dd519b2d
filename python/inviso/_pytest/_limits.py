"""The mark ``inviso``: limits of calls, memory and time. A test that breaks a limit fails."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from inviso import tprof, trace
from inviso._pattern import Pattern, hint, matches, parse
from inviso.errors import BadArg, shown
from inviso.tprof import Function, Profile, Profiler
from inviso.tprof._model import BYTES_OF_A_WORD
from inviso.trace._patterns import on_load

__all__ = ["LIMITS", "Limit", "Limits", "OfTest", "limits_of"]

CALLERS: Final = 10
"""Callers of a function in an error message, at most."""

SPEC: Final[Any] = [("_", [], [("message", ("caller_line",))])]
RING: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """The allowed number of calls of a pattern's functions."""

    text: str
    pattern: Pattern
    least: int
    most: int | None

    def allows(self, calls: int) -> bool:
        """Whether so many calls are allowed.

        >>> Limit("shop:f", ("shop", "f", "_"), 1, 2).allows(3)
        False
        """
        return self.least <= calls and (self.most is None or calls <= self.most)

    def __str__(self) -> str:
        """The allowed number of calls, in words.

        >>> str(Limit("shop:f", ("shop", "f", "_"), 2, 2)), str(Limit("shop:f", ("shop", "f", "_"), 0, 2))
        ('2', 'at most 2')
        """
        if self.least == self.most:
            return str(self.most)
        return f"at most {self.most}" if not self.least else f"{self.least} to {self.most}"


@dataclass(slots=True)
class OfTest:
    """The limits of one test, from its marks."""

    calls: list[Limit] = field(default_factory=list)
    words: int | None = None
    ms: float | None = None


LIMITS: Final = pytest.StashKey[OfTest | str]()
"""The limits of an item. A text is the error of its mark."""


def limits_of(item: pytest.Item) -> OfTest:
    """The limits of all marks of an item. ``BadArg`` if one is wrong. For words and ms the nearest mark counts."""
    found = OfTest()
    for mark in item.iter_markers("inviso"):
        if mark.args or not mark.kwargs:
            raise _bad("calls", "it takes arguments by name", "write inviso(calls={'shop.db:query': 2})")
        for name, value in mark.kwargs.items():
            match name:
                case "calls" | "max_calls":
                    found.calls += _calls(name, value)
                case "words" | "ms":
                    if not _is_number(value, (int,) if name == "words" else (int, float)):
                        unit = "words of 8 bytes, an int" if name == "words" else "milliseconds, a number"
                        raise _bad(name, f"{shown(value)} is not a limit", f"give the most {unit}")
                    if getattr(found, name) is None:
                        setattr(found, name, value)
                case _:
                    raise _bad(name, "there is no such limit", "there are calls, max_calls, words, ms")
    return found


def _calls(name: str, value: object) -> list[Limit]:
    if not isinstance(value, Mapping) or not value:
        raise _bad(name, f"{shown(value)} names no function", "give a dict such as {'shop.db:query': 2}")
    made = []
    for text, number in value.items():
        if not isinstance(text, str):
            raise _bad(name, f"{shown(text)} is not a pattern", 'write "module:function"')
        (pattern,) = parse(text, f"pytest.mark.inviso, {name}")
        if _is_number(number, (int,)):
            made.append(Limit(text, pattern, number if name == "calls" else 0, number))
        elif name == "calls" and isinstance(number, range) and number and number.step == 1 and number.start >= 0:
            made.append(Limit(text, pattern, number[0], number[-1]))
        elif name == "calls":
            raise _bad(
                name, f"{shown(number)} is not a number of calls of {text}", "give an int, or range(1, 4) for 1 to 3"
            )
        else:
            raise _bad(name, f"{shown(number)} is not a number of calls of {text}", "give the most, an int")
    return made


def _is_number(value: object, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool) and 0 <= value < float("inf")  # type: ignore[operator]


def _bad(argument: str, wrong: str, mend: str) -> BadArg:
    return BadArg("pytest.mark.inviso", argument, f"{wrong}; {mend}")


class Limits:
    """Measures the call of each marked test, without its fixtures. If a limit is broken the test fails."""

    def __init__(self, own: list[Pattern], without: list[Pattern]) -> None:
        self._own = own, without
        """The functions that words and ms measure, and the tests among them, which are left out."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fails a test with a wrong mark that could not end the run."""
        limits = item.stash.get(LIMITS, None)
        if isinstance(limits, str):
            pytest.fail(limits, pytrace=False)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures the test. A test that fails by itself keeps its own error."""
        limits = item.stash.get(LIMITS, None)
        if not isinstance(limits, OfTest):
            return (yield)
        with ExitStack() as stack:
            watch = _Watch(limits, self._own, stack)
            result = yield
            broken = watch.broken()
        if broken:
            pytest.fail("\n".join(broken), pytrace=False)
        return result


class _Watch:
    """The measurements of one test. ``stack`` ends them."""

    def __init__(self, limits: OfTest, own: tuple[list[Pattern], list[Pattern]], stack: ExitStack) -> None:
        self._limits = limits
        patterns = list(dict.fromkeys(limit.pattern for limit in limits.calls))
        # recording callers allocates, and takes time
        has_callers = bool(patterns) and limits.words is None and limits.ms is None
        self._callers = stack.enter_context(_callers(patterns)) if has_callers else None
        self._calls = stack.enter_context(Profiler(name="pytest.mark.inviso")) if patterns else None
        self._memory = self._time = None
        if limits.words is not None:
            self._memory = stack.enter_context(Profiler(type="call_memory", name="pytest.mark.inviso"))
        if limits.ms is not None:
            self._time = stack.enter_context(Profiler(type="call_time", name="pytest.mark.inviso"))
        if self._calls is not None:
            self._calls.set_pattern(list(patterns))
        for profiler in (self._memory, self._time):
            if profiler is not None:
                profiler.enable_trace("all")
                profiler.set_pattern(list(own[0]))
                for tests in own[1]:
                    profiler.clear_pattern(tests)

    def broken(self) -> list[str]:
        """The broken limits, as lines of text."""
        for profiler in (self._time, self._memory, self._calls):
            if profiler is not None:
                profiler.pause()
        lines: list[str] = []
        if self._calls is not None:
            profile, messages = self._calls.collect(), None
            for limit in self._limits.calls:
                found = [f for f in profile.functions if matches(limit.pattern, *f.mfa)]
                copies = sum(f.calls for f in found if _is_copy(f))
                calls = sum(f.calls for f in found) - copies
                if not limit.allows(calls):
                    messages = self._callers.drain() if messages is None and self._callers is not None else messages
                    lines += _wrong_calls(limit, calls, messages)
                    if copies:
                        lines.append(
                            f"      ({copies} of a copy made by exec, as Celery does to check arguments, don't count)"
                        )
        if self._time is not None and self._limits.ms is not None:
            profile = self._time.collect()
            if profile.measurement > self._limits.ms * 1e6:
                lines += _too_much(f"took {profile.measurement / 1e6:.3f} ms", f"{self._limits.ms} ms", profile)
        if self._memory is not None and self._limits.words is not None:
            profile = self._memory.collect()
            if profile.measurement > self._limits.words:
                lines += _too_much(f"allocated {_words(profile.measurement)}", _words(self._limits.words), profile)
        return lines


def _is_copy(function: Function) -> bool:
    """Whether ``exec`` made it with the name of a function in its module's file, as Celery does to check arguments."""
    if not function.filename.startswith("<") or not function.function.isidentifier():
        return False
    try:
        source = inspect.getsource(sys.modules[function.module])
    except (KeyError, OSError, TypeError):
        return False
    return re.search(rf"^(async )?def {function.function}\b", source, re.MULTILINE) is not None


def _callers(patterns: list[Pattern]) -> trace.Session:
    session = trace.session_create("pytest.mark.inviso", None, {"ring_bytes": RING})
    try:
        for pattern in patterns:
            session.function(pattern, SPEC, ["local"])
        on_load(session, "local", patterns, SPEC)
        session.process("all", True, ["call", "arity"])
    except BaseException:
        session.destroy()
        raise
    return session


def _wrong_calls(limit: Limit, calls: int, messages: list[Any] | None) -> list[str]:
    """The error for a limit of calls, with the callers, the most frequent first. ``messages``: None if they were not
    recorded.
    """
    head = f"{limit.text} was called {calls} time{'s' * (calls != 1)}; the mark says {limit}"
    near = "" if calls else hint(limit.pattern)
    lines = [f"{head}{'; ' * bool(near)}{near}"]
    if messages is None:
        return [*lines, "      (callers are shown only if the mark has neither words nor ms)"]
    callers: Counter[tuple[str, str]] = Counter()
    for message in messages:
        match message:
            case (_, _, "call", (str(module), str(name), int(arity)), caller) if matches(
                limit.pattern, module, name, arity
            ):
                callers[f"{module}:{name}/{arity}", _place(caller)] += 1
    lines += [f"{number:7} x {function} from {caller}" for (function, caller), number in callers.most_common(CALLERS)]
    left = calls - sum(number for _, number in callers.most_common(CALLERS))
    return lines + ([f"{left:7} x from elsewhere"] if left > 0 else [])


def _place(caller: object) -> str:
    match caller:
        case (str(module), str(name), int(arity), (str(file), int(line))):
            return f"{module}:{name}/{arity} ({file}:{line})"
    return "native code"


def _words(number: int) -> str:
    return f"{number} word{'s' * (number != 1)} ({number * BYTES_OF_A_WORD} bytes)"


def _too_much(what: str, most: str, profile: Profile) -> list[str]:
    table = tprof.format(profile, limit=CALLERS).splitlines()
    return [f"the functions of the project {what}; the mark allows {most}", *("  " + line for line in table)]
