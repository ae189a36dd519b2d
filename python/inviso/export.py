"""What a trace shows, in the formats that other tools read.

==================== ==========================================================================================
:func:`perfetto`     https://ui.perfetto.dev: a track for each process, calls as slices, messages as arrows
:func:`chrome`       the JSON that ``chrome://tracing`` and many others read
:func:`speedscope`   https://speedscope.app: flame charts of each process
:func:`collapsed`    collapsed stacks, for flame graphs
:func:`pstats`       what ``pstats.Stats`` loads
:func:`arrow`        a table that pandas, polars, pyarrow and DuckDB read without a copy
:func:`parquet`      the same table as a file
==================== ==========================================================================================

A source is a log (a path), several (a list or another collection of paths), a wrap set ``(name, "wrap", suffix)``, a
:class:`inviso.Session` that is its own tracer (what is there now is exported), or any iterable of trace messages.
Exports are made as messages are read: what is kept does not grow with their number.

>>> import json, os, tempfile
>>> from inviso import export, trace
>>> with trace.session_create("export") as session:
...     _ = session.function(("json.decoder", "JSONDecoder.decode", "_"), [("_", [], [("return_trace",)])], ["local"])
...     _ = session.process(inviso.self(), True, ["call", "timestamp"])
...     _ = json.loads("[1]")
...     with tempfile.TemporaryDirectory() as folder:
...         out = os.path.join(folder, "trace.json")
...         summary = export.chrome(session, out)
...         with open(out) as file:
...             events = json.load(file)["traceEvents"]
>>> summary.messages, summary.dropped
(2, 0)
>>> [(event["ph"], event["name"]) for event in events if event["ph"] in "BE"]
[('B', 'json.decoder:JSONDecoder.decode/3'), ('E', 'json.decoder:JSONDecoder.decode/3')]
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from . import _native, trace_ports
from ._log_read import Reader, apart
from ._native import Pid
from .errors import BadArg, shown
from .terms import Atom, Port
from .trace import Session

if TYPE_CHECKING:
    from typing import TypeAlias

    Path: TypeAlias = str | bytes | os.PathLike[Any]
    WrapSet: TypeAlias = tuple[Path, Literal["wrap"], str]
    Source: TypeAlias = Path | WrapSet | Iterable[Path | WrapSet] | Session | Iterable[Any]
    Out: TypeAlias = Path | BinaryIO

__all__ = [
    "FORMATS",
    "Rows",
    "Summary",
    "arrow",
    "chrome",
    "collapsed",
    "parquet",
    "perfetto",
    "pstats",
    "speedscope",
]

_AT_A_TIME = 4096
_VALUES = 200


@dataclass(frozen=True, slots=True)
class Summary:
    """What was exported, and what was not.

    >>> summary = chrome([("trace", inviso.self(), "receive", "hello"), ("drop", 3)], io.BytesIO())
    >>> summary.messages, summary.dropped, summary.untimed
    (1, 3, 1)
    """

    messages: int
    """How many messages were read, drop records not among them."""
    dropped: int
    """How many were lost before they came here, as drop records tell."""
    untimed: int
    """How many have no time stamp, or one of another clock than the first one that was found."""
    unknown: int
    """How many terms are no trace messages; only tables have them."""
    damaged: int
    """At how many places a log could not be read."""
    damage: list[str]
    """What was found there: the first hundred."""


def perfetto(
    source: Source,
    out: Out,
    *,
    values: int = _VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
) -> Summary:
    """Writes a Perfetto trace (protobuf), for https://ui.perfetto.dev and its trace processor.

    Args:
        source: see :mod:`inviso.export`.
        out: a path, or a binary file. A file is there when it is whole; a symbolic link stays, and the file that it leads
            to is replaced. What is no regular file (a FIFO, a device) is written to as it is, piece by piece. What goes
            to a path is compressed if that ends with ``.gz``.
        values: bytes of text that an argument, message or result is shown in; 0 leaves them out.
        names: what processes are called beside their pids; unless given, the names that pids of this node have.
        pids: ``"erlang"`` for logs of an Erlang node, none of whose pids is a queue from which others take messages.

    Raises:
        BadArg: a wrong argument, or a log that is not there.
        OSError: what the system says about a file.

    >>> out = io.BytesIO()
    >>> perfetto([("trace", inviso.self(), "send", "ping", inviso.self())], out).messages
    1
    >>> b"ping" in out.getvalue()
    True
    """
    return _export("perfetto", source, out, values, names, pids)


def chrome(
    source: Source,
    out: Out,
    *,
    values: int = _VALUES,
    names: Mapping[Pid | Port, str] | None = None,
    pids: Literal["inviso", "erlang"] = "inviso",
) -> Summary:
    """Writes Chrome's trace event JSON. Arguments and errors are :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = chrome([("trace", inviso.self(), "exit", "normal")], out)
    >>> json.loads(out.getvalue())["traceEvents"][-1]["args"]
    {'reason': "'normal'"}
    """
    return _export("chrome", source, out, values, names, pids)


def speedscope(
    source: Source,
    out: Out,
    *,
    names: Mapping[Pid | Port, str] | None = None,
) -> Summary:
    """Writes a speedscope file: an evented profile for each process. Arguments and errors are :func:`perfetto`'s.

    Events wait in a temporary file, as large as they are, until the end.

    >>> out = io.BytesIO()
    >>> _ = speedscope([("trace", inviso.self(), "call", ("m", "f", []))], out)
    >>> json.loads(out.getvalue())["shared"]["frames"]
    [{'name': 'm:f/0'}]
    """
    return _export("speedscope", source, out, 0, names)


def collapsed(source: Source, out: Out) -> Summary:
    """Writes collapsed stacks, a line ``bottom;…;top value`` each, for flame graphs.

    The value is own time in nanoseconds, of all processes together; where no message has a time stamp it is the number
    of calls. Arguments and errors are :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = collapsed([("trace", inviso.self(), "call", ("m", "f", []))] * 3, out)
    >>> out.getvalue()
    b'm:f/0 3\\n'
    """
    return _export("collapsed", source, out, 0, {})


def pstats(source: Source, out: Out) -> Summary:
    """Writes statistics that ``pstats.Stats`` loads: calls, primitive calls, own and cumulative time, callers.

    A function's file is its module, its line is 0, and its name has its arity. Arguments and errors are
    :func:`perfetto`'s.

    >>> out = io.BytesIO()
    >>> _ = pstats([("trace", inviso.self(), "call", ("m", "f", []))] * 3, out)
    >>> import marshal
    >>> marshal.loads(out.getvalue())
    {('m', 0, 'f/0'): (3, 3, 0.0, 0.0, {})}
    """
    return _export("pstats", source, out, 0, {})


def parquet(
    source: Source,
    out: Out,
    *,
    values: Literal["text", "binary", "none"] = "text",
) -> Summary:
    """Writes the table of :func:`arrow` as a Parquet file, by pyarrow, or by polars, which has all of it in memory.

    Raises:
        ModuleNotFoundError: neither is installed.

    >>> out = io.BytesIO()
    >>> _ = parquet([("trace", inviso.self(), "exit", "normal")], out)  # doctest: +SKIP
    """
    where = "parquet/2"
    target = _target(where, out)
    if isinstance(target, str) and target.endswith(".gz"):
        raise BadArg(where, "out", f"{shown(out)}: a Parquet file is compressed in itself; drop .gz")
    write = _parquet_writer(where)
    if isinstance(target, str):
        apart(where, target, _logs(where, source) or [])
    rows = Rows._of(where, source, values)
    with _file(target) as file, rows._raising():
        write(rows, file)
    return rows.summary()


def arrow(
    source: Source,
    *,
    values: Literal["text", "binary", "none"] = "text",
) -> Rows:
    """The messages as a table, a row each, for anything that reads Arrow's PyCapsule interface.

    The columns are told in docs/exports.md. Logs and iterables are read when somebody reads the table; a session gives
    at once what it has.

    Args:
        source: see :mod:`inviso.export`.
        values: arguments, messages and results as text (as Python shows them), as bytes for :func:`inviso.etf.loads`,
            or not at all.

    Raises:
        BadArg: a wrong argument, or a log that is not there.

    >>> arrow([("trace", inviso.self(), "receive", "hello")])
    <rows of trace messages, not read yet>
    """
    return Rows._of("arrow/1", source, values, at_once=isinstance(source, Session))


class Rows:
    """A table of messages. One of logs can be read again and again, any other one once.

    >>> rows = arrow([])
    >>> rows.__arrow_c_stream__()
    <capsule object "arrow_array_stream" at 0x...>
    """

    __slots__ = ("_left", "_make", "_native")

    def __init__(self, make: Callable[[], _native.ArrowRows], again: bool) -> None:
        self._make = make
        self._native = make()
        # how often it can still be read; None: always
        self._left: int | None = None if again else 1

    @staticmethod
    def _of(where: str, source: Source, values: str, at_once: bool = False) -> Rows:
        if values not in ("text", "binary", "none"):
            raise BadArg(where, "values", f"{shown(values)} is unknown; pass 'text', 'binary' or 'none'")
        logs = _logs(where, source)
        if logs is not None:
            return Rows(lambda: _native.ArrowRows(values, logs), True)
        parts = _parts(where, source)
        if at_once:
            parts = iter(list(parts))
        messages = (lambda: next(parts, None), lambda error: _no_term(where, error))
        return Rows(lambda: _native.ArrowRows(values, [], messages), False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A stream of batches (Arrow's PyCapsule interface). Another schema than its own is not given.

        Raises:
            BadArg: the messages have been read, and came from something that gives them once.
        """
        if self._left == 0:
            why = "its messages have been read, and their source gives them once; keep the table, or export a log"
            raise BadArg("__arrow_c_stream__/1", "rows", why)
        if self._left is None:
            self._native = self._make()
        else:
            self._left -= 1
        return self._native.stream()

    def __arrow_c_schema__(self) -> Any:
        """The columns' names and types (Arrow's PyCapsule interface)."""
        return self._native.schema()

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        arrow = _import("to_arrow/1", "pyarrow")
        with self._raising():
            return arrow.RecordBatchReader.from_stream(self).read_all()

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; names, tags and pids are categories. Needs pyarrow as well.

        A column of numbers with nulls is float64 there, as pandas has it: ``ts`` of the wall clock is rounded then (see
        docs/exports.md).
        """
        _import("to_pandas/1", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        polars = _import("to_polars/1", "polars")
        with self._raising():
            return polars.DataFrame(self)

    @property
    def error(self) -> BaseException | None:
        """What reading raised the last time: the exception of a source, a :class:`BadArg` of a message that is no term,
        an OSError of a log; None if nothing did.

        Who reads Arrow hears of an error by its text only, and raises one of its own (pyarrow: OSError).

        >>> rows = arrow([object()])
        >>> rows.to_arrow()  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        inviso.errors.BadArg: arrow/1, source: a message that is no term: ...
        """
        return self._native.error()

    @contextlib.contextmanager
    def _raising(self) -> Iterator[None]:
        """Raises what reading raised, in place of what whoever read it made of that."""
        before = self.error
        try:
            yield
        except BaseException:
            error = self.error
            if error is None or error is before:
                raise
            raise error from None

    def summary(self) -> Summary:
        """What was read last, as far as it was."""
        return Summary(*self._native.summary())

    def __repr__(self) -> str:
        read = self.summary().messages
        return f"<rows of {read} trace messages>" if read else "<rows of trace messages, not read yet>"


FORMATS: dict[str, Callable[[Any, Any], Summary]] = {
    "perfetto": perfetto,
    "chrome": chrome,
    "speedscope": speedscope,
    "collapsed": collapsed,
    "pstats": pstats,
    "parquet": parquet,
}
"""The formats of files by name: each a function of a source and a path or file."""


def _export(
    format: str, source: Source, out: Out, values: int, names: Mapping[Pid | Port, str] | None, pids: str = "inviso"
) -> Summary:
    where = f"{format}/2"
    if not isinstance(values, int) or isinstance(values, bool) or not 0 <= values <= sys.maxsize:
        raise BadArg(where, "values", f"{shown(values)} is not a number of bytes; pass an int, 0 for none")
    erlang = _erlang(where, pids)
    if names is not None and not isinstance(names, Mapping):
        raise BadArg(where, "names", f"{shown(names)} is no names of processes; pass a dict of Pid to str")
    for pid, name in (names or {}).items():
        if not isinstance(pid, (Pid, Port)) or not isinstance(name, str):
            raise BadArg(where, "names", f"{shown(pid)}: {shown(name)} is not the name of a process; pass a dict of Pid to str")
    target = _target(where, out)
    logs = _logs(where, source)
    if isinstance(target, str):
        apart(where, target, logs or [])
    parts = _parts(where, source) if logs is None else iter(())
    # an Erlang node without a name writes its pids as this process has its own
    are_own = names is None and logs is not None
    with tempfile.TemporaryDirectory(prefix="inviso-") as folder, _file(target) as file:
        first = next(parts, [])
        titles = _names(first) if names is None else dict(names)
        parts = _chain(first, parts)
        exporter = _native.Exporter(format, titles, are_own, erlang, values, os.path.join(folder, "events"))
        for path, suffix in logs or []:
            exporter.open(path, suffix)
            while exporter.read():
                file.write(exporter.take())
        for messages in parts:
            _pushed(where, exporter, messages)
            file.write(exporter.take())
        while not exporter.end():
            file.write(exporter.take())
        file.write(exporter.take())
    return Summary(*exporter.summary())


def _pushed(where: str, exporter: _native.Exporter, messages: list[Any]) -> None:
    try:
        exporter.push(messages)
    except TypeError as error:
        raise _no_term(where, error) from None


def _no_term(where: str, error: TypeError) -> BadArg:
    return BadArg(where, "source", f"a message that is no term: {error}; pass messages as a tracer gets them")


def _chain(first: list[Any], rest: Iterator[list[Any]]) -> Iterator[list[Any]]:
    yield first
    yield from rest


def _erlang(where: str, pids: str) -> bool:
    if pids not in ("inviso", "erlang"):
        raise BadArg(where, "pids", f"{shown(pids)} is unknown; pass 'inviso' or 'erlang'")
    return pids == "erlang"


_NO_SOURCE = "pass a path, a wrap set (name, 'wrap', suffix), a list of these, a session, or an iterable of messages"


def _is_log(source: object) -> bool:
    if isinstance(source, bytes):
        return source[:1] != b"\x83"  # a message in the external term format begins so
    is_set = isinstance(source, tuple) and len(source) >= 3 and source[1] == "wrap"
    return is_set or (isinstance(source, (str, os.PathLike)) and not isinstance(source, Atom))


def _logs(where: str, source: Any) -> list[tuple[str, str | None]] | None:
    """Paths of logs, with the suffixes of wrap sets; None if the source is something else."""
    if _is_log(source):
        return [_log(where, source)]
    if isinstance(source, (bytes, bytearray, memoryview, Atom)) or hasattr(source, "read"):
        raise BadArg(where, "source", f"{shown(source)} is no log, and has no messages; {_NO_SOURCE}")
    # the first of several tells what they are; an iterator's is not there yet
    if not isinstance(source, Collection) or not _is_log(next(iter(source), None)):
        return None
    several = list(source)
    for one in several:
        if not _is_log(one):
            raise BadArg(where, "source", f"{shown(one)} among paths is no log; {_NO_SOURCE}")
    return [_log(where, one) for one in several]


def _log(where: str, source: Any) -> tuple[str, str | None]:
    if not isinstance(source, tuple):
        path = os.fsdecode(source)
        if not os.path.isfile(path):
            raise BadArg(where, "source", f"there is no file {shown(path)}; pass the path of a log")
        return path, None
    name, suffix = trace_ports.path_of(where, "source", source[0]), source[2]
    if not isinstance(suffix, str) or not suffix:
        raise BadArg(where, "source", f"{shown(suffix)} is no suffix of a wrap set; pass (name, 'wrap', '.wrp')")
    folder, base = os.path.split(name)
    with contextlib.suppress(OSError):
        for file in os.listdir(folder or "."):
            if file.startswith(base) and file.endswith(suffix) and file[len(base) : -len(suffix)].isdecimal():
                return name, suffix
    raise BadArg(
        where, "source", f"there is no file of the wrap set {name!r}, {suffix!r}; pass the name it was made with"
    )


def _parts(where: str, source: Any) -> Iterator[list[Any]]:
    """The messages of anything that is no log, some at a time."""
    if isinstance(source, Session):
        # not before the first is asked for: by then it is known that they can be written
        return (session.drain() for session in (source,))
    try:
        messages = iter(source)
    except TypeError:
        raise BadArg(where, "source", f"{shown(source)} has no messages; {_NO_SOURCE}") from None
    return _some(where, messages, isinstance(source, Reader))


def _some(where: str, messages: Iterator[Any], are_read: bool) -> Iterator[list[Any]]:
    some = list(islice(messages, _AT_A_TIME))
    # a log that is read may begin with any term
    if some and _is_log(some[0]) and not are_read:
        raise BadArg(where, "source", f"an iterator gave {shown(some[0])}, which is no message; pass a list of paths")
    while some:
        yield some
        some = list(islice(messages, _AT_A_TIME))


def _names(messages: list[Any]) -> dict[Pid | Port, str]:
    """The names of processes of this node, and of ports that messages are about."""
    ports = {
        message[1] for message in messages if isinstance(message, tuple) and len(message) > 1 and _is_own(message[1])
    }
    names: dict[Pid | Port, str] = {port: port.name for port in ports}
    return {**names, **dict(_native.process_names())}


def _is_own(who: object) -> bool:
    return isinstance(who, Port) and who.is_local()


def _target(where: str, out: Out) -> str | BinaryIO:
    """Where bytes go, checked before anything is read: a session's messages are read once."""
    if hasattr(out, "write"):
        if isinstance(out, io.TextIOBase):
            raise BadArg(where, "out", f"{shown(out)} takes text; open it with 'wb'")
        return cast("BinaryIO", out)
    if not isinstance(out, (str, bytes, os.PathLike)):
        raise BadArg(where, "out", f"{shown(out)} is neither a path nor a file; pass a path")
    path = trace_ports.path_of(where, "out", out)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise BadArg(where, "out", f"there is no folder {shown(folder)}; make it first")
    return path


