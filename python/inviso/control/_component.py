"""The control component of this process: its start and end, its events, and calls to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from inviso._system import RLock
from inviso.errors import BadArg, shown
from inviso.process import Pid
from inviso.process import self as this_process
from inviso.runtime._initiator import leave_if_stopped
from inviso.terms import Atom

from . import _arguments as given
from ._control import NOT_ADDED, OK, Control
from ._use import used

__all__ = [
    *("ERROR", "NotStarted", "current_control", "everywhere", "only_names", "shaped", "split", "start", "stop"),
    *("stop_all", "stop_nodes", "subscribe", "unsubscribe"),
]


ERROR = Atom("error")
_control: Control | None = None
_changing = RLock()


class NotStarted(RuntimeError):
    """There is no control component in this process.

    >>> raise NotStarted("control.tp")
    Traceback (most recent call last):
    ...
    inviso.control.NotStarted: control.tp: there is no control component; call control.start() first
    """

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: there is no control component; call control.start() first")


def current_control(where: str) -> Control:
    """The control for a call. Raises NotStarted if there is none."""
    leave_if_stopped()
    found: Control | None = used() or _control
    if found is None or not found.is_open:
        raise NotStarted(f"control.{where}")
    return found


def shaped(control: Control, pairs: list[Any]) -> Any:
    """Answers of nodes in Inviso's form: without names of nodes if the control has no name."""
    if control.is_distributed:
        return OK, pairs
    if not pairs:
        return NOT_ADDED
    return _bare(pairs[0][1]) if len(pairs) == 1 else pairs


def _bare(answer: Any) -> Any:
    return None if answer == OK else answer


def start(options: Any = (), *, timeout: float = 5.0) -> tuple[str, Any]:
    """Start the control component of this process.

    Args:
        options: ``("subscribe", pid)``, and defaults for the runtime components that are added: ``("dependency", ms)``,
            ``("overload", …)`` and others, see :func:`add_nodes`.
        timeout: seconds that a node has for an answer. After that its answer is ``("error", "timeout")``.

    Returns:
        ``("ok", pid)``, ``("error", ("already_started", pid))``, ``("error", ("unknown_option", item))``.

    >>> start()
    ('ok', <0...>)
    >>> start()[1][0]
    'already_started'
    >>> stop()
    'shutdown'
    """
    global _control
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise BadArg("control.start", "timeout", f"{shown(timeout)} is not a time; pass seconds, more than 0")
    items = list(options.items()) if isinstance(options, dict) else list(options)
    subscribers = []
    for item in [item for item in items if isinstance(item, tuple) and item[:1] in (("subscribe",), ("unsubscribe",))]:
        items.remove(item)
        if item[0] == "subscribe":
            if len(item) != 2 or not _may_subscribe(item[1]):
                return ERROR, (Atom("unknown_option"), item)
            subscribers.append(item[1])
    settings = given.settings("start", items)
    if isinstance(settings, tuple):
        return settings
    with _changing:
        if _control is not None and _control.is_open:
            return ERROR, (Atom("already_started"), _control.pid)
        made = _control = Control(settings=settings, timeout=float(timeout))
    for subscriber in subscribers:
        made.subscribe(subscriber)
    with suppress(OSError):  # then no process can announce itself
        made.listen()
    return OK, made.pid


def stop() -> Atom:
    """End the control component, if there is one. Runtime components stay, and follow their dependency.

    >>> stop()
    'shutdown'
    """
    global _control
    with _changing:
        found, _control = _control, None
    if found is not None and found.is_open:
        found.close()
    answer: Atom = Atom("shutdown")
    return answer


def stop_nodes(nodes: Iterable[str] | None = None) -> Any:
    """End the runtime components of nodes with their sessions, flags and patterns. The programs continue.

    Returns:
        For each node ``"ok"``, or ``("error", "not_an_added_node")``.

    >>> _ = start(), add_node("mine")
    >>> stop_nodes()
    >>> stop_nodes()
    ('error', 'not_an_added_node')
    >>> _ = stop()
    """
    control = current_control("stop_nodes")
    pairs = control.remove(given.nodes("stop_nodes", nodes), ends=True)
    return shaped(control, pairs)


def stop_all() -> Any:
    """End all runtime components, then the control component. Answers as :func:`stop_nodes`.

    >>> _ = start(), add_node("mine")
    >>> stop_all()
    """
    control = current_control("stop_all")
    answer = shaped(control, control.remove(None, ends=True))
    stop()
    return answer


def subscribe(who: Any = None) -> Any:
    """Subscribe to events: this process, a Pid, or a function. A thread of the control calls the function with each
    event.

    An event is ``("inviso_event", control_pid, ((year, month, day), (hour, minute, second)), what)``. ``what`` is one
    of ``("connected", node, (tag, (state, status)))``, ``("disconnected", node, reason)``,
    ``("state_change", node, (state, status))``, ``("port_down", node, reason)``, ``("lost", node, number)``. The reason
    of ``"disconnected"`` is None for a node that was stopped. A second subscription gets a second copy of each event.

    >>> import inviso
    >>> _ = start(), subscribe(), add_node("mine")
    >>> inviso.receive(("inviso_event", "_", "_", "_"))[3]
    ('connected', 'local_runtime', ('mine', ('new', 'running')))
    >>> _ = unsubscribe(), stop_all()
    """
    control = current_control("subscribe")
    subscriber = this_process() if who is None else who
    if not _may_subscribe(subscriber):
        return ERROR, (Atom("badarg"), subscriber)
    control.subscribe(subscriber)
    return None


def unsubscribe(who: Any = None) -> None:
    """Remove one subscription of this process, of a Pid, or of a function.

    >>> _ = start()
    >>> unsubscribe()
    >>> _ = stop()
    """
    current_control("unsubscribe").unsubscribe(this_process() if who is None else who)


def _may_subscribe(who: Any) -> bool:
    return callable(who) or (isinstance(who, Pid) and who.is_local() and who.is_alive())


def split(
    where: str, words: tuple[Any, ...], count: int, nodes: Any
) -> tuple[Control, list[str] | None, tuple[Any, ...]]:
    """The control, the nodes, and the ``count`` words after them."""
    control = current_control(where)
    if len(words) == count + 1:
        return control, given.nodes(where, words[0]), words[1:]
    if len(words) != count:
        raise BadArg(
            f"control.{where}", "arguments", f"pass {count or 'none'}, after nodes if you like, not {len(words)}"
        )
    return control, given.nodes(where, nodes), words


def only_names(where: str, argument: str, value: Any, control: Control, nodes: list[str] | None) -> None:
    """Refuses functions in a value for other processes: a function can't be sent there."""
    names = control.nodes() if nodes is None else nodes
    if not _holds_function(value) or all(name == control.own for name in names):
        return
    why = "functions go to no other process; name one as ('module', 'function'), which the node has to admit (allow)"
    raise BadArg(f"control.{where}", argument, why)


def _holds_function(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_function, value))
    if isinstance(value, dict):
        return any(map(_holds_function, value.values()))
    return callable(value) and not isinstance(value, Pid)


def everywhere(where: str, request: str, words: tuple[Any, ...], count: int, nodes: Any) -> Any:
    control, chosen, rest = split(where, words, count, nodes)
    return shaped(control, control.call(chosen, request, *rest))
