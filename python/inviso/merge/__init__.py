"""Merges the logs of many nodes into one. Each record has the names that its process had at that time (Inviso's
``inviso_lfm``).

>>> import os, tempfile
>>> from inviso import etf, merge
>>> folder = tempfile.mkdtemp()
>>> trace_ts, call = inviso.Atom("trace_ts"), inviso.Atom("call")
>>> for node, times in ("shop@h", (1, 4)), ("web@h", (2, 3)):
...     with open(os.path.join(folder, f"{node}.log"), "wb") as file:
...         for time in times:
...             data = etf.dumps((trace_ts, inviso.self(), call, ("m", "f", [time]), (0, time, 0)))
...             _ = file.write(bytes(1) + len(data).to_bytes(4) + data)
>>> done = merge.logs(folder, os.path.join(folder, "all.txt"))
>>> done.records, [node for node, name, message in merge.read(folder)]
(4, ['shop@h', 'web@h', 'web@h', 'shop@h'])
>>> print(open(os.path.join(folder, "all.txt")).readline(), end="")  # doctest: +ELLIPSIS
shop@h (<0...>) call m:f(1) at 1970-01-01 ...

:func:`logs` and :func:`read` are for general use; :func:`merge` has Inviso's forms, answers and handlers. Records of a
log keep their order. A record without a timestamp comes directly after the record before it in its log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from inviso._native.log import LogMerge
from inviso.errors import BadArg, shown
from inviso.logs._read import Damage, _damage, apart
from inviso.terms import Atom

from . import _clocks, _files, _order
from ._files import BadSpec, FileSet, handle_logfile_sort_wrapset
from ._text import (
    format_argument_string,
    format_arguments,
    outfile_closer,
    outfile_opener,
    outfile_writer,
    posix,
)

__all__ = [
    "Count",
    "Entry",
    "Merged",
    "Moved",
    "Node",
    "format_argument_string",
    "format_arguments",
    "handle_logfile_sort_wrapset",
    "logs",
    "merge",
    "outfile_closer",
    "outfile_opener",
    "outfile_writer",
    "read",
]

OK, ERROR = Atom("ok"), Atom("error")
FORMS = ("text", "inviso", "erlang", "blocks")
ORDERS = ("follow", "inviso")
Form: TypeAlias = Literal["text", "inviso", "erlang", "blocks"]
Order: TypeAlias = Literal["follow", "inviso"]


@dataclass(slots=True)
class Node:
    """The counts of one node's log.

    Attributes:
        records: messages and drop records.
        lost: lost messages, from drop records.
        damaged: places that could not be read.

    >>> Node(records=3, lost=2)
    Node(records=3, lost=2, damaged=0)
    """

    records: int = 0
    lost: int = 0
    damaged: int = 0


@dataclass(slots=True)
class Moved:
    """The receipts of a node that were moved after their sendings, for causal order.

    Attributes:
        receipts: their number.
        most: the largest move, in nanoseconds.
        first: the first thousand: timestamp by the shifted clock, and move, in nanoseconds.

    >>> Moved(2, 5_000_000, [(0, 5_000_000), (7_000_000, 1_000_000)]).text()
    '2 receipts moved to after their sendings, 5.0 ms at most'
    """

    receipts: int = 0
    most: int = 0
    first: list[tuple[int, int]] = field(default_factory=list)

    def text(self) -> str:
        """Their number and the largest move, in words."""
        what = (
            "1 receipt moved to after its sending"
            if self.receipts == 1
            else f"{self.receipts} receipts moved to after their sendings"
        )
        return f"{what}, {self.most / 1e6:.1f} ms at most"


@dataclass(slots=True)
class Merged:
    """The counts of a merge.

    Attributes:
        records: messages and drop records of all logs.
        nodes: the counts of each node's log.
        damage: the first thousand places that could not be read, each with its node.
        absent: files that could not be opened, with the error; for a reader in Python its node, with the exception.
        clocks: nodes with a shifted clock, with the shift (``clocks[node].text()``).
        moved: nodes with receipts that were moved after their sendings, with the moves (``moved[node].text()``).
        unordered: receipts that are still before their sendings, as the order of the logs contradicts causal order.
        other_clock: timestamps that could not be compared with the others.
        ti_damaged: entries of trace information files that could not be read.
        ti: entries of the trace information file that was written.

    >>> Merged(records=3).damaged
    0
    """

    records: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    damage: list[tuple[str, Damage]] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, _clocks.Clock] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)
    unordered: int = 0
    other_clock: int = 0
    ti_damaged: int = 0
    ti: int = 0

    @property
    def lost(self) -> int:
        """Lost messages, from drop records."""
        return sum(node.lost for node in self.nodes.values())

    @property
    def damaged(self) -> int:
        """The number of places that could not be read."""
        return sum(node.damaged for node in self.nodes.values())


class Count(int):
    """The number of merged entries. ``merged`` has all counts.

    >>> Count.of(Merged(records=3)), Count.of(Merged(records=3)).merged.damaged
    (3, 0)
    """

    merged: Merged

    @classmethod
    def of(cls, merged: Merged, count: int | None = None) -> Count:
        """The count of a merge."""
        made = cls(merged.records if count is None else count)
        made.merged = merged
        return made


class Entry(NamedTuple):
    """An entry of a merged log: its node, the names of its process at that time, and the message, drop record or
    damage.

    >>> Entry("shop@h", ["db"], ("drop", 3)).node
    'shop@h'
    """

    node: str
    names: list[Any]
    message: Any


def logs(
    sources: Any,
    out: Any,
    to: Form = "text",
    *,
    ti: Mapping[str, Any] | None = None,
    clock: str | None = None,
    order: Order = "follow",
) -> Merged:
    """Merges logs into a file.

    Args:
        sources: a mapping of nodes to logs, each as for :func:`inviso.log.read`; several files of one node are one
            log. Or a folder with ``NODE.log``, or the wrap set ``NODE.N.log``, and ``NODE.ti``.
        out: the file. Its old contents are lost.
        to: ``"text"``: a line for each record, with names in place of processes. ``"inviso"``: the lines of Inviso.
            ``"erlang"``: a log in the form of trace ports, in which processes of a node without a name get the node's
            name. ``"blocks"``: the same, compressed. Names go to a file beside the log that ends in ``.ti``, where
            ``inviso log print`` and another merge find them.
        ti: trace information files of nodes, if they don't have the name of the log.
        clock: ``"wall"``: by unchanged timestamps. ``"aligned"``: each host's wall clock is shifted by the agents'
            measurements in ``NODE.clock`` beside ``NODE.log``; records keep their own host's time. None: aligned if
            there are such files. ``"causal"``: the same, and the receipt of a message with a token never comes before
            its sending; the logs are read twice.
        order: ``"follow"``: a record without a timestamp comes directly after the one before it in its log.
            ``"inviso"``: as in Inviso, only ``trace_ts`` messages of five or six elements have timestamps. Other
            records come as soon as they are next in their log.

    Raises:
        BadArg: an argument has a wrong kind, or ``out`` is one of the logs.
        OSError: no file of a node can be opened; or one can't be read or written.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "shop.log")
    >>> with open(path, "wb") as file: _ = file.write(bytes([1, 0, 0, 0, 3]))
    >>> logs({"shop@h": path}, path + ".txt").nodes
    {'shop@h': Node(records=1, lost=3, damaged=0)}
    >>> print(open(path + ".txt").read(), end="")
    shop@h *** 3 messages were dropped
    """
    where = "logs/3"
    if to not in FORMS:
        raise BadArg(where, "to", f"{shown(to)} is not a form of a merged log; pass one of {', '.join(FORMS)}")
    sets = _checked(where, sources, ti, clock, order)
    target = _path(where, "out", out)
    apart(where, target, [(path, suffix) for each in sets for path, suffix in each.files])
    native, sets = _opened(sets, order, clock, is_named=to in ("text", "erlang", "blocks"))
    with_ti = f"{os.path.splitext(target)[0]}.ti"
    is_log = to in ("erlang", "blocks")
    if is_log and any(each.ti for each in sets):
        if with_ti == target:
            raise BadArg(where, "out", f"{shown(target)} is the name of a trace information file; pass another")
        for path in (path for each in sets for path in each.ti):
            apart(where, with_ti, [(path, None)])
    try:
        if is_log:
            native.write(target, to == "blocks")
        else:
            native.write_text(target, to)
        written = native.write_ti(with_ti) if is_log else 0
    finally:
        native.close()
    done = _told(native, sets)
    done.ti = written
    return done


def read(
    sources: Any, *, ti: Mapping[str, Any] | None = None, clock: str | None = None, order: Order = "follow"
) -> Iterator[Entry]:
    """The entries of logs in order, as objects, each with its node and the names of its process.

    Args:
        sources, ti, clock, order: as for :func:`logs`.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "shop.log")
    >>> with open(path, "wb") as file: _ = file.write(bytes([1, 0, 0, 0, 3]))
    >>> list(read({"shop@h": path}))
    [Entry(node='shop@h', names=[], message=('drop', 3))]
    """
    native, sets = _opened(_checked("read/1", sources, ti, clock, order), order, clock, is_named=False)

    def entries() -> Iterator[Entry]:
        try:
            for at, names, _, message in _order.standard(native):
                yield Entry(sets[at].node, names, message)
        finally:
            native.close()

    return entries()


def merge(
    files: Any,
    *arguments: Any,
    form: Literal["inviso", "text"] = "inviso",
    clock: str = "wall",
    order: Order = "follow",
) -> Any:
    """Merges logs as Inviso does: ``merge(files, out)``, ``merge(files, work, data)`` or ``merge(files, begin, work,
    end, data)``. One more argument, Inviso's ``Dbg``, is ignored.

    Args:
        files: a list of ``(node, logfiles)``, or ``("reader", reader, that)``. Log files are ``[("trace_log", [name]),
            ("ti_log", [name])]``, where several names are a wrap set in any order, or a list of these, the oldest
            first. A reader is an iterable of ``(names, timestamp or None, term)``; a function of the log files that
            returns one; or the module and function of such a function.
        out: a file, with a line for each entry.
        begin, work, end: ``begin(data)`` returns ``("ok", data)``; ``work(node, term, names, data)`` is called with
            each entry and returns ``("ok", data)``; both may return ``("error", reason)``. ``end(data)`` is called at
            the end. ``begin`` and ``end`` are ignored if they are not callable.
        form: the form of lines: ``"inviso"``, or ``"text"`` for readable ones. clock, order: as for :func:`logs`.
        Default: by unchanged timestamps. Entries of readers can't be merged in causal
            order.

    Returns:
        ``("ok", count)``, whose count (:class:`Count`) also has the places that could not be read; or
        ``("error", ("files", ("bad_reader_spec", spec)))``, ``("error", ("begin_handler", reason))``,
        ``("error", ("writing_output_file", reason))``.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace.log")
    >>> with open(path, "wb") as file: _ = file.write(bytes([1, 0, 0, 0, 3]) * 2)
    >>> merge([("shop@h", [("trace_log", [path])])], path + ".txt")
    ('ok', 2)
    >>> print(open(path + ".txt").read(), end="")
    shop@h [] {drop,3}
    shop@h [] {drop,3}
    >>> merge([("shop@h", [("trace_log", [path])])], lambda node, term, names, data: ("ok", data + [term]), [])
    ('ok', 2)
    """
    where = f"merge/{1 + len(arguments)}"
    if not isinstance(files, list):
        raise BadArg(where, "files", f"{shown(files)} is not a list; pass a list of (node, logfiles)")
    _check_clock(where, clock, order)
    if form not in ("inviso", "text"):
        raise BadArg(where, "form", f"{shown(form)} is not a form of lines; pass 'inviso' or 'text'")
    handlers = _handlers(where, arguments)
    try:
        sets = _files.of_specs(files)
    except BadSpec as bad:
        return ERROR, (Atom("files"), (Atom("bad_reader_spec"), bad.spec))
    if clock == "causal" and any(each.reader is not None for each in sets):
        raise BadArg(where, "clock", "'causal' is for logs, and a reader was given; pass 'aligned' or 'wall'")
    sets = _aligned(where, sets, clock)
    if isinstance(handlers, str):
        apart(where, handlers, [(path, None) for each in sets for path, _ in each.files if os.path.exists(path)])
        if not any(each.reader for each in sets):
            return _to_file(sets, handlers, form, order, clock)
        handlers = _Handlers(outfile_opener, outfile_writer, outfile_closer, handlers)
    return _handled(sets, handlers, order, clock)


@dataclass(frozen=True, slots=True)
class _Handlers:
    begin: Any
    work: Callable[..., Any]
    end: Any
    data: Any


def _handlers(where: str, arguments: tuple[Any, ...]) -> _Handlers | str:
    """The handlers, or the name of the output file."""
    match arguments:
        case (out,) | (out, _) if not callable(out):
            return _path(where, "out", out)
        case (work, data) | (work, data, _) if callable(work):
            return _Handlers(None, work, None, data)
        case (begin, work, end, data) | (begin, work, end, data, _) if callable(work):
            return _Handlers(begin, work, end, data)
    mend = "pass an output file; a work function and its data; or begin, work, end and data"
    raise BadArg(where, "work", f"{shown(arguments)} are not handlers; {mend}")


def _to_file(sets: list[FileSet], out: str, form: str, order: str, clock: str) -> Any:
    try:
        with open(out, "w"):
            pass
    except OSError as error:
        return ERROR, (Atom("begin_handler"), (Atom("open"), posix(error)))
    native, there = _opened(sets, order, clock, is_named=form == "text", may_lack=True)
    try:
        native.write_text(out, form)
    except OSError as error:
        return ERROR, (Atom("writing_output_file"), posix(error))
    finally:
        native.close()
    return OK, Count.of(_told(native, there, sets))


def _handled(sets: list[FileSet], handlers: _Handlers, order: str, clock: str) -> Any:
    data = handlers.data
    if callable(handlers.begin):
        match handlers.begin(data):
            case ("ok", data):
                pass
            case ("error", reason):
                return ERROR, (Atom("begin_handler"), reason)
            case other:
                return ERROR, (Atom("begin_handler"), other)
    count, failed, natives = 0, None, []
    merged = Merged()
    try:
        # if all sets are logs of this package, they are merged natively
        readers: list[Iterator[_order.Entry]] = []
        nodes: list[str] = []
        plain = all(each.reader is None for each in sets)
        groups = [sets] if plain else [[each] for each in sets]
        for group in groups:
            base = len(nodes)
            if plain or group[0].reader is None:
                native, there = _opened(group, order, clock, is_named=False, may_lack=True, merged=plain)
                natives.append((native, there, group))
                readers.append(_from(base, _order.standard(native)))
                nodes += [each.node for each in there]
            else:
                each = group[0]
                nodes.append(each.node)
                readers.append(_order.entries(base, each.reader, each.spec, _note(each, merged)))
        for at, names, _, term in _order.ordered(readers, order):
            if type(term) is Damage:
                continue
            count += 1
            match handlers.work(nodes[at], term, names, data):
                case ("ok", data):
                    pass
                case ("error", reason):
                    failed = (reason,)
                    break
                case other:
                    failed = (other,)
                    break
    finally:
        for native, _, _ in natives:
            native.close()
        if callable(handlers.end):
            handlers.end(data)
    if failed is not None:
        return ERROR, (Atom("writing_output_file"), failed[0])
    for native, there, group in natives:
        _told(native, there, group, merged)
    return OK, Count.of(merged, count)


def _from(base: int, entries: Iterator[_order.Entry]) -> Iterator[_order.Entry]:
    for at, names, stamp, term in entries:
        yield base + at, names, stamp, term


def _note(each: FileSet, merged: Merged) -> _order.Failed:
    def note(at: int, why: str) -> None:
        merged.absent.setdefault(each.node, why)
        merged.nodes.setdefault(each.node, Node()).damaged += 1

    return note


def _checked(where: str, sources: Any, ti: Any, clock: str | None, order: str) -> list[FileSet]:
    _check_clock(where, clock, order)
    if ti is not None and not isinstance(ti, Mapping):
        raise BadArg(where, "ti", f"{shown(ti)} is not a mapping; pass {{node: path}}")
    return _aligned(where, _files.given(where, sources, ti), clock)


def _aligned(where: str, sets: list[FileSet], clock: str | None) -> list[FileSet]:
    """Adds the offsets of clocks to file sets."""
    for each in sets if clock != "wall" else []:
        each.clock = _clocks.read(where, each.offsets) if each.offsets else None
    if clock == "aligned" and not any(each.clock for each in sets):
        why = "there is no NODE.clock beside a log, which agents of several hosts leave there; pass 'wall'"
        raise BadArg(where, "clock", why)
    towards = sorted({each.clock.to for each in sets if each.clock})
    if len(towards) > 1:
        why = f"the logs are aligned with several hosts: {', '.join(towards)}; fetch them from one, or pass 'wall'"
        raise BadArg(where, "clock", why)
    return sets


def _check_clock(where: str, clock: str | None, order: str) -> None:
    if clock not in (None, "wall", "aligned", "causal"):
        raise BadArg(where, "clock", f"{shown(clock)} is unknown; pass 'wall', 'aligned' or 'causal'")
    if order not in ORDERS:
        raise BadArg(where, "order", f"{shown(order)} is unknown; pass 'follow' or 'inviso'")
    if clock == "causal" and order == "inviso":
        raise BadArg(where, "order", "'inviso' has no causal order; pass 'follow', or clock='aligned'")


def _path(where: str, argument: str, given: Any) -> str:
    try:
        path = os.fsdecode(given)
    except TypeError:
        raise BadArg(where, argument, f"{shown(given)} is not a path; pass a str or a Path") from None
    if "\0" in path or not path:
        raise BadArg(where, argument, f"{shown(path)} is not a path; pass the name of a file")
    return path


def _opened(
    sets: list[FileSet], order: str, clock: str | None, *, is_named: bool, may_lack: bool = False, merged: bool = True
) -> tuple[LogMerge, list[FileSet]]:
    """A native merge of the file sets that can be opened, and these sets."""
    there, files = [], []
    for each in sets:
        found = each.opened()
        if found:
            there.append(each)
            files.append(found)
        elif not may_lack:
            path, why = next(iter(each.absent.items()))
            raise FileNotFoundError(2, why, path)
    return _order.opened(there, files, order, is_named, merged, clock == "causal"), there


def _told(
    native: LogMerge, there: list[FileSet], sets: list[FileSet] | None = None, into: Merged | None = None
) -> Merged:
    counts, damage, other_clock, ti, moved, unordered = native.told()
    merged = Merged() if into is None else into
    for each, (records, lost, damaged) in zip(there, counts, strict=True):
        node = merged.nodes.setdefault(each.node, Node())
        node.records += records
        node.lost += lost
        node.damaged += damaged
        merged.records += records
    merged.damage += [(there[at].node, _damage(*what)) for at, what in damage]
    for each in sets or there:
        merged.absent |= each.absent
        if each.clock:
            merged.clocks[each.node] = each.clock
    for at, receipts, most, first in moved:
        merged.moved[there[at].node] = Moved(receipts, most, first)
    merged.unordered += unordered
    merged.other_clock += other_clock
    merged.ti_damaged += sum(number for _, number in ti)
    return merged
