"""Patterns of functions and messages, and saved match specifications."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from inviso import trace_ports
from inviso._limits import Rate, checked
from inviso._literal import NotLiteral, written
from inviso._pattern import parse
from inviso.errors import BadArg, shown
from inviso.match_spec import match_spec_test
from inviso.match_spec import ms as fun2ms

from ._server import Server
from ._session import server_of

if TYPE_CHECKING:
    from ._session import Answer

__all__ = ["ctp", "ctpe", "ctpg", "ctpl", "dtp", "ltp", "path_of", "rtp", "tp", "tpe", "tpl", "wtp"]


def tp(*target: Any, limit: int | None = None, rate: Rate | None = None) -> Answer:
    """Traces global calls: of exported functions, from other modules (dbg.md, ``tp/2``, ``tp/3``, ``tp/4``).

    Args:
        target: functions and a match specification: ``tp(module, spec)``, ``tp(module, function, spec)``,
            ``tp(module, function, arity, spec)``, ``tp((module, function, arity), spec)``, or
            ``tp("module:function:arity", spec)``, with ``"_"`` for any. The module is a name, which is imported, or a
            module object. The specification is a list, ``[]`` for every call; a lambda (:func:`fun2ms`); the number of
            a saved one; or ``"x"`` (returns and exceptions), ``"c"`` (the caller), ``"cx"`` (both). The default is
            ``[]``.
        limit, rate: as for :func:`tracer`; limits of the running tracer.

    Returns:
        ``("ok", [("matched", node, number)])``, with ``("saved", number or name)`` in the list if there is a
        specification; ``("error", "unknown_pattern")``; or ``("error", problems)``, as from
        :func:`inviso.match_spec_test`. Without a tracer nothing matches.

    Raises:
        BadArg: every function, while the calls of all processes are traced, without a limit; or a wrong target.

    >>> _ = tracer()
    >>> tp("json", "loads", [("_", [], [("return_trace",)])])
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)])
    >>> tp("json:dumps:_", 1)
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)])
    >>> tp("json", "loads", 8, "no"), tp("json", "nothing", [])
    (('error', 'unknown_pattern'), ('ok', [('matched', 'nonode@nohost', 0)]))
    >>> tp("_", []), p("all", "c")
    Traceback (most recent call last):
    ...
    inviso.errors.BadArg: p/2, item: 'all' with calls, while a pattern takes every function, traces everything; ...
    >>> stop()
    """
    return _tp("tp", target, "global", limit, rate)


def tpl(*target: Any, limit: int | None = None, rate: Rate | None = None) -> Answer:
    """As :func:`tp`, for all calls of all functions, also local ones (dbg.md, ``tpl/2``).

    >>> _ = tracer()
    >>> tpl("json.decoder", "JSONDecoder.decode", "cx")
    ('ok', [('matched', 'nonode@nohost', 1), ('saved', 'cx')])
    >>> stop()
    """
    return _tp("tpl", target, "local", limit, rate)


def _tp(name: str, target: tuple[Any, ...], flag: str, limit: int | None, rate: Rate | None) -> Answer:
    where = f"{name}/{len(target)}"
    checked(where, limit, rate)
    if not 1 <= len(target) <= 4:
        raise BadArg(where, "module", f"there are {len(target)} arguments; pass (module, function, arity) and a spec")
    *parts, spec = target if len(target) > 1 else (*target, [])
    mfa = _mfa(where, parts)
    server = server_of(where)
    server.may_limit(where, limit, rate)
    found, error = _spec(where, server, spec)
    if error is not None:
        return error
    if mfa[0] != "_" and mfa[0].removesuffix(".**") not in sys.modules:
        _load(mfa[0].removesuffix(".**"))
    return _set(server, where, mfa, found, flag, limit, rate)


def tpe(event: Literal["send", "receive"], match_spec: Any) -> Answer:
    """Selects the messages that are traced for processes with the flag ``send`` or ``receive`` (dbg.md, ``tpe/2``).

    Args:
        event: ``"send"``, where the specification gets ``[receiver, message]``; or ``"receive"``, where it gets
            ``[node, sender, message]``.
        match_spec: as for :func:`tp`.

    Raises:
        BadArg: ``event`` is unknown.

    >>> _ = tracer()
    >>> tpe("send", [(["_", ("order", "_")], [], [])]), ctpe("send")
    (('ok', [('matched', 'nonode@nohost', 1), ('saved', 1)]), ('ok', [('matched', 'nonode@nohost', 1)]))
    >>> stop()
    """
    where = "tpe/2"
    if event not in ("send", "receive"):
        raise BadArg(where, "event", f"{shown(event)} is not an event; pass 'send' or 'receive'")
    server = server_of(where)
    found, error = _spec(where, server, match_spec)
    return error if error is not None else _set(server, where, str(event), found, "")


def ctp(*target: Any) -> Answer:
    """Removes patterns, global and local ones (dbg.md, ``ctp/0`` to ``ctp/3``).

    Args:
        target: as for :func:`tp`, without a specification; without arguments every function.

    >>> _ = tracer()
    >>> _ = tp("json", "loads", "x")
    >>> ctp("json", "loads"), ctp("json:dumps")
    (('ok', [('matched', 'nonode@nohost', 1)]), ('ok', [('matched', 'nonode@nohost', 1)]))
    >>> stop()
    """
    return _ctp("ctp", target, "global", "local")


def ctpl(*target: Any) -> Answer:
    """As :func:`ctp`, only for patterns of :func:`tpl` (dbg.md, ``ctpl/1``).

    >>> ctpl("json", "loads")
    ('ok', [])
    """
    return _ctp("ctpl", target, "local")


def ctpg(*target: Any) -> Answer:
    """As :func:`ctp`, only for patterns of :func:`tp` (dbg.md, ``ctpg/1``).

    >>> ctpg("json", "loads")
    ('ok', [])
    """
    return _ctp("ctpg", target, "global")


def ctpe(event: Literal["send", "receive"]) -> Answer:
    """Traces all messages again (dbg.md, ``ctpe/1``).

    Raises:
        BadArg: ``event`` is unknown.

    >>> ctpe("receive")
    ('ok', [])
    """
    where = "ctpe/1"
    if event not in ("send", "receive"):
        raise BadArg(where, "event", f"{shown(event)} is not an event; pass 'send' or 'receive'")
    return ("ok", server_of(where).clear(str(event), [""]))


def _ctp(name: str, target: tuple[Any, ...], *flags: str) -> Answer:
    where = f"{name}/{len(target)}"
    if len(target) > 3:
        raise BadArg(where, "module", f"there are {len(target)} arguments; pass (module, function, arity)")
    mfa = _mfa(where, list(target)) if target else ("_", "_", "_")
    return ("ok", server_of(where).clear(mfa, flags))


def ltp() -> None:
    """Prints the saved match specifications, and the built-in ones (dbg.md, ``ltp/0``).

    >>> ltp()
    c: [('_', [], [('message', ('caller_line',))])]
    caller_exception_trace: cx
    caller_trace: c
    cx: [('_', [], [('exception_trace',), ('message', ('caller_line',))])]
    exception_trace: x
    x: [('_', [], [('exception_trace',)])]
    """
    for key, value in server_of("ltp/0").saved:
        print(f"{key}: {value if isinstance(value, str) else _spec_text(value)}")


def _spec_text(spec: list[Any]) -> str:
    try:
        return written(spec)
    except (NotLiteral, RecursionError):  # it contains a pid or another value that isn't a literal
        return shown(spec)


def dtp(number: int | None = None) -> None:
    """Deletes the saved match specification with this number, or all; built-in ones stay (dbg.md, ``dtp/0``,
    ``dtp/1``).

    >>> dtp()
    """
    saved = server_of("dtp/1").saved
    if number is None:
        saved.clear()
    elif isinstance(number, int):
        saved.delete(number)


def wtp(name: str) -> Any:
    """Writes the match specifications to a file that only its owner can read, one a line, as Python values (dbg.md,
    ``wtp/1``).

    Returns:
        None; an error of the system such as ``("error", "enoent")``; or ``("error", ("write_error", reason))`` if one
        of them contains a pid or a port, which a file can't hold: then nothing is written.

    Raises:
        BadArg: ``name`` is not a file's name (an int is not allowed).

    >>> wtp("/nowhere/patterns")
    ('error', 'enoent')
    """
    return server_of("wtp/1").saved.write(path_of("wtp/1", "name", name))


def rtp(name: str) -> Any:
    """Reads match specifications from a file and saves those that are new (dbg.md, ``rtp/1``).

    If one is wrong, none is saved. No code in the file runs.

    Returns:
        None, ``("error", ("read_error", reason))`` or ``("error", ("file_format_error", "bad_match_spec"))``.

    Raises:
        BadArg: ``name`` is not a file's name (an int is not allowed).

    >>> rtp("/nowhere/patterns")
    ('error', ('read_error', 'enoent'))
    """
    return server_of("rtp/1").saved.read(path_of("rtp/1", "name", name))


def path_of(where: str, argument: str, given: Any) -> str:
    """Checks a file's name. An empty one is allowed: the system's error is then the same as OTP's."""
    return "" if isinstance(given, str) and not given else trace_ports.path_of(where, argument, given)


