"""The steps of a scenario process, in its own thread: they call the product's public functions, with Erlang's answers.

Functions that always answer ``true`` or ``ok`` in Erlang may answer ``None`` here; the step returns Erlang's word.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from .fixtures import load
from .product import Pid, atom, inviso, operation, submodule
from .rendezvous import Rendezvous

__all__ = ["ACTIONS", "Action", "look", "token_function"]

Action = Callable[..., Any]
FOREVER = 5.0
"""Seconds that a receive waits; the cases only receive what is there."""


def true_for_none(answer: Any) -> Any:
    """The answer of a function that can only say true."""
    return True if answer is None else answer


def ok_for_none(answer: Any) -> Any:
    """The answer of a function that can only say ok."""
    return atom("ok") if answer is None else answer


def send(_me: Rendezvous, destination: Any, message: Any) -> Any:
    inviso.send(destination, message)
    return atom("ok")


def receive(_me: Rendezvous, *wanted: Any) -> Any:
    if not wanted:
        return inviso.receive(timeout=FOREVER)
    return inviso.receive(lambda message: type(message) is type(wanted[0]) and message == wanted[0], timeout=FOREVER)


def receive_timeout(_me: Rendezvous) -> Any:
    try:
        return inviso.receive(lambda message: False, timeout=0)
    except TimeoutError:
        return atom("timeout")


def look(_me: Rendezvous) -> Any:
    return list(inviso.peek())


def spawn(_me: Rendezvous, name: str) -> Any:
    return inviso.spawn(load("host").proc, atom(name))


def spawn_link(_me: Rendezvous, name: str) -> Any:
    return inviso.spawn(load("host").proc, atom(name), link=True)


def spawn_monitor(_me: Rendezvous, name: str) -> Any:
    pid = inviso.spawn(load("host").proc, atom(name), monitor=True)
    return pid if isinstance(pid, Pid) else pid[0]


def link(_me: Rendezvous, other: Any) -> Any:
    return true_for_none(operation("link")(other))


def unlink(_me: Rendezvous, other: Any) -> Any:
    return true_for_none(operation("unlink")(other))


def monitor(_me: Rendezvous, other: Any) -> Any:
    operation("monitor")(other)
    return atom("ok")


def register(_me: Rendezvous, name: Any, other: Any) -> Any:
    return true_for_none(inviso.register(name, other))


def unregister(_me: Rendezvous, name: Any) -> Any:
    return true_for_none(inviso.unregister(name))


def trap_exit(_me: Rendezvous, on: bool) -> Any:
    return operation("trap_exit")(on)


def exit_signal(_me: Rendezvous, other: Any, reason: Any) -> Any:
    return true_for_none(operation("exit")(other, reason))


def send_after(_me: Rendezvous, other: Any, message: Any) -> Any:
    operation("send_after")(0, other, message)
    return atom("ok")


def collect(_me: Rendezvous) -> Any:
    gc.collect()
    return True


def token_function(name: str) -> Action:
    """A function of ``seq_trace`` as a step; the empty token is ``None``."""

    def call(_me: Rendezvous, *arguments: Any) -> Any:
        module = submodule("seq_trace")
        function = getattr(module, name, None) or getattr(module, f"{name}_")
        empty = name == "set_token" and arguments == ([],)
        answer = function(*((None,) if empty else arguments))
        if name == "print" or (name == "set_token" and len(arguments) == 1 and not empty):
            return ok_for_none(answer)
        return true_for_none(answer) if name == "reset_trace" else answer

    return call


def save_token(me: Rendezvous) -> Any:
    me.saved = submodule("seq_trace").get_token()
    return me.saved


def restore_token(me: Rendezvous) -> Any:
    answer = submodule("seq_trace").set_token(me.saved)
    return answer if me.saved is None else ok_for_none(answer)


ACTIONS: dict[str, Action] = {
    "send": send,
    "send_name": send,
    "recv": receive,
    "recv_timeout": receive_timeout,
    "peek": look,
    "spawn": spawn,
    "spawn_link": spawn_link,
    "spawn_monitor": spawn_monitor,
    "link": link,
    "unlink": unlink,
    "monitor": monitor,
    "register": register,
    "unregister": unregister,
    "trap_exit": trap_exit,
    "exit_signal": exit_signal,
    "send_after": send_after,
    "gc": collect,
    "save_token": save_token,
    "restore_token": restore_token,
}
"""The steps of a process by name; calls and exits are ``host``'s own."""

ACTIONS |= {
    name: token_function(name)
    for name in ("set_token", "get_token", "print", "reset_trace", "set_system_tracer", "get_system_tracer")
}
