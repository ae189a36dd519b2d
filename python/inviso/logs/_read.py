"""Reads logs: messages, drop records, damage; and writes them as other logs."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from inviso import _native
from inviso.errors import BadArg, shown
from inviso.terms import Atom

BATCH = 1024
"""Messages that are read at a time."""

PAUSE = 0.02
"""Seconds between two looks at a log that is followed."""

FORMS = ("erlang", "blocks")

Source = Any
Named = tuple[str, str | None]


_DROP = Atom("drop")


class Drop(tuple[str, int]):
    """A drop record: ``n`` messages were lost at its place. It is the tuple ``("drop", n)``.

    >>> Drop(3) == ("drop", 3), Drop(3).n
    (True, 3)
    """

    __slots__ = ()

    def __new__(cls, n: int) -> Drop:
        return super().__new__(cls, (_DROP, n))

    def __getnewargs__(self) -> Any:
        return (self[1],)

    @property
    def n(self) -> int:
        """The number of lost messages."""
        return self[1]


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a log that could not be read. The records before it were read.

    Attributes:
        at: the place, in bytes from the beginning of the file or stream (of the records as Erlang writes them).
        kind: one of:

            ``"cut"``
                The last record is cut off.
            ``"op"``
                No record begins with this byte; the rest of the file is not read.
            ``"long"``
                A record is too long.
            ``"term"``
                A record has no valid term; the next record is read.
            ``"hole"``
                Zeros stand in place of records; the records after them are read.
            ``"block"``
                A compressed block is damaged; the next block is read.
            ``"overtaken"``
                The writer of a wrap set has deleted files that were not read yet.
            ``"anew"``
                A file that is followed was emptied; it is read from its beginning.
        what: the same as text.
        path: the file; None for a stream.

    >>> print(Damage(12, "cut", "the last record is cut off after 3 bytes", "t.log"))
    t.log, at byte 12: the last record is cut off after 3 bytes
    """

    at: int
    kind: str
    what: str
    path: str | None = None

    def __str__(self) -> str:
        return f"{'' if self.path is None else f'{self.path}, '}at byte {self.at}: {self.what}"


class Damaged(Exception):
    """Raised at damage, if a log is read with ``damage="raise"``. The attribute ``damage`` is the :class:`Damage`.

    >>> Damaged(Damage(0, "op", "no record begins with 7")).damage.kind
    'op'
    """

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage

    def __reduce__(self) -> Any:
        return Damaged, (self.damage,)


def _damage(at: int, kind: str, what: str, path: Any) -> Damage:
    return Damage(at, kind, what, None if path is None else os.fspath(path))


class Reader:
    """Iterates over the messages of a log: tuples as a tracer gets them, with :class:`Drop` and :class:`Damage` at
    their places.

    :meth:`close`, or the end of its ``with`` block, ends the iteration. For a log that is followed nothing else does.
    """

    _made: ClassVar[tuple[Any, Any]] = (Drop, _damage)

    def __init__(self, native: _native.log.LogReader, follow: bool = False, damage: str = "tell") -> None:
        self._native = native
        self._follow = follow
        self._closed = threading.Event()
        batches = self._batches()
        messages = itertools.chain.from_iterable(batches)
        self._messages = messages if damage == "tell" else _raising(messages)

    def __iter__(self) -> Iterator[Any]:
        return self._messages

    def __next__(self) -> Any:
        return next(self._messages)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration after the messages that were read already. Any thread may call it."""
        self._closed.set()
        self._native.close()

    @property
    def bytes(self) -> int:
        """Bytes of the records so far, as Erlang writes them."""
        return self._native.bytes

    @property
    def other_clock(self) -> int:
        """For a merge: the number of timestamps so far that were ignored because their clock is not the first one's."""
        return self._native.other_clock

    def _batches(self) -> Iterator[list[Any]]:
        while (batch := self._native.batch(BATCH)) is not None:
            if batch:
                yield batch
            elif self._follow:
                self._closed.wait(PAUSE)
            if self._closed.is_set():
                self._native.close()