def _mfa(where: str, parts: list[Any]) -> Any:
    if isinstance(parts[0], types.ModuleType):
        parts = [parts[0].__name__, *parts[1:]]
    if len(parts) == 1:
        return (
            parse(parts[0], f"{where}, module")[0]
            if isinstance(parts[0], (str, tuple))
            else _no_target(where, parts[0])
        )
    if not isinstance(parts[0], str):
        _no_target(where, parts[0])
    return parse((*parts, "_")[:3], f"{where}, module")[0]


def _no_target(where: str, given: Any) -> Any:
    why = (
        f"{shown(given)} names no functions; pass a module's name, (module, function, arity) or 'module:function:arity'"
    )
    raise BadArg(where, "module", why)


def _spec(where: str, server: Server, given: Any) -> tuple[list[Any], Answer | None]:
    """The specification of an argument, or the error to return."""
    if given is True:
        return [], None
    if isinstance(given, (int, str)) and not isinstance(given, bool):
        found = server.saved.find(given)
        return (found, None) if found is not None else ([], ("error", "unknown_pattern"))
    if callable(given):
        with _as_of(where):
            given = fun2ms(given)
    if not isinstance(given, list):
        why = f"{shown(given)} is not a match specification; pass a list, a lambda, a saved number, or 'x', 'c' or 'cx'"
        raise BadArg(where, "match_spec", why)
    if given:
        with _as_of(where):
            result = match_spec_test([], given, "trace")
        if result[0] == "error":
            return [], result
    return given, None


@contextmanager
def _as_of(where: str) -> Iterator[None]:
    """Errors of a specification name the function that got it."""
    try:
        yield
    except BadArg as error:
        raise BadArg(where, "match_spec", error.why) from None


def _set(
    server: Server,
    where: str,
    target: Any,
    spec: list[Any],
    flag: str,
    limit: int | None = None,
    rate: Rate | None = None,
) -> Answer:
    matched = server.function(where, target, spec, flag, limit, rate)
    saved = server.saved.save(spec)
    return ("ok", matched if saved is None else [*matched, ("saved", saved)])


def _load(module: str) -> None:
    """Imports a module that is to be traced, as OTP does."""
    try:
        importlib.import_module(module)
    except (Exception, SystemExit):
        return  # nothing matches
