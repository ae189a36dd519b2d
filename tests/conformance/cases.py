"""Case files: one case a line, checked for form before anything runs."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .specs import KEYS as SPEC_KEYS
from .specs import SpecCase
from .terms import Term

__all__ = ["Case", "Malformed", "read"]

NAME, TERM, SESSION = "name", "term", "session"

OPERATIONS: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
    "process": {
        "send": ((NAME, TERM),),
        "send_name": ((TERM, TERM),),
        "recv": ((), (TERM,)),
        "recv_timeout": ((),),
        "peek": ((),),
        "spawn": ((NAME,),),
        "spawn_link": ((NAME,),),
        "spawn_monitor": ((NAME,),),
        "link": ((NAME,),),
        "unlink": ((NAME,),),
        "monitor": ((NAME,),),
        "register": ((TERM, NAME),),
        "unregister": ((TERM,),),
        "trap_exit": ((TERM,),),
        "exit": ((TERM,),),
        "exit_signal": ((NAME, TERM),),
        "send_after": ((NAME, TERM),),
        "gc": ((),),
        "call": ((TERM, TERM, TERM),),
        "catch_call": ((TERM, TERM, TERM),),
        "set_token": ((TERM,), (TERM, TERM)),
        "get_token": ((), (TERM,)),
        "print": ((TERM,), (TERM, TERM)),
        "reset_trace": ((),),
        "set_system_tracer": ((NAME,), (TERM,)),
        "get_system_tracer": ((),),
        "save_token": ((),),
        "restore_token": ((),),
    },
    "all": {
        "reset_trace": ((),),
        "set_system_tracer": ((NAME,), (TERM,)),
        "get_system_tracer": ((),),
        "kill": ((NAME,),),
        "set_bad_system_tracer": ((TERM,),),
    },
    "drv": {
        "session_create": ((SESSION, NAME), (SESSION, NAME, TERM)),
        "session_create_raw": ((TERM, TERM, TERM),),
        "session_destroy": ((SESSION,),),
        "drop_session": ((SESSION,),),
        "process": ((SESSION, TERM, TERM, TERM),),
        "port": ((SESSION, TERM, TERM, TERM),),
        "function": ((SESSION, TERM, TERM, TERM),),
        "send_pattern": ((SESSION, TERM, TERM),),
        "recv_pattern": ((SESSION, TERM, TERM),),
        "info": ((SESSION, TERM, TERM),),
        "session_info": ((TERM,),),
        "delivered": ((SESSION, TERM),),
        "system": ((SESSION, TERM, TERM),),
        "kill": ((NAME,),),
        "tcw": ((),),
        "set_tcw": ((TERM,),),
    },
}
"""What may be done by a process, by ``all`` and by ``drv``, and with which arguments."""

KEYS = {"id", "procs", "steps", "returns", "trace"}
OUTCOMES = ({"ok"}, {"error"}, {"throw"}, {"exit"}, {"exited"}, {"error", "bad_args"}, {"exit", "bad_args"})
PROCESS = re.compile(r"[A-Z]\d*")
"""Names that a scenario gives to its processes."""


class Malformed(Exception):
    """A line of a case file that is not a case."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario: its steps, the result of each, and the messages that each step gave each collector."""

    id: str
    procs: list[str]
    steps: list[list[Any]]
    returns: list[dict[str, Any]]
    trace: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """The case in the form of its file."""
        return {k: getattr(self, k) for k in ("id", "procs", "steps", "returns", "trace")}

    def messages(self, step: int) -> dict[str, list[Term]]:
        """The expected messages of one step by collector."""
        messages: dict[str, list[Term]] = {}
        for entry in self.trace:
            if entry["step"] == step:
                messages.setdefault(entry["to"], []).append(entry["msg"])
        return messages


def read(path: Path) -> list[Case | SpecCase]:
    """All cases of a file; ``Malformed`` names the file and the line."""
    cases: list[Case | SpecCase] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                cases.append(case(json.loads(line)))
            except (ValueError, Malformed) as error:
                raise Malformed(f"{path}:{number}: {error}") from error
    return cases


def case(data: Any) -> Case | SpecCase:
    """Makes a case from its JSON."""
    require(isinstance(data, dict), "not an object")
    if "spec" in data:
        return spec_case(data)
    require(set(data) >= KEYS, f"a scenario has the keys {sorted(KEYS)}, this has {sorted(data)}")
    require(isinstance(data["id"], str), "'id' is not a string")
    for key in KEYS - {"id"}:
        require(isinstance(data[key], list), f"'{key}' is not a list")
    made = Case(data["id"], data["procs"], data["steps"], data["returns"], data["trace"])
    require(all(isinstance(p, str) and PROCESS.fullmatch(p) for p in made.procs), "'procs' are not process names")
    require(len(made.steps) == len(made.returns), "not as many returns as steps")
    for index, (step, returned) in enumerate(zip(made.steps, made.returns, strict=True)):
        check_step(index, step)
        check_return(index, returned)
    for entry in made.trace:
        require(isinstance(entry, dict) and set(entry) == {"step", "to", "msg"}, f"not a trace entry: {entry!r}")
        step, to = entry["step"], entry["to"]
        require(type(step) is int and 0 <= step < len(made.steps), f"a trace entry of step {step!r}")
        require(isinstance(to, str), f"a trace entry to {to!r}")
        check_term(entry["msg"])
    return made


