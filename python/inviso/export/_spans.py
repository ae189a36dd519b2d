"""Makes spans of calls and messages from the steps of the native export, with their traces and parents.

Each label of a token (:mod:`inviso.seq_trace`) is a trace. A call belongs to a label if an event of that token happened
while it was open, or if its process had received a message with that token before. Any other call belongs to its
caller's trace. A call without a caller begins a trace of its own.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from inviso import etf
from inviso._traceparent import Link, span_of

__all__ = ["Node", "Place", "Span", "Spans"]

_UNDER_WAY = 1 << 16
"""Messages that were sent and not received yet, at most. The oldest are forgotten first."""

_HELD = 10_000
"""Spans of a process that wait until their trace is known, at most."""


class Node(NamedTuple):
    """An operating system process: its process id (None: not known), its program, its node."""

    pid: int | None
    program: str
    name: str


class Place(NamedTuple):
    """A thread or task: its node, its name, its number in the operating system."""

    node: Node
    title: str
    tid: int | None


@dataclass(slots=True, eq=False)
class Span:
    """A span in progress. Times are nanoseconds since 1970."""

    name: str
    place: Place
    number: int
    start: int
    end: int = 0
    kind: str = "internal"
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    error: str | None = None
    label: _Label | None = None
    """The label from an event. Without one, the span has its caller's label."""
    caller: Span | None = None
    trace: int = 0
    parent: Link | None = None


class _Label(NamedTuple):
    term: bytes
    text: str
    trace: int
    parent: Link | None


@dataclass(slots=True, eq=False)
class _Process:
    place: Place
    stack: list[Span] = field(default_factory=list)
    label: _Label | None = None
    """The label of the last message that it received."""
    arrived: Span | None = None
    """The span of that receipt."""
    held: list[tuple[int, Span]] = field(default_factory=list)
    """Ended spans inside calls whose label may still change, each with the depth of its caller."""
    count: int = 0


def _number(size: int, *parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()) or 1


