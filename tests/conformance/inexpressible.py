"""Finds the cases that Python can't express, by their steps and expectations, never by their names.

There are five reasons. Python has no tail calls: a function that was called last returns to its direct caller. A case
shows that if ``return_to`` or a match specification's ``caller`` looks at such a call. A call inside a module is never
global in Python: the runner calls from another module instead. A case shows that if the same things look at that
call. Some cases name functions of Erlang's own library, or count those of the recorder's
modules. Ports and ``module_info`` describe things of the Erlang VM, and one
recorded serial is a fault of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .cases import Case
from .fixtures import PYTHON_NAMES, load
from .specs import SpecCase
from .terms import Term, is_atom

__all__ = ["calls_from_other_modules", "reason"]

TAIL_CALLS = {
    "tail_local": "loc",
    "tail_global": "id",
    "tail_sum": "tail_sum",
    "even": "odd",
    "odd": "even",
    "outer_tail": "middle_tail",
    "middle_tail": "inner",
    "tail_raise": "raise",
    "deep": "raise",
}
"""Which function calls which other one last. ``raise`` never returns, so only its caller shows."""

CALLS_DEEP = "catch_deep"
WITH_LOOP = ("tail_sum", "even", "odd")
"""Their tail call is made for arguments above zero only."""

THROUGH_MODULE = ("calls_global", "tail_global", "calls_three", "apply_id")
"""Functions that call ``id`` through the module name."""

CALLER_WORDS = ("caller", "caller_line", "current_stacktrace")
LOCAL = ("local",)
KINDS = ("global", "local", "meta")
BIFS = ("make_tuple",)

NO_TAIL_CALLS = "Python has no tail calls: a function called last returns to its caller, and has it as its caller"
NO_GLOBAL_CALL = "a call inside a module is never global in Python; from another one, caller and return_to differ"
OTHER_FUNCTION = "names a function of Erlang's own library"
OTHER_COUNT = "counts the functions of a module of Erlang's own library, or of the recorder"
A_PORT = "an Erlang port"
A_FAULT = "a fault of that Erlang: after a spawn it shows a serial as a tagged number (gold README, 39)"
MODULE_INFO = "module_info describes compiled Erlang code"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern that one ``function`` step set."""

    session: str
    module: str
    function: str
    local: bool
    glob: bool
    shows_caller: bool
    shows_stack: bool
    sets_return_to: bool

    def covers(self, function: str) -> bool:
        """Whether the pattern covers a function of ``fx``."""
        return self.module in ("fx", "_") and self.function in (function, "_")


def reason(case: Case | SpecCase) -> str | None:
    """The reason why Python can't express a case; None if it can."""
    if isinstance(case, SpecCase):
        return None
    return foreign(case) or tagged_serial(case) or hidden_frames(case)


def foreign(case: Case) -> str | None:
    """Whether a case is about something that only an Erlang VM has."""
    for step, returned in zip(case.steps, case.returns, strict=True):
        _, operation, *arguments = step
        if '{"port"' in json.dumps(arguments):
            return A_PORT
        if operation in ("call", "catch_call"):
            why = foreign_call(arguments, returned)
        elif operation in ("function", "info", "session_info"):
            target = arguments[0] if operation == "session_info" else arguments[1]
            why = foreign_target(operation, target, returned)
        else:
            why = None
        if why is not None:
            return why
    return None


def tagged_serial(case: Case) -> str | None:
    """Whether a serial in a case has the form of Erlang's small integers in memory: 16 times the value, plus 15."""
    if any(step[1].startswith("spawn") for step in case.steps):
        for returned in case.returns:
            match returned:
                case {"ok": {"t": [_, _, int(serial), {"pid": _}, int(previous)]}}:
                    if previous > 15 and previous % 16 == 15 and serial == previous + 1:
                        return A_FAULT
    return None


def foreign_call(arguments: list[Any], returned: dict[str, Any]) -> str | None:
    """Whether a function is called that has no counterpart here."""
    module, function, values = arguments
    if is_atom(module, "fx"):
        about_code = is_atom(function, "module_info") and values != [{"a": "module"}] and not raised(returned)
        return MODULE_INFO if about_code else None
    exists = is_atom(module) and not raised(returned, "undef")
    return OTHER_FUNCTION if exists and not (is_atom(module, "erlang") and is_atom(function, *BIFS)) else None


def raised(returned: dict[str, Any], word: str = "") -> bool:
    """Whether a call raised an error (with this reason), caught or not."""
    match returned:
        case {"error": reason_} | {"ok": {"t": [{"a": "error"}, reason_]}}:
            return not word or is_atom(reason_, word)
    return False


def foreign_target(operation: str, target: Term, returned: dict[str, Any]) -> str | None:
    """Whether a pattern names functions that exist in Erlang only."""
    match target:
        case {"t": [{"a": module}, {"a": function}, arity]} if module not in ("fx", "_") and "ok" in returned:
            answer = returned["ok"]
            if exists(operation, answer) and not has_function(module, function):
                return OTHER_FUNCTION
            if operation == "function" and function == "_" and isinstance(answer, int) and answer > 0:
                return OTHER_COUNT
            if operation == "function" and is_atom(arity, "_") and module == "erlang" and not is_any(answer):
                return None if function in BIFS else OTHER_COUNT
    return None


def exists(operation: str, answer: Term) -> bool:
    """Whether the answer says that Erlang has the function."""
    match answer:
        case {"a": "undefined"} | {"t": [_, {"a": "undefined"}]}:
            return False
    return operation != "function" or is_any(answer) or answer > 0


