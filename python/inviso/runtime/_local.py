"""Requests to the runtime component of this process (``inviso_rt``), from any thread: for autostart, and for callbacks.

A request goes into the component's queue, and the caller waits. In the component's own thread it is carried out at
once. The answers are the same as a control gets from this node. Without a component the answer is
``("error", "not_started")``.
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
"""Returns this process's listener; set by the package."""


def _ask(name: str, *arguments: Any) -> Any:
    leave_if_stopped()
    listener = _find()
    if listener is None:
        return NOT_STARTED
    return listener.run(lambda: listener.host.local(name, arguments))


def init_tracing(tracerdata: Any) -> Any:
    """Begins tracing. Relative names of logs are relative to the working directory.

    >>> from inviso import runtime
    >>> runtime.init_tracing("collector")
    ('error', 'not_started')
    """
    return _ask("init_tracing", tracerdata)


def stop_tracing() -> Any:
    """Ends tracing: removes flags and closes the log. Patterns stay.

    >>> from inviso import runtime
    >>> runtime.stop_tracing()
    ('error', 'not_started')
    """
    return _ask("stop_tracing")


def clear(options: list[Any] | tuple[Any, ...] = ()) -> Any:
    """Ends tracing, clears patterns and deletes the current logs. Options can keep the patterns or the logs.

    >>> from inviso import runtime
    >>> runtime.clear(["keep_log_files"])
    ('error', 'not_started')
    """
    return _ask("clear", list(options))


def flush() -> Any:
    """Writes waiting messages to the log.

    >>> from inviso import runtime
    >>> runtime.flush()
    ('error', 'not_started')
    """
    return _ask("flush")


def _patterns(function: str, given: tuple[Any, ...], sizes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """The patterns of ``(list)``, or of the parts of one pattern."""
    if len(given) == 1:
        listed = given[0]
        if not isinstance(listed, (list, tuple)) or not all(
            isinstance(one, (list, tuple)) and len(one) in sizes for one in listed
        ):
            raise BadArg(
                f"{function}/1", "patterns", f"it is not a list of tuples of {' or '.join(map(str, sizes))}; pass one"
            )
        return [tuple(one) for one in listed]
    if len(given) not in sizes:
        numbers = ", ".join(map(str, (1, *sizes)))
        raise BadArg(f"{function}/{len(given)}", "arguments", f"there are {len(given)}; pass {numbers}")
    return [given]


def tp(*pattern: Any) -> Any:
    """Sets trace patterns for global calls, from outside a function's module:
    ``(module, function, arity, match_spec)``, perhaps with options as a fifth item, or a list of such tuples.

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
    """As :func:`tp`, for all calls: local ones, too.

    >>> from inviso import runtime
    >>> runtime.tpl("json", "loads", "_", [])
    ('error', 'not_started')
    """
    return _ask("tpl", _patterns("tpl", pattern, (4, 5)))


def ctp(*function: Any) -> Any:
    """Clears patterns of :func:`tp`: ``(module, function, arity)``, or a list of such tuples.

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
    """Clears patterns of :func:`tpl`.

    >>> from inviso import runtime
    >>> runtime.ctpl([("json", "loads", "_")])
    ('error', 'not_started')
    """
    return _ask("ctpl", _patterns("ctpl", function, (3,)))


def ctp_all() -> Any:
    """Clears all patterns but those of meta tracing.

    >>> from inviso import runtime
    >>> runtime.ctp_all()
    ('error', 'not_started')
    """
    return _ask("ctp_all")


def _confs(function: str, given: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    confs = [given] if len(given) == 2 else given[0] if len(given) == 1 else None
    if not isinstance(confs, (list, tuple)) or not all(
        isinstance(one, (list, tuple)) and len(one) == 2 for one in confs
    ):
        why = "pass a process and a list of flags, or a list of such pairs"
        raise BadArg(f"{function}/{len(given)}", "arguments", why)
    for _, flags in confs:
        if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
            raise BadArg(
                f"{function}/{len(given)}", "flags", "they are not a list of names; pass one, such as ['call']"
            )
    return [(who, list(flags)) for who, flags in confs]


def tf(*conf: Any) -> Any:
    """Sets flags of processes: ``(process, flags)``, or a list of such pairs.

    >>> from inviso import runtime
    >>> runtime.tf("all", ["call", "timestamp"])
    ('error', 'not_started')
    >>> runtime.tf("all", "call")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: tf/2, flags: they are not a list of names; pass one, such as ['call']
    """
    return _ask("tf", _confs("tf", conf))


def ctf(*conf: Any) -> Any:
    """Clears flags of :func:`tf`.

    >>> from inviso import runtime
    >>> runtime.ctf([("all", ["call"])])
    ('error', 'not_started')
    """
    return _ask("ctf", _confs("ctf", conf))


def ctf_all() -> Any:
    """Clears all flags of all processes.

    >>> from inviso import runtime
    >>> runtime.ctf_all()
    ('error', 'not_started')
    """
    return _ask("ctf_all")


def suspend(reason: Any) -> None:
    """Suspends tracing, without waiting: for watchdogs outside the component.

    >>> from inviso import runtime
    >>> runtime.suspend("too hot")
    """
    leave_if_stopped()
    listener = _find()
    if listener is not None:
        listener.post(lambda: listener.host.local("suspend", (reason,)))


def cancel_suspension() -> Any:
    """Lets a suspended component trace again. Nothing is restored.

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
    """The tracer data of :func:`init_tracing`.

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
    """Initiates meta tracing of a function: module, function, arity, and one callback or four.

    >>> from inviso import runtime
    >>> runtime.init_tpm("json", "loads", 1, ("my", "call"))
    ('error', 'not_started')
    """
    return _ask("init_tpm", *_sized("init_tpm", arguments, (4, 7)))


def tpm(*arguments: Any) -> Any:
    """Sets the match specification of a meta traced function. With callbacks it initiates the function first.

    >>> from inviso import runtime
    >>> runtime.tpm("json", "loads", 1, [])
    ('error', 'not_started')
    """
    return _ask("tpm", *_sized("tpm", arguments, (4, 5, 8)))


def tpm_tracer(*arguments: Any) -> Any:
    """As :func:`tpm`; ``trace`` actions of the match specification set the regular tracer.

    >>> from inviso import runtime
    >>> runtime.tpm_tracer("json", "loads", 1, [])
    ('error', 'not_started')
    """
    return _ask("tpm_tracer", *_sized("tpm_tracer", arguments, (4, 5, 8)))


def tpm_ms(module: Any, function: Any, arity: Any, name: Any, match_spec: Any) -> Any:
    """Adds a named match specification to a meta traced function.

    >>> from inviso import runtime
    >>> runtime.tpm_ms("json", "loads", 1, "first", [])
    ('error', 'not_started')
    """
    return _ask("tpm_ms", module, function, arity, name, match_spec)


def tpm_ms_tracer(module: Any, function: Any, arity: Any, name: Any, match_spec: Any) -> Any:
    """As :func:`tpm_ms`; ``trace`` actions of the match specification set the regular tracer.

    >>> from inviso import runtime
    >>> runtime.tpm_ms_tracer("json", "loads", 1, "first", [])
    ('error', 'not_started')
    """
    return _ask("tpm_ms_tracer", module, function, arity, name, match_spec)


def ctpm_ms(module: Any, function: Any, arity: Any, name: Any) -> Any:
    """Removes a named match specification.

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
    """Writes registered names of processes to the trace information file (``tpm_localnames`` of a control).

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
    """As :func:`local_register`, for global names. This package has no global names.

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
