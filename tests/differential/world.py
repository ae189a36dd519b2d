"""Scenarios of trace sessions, carried out here; ``world.erl`` does the same in Erlang.

A scenario is a list of steps, a step a tuple in the terms of the case files:

``{create, S, Name, Tracer, Options}``
    makes a session that later steps call ``S``; collectors ``t1`` and ``t2`` are there from the beginning.
``{spawn, P}``, ``{spawn, P, By, Link}``
    starts a process from outside, or by another one.
``{link, By, P}``, ``{unlink, By, P}``, ``{'end', P}``, ``{end_collector, T}``
    are done in ``By``; the process has ended when the next step begins.
``{open, O, By}``, ``{close, By, O}``
    opens and closes a port.
``{run, P}``
    has a process call ``world:subject/0``.
``{call, Function, Arguments}``
    calls a function of the trace module.

An answer is ``{ok, Value}``, ``{badarg, Positions}`` with the arguments that are blamed, or ``{error, Reason}``.
"""

from __future__ import annotations

import inspect
import queue
import socket
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.product import BadArg, Pid, Ref, inviso, submodule
from tests.conformance.terms import decode, is_atom

from .etf import Term

__all__ = ["PROGRAM", "World", "a", "call", "normal", "same", "t"]

PROGRAM = Path(__file__).with_name("world.erl")
PATIENCE = 10.0
ANY = {"a": "any"}
GROUPS = ("all", "existing", "processes", "existing_processes", "ports", "existing_ports")

world = types.ModuleType("world")
exec(compile("__all__ = ['subject']\n\n\ndef subject():\n    pass\n", "world.py", "exec"), world.__dict__)
sys.modules.setdefault("world", world)


def a(name: str) -> Term:
    """An atom."""
    return {"a": name}


def t(*elements: Term) -> Term:
    """A tuple; strings are atoms."""
    return {"t": [a(e) if isinstance(e, str) else e for e in elements]}


def call(function: str, *arguments: Term) -> Term:
    """The step that calls a function of the trace module."""
    return t("call", function, [a(x) if isinstance(x, str) else x for x in arguments])


