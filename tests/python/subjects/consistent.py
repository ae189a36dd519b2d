"""Rules for the messages of a whole program, and for the standard library when nothing is traced."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from inviso import Pid, trace

PROCESSES = ["send", "receive", "procs", "running", "exiting", "garbage_collection", "strict_monotonic_timestamp"]
PORTS = ["send", "receive", "ports", "running_ports", "strict_monotonic_timestamp"]
MODULES = (
    "queue", "_queue", "socket", "_socket", "ssl", "_ssl", "subprocess", "threading", "asyncio.base_events",
    "asyncio.events", "asyncio.futures", "asyncio.locks", "asyncio.queues", "asyncio.runners",
    "asyncio.selector_events", "asyncio.sslproto", "asyncio.streams", "asyncio.taskgroups", "asyncio.tasks",
    "asyncio.transports", "_asyncio", "asyncio.unix_events", "concurrent.futures._base",
    "concurrent.futures.process", "concurrent.futures.thread", "multiprocessing.connection", "multiprocessing.pool",
    "multiprocessing.queues", "multiprocessing.process",
)  # fmt: skip


@dataclass
class Seen:
    """The messages of a session that traced everything, without ``trace_ts`` and without their stamps."""

    messages: list[Any] = field(default_factory=list)
    stamps: list[Any] = field(default_factory=list)
    dropped: int = 0
    lost: int = 0

    def of(self, *tags: str) -> list[Any]:
        """Those with one of these tags."""
        return [message for message in self.messages if message[1] in tags]

    def check(self, untaken: Collection[Any] = (), paired: bool = True) -> None:
        """Checks the rules that hold for any program.

        Args:
            untaken: messages that need no receiver.
            paired: whether sender and receiver are both in this operating system process.
        """
        assert (self.dropped, self.lost) == (0, 0)
        lives(self.messages)
        steps(self.messages)
        openings(self.messages)
        collections(self.messages)
        if paired:
            pairs(self.messages, untaken)
            if len(self.stamps) == len(self.messages):
                causes(self.messages, self.stamps)


@contextlib.contextmanager
def whole(ring_bytes: int = 1 << 25, processes: list[str] = PROCESSES, ports: list[str] = PORTS) -> Iterator[Seen]:
    """Traces everything; afterwards the standard library is as it was.

    Each process's and port's messages come in the order of their stamps.
    """
    before, seen, last = standard(), Seen(), defaultdict[Any, Any](tuple)
    with trace.session_create("whole", None, {"ring_bytes": ring_bytes}) as session:
        session.process("all", True, processes)
        session.port("all", True, ports)
        try:
            yield seen
        finally:
            session.process("all", False, ["all"])
            session.port("all", False, ["all"])
            for message in session.drain():
                if message[0] == "drop":
                    seen.lost += message[1]
                elif message[0] == "trace_ts":
                    assert message[-1] > last[message[1]], f"{message} is not later than the one before"
                    last[message[1]] = message[-1]
                    seen.messages.append(message[1:-1])
                    seen.stamps.append(message[-1])
                else:
                    seen.messages.append(message[1:])
            seen.dropped = session.info("session", "dropped")[1]
    same(before)


def lives(messages: list[Any]) -> None:
    """A spawned process has ``spawned`` first and one ``exit``. Only an ``out`` follows its ``exit``: until then
    asyncio still does something for it, and a collection may run meanwhile.
    """
    spawned = {(m[2], m[0]) for m in messages if m[1] == "spawned"}
    spawns = {(m[0], m[2]) for m in messages if m[1] == "spawn"}
    assert spawned == spawns, spawned ^ spawns
    children = [m[0] for m in messages if m[1] == "spawned"]
    assert len(children) == len(set(children))
    exits = Counter(m[0] for m in messages if m[1] == "exit")
    assert set(exits.values()) <= {1}
    assert not set(children) - set(exits), set(children) - set(exits)
    known, begun, ended, out = set(children), set[Pid](), set[Pid](), set[Pid]()
    for message in messages:
        who, tag = message[:2]
        if who in known and who not in begun:
            assert tag == "spawned", message
            begun.add(who)
        if who in ended:
            assert tag.startswith(("out", "gc_")) and who not in out, f"{message} after its end"
            if tag.startswith("out"):
                out.add(who)
        if tag == "exit":
            ended.add(who)


def steps(messages: list[Any]) -> dict[Pid, int]:
    """Each task and thread alternates between in and out. Returns the number of steps of each."""
    turns: dict[Pid, list[str]] = defaultdict(list)
    for message in messages:
        if message[1] in ("in", "out", "in_exiting", "out_exiting", "out_exited"):
            turns[message[0]].append(str(message[1]))
    spawned, ended = ({m[0] for m in messages if m[1] == tag} for tag in ("spawned", "exit"))
    for who, tags in turns.items():
        if isinstance(who, Pid) and tags[0].startswith("out") and who not in spawned:
            tags = ["in", *tags]  # it ran when the session began
        kinds = [tag.partition("_")[0] for tag in tags]
        assert (set(kinds[::2]), set(kinds[1::2])) in (({"in"}, {"out"}), ({"in"}, set())), (who, tags)
        assert "out_exited" not in tags[:-1], (who, tags)
        if not isinstance(who, Pid) or who in ended:
            assert tags[-1] == ("out_exited" if who in ended else "out"), (who, tags)
    return {who: (len(tags) + 1) // 2 for who, tags in turns.items()}


def pairs(messages: list[Any], untaken: Collection[Any] = ()) -> None:
    """Each sent message is received, by its addressee if that is a process or port."""
    sent, received = Counter[str](), Counter[str]()
    to, by = Counter[tuple[Any, str]](), Counter[tuple[Any, str]]()
    for message in messages:
        if message[1] == "send":
            text = repr(message[2])
            sent[text] += 1
            if getattr(message[3], "kind", "port") != "queue":
                to[message[3], text] += 1
        elif message[1] == "receive" and message[2] != "timeout":
            text = repr(message[2])
            received[text] += 1
            by[message[0], text] += 1
    missing = sent - received
    assert set(missing) <= set(map(repr, untaken)), missing.most_common(5)
    assert not received - sent, (received - sent).most_common(5)
    assert not to - by, (to - by).most_common(5)


def causes(messages: list[Any], stamps: list[Any]) -> None:
    """No message is received before it has been sent."""
    when: dict[str, dict[str, list[Any]]] = {"send": defaultdict(list), "receive": defaultdict(list)}
    for message, stamp in zip(messages, stamps, strict=True):
        if message[1] in when:
            when[message[1]][repr(message[2])].append(stamp)
    for text, received in when["receive"].items():
        for sent, taken in zip(sorted(when["send"][text]), sorted(received), strict=False):
            assert sent < taken, f"{text} was received at {taken} and sent at {sent}"


def openings(messages: list[Any]) -> None:
    """A port is opened first and closed last, except for its in and out."""
    states: dict[Any, str] = {}
    for message in messages:
        who, tag = message[:2]
        if isinstance(who, Pid) or tag in ("in", "out"):
            continue
        assert (tag == "open") is (who not in states), message
        assert states.get(who) != "closed", f"{message} after its end"
        states[who] = "closed" if tag == "closed" else "open"
    assert "open" not in states.values(), states


def collections(messages: list[Any]) -> None:
    """A collection of garbage begins and ends, without another one between."""
    under_way: dict[Pid, str] = {}
    for message in messages:
        tag = str(message[1])
        if tag.startswith("gc_"):
            _, kind, what = tag.split("_")
            if what == "start":
                assert message[0] not in under_way, message
                under_way[message[0]] = kind
            else:
                assert under_way.pop(message[0], "") == kind, message
    assert not under_way


def standard() -> dict[str, Any]:
    """The standard library's functions and types: objects, code, C functions, slots."""
    found: dict[str, Any] = {"gc.callbacks": tuple(gc.callbacks)}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # of another system
        for key, value in list(vars(module).items()):
            if callable(value):
                found[f"{name}.{key}"] = value
            found.update(_inside(f"{name}.{key}", value))
    return found


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield f"{name} code", value.__code__
    elif isinstance(value, types.MethodDescriptorType | types.ClassMethodDescriptorType):
        yield f"{name} in C", _function_in_c(value)
    elif isinstance(value, type):
        yield f"{name} slots", _slots(value)
        for key, member in list(vars(value).items()):
            if callable(member) or hasattr(type(member), "__get__"):
                yield f"{name}.{key}", member
            if not isinstance(member, type):
                yield from _inside(f"{name}.{key}", member)