def _raising(messages: Iterator[Any]) -> Iterator[Any]:
    for message in messages:
        if type(message) is Damage:
            raise Damaged(message)
        yield message


def read(source: Source, *, follow: bool = False, damage: Literal["tell", "raise"] = "tell") -> Reader:
    """Reads a log, in Erlang's form or in blocks, of any writer (dbg.md, ``trace_client/2``).

    Args:
        source: a path; ``(name, "wrap", suffix)`` for a wrap set, maybe with further elements, which are ignored; or a
            list of these, which are read one after the other.
        follow: True waits at the end of the log for further messages. A log that is emptied is read from its beginning.
            Of several logs, each is followed in turn.
        damage: ``"tell"`` yields a :class:`Damage` in place of a part that can't be read, and reads on after it, as far
            as that is possible; ``"raise"`` raises :class:`Damaged`.

    Returns:
        An iterator over the messages.

    Raises:
        BadArg: an argument has a wrong type or value.
        OSError: a file can't be opened or read.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> with open(path, "wb") as file: _ = file.write(bytes([0, 0, 0, 0, 3, 131, 97, 7, 1, 0, 0, 0, 9, 0, 0]))
    >>> for message in read(path): print(message)  # doctest: +ELLIPSIS
    7
    ('drop', 9)
    ...trace, at byte 13: the last record is cut off after 2 bytes
    """
    _flag("read/1", "follow", follow)
    if damage not in ("tell", "raise"):
        raise BadArg("read/1", "damage", f"{shown(damage)} is unknown; pass 'tell' or 'raise'")
    return Reader(_opened(named("read/1", "source", source, follow), follow, False), follow, damage)


