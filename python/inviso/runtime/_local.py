"""Requests to the runtime component of this process (``inviso_rt``), from any thread: for what starts with the process, and
for call-backs.

Each is handed to the component's one queue, and the caller waits; in the component's own thread it is carried out at
once. The answers are those that a control gets from this node. Without a component it is ``("error", "not_started")``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inviso.errors import BadArg
from inviso.terms import Atom

from ._initiator import leave_if_stopped

if TYPE_CHECKING:
    from ._listener import Listener

__all__ = [
    *("cancel_suspension", "clear", "ctf", "ctf_all", "ctp", "ctp_all", "ctpg", "ctpl", "ctpm", "ctpm_ms", "flush"),
    *("get_status", "get_tracerdata", "global_register", "init_tpm", "init_tracing", "local_register"),
    *("remove_global_register", "remove_local_register", "stop_tracing", "suspend", "tf", "tp", "tpg", "tpl", "tpm"),
    *("tpm_ms", "tpm_ms_tracer", "tpm_tracer"),
]

NOT_STARTED = (Atom("error"), Atom("not_started"))

def _nobody() -> Listener | None:
    return None


_find: Callable[[], Listener | None] = _nobody
"""Gives this process's listener; set by the package."""


def _ask(name: str, *arguments: Any) -> Any:
    leave_if_stopped()
    listener = _find()
    if listener is None:
        return NOT_STARTED
    return listener.run(lambda: listener.host.local(name, arguments))


def init_tracing(tracerdata: Any) -> Any:
    """Begins tracing; relative names of logs are in the working directory.

    >>> from inviso import runtime
    >>> runtime.init_tracing("collector")
    ('error', 'not_started')
    """
    return _ask("init_tracing", tracerdata)


def stop_tracing() -> Any:
    """Ends tracing: flags go, the log is closed, patterns stay.

    >>> from inviso import runtime
    >>> runtime.stop_tracing()
    ('error', 'not_started')
    """
    return _ask("stop_tracing")


def clear(options: list[Any] | tuple[Any, ...] = ()) -> Any:
    """Ends tracing, drops patterns and deletes the current logs, unless the options keep them.

    >>> from inviso import runtime
    >>> runtime.clear(["keep_log_files"])
    ('error', 'not_started')
    """
    return _ask("clear", list(options))


def flush() -> Any:
    """Writes what waits for the log.

    >>> from inviso import runtime
    >>> runtime.flush()
    ('error', 'not_started')
    """
    return _ask("flush")


