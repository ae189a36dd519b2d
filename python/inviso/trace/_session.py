"""The handle of a session, with the functions as methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from inviso.errors import BadArg, check_timeout, shown
from inviso.terms import Atom, Port

from ._delivery import Delivered, delivered
from ._ending import session_destroy
from ._flags import port, process
from ._handle import Handle
from ._info import info
from ._monitor import system
from ._patterns import function, recv, send
from ._recorder import Dump, dump

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from inviso._native.process import Pid
    from inviso.trace_ports import TracePort

    from ._types import Mfa, Process, Spec

__all__ = ["Session"]


class Session(Handle):
    """A trace session: a handle with the functions of this module as methods.

    A handle from :func:`session_create` is strong: the session ends when no variable holds one any more, at the end of
    a ``with`` block, or by :meth:`destroy`. Handles from :func:`session_info` are weak: they keep nothing alive. A
    tracer that refers to its own session is collected with it, like any cycle of objects.

    A session whose tracer is None is its own tracer: iterate over it, or call :meth:`receive`.

    >>> session = session_create("own")
    >>> session
    <session 'own' #...>
    >>> session.destroy(), session.destroy()
    (True, False)
    """

    __slots__ = ()

    @property
    def name(self) -> Atom | bool | None:
        """The name from :func:`session_create`, an atom."""
        return Atom(self._native.name)  # type: ignore[no-any-return]

    @property
    def id(self) -> int:
        """Its number; no other session of this program ever has it."""
        return self._native.id

    def is_alive(self) -> bool:
        """Whether it has not been destroyed."""
        return self._native.is_alive()

    def destroy(self) -> bool:
        """As :func:`session_destroy`."""
        return session_destroy(self)

    def process(self, procs: Pid | Process | str, how: bool, flags: Iterable[str]) -> int:
        """As :func:`process`."""
        return process(self, procs, how, flags)

    def function(self, mfa: Mfa | str, match_spec: Spec, flags: Iterable[str] = ()) -> int:
        """As :func:`function`."""
        return function(self, mfa, match_spec, flags)

    def port(self, ports: Port | Any, how: bool, flags: Iterable[str]) -> int:
        """As :func:`port`."""
        return port(self, ports, how, flags)

    def send(self, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
        """As :func:`send`."""
        return send(self, match_spec, flags)

    def recv(self, match_spec: bool | list[Any], flags: Iterable[str] = ()) -> int:
        """As :func:`recv`."""
        return recv(self, match_spec, flags)

    def system(self, event: str, value: bool | int | tuple[int, int]) -> None:
        """As :func:`system`."""
        system(self, event, value)

    def info(self, what: Pid | Port | Mfa | str | Any, item: str) -> Any:
        """As :func:`info`."""
        return info(self, what, item)

    def delivered(self, tracee: Pid | Process | str = "all") -> Delivered:
        """As :func:`delivered`."""
        return delivered(self, tracee)

    def dump(self, to: str | os.PathLike[str] | TracePort, *, compress: bool = False) -> Dump:
        """As :func:`dump`."""
        return dump(self, to, compress=compress)

    def receive(self, timeout: float | None = None) -> Any:
        """Takes the oldest message, and waits for one.

        Args:
            timeout: seconds; None waits for ever, 0 doesn't wait.

        Raises:
            BadArg: the session has a tracer, which gets its messages.
            TimeoutError: no message came in time.
            EOFError: the session has been destroyed and read to its end.
        """
        self._own("receive/2")
        check_timeout("receive/2", timeout)
        message = self._native.receive(timeout)
        if message is not None:
            return message
        if not self._native.is_alive():
            raise EOFError(f"{self!r} has been destroyed and read to its end")
        raise TimeoutError(f"no trace message came in {timeout} s")

    def drain(self) -> list[Any]:
        """Takes all messages that wait now, oldest first; does not wait.

        Raises:
            BadArg: the session has a tracer, which gets its messages.
        """
        self._own("drain/1")
        return self._native.drain()

    def __iter__(self) -> Iterator[Any]:
        """Takes messages as they come; ends when the session has been destroyed and read to its end."""
        self._own("iter/1")
        while True:
            try:
                yield self.receive()
            except EOFError:
                return

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.destroy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._native == other._native

    def __hash__(self) -> int:
        return hash(self._native)

    def __repr__(self) -> str:
        weak = "" if self._native.is_strong else "weak "
        return f"<{weak}session {self.name!r} #{self._native.id}>"

    def _repr_html_(self) -> str:
        from inviso._table import Table

        native = self._native
        to = native.tracer or native.module or (native.port and "a trace port") or "the session itself"
        alive = native.is_alive()
        row = (repr(self.name), str(self.id), "alive" if alive else "destroyed", str(to), f"{native.dropped():,}")
        return Table(("session", "number", "state", "messages go to", "lost"), [row], numbers=("number", "lost")).html()

    def _takes_objects(self) -> bool:
        return self._native.takes_objects

    def _own(self, function: str) -> None:
        if self._native.has_module:
            why = f"{shown(self)} calls its tracer module, and has no messages; make one with tracer None"
            raise BadArg(function, "session", why)
        if self._native.tracer is not None or self._native.port is not None:
            raise BadArg(
                function, "session", f"the messages of {shown(self)} go to its tracer; make one with tracer None"
            )