def merge(source: Source, *, damage: Literal["tell", "raise"] = "tell") -> Reader:
    """Reads several logs as one, in the order of their timestamps.

    The order within a log stays. Messages without a timestamp, drop records and damage come directly after the message
    that they follow in their log. The first timestamp chooses the clock; those of other clocks are ignored
    (:attr:`Reader.other_clock`). Monotonic times can be compared only between logs of one machine.

    Args:
        source, damage: as for :func:`read`.

    >>> import os, tempfile
    >>> from inviso import etf
    >>> folder = tempfile.mkdtemp()
    >>> for name, times in ("a", (1, 4)), ("b", (2, 3)):
    ...     with open(os.path.join(folder, name), "wb") as file:
    ...         for data in (etf.dumps((inviso.Atom("trace_ts"), name, time)) for time in times):
    ...             _ = file.write(bytes(1) + len(data).to_bytes(4) + data)
    >>> [message[1:] for message in merge([os.path.join(folder, "a"), os.path.join(folder, "b")])]
    [('a', 1), ('b', 2), ('b', 3), ('a', 4)]
    """
    if damage not in ("tell", "raise"):
        raise BadArg("merge/1", "damage", f"{shown(damage)} is unknown; pass 'tell' or 'raise'")
    return Reader(_opened(named("merge/1", "source", source), False, True), False, damage)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of :func:`convert`.

    Attributes:
        records: the number of messages and drop records that were written.
        dropped: the number of lost messages that the drop records count.
        damage: the first thousand parts that could not be read.
        damaged: the number of all such parts.
        other_clock: the number of timestamps that a merge couldn't compare.
    """

    records: int
    dropped: int
    damage: tuple[Damage, ...]
    damaged: int
    other_clock: int


def convert(source: Source, out: Any, to: str = "erlang", *, merged: bool = False) -> Written:
    """Writes a log as another one. Only its owner can read the new file.

    Args:
        source: as for :func:`read`; several logs are written one after the other.
        out: the file; an existing one is replaced.
        to: ``"erlang"``, the form of trace ports; or ``"blocks"``, compressed, which only this package reads.
        merged: True merges several logs, as :func:`merge` does.

    Raises:
        BadArg: an argument has a wrong type or value, or ``out`` is one of the logs.
        OSError: a file can't be opened, read or written.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "trace")
    >>> with open(path, "wb") as file: _ = file.write(bytes([0, 0, 0, 0, 3, 131, 97, 7]) * 1000)
    >>> convert(path, path + ".blocks", "blocks").records
    1000
    >>> os.path.getsize(path), os.path.getsize(path + ".blocks") < 200, sum(read(path + ".blocks"))
    (8000, True, 7000)
    """
    _flag("convert/3", "merged", merged)
    if to not in FORMS:
        raise BadArg(
            "convert/3", "to", f"{shown(to)} is not a form of a log; pass 'erlang' or 'blocks', or see inviso.export"
        )
    logs = named("convert/3", "source", source)
    try:
        target = os.fsdecode(out)
    except TypeError:
        raise BadArg("convert/3", "out", f"{shown(out)} is not a path; pass a str or a Path") from None
    if "\0" in target or not target:
        raise BadArg("convert/3", "out", f"{shown(target)} is not a path; pass the name of a file")
    apart("convert/3", target, logs)
    records, dropped, damage, damaged, other = _native.log.write(logs, merged, target, to == "blocks")
    return Written(records, dropped, tuple(_damage(*one) for one in damage), damaged, other)


def named(where: str, argument: str, source: Source, follow: bool = False) -> list[Named]:
    """The logs of an argument: path, and suffix for a wrap set. Each one exists, except wrap sets that are followed."""
    logs = [_one(where, argument, one) for one in _several(source)]
    if not logs:
        raise BadArg(where, argument, "it names no log; pass a path, a wrap set, or a list of these")
    for path, suffix in logs:
        if suffix is None:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        elif not follow and not files([(path, suffix)]):
            raise FileNotFoundError(errno.ENOENT, "there is no file of this wrap set", f"{path}0{suffix}")
    return logs


def _several(source: Source) -> list[Any]:
    is_one = isinstance(source, (str, bytes, os.PathLike)) or (isinstance(source, tuple) and source[1:2] == ("wrap",))
    if is_one or not isinstance(source, Iterable):
        return [source]
    return list(source)


def _one(where: str, argument: str, one: Any) -> Named:
    suffix = None
    path = one
    if isinstance(one, tuple) and one[1:2] == ("wrap",):
        path, suffix = one[0], one[2] if len(one) > 2 else ""
        if not isinstance(suffix, str) or not suffix or "/" in suffix or "\0" in suffix:
            raise BadArg(
                where, argument, f"{shown(suffix)} is not a suffix of a wrap set; pass (name, 'wrap', '.suffix')"
            )
    try:
        path = os.fsdecode(path)
    except TypeError:
        mend = "pass a path, (name, 'wrap', suffix), or a list of these"
        raise BadArg(where, argument, f"{shown(one)} is not a log; {mend}") from None
    if "\0" in path or not path:
        raise BadArg(where, argument, f"{shown(path)} is not a path; pass the name of a file")
    return path, suffix


def files(logs: Iterable[Named]) -> list[str]:
    """The existing files of logs."""
    found = []
    for path, suffix in logs:
        if suffix is None:
            found.append(path)
            continue
        folder, name = os.path.split(path)
        for entry in os.listdir(folder or "."):
            number = entry[len(name) : len(entry) - len(suffix)]
            if entry == f"{name}{number}{suffix}" and number.isascii() and number.isdigit():
                found.append(os.path.join(folder, entry))
    return found


def apart(where: str, out: str, logs: Iterable[Named]) -> None:
    """Refuses to write over a log that is read: its messages would be lost."""
    if os.path.exists(out) and any(os.path.samefile(out, path) for path in files(logs)):
        raise BadArg(where, "out", f"{shown(out)} is the log itself; pass another file")


def _opened(logs: list[Named], follow: bool, merged: bool) -> _native.log.LogReader:
    return _native.log.LogReader(logs, follow, merged, *Reader._made)


def _flag(where: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise BadArg(where, name, f"{shown(value)} is not a bool; pass True or False")