class Server:
    """A process that runs the jobs that it gets."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.pid: Any = None

    def serve(self) -> None:
        """The function of the process."""
        while (job := self.jobs.get()) is not None:
            try:
                self.done.put((job(), None))
            except Exception as error:
                self.done.put((None, error))

    def ask(self, job: Callable[[], Any]) -> Any:
        """Has the process run a job."""
        self.jobs.put(job)
        value, error = self.done.get(timeout=PATIENCE)
        if error is not None:
            raise error
        return value


def gone(pid: Any) -> None:
    """Waits until a process has ended."""
    end = time.monotonic() + PATIENCE
    while pid.is_alive():
        if time.monotonic() > end:
            raise TimeoutError(f"{pid!r} has not ended")
        time.sleep(0.0001)  # on a loaded machine a free-threaded interpreter spins with 0


def collect() -> None:
    """The function of a collector."""
    while inviso.receive() != "stop the collector":
        pass


class World:
    """Carries out one scenario after the other."""

    def __init__(self) -> None:
        self.trace = submodule("trace")
        self.named: dict[tuple[str, str], Any] = {}
        self.servers: dict[Any, Server] = {}
        self.sockets: dict[Any, socket.socket] = {}

    def play(self, steps: list[Term]) -> list[Term]:
        """The answers to all steps."""
        self.named = {("ref", "r1"): Ref()}
        for name in ("t1", "t2"):
            self.named["pid", name] = inviso.spawn(collect)
        try:
            with socket.socket() as one:
                inviso.port(one)  # in Erlang there are always some
                return [self.step(step) for step in steps]
        finally:
            self.close()

    def close(self) -> None:
        """Ends all that a scenario left."""
        for (kind, _), value in self.named.items():
            if kind == "session":
                value.destroy()
        for opened in self.sockets.values():
            opened.close()
        for pid, server in self.servers.items():
            server.jobs.put(None)
            gone(pid)
        for name in ("t1", "t2"):
            self.end_collector(self.named["pid", name])
        self.servers.clear()
        self.sockets.clear()
        self.named.clear()

    def step(self, step: Term) -> Term:
        """The answer to one step."""
        verb, *arguments = decode(step, lambda kind, name: self.named[kind, name], spec=True)
        if verb == "call":
            function, given = arguments
            if function == "info" and len(given) == 3:
                given = [*given[:2], given[2]]
            return self.answer(lambda: getattr(self.trace, function)(*given), function)
        return self.answer(lambda: getattr(self, f"do_{verb}")(*arguments), verb)

    def answer(self, job: Callable[[], Any], function: str) -> Term:
        """The outcome of a job."""
        try:
            return t("ok", self.encode(job()))
        except BadArg as error:
            return t("badarg", positions(function, str(getattr(error, "argument", ""))))

    def do_create(self, name: str, called: Any, tracer: Any, options: Any) -> None:
        """Makes a session."""
        self.named["session", name] = self.trace.session_create(called, tracer, options)

    def do_spawn(self, name: str, by: Any = None, link: bool = False) -> None:
        """Starts a process."""
        server = Server()
        start = lambda: inviso.spawn(server.serve, link=link)  # noqa: E731
        server.pid = start() if by is None else self.servers[by].ask(start)
        self.servers[server.pid] = server
        self.named["pid", name] = server.pid
        server.ask(lambda: None)

    def do_link(self, by: Any, other: Any) -> None:
        """Links two processes."""
        self.servers[by].ask(lambda: inviso.link(other))

    def do_unlink(self, by: Any, other: Any) -> None:
        """Unlinks two processes."""
        self.servers[by].ask(lambda: inviso.unlink(other))

    def do_end(self, pid: Any) -> None:
        """Ends a process."""
        self.servers.pop(pid).jobs.put(None)
        gone(pid)

    def do_end_collector(self, pid: Any) -> None:
        """Ends a collector."""
        self.end_collector(pid)

    def end_collector(self, pid: Any) -> None:
        """Ends a collector, if it has not ended."""
        if pid.is_alive():
            inviso.send(pid, "stop the collector")
            gone(pid)

    def do_open(self, name: str, by: Any) -> None:
        """Opens a port."""
        opened = self.servers[by].ask(socket.socket)
        port = inviso.port(opened)
        self.named["port", name] = port
        self.sockets[port] = opened

    def do_close(self, by: Any, port: Any) -> None:
        """Closes a port."""
        self.servers[by].ask(self.sockets.pop(port).close)

    def do_run(self, by: Any) -> None:
        """Has a process call the function."""
        self.servers[by].ask(lambda: world.subject())

    def encode(self, value: Any) -> Term:
        """An answer in the terms of the case files."""
        if value is None or value is True or value is False:
            return a({None: "undefined", True: "true", False: "false"}[value])
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            return a(str(value))
        if isinstance(value, list | tuple):
            made = [self.encode(one) for one in value]
            return made if isinstance(value, list) else {"t": made}
        if isinstance(value, self.trace.Session):
            return self.name_of("session", value)
        if isinstance(value, Pid):
            return self.name_of("pid", value)
        if isinstance(value, inviso.Port):
            return self.name_of("port", value)
        return a("other") if isinstance(value, Ref) else {"value": repr(value)}

    def name_of(self, kind: str, value: Any) -> Term:
        """The name of a value in the scenario."""
        return next(
            ({kind: name} for (k, name), known in self.named.items() if k == kind and known == value),
            {"other": "other"},
        )


def positions(function: str, argument: str) -> list[int]:
    """The position of the blamed argument, from 1; empty if it has none."""
    if function == "create":
        function = "session_create"
    parameters = list(inspect.signature(getattr(submodule("trace"), function)).parameters)
    return [parameters.index(argument) + 1] if argument in parameters else []


def normal(step: Term, answer: Term) -> Term:
    """An answer without parts that may differ: order of flags and sessions, number of processes, a step's value."""
    match step, answer:
        case {"t": [{"a": "call"}, {"a": "process" | "port"}, [_, {"a": group}, *_]]}, {"t": [{"a": "ok"}, int(count)]}:
            return t("ok", ANY) if group in GROUPS and count else answer
        case {"t": [{"a": "call"}, {"a": "session_info"}, _]}, {"t": [{"a": "ok"}, list(sessions)]}:
            named = [s for s in sessions if s != {"session": "default"}]
            return t("ok", sorted(named, key=lambda session: str(session)))
        case {"t": [{"a": "call"}, {"a": "delivered" | "system" | "session_create"}, _]}, {"t": [{"a": "ok"}, _]}:
            return t("ok", ANY)
        case {"t": [{"a": "call"}, *_]}, {"t": [{"a": "ok"}, {"t": [{"a": "flags"}, list(flags)]}]}:
            return t("ok", t("flags", sorted(flags, key=lambda flag: str(flag))))
        case {"t": [{"a": "call"}, *_]}, _:
            return answer
        case _, {"t": [{"a": "ok"}, _]}:
            return t("ok", ANY)
    return answer


def same(step: Term, there: Term, here: Term) -> bool:
    """Whether two answers to a step are the same. Erlang may blame several arguments, or none by its position."""
    there, here = normal(step, there), normal(step, here)
    match there, here:
        case {"t": [{"a": "badarg"}, list(blamed)]}, {"t": [{"a": "badarg"}, list(ours)]}:
            return not blamed or any(one in blamed for one in ours)
    return bool(there == here)


def is_ok(answer: Term) -> bool:
    """Whether a step was carried out."""
    return is_atom(answer["t"][0], "ok")