def has_function(module: str, function: str) -> bool:
    """Whether one of the modules that stand in for Erlang's here has such a function."""
    if module == "erlang":
        return function in BIFS
    return module == "host" and (function == "_" or function in load("host").__all__)


def is_any(term: Term) -> bool:
    """Whether a value was not recorded."""
    return isinstance(term, dict) and "any" in term


def calls_from_other_modules(case: Case) -> bool:
    """Whether ``fx`` has to call itself from another module, because a case traces global calls."""
    return any(p.glob and p.covers("id") for p in patterns(case))


def hidden_frames(case: Case) -> str | None:
    """Whether a case looks at a caller, or at a function returned to, that is another one in Python."""
    flags: dict[tuple[str, str], set[str]] = {}
    known: dict[tuple[str, str, str], Pattern] = {}
    hop = calls_from_other_modules(case)
    for step, returned in zip(case.steps, case.returns, strict=True):
        if "ok" in returned and step[1] == "process":
            set_flags(flags, step)
        if "ok" in returned and step[1] == "function":
            set_patterns(known, step)
        if step[1] not in ("call", "catch_call") or not is_atom(step[2], "fx"):
            continue
        returning = {session for (session, _), has in flags.items() if has >= {"call", "return_to"}}
        returning |= {made.session for made in known.values() if made.sets_return_to}
        function, values = step[3].get("a", ""), step[4]
        callees = tail_callees(function, values)
        if any(shows(p, callee, function, values, returning) for p in known.values() for callee in callees):
            return NO_TAIL_CALLS
        if hop and function in THROUGH_MODULE and any(shows(p, "id", "", [], returning) for p in known.values()):
            return NO_GLOBAL_CALL
    return None


def set_flags(flags: dict[tuple[str, str], set[str]], step: list[Any]) -> None:
    """Applies a ``process`` step to the flags of a target."""
    _, _, session, target, how, given = step
    names = {f["a"] for f in given if is_atom(f)} if isinstance(given, list) else set()
    if "all" in names:
        names |= {"call", "return_to"}
    has = flags.setdefault((session.removesuffix("w"), json.dumps(target)), set())
    if is_atom(how, "true"):
        has |= names
    else:
        has -= names


def set_patterns(known: dict[tuple[str, str, str], Pattern], step: list[Any]) -> None:
    """Applies a ``function`` step to the kinds of tracing of a target."""
    _, _, session, target, spec, flags = step
    session, shown = session.removesuffix("w"), json.dumps(target)
    kinds = [f["a"] for f in flags if is_atom(f)] or ["global"]
    if is_atom(spec, "false"):
        for kind in kinds:
            known.pop((session, shown, kind), None)
        return
    for kind in KINDS if "global" in kinds else ("global",):
        known.pop((session, shown, kind), None)
    made = pattern(step)
    for kind in kinds:
        if made is not None and kind in ("global", "local", "meta"):
            known[session, shown, kind] = replace(made, local=kind == "local")


def patterns(case: Case) -> list[Pattern]:
    """All patterns that a case sets."""
    pairs = zip(case.steps, case.returns, strict=True)
    made = [pattern(step) for step, returned in pairs if step[1] == "function" and "ok" in returned]
    return [p for p in made if p is not None]


def pattern(step: list[Any]) -> Pattern | None:
    """The pattern that a ``function`` step sets; None if it removes one, or sets none."""
    _, _, session, target, spec, flags = step
    match target:
        case {"t": [{"a": module}, {"a": function}, _]} if not is_atom(spec, "false") and isinstance(flags, list):
            words = set(operators(spec))
            return Pattern(
                session.removesuffix("w"),
                module,
                function,
                local=any(is_atom(f, *LOCAL) for f in flags),
                glob=not flags or {"a": "global"} in flags,
                shows_caller=bool(words & set(CALLER_WORDS)),
                shows_stack="current_stacktrace" in words,
                sets_return_to='{"a": "return_to"}' in json.dumps(spec),
            )
    return None


def operators(term: Term) -> Iterator[str]:
    """The first atoms of all tuples in a match specification."""
    match term:
        case {"t": elements}:
            if elements and is_atom(elements[0]):
                yield elements[0]["a"]
            yield from operators(elements)
        case {"il": elements, "tail": tail}:
            yield from operators([*elements, tail])
        case {"m": pairs}:
            yield from operators(pairs)
        case list():
            for element in term:
                yield from operators(element)


def tail_callees(function: str, values: Any) -> set[str]:
    """The functions that a call reaches by tail calls."""
    reached: set[str] = set()
    if not isinstance(values, list):
        return reached
    if function in WITH_LOOP:
        loops = bool(values) and isinstance(values[0], int) and values[0] > 0
        return {TAIL_CALLS[function], function} if loops else reached
    step = TAIL_CALLS.get("deep" if function == CALLS_DEEP else function)
    while step is not None and step not in reached:
        reached.add(step)
        step = TAIL_CALLS.get(step)
    return reached


def shows(made: Pattern, callee: str, function: str, values: list[Any], returning: set[str]) -> bool:
    """Whether a pattern shows the caller of a function, or the function that it returns to."""
    if not made.covers(callee) and not made.covers(PYTHON_NAMES.get(callee, callee)):
        return False
    if callee == "raise":
        below = function in ("deep", CALLS_DEEP) and bool(values) and values[0] != 0
        return made.shows_stack if below else made.shows_caller
    return made.shows_caller or (made.local and made.session in returning)