@contextlib.contextmanager
def _file(path: str | BinaryIO) -> Iterator[BinaryIO]:
    """Where bytes go, compressed if its name says so."""
    if not isinstance(path, str):
        yield path
        return
    with _opened(path) as file:
        if path.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                yield cast("BinaryIO", packed)
        else:
            yield file


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A regular file is there when it is whole, or not at all; what is none is written to where it is."""
    real = os.path.realpath(path)
    try:
        os.stat(path)
    except FileNotFoundError:
        in_place = False
    else:
        # a link of /proc may lead to what has no path (a pipe, a file that was removed)
        in_place = not os.path.isfile(real)
    if in_place:
        with open(path, "wb") as there:
            yield there
        return
    try:
        handle, temporary = tempfile.mkstemp(prefix=".inviso-", dir=os.path.dirname(real))
    except OSError as error:
        error.filename = path
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _import(where: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{where} needs {error.name}; pip install {error.name}", name=error.name) from None


# batches of a row group: each has what it needs to be read by itself
_ROW_GROUP = 4


def _parquet_writer(where: str) -> Callable[[Rows, BinaryIO], None]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        pass
    else:

        def stream(rows: Rows, file: BinaryIO) -> None:
            with (
                arrow.RecordBatchReader.from_stream(rows) as reader,
                parquet.ParquetWriter(file, reader.schema, compression="zstd") as writer,
            ):
                while batches := list(itertools.islice(reader, _ROW_GROUP)):
                    writer.write_table(arrow.Table.from_batches(batches).unify_dictionaries())

        return stream
    try:
        polars = importlib.import_module("polars")
    except ModuleNotFoundError:
        why = f"{where} needs pyarrow or polars; pip install pyarrow"
        raise ModuleNotFoundError(why, name="pyarrow") from None
    return lambda rows, file: polars.DataFrame(rows).write_parquet(file)
