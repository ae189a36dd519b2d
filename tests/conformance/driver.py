"""The driver's steps: the functions of ``inviso.trace``, their answers and their refusals in the cases' terms."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from .compare import Names, as_atoms, encode, name_of
from .product import Missing, Ref, atom, inviso, operation, submodule
from .rendezvous import wait_until
from .terms import Term, is_atom

__all__ = ["Driver", "refusal"]

LEGACY = {"t": [{"a": "legacy"}, {"a": "default"}]}
"""The session that every Erlang VM has besides the scenario's own."""

WITH_LEGACY = ("all", "send", "receive")
"""What it answers to, by its default patterns; it has no counterpart here, and is put in where Erlang shows it."""

COUNTERS = {"call_count", "call_time", "call_memory"}

ARGUMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "session_create": (("name",), ("tracer",), ("opts",)),
    "session_create_raw": (("name",), ("tracer",), ("opts",)),
    "session_destroy": (("session",),),
    "process": (("session",), ("procs",), ("how",), ("flags",)),
    "port": (("session",), ("ports",), ("how",), ("flags",)),
    "function": (("session",), ("mfa",), ("match_spec",), ("flags",)),
    "send_pattern": (("session",), ("match_spec",), ("flags",)),
    "recv_pattern": (("session",), ("match_spec",), ("flags",)),
    "info": (("session",), ("what", "tracee"), ("item",)),
    "session_info": (("what", "tracee"),),
    "delivered": (("session",), ("tracee",)),
    "system": (("session",), ("event",), ("value",)),
    "set_tcw": (("value",),),
}
"""The arguments of each function by position, as ``BadArg.argument`` names them."""

CLASSES = {
    "session": "session",
    "procs": "process",
    "ports": "port",
    "how": "boolean",
    "mfa": "mfa",
    "item": "item",
    "name": "atom",
    "tracer": "tracer",
    "what": "tracee",
    "event": "option",
    "value": "option",
}
"""The class word for a refused argument, where it does not depend on the argument given."""


class Driver:
    """Carries out the steps of ``drv`` and ``all``, and holds the sessions of one case."""

    def __init__(self, names: Names, kill: Callable[[str], None]) -> None:
        self.names = names
        self.sessions: dict[str, Any] = {}
        self.weak: dict[str, Any] = {}
        self.want_weak: set[str] = set()
        self._kill = kill
        self.trace = submodule("trace")

    def handle(self, name: str) -> Any:
        """A session handle by its name in the case."""
        odd: dict[str, Callable[[], Any]] = {
            "_bad": lambda: atom("not_a_session"),
            "_ref": fresh_ref,
            "_tuple": lambda: (atom("a"), atom("b")),
        }
        if name in odd:
            return odd[name]()
        if name.endswith("w"):
            return self.weak[name[:-1]]
        return self.sessions[name]

    def session_create(self, name: str, tracer: Any, options: Any = ()) -> Term:
        # Erlang does not cut arguments
        options = options or {"capture": {"items": 100_000, "bytes": 60_000, "total": 60_000, "depth": 64}}
        return self._created(name, self.trace.session_create(name, tracer, options))

    def session_create_raw(self, name: Any, tracer: Any, options: Any) -> Term:
        return self._created("RAW", self.trace.session_create(name, tracer, options))

    def _created(self, name: str, session: Any) -> Term:
        self.sessions[name] = session
        self.names.sessions[session.id] = name
        if name in self.want_weak:
            self.weak[name] = next(s for s in self.trace.session_info("all") if s.id == session.id)
        return encode(session, self.names)

    def session_destroy(self, session: str) -> Term:
        return encode(self.trace.session_destroy(self.handle(session)), self.names)

    def drop_session(self, session: str) -> Term:
        gone = self.sessions.pop(session).id
        gc.collect()
        wait_until(
            lambda: all(s.id != gone for s in self.trace.session_info("all")),
            "the session's handle was dropped, but the session stayed",
        )
        return {"a": "ok"}

    def process(self, session: str, *arguments: Any) -> Term:
        return encode(self.trace.process(self.handle(session), *arguments), self.names)

    def port(self, session: str, *arguments: Any) -> Term:
        return encode(self._function("port")(self.handle(session), *arguments), self.names)

    def function(self, session: str, *arguments: Any) -> Term:
        return encode(self.trace.function(self.handle(session), *arguments), self.names)

    def send_pattern(self, session: str, *arguments: Any) -> Term:
        return encode(self._function("send")(self.handle(session), *arguments), self.names)

    def recv_pattern(self, session: str, *arguments: Any) -> Term:
        return encode(self._function("recv")(self.handle(session), *arguments), self.names)

    def info(self, session: str, what: Any, item: Any) -> Term:
        return tidy(as_atoms(encode(self.trace.info(self.handle(session), what, item), self.names)))

    def session_info(self, what: Any) -> Term:
        found = self.trace.session_info(what)
        if found is None:
            return encode(None, self.names)
        named = [((str(s.name), s.id), self.names.session(s, "weak")) for s in found]
        if isinstance(what, str) and what in WITH_LEGACY:
            named.append((("default", 0), LEGACY))
        return [term for _, term in sorted(named, key=lambda pair: pair[0])]

    def delivered(self, session: str, tracee: Any) -> Term:
        reference = self.trace.delivered(self.handle(session), tracee)
        awaited = ("trace_delivered", tracee, reference)
        answer = inviso.receive(lambda message: message == awaited, timeout=5.0)
        return as_atoms(encode(answer, self.names))

    def system(self, session: str, *arguments: Any) -> Term:
        answer = self._function("system")(self.handle(session), *arguments)
        return {"a": "ok"} if answer is None else as_atoms(encode(answer, self.names))

    def kill(self, name: str) -> Term:
        self._kill(name)
        return {"a": "true"}

    def tcw(self) -> Term:
        return encode(self._function("control_word")(), self.names)

    def set_tcw(self, value: Any) -> Term:
        return encode(self._function("control_word")(value), self.names)

    def _function(self, name: str) -> Callable[..., Any]:
        found = getattr(self.trace, name, None)
        if found is None:
            raise Missing(f"there is no inviso.trace.{name}")
        function: Callable[..., Any] = found
        return function

    def settle(self) -> None:
        """Waits until every message of every living session has reached its tracer."""
        for session in list(self.sessions.values()):
            try:
                done = self.trace.delivered(session, "all")
            except inviso.BadArg:
                continue
            if done.wait(5.0) is False:
                raise TimeoutError("delivered did not come within 5 s")

    def close(self) -> None:
        """Destroys the sessions that the case left."""
        for session in self.sessions.values():
            self.trace.session_destroy(session)
        self.sessions.clear()
        self.weak.clear()