def same(before: dict[str, Any]) -> None:
    """All of it is unchanged, and no event is switched on in it."""
    now = standard()
    other = [name for name, value in before.items() if now.get(name) is not value and now.get(name) != value]
    assert not other, other
    if monitoring := getattr(sys, "monitoring", None):
        for name, code in now.items():
            if isinstance(code, types.CodeType):
                events = [monitoring.get_local_events(tool, code) for tool in range(6) if monitoring.get_tool(tool)]
                assert not any(events), (name, events)


_HEAD = object.__basicsize__
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _function_in_c(method: Any) -> tuple[int, int]:
    # PyMethodDescrObject: type, name, qualified name; the definition, whose second word is the function; how to call it
    definition = _word(id(method) + _HEAD + 3 * _POINTER)
    return _word(definition + _POINTER), _word(id(method) + _HEAD + 4 * _POINTER)


# dealloc, call, traverse, clear, iter, iternext, init, alloc, new, free, finalize, vectorcall, of 64-bit CPython
_SLOTS = [offset - 16 + _HEAD for offset in (48, 128, 184, 192, 216, 224, 296, 304, 312, 320, 392, 400)]


def _slots(kind: type) -> tuple[int, ...]:
    return tuple(_word(id(kind) + offset) for offset in _SLOTS)