def _patterns(function: str, given: tuple[Any, ...], sizes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """``(list)`` or one pattern in its parts."""
    if len(given) == 1:
        listed = given[0]
        if not isinstance(listed, (list, tuple)) or not all(isinstance(one, (list, tuple)) and len(one) in sizes for one in listed):
            raise BadArg(f"{function}/1", "patterns", f"it is no list of tuples of {' or '.join(map(str, sizes))}; pass one")
        return [tuple(one) for one in listed]
    if len(given) not in sizes:
        numbers = ", ".join(map(str, (1, *sizes)))
        raise BadArg(f"{function}/{len(given)}", "arguments", f"there are {len(given)}; pass {numbers}")
    return [given]


def tp(*pattern: Any) -> Any:
    """Sets trace patterns of functions that are called from outside their modules: ``(module, function, arity, match_spec)``,
    with options as a fifth, or a list of such tuples.

    >>> from inviso import runtime
    >>> runtime.tp("json", "loads", "_", [])
    ('error', 'not_started')
    >>> runtime.tp("json", "loads")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: tp/2, arguments: there are 2; pass 1, 4, 5
    """
    return _ask("tp", _patterns("tp", pattern, (4, 5)))


def tpg(*pattern: Any) -> Any:
    """Another name of :func:`tp`.

    >>> from inviso import runtime
    >>> runtime.tpg([("json", "loads", "_", [])])
    ('error', 'not_started')
    """
    return _ask("tp", _patterns("tpg", pattern, (4, 5)))


def tpl(*pattern: Any) -> Any:
    """Sets trace patterns of all calls, as :func:`tp` those from outside.

    >>> from inviso import runtime
    >>> runtime.tpl("json", "loads", "_", [])
    ('error', 'not_started')
    """
    return _ask("tpl", _patterns("tpl", pattern, (4, 5)))


def ctp(*function: Any) -> Any:
    """Takes patterns of :func:`tp` away: ``(module, function, arity)``, or a list of such tuples.

    >>> from inviso import runtime
    >>> runtime.ctp("json", "loads", "_")
    ('error', 'not_started')
    """
    return _ask("ctp", _patterns("ctp", function, (3,)))


def ctpg(*function: Any) -> Any:
    """Another name of :func:`ctp`.

    >>> from inviso import runtime
    >>> runtime.ctpg("json", "loads", "_")
    ('error', 'not_started')
    """
    return _ask("ctp", _patterns("ctpg", function, (3,)))


def ctpl(*function: Any) -> Any:
    """Takes patterns of :func:`tpl` away.

    >>> from inviso import runtime
    >>> runtime.ctpl([("json", "loads", "_")])
    ('error', 'not_started')
    """
    return _ask("ctpl", _patterns("ctpl", function, (3,)))


def ctp_all() -> Any:
    """Takes all patterns away; those of meta tracing stay.

    >>> from inviso import runtime
    >>> runtime.ctp_all()
    ('error', 'not_started')
    """
    return _ask("ctp_all")


def _confs(function: str, given: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    confs = [given] if len(given) == 2 else given[0] if len(given) == 1 else None
    if not isinstance(confs, (list, tuple)) or not all(isinstance(one, (list, tuple)) and len(one) == 2 for one in confs):
        why = "pass a process and a list of flags, or a list of such pairs"
        raise BadArg(f"{function}/{len(given)}", "arguments", why)
    for _, flags in confs:
        if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
            raise BadArg(f"{function}/{len(given)}", "flags", "they are no list of names; pass one, such as ['call']")
    return [(who, list(flags)) for who, flags in confs]


def tf(*conf: Any) -> Any:
    """Sets flags of processes: ``(process, flags)``, or a list of such pairs.

    >>> from inviso import runtime
    >>> runtime.tf("all", ["call", "timestamp"])
    ('error', 'not_started')
    >>> runtime.tf("all", "call")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: tf/2, flags: they are no list of names; pass one, such as ['call']
    """
    return _ask("tf", _confs("tf", conf))


def ctf(*conf: Any) -> Any:
    """Takes flags away that :func:`tf` set.

    >>> from inviso import runtime
    >>> runtime.ctf([("all", ["call"])])
    ('error', 'not_started')
    """
    return _ask("ctf", _confs("ctf", conf))


def ctf_all() -> Any:
    """Takes all flags of all processes away.

    >>> from inviso import runtime
    >>> runtime.ctf_all()
    ('error', 'not_started')
    """
    return _ask("ctf_all")


def suspend(reason: Any) -> None:
    """Has tracing suspended, without waiting for it: what an outside watchdog calls.

    >>> from inviso import runtime
    >>> runtime.suspend("too hot")
    """
    leave_if_stopped()
    listener = _find()
    if listener is not None:
        listener.post(lambda: listener.host.local("suspend", (reason,)))


def cancel_suspension() -> Any:
    """Lets it trace again; nothing is restored.

    >>> from inviso import runtime
    >>> runtime.cancel_suspension()
    ('error', 'not_started')
    """
    return _ask("cancel_suspension")


def get_status() -> Any:
    """State and status: ``("ok", ("tracing", "running"))``.

    >>> from inviso import runtime
    >>> runtime.get_status()
    ('error', 'not_started')
    """
    return _ask("get_status")


def get_tracerdata() -> Any:
    """What tracing was initiated with.

    >>> from inviso import runtime
    >>> runtime.get_tracerdata()
    ('error', 'not_started')
    """
    return _ask("get_tracerdata")


def _sized(function: str, given: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[Any, ...]:
    if len(given) not in sizes:
        numbers = ", ".join(map(str, sizes))
        raise BadArg(f"{function}/{len(given)}", "arguments", f"there are {len(given)}; pass {numbers}")
    return given


def init_tpm(*arguments: Any) -> Any:
    """Initiates meta tracing of a function: module, function, arity and call-back, or these with four call-backs.

    >>> from inviso import runtime
    >>> runtime.init_tpm("json", "loads", 1, ("my", "call"))
    ('error', 'not_started')
    """
    return _ask("init_tpm", *_sized("init_tpm", arguments, (4, 7)))


def tpm(*arguments: Any) -> Any:
    """Sets the match specification of a meta traced function, with call-backs if it is not initiated.

    >>> from inviso import runtime
    >>> runtime.tpm("json", "loads", 1, [])
    ('error', 'not_started')
    """
    return _ask("tpm", *_sized("tpm", arguments, (4, 5, 8)))


def tpm_tracer(*arguments: Any) -> Any:
    """As :func:`tpm`, with the regular tracer as the tracer that the match specification sets.

    >>> from inviso import runtime
    >>> runtime.tpm_tracer("json", "loads", 1, [])
    ('error', 'not_started')
    """
    return _ask("tpm_tracer", *_sized("tpm_tracer", arguments, (4, 5, 8)))


def tpm_ms(module: Any, function: Any, arity: Any, name: Any, match_spec: Any) -> Any:
    """Adds a match specification by a name.

    >>> from inviso import runtime
    >>> runtime.tpm_ms("json", "loads", 1, "first", [])
    ('error', 'not_started')
    """
    return _ask("tpm_ms", module, function, arity, name, match_spec)


def tpm_ms_tracer(module: Any, function: Any, arity: Any, name: Any, match_spec: Any) -> Any:
    """As :func:`tpm_ms`, with the regular tracer as the tracer that it sets.

    >>> from inviso import runtime
    >>> runtime.tpm_ms_tracer("json", "loads", 1, "first", [])
    ('error', 'not_started')
    """
    return _ask("tpm_ms_tracer", module, function, arity, name, match_spec)


def ctpm_ms(module: Any, function: Any, arity: Any, name: Any) -> Any:
    """Takes a named match specification away.

    >>> from inviso import runtime
    >>> runtime.ctpm_ms("json", "loads", 1, "first")
    ('error', 'not_started')
    """
    return _ask("ctpm_ms", module, function, arity, name)


def ctpm(module: Any, function: Any, arity: Any) -> Any:
    """Ends the meta tracing of a function.

    >>> from inviso import runtime
    >>> runtime.ctpm("json", "loads", 1)
    ('error', 'not_started')
    """
    return _ask("ctpm", module, function, arity)


def local_register() -> Any:
    """Has registered names of processes written to the trace information (``tpm_localnames`` of a control).

    >>> from inviso import runtime
    >>> runtime.local_register()
    ('error', 'not_started')
    """
    return _ask("tpm_localnames")


def remove_local_register() -> Any:
    """Ends :func:`local_register`.

    >>> from inviso import runtime
    >>> runtime.remove_local_register()
    ('error', 'not_started')
    """
    return _ask("ctpm_localnames")


def global_register() -> Any:
    """The same for global names, of which there are none here.

    >>> from inviso import runtime
    >>> runtime.global_register()
    ('error', 'not_started')
    """
    return _ask("tpm_globalnames")


def remove_global_register() -> Any:
    """Ends :func:`global_register`.

    >>> from inviso import runtime
    >>> runtime.remove_global_register()
    ('error', 'not_started')
    """
    return _ask("ctpm_globalnames")