def fresh_ref() -> Any:
    """A reference that is no session."""
    try:
        return Ref()
    except TypeError:
        return operation("make_ref")()


def tidy(term: Term) -> Term:
    """An answer of ``info`` with its lists in the cases' order: flags by name, counters by pid."""
    match term:
        case {"t": [{"a": "flags"}, list(flags)]}:
            return {"t": [{"a": "flags"}, sorted(flags, key=name_of)]}
        case {"t": [{"a": "call_time" | "call_memory" as item}, list(entries)]}:
            return {"t": [{"a": item}, sorted(entries, key=lambda e: str(e["t"][0].get("pid", "")))]}
        case {"t": [{"a": "all"}, list(items)]}:
            return {"t": [{"a": "all"}, [tidy(i) for i in items]]}
    return term


def refusal(operation_name: str, arguments: list[Any], expected: dict[str, str], error: BaseException) -> str | None:
    """Tells in words how a ``BadArg`` blames another argument than Erlang does; None if it blames the same."""
    if not expected:
        return None
    named = getattr(error, "argument", None)
    positions = ARGUMENTS.get(operation_name, ())
    blamed = next((p for p, names in enumerate(positions, 1) if named in names), 0)
    spec_with_counter = "match_spec_with_counter" in expected.values() and named in ("match_spec", "flags")
    if str(blamed) not in expected and not spec_with_counter:
        return f"expected the blame on {expected}, got BadArg.argument {named!r}: {error}"
    for position, word in expected.items():
        index = int(position) if position.isdigit() else 0
        words = class_words(positions[index - 1][0], arguments, index) if 0 < index <= len(positions) else set()
        if word not in words:
            return f"expected argument {position} to be called {word!r}, this is {' or '.join(sorted(words)) or 'none'}"
    return None


def class_words(argument: str, arguments: list[Any], position: int) -> set[str]:
    """The words for a wrong argument that fit these arguments."""
    given = arguments[position - 1]
    if argument == "tracee":
        return {"pid_or_all"}
    if argument in ("flags", "opts"):
        if isinstance(given, list):
            return {"option"}
        return {"proper_list"} if isinstance(given, dict) and "il" in given else {"list", "proper_list"}
    if argument == "match_spec":
        flags = arguments[-1] if isinstance(arguments[-1], list) else []
        counting = isinstance(given, list) and flags and all(is_atom(f, *COUNTERS) for f in flags)
        return {"match_spec", "match_spec_with_counter"} if counting else {"match_spec"}
    return {CLASSES[argument]}
