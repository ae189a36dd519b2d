"""Requests of a runtime component that concern meta tracing.

=========================================  ===========================================================
request                                    arguments
=========================================  ===========================================================
``init_tpm``                               module, function, arity, call
                                           module, function, arity, init, call, return, remove
``tpm``, ``tpm_tracer``                    module, function, arity, match_spec, then nothing, or as above
``tpm_ms``, ``tpm_ms_tracer``              module, function, arity, name, match_spec
``ctpm_ms``                                module, function, arity, name
``ctpm``                                   module, function, arity
``tpm_localnames``, ``ctpm_localnames``    none
``tpm_globalnames``, ``ctpm_globalnames``  none: there are no global names
``write_ti``                               entry: bytes, which are written unchanged
``meta_status``                            none: the answer of :func:`inviso.meta.status`; None without a meta tracer
=========================================  ===========================================================

A callback is ``(module, function)``, or a function if the request comes from this process. Anything else means no
callback.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from inviso.terms import Atom

from ._meta import Meta, TiSpec
from ._meta_names import Callback, Callbacks
from ._tracerdata import Refused, Ti

if TYPE_CHECKING:
    from inviso import trace

    from ._resolver import Resolver
    from ._tracerdata import TracerData

__all__ = ["MetaCalls"]

OK, ERROR = Atom("ok"), Atom("error")
NO_METATRACER = Atom("no_metatracer")


class MetaCalls:
    """The meta tracer and its requests; a part of the component."""

    _resolver: Resolver
    _data: TracerData | None
    _meta: Meta | None = None

    @property
    def has_meta(self) -> bool:
        """Whether a meta tracer lives."""
        return self._meta is not None and self._meta.is_alive

    # requests

    def do_init_tpm(self, *arguments: Any) -> Any:
        match arguments:
            case (module, function, arity, *callbacks) if len(callbacks) in (1, 4):
                return self._tracer().init_tpm((module, function, arity), self._callbacks(callbacks))
        return _bad("init_tpm", arguments)

    def do_tpm(self, *arguments: Any) -> Any:
        return self._tpm("tpm", arguments, switches=False)

    def do_tpm_tracer(self, *arguments: Any) -> Any:
        return self._tpm("tpm_tracer", arguments, switches=True)

    def do_tpm_ms(self, *arguments: Any) -> Any:
        return self._tpm_ms("tpm_ms", arguments, switches=False)

    def do_tpm_ms_tracer(self, *arguments: Any) -> Any:
        return self._tpm_ms("tpm_ms_tracer", arguments, switches=True)

    def do_ctpm_ms(self, *arguments: Any) -> Any:
        match arguments:
            case (module, function, arity, name):
                return self._tracer().ctpm_ms((module, function, arity), name)
        return _bad("ctpm_ms", arguments)

    def do_ctpm(self, *arguments: Any) -> Any:
        match arguments:
            case (module, function, arity):
                return self._tracer().ctpm((module, function, arity))
        return _bad("ctpm", arguments)

    def do_tpm_localnames(self) -> Any:
        return self._tracer().tpm_localnames()

    def do_ctpm_localnames(self) -> Any:
        return self._tracer().ctpm_localnames()

    def do_tpm_globalnames(self) -> Any:
        return (OK, 0), (OK, 0)

    def do_ctpm_globalnames(self) -> Any:
        return OK, OK

    def do_write_ti(self, entry: Any) -> Any:
        if not isinstance(entry, bytes):
            return _bad("write_ti", (entry,))
        self._tracer().write_ti(entry)
        return OK

    def do_meta_status(self) -> Any:
        return OK, None if self._meta is None else self._meta.status()

    def _tpm(self, name: str, arguments: tuple[Any, ...], *, switches: bool) -> Any:
        match arguments:
            case (module, function, arity, match_spec, *callbacks) if len(callbacks) in (0, 1, 4):
                mfa = module, function, arity
                given = self._callbacks(callbacks) if callbacks else None
                return self._tracer().tpm(mfa, match_spec, switches=switches, callbacks=given)
        return _bad(name, arguments)

    def _tpm_ms(self, name: str, arguments: tuple[Any, ...], *, switches: bool) -> Any:
        match arguments:
            case (module, function, arity, label, match_spec):
                return self._tracer().tpm_ms((module, function, arity), label, match_spec, switches=switches)
        return _bad(name, arguments)

    # for the component

    def _ti_spec(self, ti: Ti | None) -> TiSpec | None:
        """The functions of the ti part. ``Refused`` if a name is not allowed."""
        if ti is None or ti.spec is None:
            return None
        init, remove, clean = ti.spec
        making = self._applied(init)
        if making is None:
            raise Refused((Atom("bad_ti_td"), ti.spec))
        return TiSpec(making, self._callback(remove), self._callback(clean))

    def _begin_meta(self, ti: Ti, spec: TiSpec | None, regular: trace.Session | None) -> Any:
        """Starts the meta tracer. Returns ok, or an error; then there is no meta tracer."""
        try:
            self._resolver.make_folder(ti.path)
            tracer = Meta(ti.path, spec or TiSpec(), regular)
        except OSError as error:
            return ERROR, (Atom("open"), [ti.path, Atom(errno.errorcode.get(error.errno or 0, "EIO").lower())])
        try:
            tracer.start()
        except Refused as why:
            tracer.stop(hangs=True)
            return ERROR, why.answer
        self._meta = tracer
        return OK

    def _look_at_meta(self) -> None:
        if self._meta is not None:
            self._meta.look()

    def _reset_meta(self) -> None:
        """Resets the meta tracer for a suspension. If a callback doesn't return, the meta tracer ends."""
        if self._meta is not None:
            try:
                self._meta.reset()
            except Refused:
                self._end_meta(hangs=True)

    def _end_meta(self, *, hangs: bool = False) -> None:
        tracer, self._meta = self._meta, None
        if tracer is not None:
            tracer.stop(hangs=hangs)

    def _tracer(self) -> Meta:
        if self._meta is None or not self._meta.is_alive:
            raise Refused(NO_METATRACER)
        return self._meta

    def _callbacks(self, given: list[Any]) -> Callbacks:
        found = [self._callback(one) for one in given]
        return Callbacks(call=found[0]) if len(found) == 1 else Callbacks(*found)

    def _callback(self, given: Any) -> Callback:
        match given:
            case (str(), str()):
                return self._resolver.function(given)
            case _ if callable(given):
                return given  # type: ignore[no-any-return]
        return None

    def _applied(self, given: Any) -> Callable[[], Any] | None:
        match given:
            case (str(module), str(function), list(arguments)):
                return partial(self._resolver.function((module, function)), *arguments)
            case (function, list(arguments)) if callable(function):
                return partial(function, *arguments)
            case _ if callable(given):
                return given  # type: ignore[no-any-return]
        return None


def _bad(name: str, arguments: tuple[Any, ...]) -> Any:
    return ERROR, (Atom("badarg"), (Atom(name), list(arguments)))