class Spans:
    """Takes steps, and returns spans that can't change any more.

    Args:
        shift: added to each time, to convert monotonic time to wall time.
        label: the only label whose spans are returned; None: all spans.
    """

    def __init__(self, shift: int = 0, label: bytes | None = None) -> None:
        self._shift = shift
        self._only = label
        self._nodes: dict[int, Node] = {}
        self._processes: dict[int, _Process] = {}
        self._labels: dict[int, _Label] = {}
        self._sent: OrderedDict[tuple[Any, ...], Span] = OrderedDict()
        self._last = 0
        self._done: list[Span] = []
        self.open = 0
        """The number of calls that had not ended."""

    @property
    def labels(self) -> list[str]:
        """All labels in the trace."""
        return [label.text for label in self._labels.values()]

    def take(self, step: dict[str, Any]) -> list[Span]:
        """Takes a step, and returns the spans that it completes."""
        if "t" in step:
            step["t"] += self._shift
            self._last = max(self._last, step["t"])
        getattr(self, f"_{step['k']}")(step)
        done, self._done = self._done, []
        return done

    def end(self) -> Iterator[Span]:
        """Ends open calls at the time of the last step, and returns their spans."""
        for process in self._processes.values():
            while process.stack:
                process.stack[-1].attributes["inviso.end"] = "open"
                self.open += 1
                self._closed(process, self._last)
        done, self._done = self._done, []
        yield from done

    # steps

    def _begin(self, step: dict[str, Any]) -> None:
        pass

    def _node(self, step: dict[str, Any]) -> None:
        program = step["program"].removesuffix(f" {step['node']}")
        self._nodes[step["n"]] = Node(step["pid"] if step["known"] else None, program, step["node"])

    def _process(self, step: dict[str, Any]) -> None:
        self._processes[step["p"]] = _Process(Place(self._nodes[step["n"]], step["title"], step.get("tid")))

    def _label(self, step: dict[str, Any]) -> None:
        term = bytes.fromhex(step["term"])
        parent = span_of(etf.loads(b"\x83" + term))
        trace = parent.trace if parent else _number(16, term)
        self._labels[step["l"]] = _Label(term, step["text"], trace, parent)

    def _open(self, step: dict[str, Any]) -> None:
        process = self._processes[step["p"]]
        span = self._new(process, f"{step['m']}.{step['f']}", step["t"])
        span.attributes["code.function.name"] = f"{step['m']}.{step['f']}"
        span.attributes["inviso.arity"] = step["a"]
        if "args" in step:
            span.attributes["inviso.args"] = step["args"]
        if process.label is not None and _label(span.caller) is not process.label:
            span.label = process.label
            span.parent = None if process.arrived is None else Link(span.label.trace, process.arrived.number)
        process.stack.append(span)

    def _point(self, step: dict[str, Any]) -> None:
        self._open(step)
        self._closed(self._processes[step["p"]], step["t"])

    def _close(self, step: dict[str, Any]) -> None:
        process = self._processes[step["p"]]
        if not process.stack:
            return
        span, how = process.stack[-1], step["how"]
        if how == "return" and "value" in step:
            span.attributes["inviso.result"] = step["value"]
        elif how == "exception":
            kind, message = _exception(step)
            span.error = f"{kind}: {message}" if message else kind
            span.attributes["error.type"] = kind
            span.events.append(("exception", step["t"], {"exception.type": kind, "exception.message": message}))
        elif how != "return":
            span.attributes["inviso.end"] = {"unseen": "not seen", "exit": "exit"}[how]
            if how == "exit" and "value" in step:
                span.attributes["inviso.reason"] = step["value"]
        self._closed(process, step["t"])

    def _exit(self, step: dict[str, Any]) -> None:
        process = self._processes[step["p"]]
        process.label = process.arrived = None

    def _seq(self, step: dict[str, Any]) -> None:
        process, label, at = self._processes[step["p"]], self._labels[step["l"]], step["t"]
        word, serial = step["w"], step.get("s")
        about = {"inviso.label": label.text, "inviso.serial": serial, "inviso.message": step.get("value")}
        about |= {"inviso.from": step.get("from"), "inviso.to": step.get("to") if word != "print" else None}
        attributes = {name: value for name, value in about.items() if value is not None}
        key = (label.term, *(serial or ()), step.get("key"))
        if word == "receive":
            sender = self._sent.pop(key, None)
            if process.stack and _label(process.stack[-1]) is label:
                span = process.stack[-1]
                span.events.append(("receive", at, attributes))
            else:
                span = self._instant(process, "receive", label, at, "consumer", attributes, sender)
                process.label, process.arrived = label, span
            if sender is not None:
                span.links.append(Link(label.trace, sender.number))
            return
        if not any(_label(span) is label for span in process.stack):
            self._adopt(process, label)
        if process.label is not label:
            process.label = process.arrived = None
        if process.stack and _label(process.stack[-1]) is label:
            span = process.stack[-1]
            span.events.append((word, at, attributes))
        else:
            kind = "producer" if word == "send" else "internal"
            span = self._instant(process, word, label, at, kind, attributes, process.arrived)
        if word == "send":
            self._sent[key] = span
            if len(self._sent) > _UNDER_WAY:
                self._sent.popitem(last=False)

    def _lost(self, step: dict[str, Any]) -> None:
        attributes = {"inviso.what": step["what"]} | ({"inviso.count": step["count"]} if "count" in step else {})
        spans = [process.stack[-1] for process in self._processes.values() if process.stack]
        for span in spans:
            span.events.append(("lost", step["t"], dict(attributes)))
        if not spans:
            place = next(iter(self._processes.values()), _Process(Place(Node(None, "", ""), "", None))).place
            span = Span("lost", place, _number(8, "lost", step["t"], step["what"]), step["t"], step["t"])
            span.events.append(("lost", step["t"], attributes))
            self._give(span)

    # spans

    def _new(self, process: _Process, name: str, at: int) -> Span:
        process.count += 1
        number = _number(8, process.place, process.count, at)
        caller = process.stack[-1] if process.stack else None
        return Span(name, process.place, number, at, caller=caller)

    def _instant(
        self, process: _Process, name: str, label: _Label, at: int, kind: str, about: dict[str, Any], cause: Span | None
    ) -> Span:
        """A span without a duration, for an event outside of the label's calls."""
        span = self._new(process, name, at)
        span.end, span.kind, span.label, span.attributes = at, kind, label, about
        span.caller = None
        span.parent = label.parent if cause is None else Link(label.trace, cause.number)
        self._give(span)
        return span

    def _adopt(self, process: _Process, label: _Label) -> None:
        """Gives this label to the innermost open calls that have no label from an event yet."""
        for span in reversed(process.stack):
            if span.label is not None:
                break
            span.label = label

    def _closed(self, process: _Process, at: int) -> None:
        span = process.stack.pop()
        span.end = max(at, span.start)
        depth = len(process.stack)
        if span.label is None and span.caller is not None and span.caller.label is None and len(process.held) < _HELD:
            process.held.append((depth, span))
            return
        # its callees belong to the same label
        first = next((at for at, (of, _) in enumerate(process.held) if of > depth), len(process.held))
        inner, process.held = process.held[first:], process.held[:first]
        self._give(span)
        for _, each in inner:
            self._give(each)

    def _give(self, span: Span) -> None:
        label = _label(span)
        if label is None:
            span.trace = _number(16, "trace", _root(span).number)
            span.parent = None if span.caller is None else Link(span.trace, span.caller.number)
        else:
            span.trace = label.trace
            caller = span.caller
            while caller is not None and _label(caller) is not label:
                caller = caller.caller
            if caller is not None:
                span.parent = Link(label.trace, caller.number)
            elif span.parent is None:
                span.parent = label.parent
            span.attributes.setdefault("inviso.label", label.text)
        if self._only is None or (label is not None and label.term == self._only):
            self._done.append(span)


def _label(span: Span | None) -> _Label | None:
    while span is not None:
        if span.label is not None:
            return span.label
        span = span.caller
    return None


def _root(span: Span) -> Span:
    while span.caller is not None:
        span = span.caller
    return span


def _exception(step: dict[str, Any]) -> tuple[str, str]:
    """The type and the message of an exception."""
    match etf.loads(b"\x83" + bytes.fromhex(step["term"])):
        case (str(), (str(kind), (message,))) if isinstance(message, str):
            return str(kind), message
        case (str(), (str(kind), ())):
            return str(kind), ""
        case (str(), (str(kind), arguments)):
            return str(kind), repr(arguments)
        case (str(kind), reason):
            return str(kind), repr(reason)
    return "exception", step.get("value", "")