def spec_case(data: dict[str, Any]) -> SpecCase:
    """Makes a case of a match specification from its JSON."""
    require(set(data) >= SPEC_KEYS, f"a specification's case has the keys {sorted(SPEC_KEYS)}, this has {sorted(data)}")
    require(isinstance(data["id"], str), "'id' is not a string")
    require(data["mode"] in ("trace", "table"), f"'mode' is {data['mode']!r}")
    check_term(data["spec"])
    check_term(data["subject"])
    result = data["result"]
    forms = ({"ok", "flags", "warnings"}, {"error"}, {"exception"})
    require(isinstance(result, dict) and set(result) in forms, f"no result: {result!r}")
    if "ok" in result:
        check_term(result["ok"])
    return SpecCase(*(data[key] for key in ("id", "mode", "spec", "subject", "result")))


def check_step(index: int, step: Any) -> None:
    """The form of one step."""
    require(isinstance(step, list) and len(step) >= 2, f"step {index} is not [WHO, OP, ARG...]")
    who, name, *arguments = step
    require(isinstance(who, str) and isinstance(name, str), f"step {index} is not [WHO, OP, ARG...]")
    group = who if who in ("drv", "all") else "process"
    require(group != "process" or PROCESS.fullmatch(who) is not None, f"step {index} is of nobody known: {who!r}")
    require(name in OPERATIONS[group], f"step {index}: '{who}' can't '{name}'")
    forms = OPERATIONS[group][name]
    fitting = [f for f in forms if len(f) == len(arguments) and all(map(fits, f, arguments))]
    require(bool(fitting), f"step {index}: wrong arguments for '{name}'")


def fits(kind: str, argument: Any) -> bool:
    """Whether an argument has the required form: a name (a plain string) or a term."""
    if kind != TERM:
        return isinstance(argument, str)
    if isinstance(argument, str):
        return False
    check_term(argument)
    return True


def check_return(index: int, returned: Any) -> None:
    """The form of one outcome."""
    require(isinstance(returned, dict) and set(returned) in OUTCOMES, f"return {index} is no outcome: {returned!r}")
    for key, value in returned.items():
        if key == "exited":
            require(value is True, f"return {index} is no outcome: {returned!r}")
        elif key == "bad_args":
            words = list(value.values()) if isinstance(value, dict) else [None]
            require(all(isinstance(word, str) for word in words), f"return {index}: bad_args")
        else:
            check_term(value)


def check_term(term: Any) -> None:
    """The form of a term."""
    match term:
        case bool() | float() | None | str():
            raise Malformed(f"not a term: {term!r}")
        case int():
            return
        case list():
            for element in term:
                check_term(element)
        case {"a": str(), **rest} | {"pid": str(), **rest} | {"ref": str(), **rest} | {"port": str(), **rest}:
            require(not rest, f"not a term: {term!r}")
        case {"session": str(), **rest} | {"weak": str(), **rest} | {"f": int() | float(), **rest}:
            require(not rest, f"not a term: {term!r}")
        case {"any": "int" | "line", **rest}:
            require(not rest, f"not a term: {term!r}")
        case {"ts": "timestamp" | "monotonic_timestamp" | "strict_monotonic_timestamp", **rest}:
            require(not rest, f"not a term: {term!r}")
        case {"i": str(digits), **rest}:
            require(not rest and re.fullmatch(r"-?\d+", digits) is not None, f"not a term: {term!r}")
        case {"b": str(data), **rest}:
            require(not rest and is_base64(data), f"not a term: {term!r}")
        case {"bits": str(data), "n": int(), **rest}:
            require(not rest and is_base64(data), f"not a term: {term!r}")
        case {"t": list(elements), **rest}:
            require(not rest, f"not a term: {term!r}")
            check_term(elements)
        case {"il": list(elements), "tail": tail, **rest}:
            require(bool(elements) and not rest, f"not a term: {term!r}")
            check_term([*elements, tail])
        case {"m": list(pairs), **rest}:
            require(not rest and all(isinstance(p, list) and len(p) == 2 for p in pairs), f"not a term: {term!r}")
            check_term(pairs)
        case {"fun": True, "arity": int(), **rest}:
            require(not rest, f"not a term: {term!r}")
        case _:
            raise Malformed(f"not a term: {term!r}")


def is_base64(data: str) -> bool:
    """Whether a string is base64."""
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return True


def require(holds: bool, otherwise: str) -> None:
    """Raises ``Malformed`` unless the condition is true."""
    if not holds:
        raise Malformed(otherwise)
