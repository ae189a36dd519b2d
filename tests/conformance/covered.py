"""The cases that use only what is built so far, told by what they do and expect: the selection of ``--covered``."""

from __future__ import annotations

import json
from typing import Any

from .cases import Case
from .specs import SpecCase
from .terms import Term, is_atom

__all__ = ["covered"]

DRIVER_STEPS = (
    "session_create",
    "session_create_raw",
    "session_destroy",
    "drop_session",
    "session_info",
    "process",
    "function",
    "info",
    "delivered",
    "kill",
    "tcw",
    "set_tcw",
)
PROCESS_STEPS = (
    "call",
    "catch_call",
    "spawn",
    "exit",
    "register",
    "unregister",
    "send",
    "send_name",
    "recv",
    "recv_timeout",
    "peek",
)
LATER_FLAGS = (
    "send",
    "receive",
    "set_on_link",
    "set_on_first_link",
    "garbage_collection",
    "running",
    "running_procs",
    "running_ports",
    "exiting",
    "ports",
    "cpu_timestamp",
)
"""Flags of processes that other parts of the system bring."""

LATER_TARGETS = ("send", "receive", "system", "new_ports")
TOKEN_ACTIONS = ("is_seq_trace", "get_seq_token", "set_seq_token")

TAGS = ("call", "return_to", "return_from", "exception_from", "spawn", "spawned", "exit")


def covered(case: Case | SpecCase) -> bool:
    """Whether everything in a case belongs to what is built so far."""
    if isinstance(case, SpecCase):
        return True
    if not any(step[0] == "drv" for step in case.steps):
        return False
    return all(map(step_covered, case.steps)) and all(message_covered(entry["msg"]) for entry in case.trace)


def step_covered(step: list[Any]) -> bool:
    """Whether a step does."""
    who, name, *arguments = step
    if who != "drv":
        return name in PROCESS_STEPS
    if name not in DRIVER_STEPS:
        return False
    match name:
        case "process":
            return not isinstance(arguments[3], list) or not any(is_atom(f, *LATER_FLAGS) for f in arguments[3])
        case "function":
            return not is_atom(arguments[1], *LATER_TARGETS) and spec_covered(arguments[2])
        case "info":
            return not is_atom(arguments[1], *LATER_TARGETS)
        case "session_info":
            return not is_atom(arguments[0], *LATER_TARGETS)
    return "tracer_mod" not in json.dumps(arguments)


def spec_covered(spec: Term) -> bool:
    """Whether a match specification does nothing that other parts of the system bring."""
    words = json.dumps(spec)
    return not any(f'"a": "{word}"' in words for word in (*TOKEN_ACTIONS, *LATER_FLAGS))


def message_covered(message: Term) -> bool:
    """Whether a message is one of those that are built."""
    match message:
        case {"t": [{"a": "trace" | "trace_ts"}, _, {"a": tag}, *_]}:
            return tag in TAGS
    return False
