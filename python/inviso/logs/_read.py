"""Reading logs: messages, drop records, damage; and writing them as other logs."""

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
"""Messages that are made at a time."""

PAUSE = 0.02
"""Seconds until a log that is followed is looked at again."""

FORMS = ("erlang", "blocks")

Source = Any
Named = tuple[str, str | None]


_DROP = Atom("drop")


class Drop(tuple[str, int]):
    """A drop record: so many messages were lost at its place. It is the tuple ``("drop", n)``.

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
        """How many."""
        return self[1]


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a log that could not be read. What stands before it was read.

    Attributes:
        at: where, in bytes from the beginning of the file or stream (of the records as Erlang writes them).
        kind: ``"cut"`` (the last record), ``"op"`` (no record begins so; the end of that file), ``"long"``,
            ``"term"`` (a record that holds no term; the next one is read), ``"hole"`` (zeros where a record should be;
            what follows them is read), ``"block"`` (compressed and damaged; the next one is read), ``"overtaken"``
            (the writer of a wrap set has deleted files that were not read yet), ``"anew"`` (a file that is followed
            was emptied; it is read from its beginning).
        what: the same, in words.
        path: the file; None of a stream.

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
    """What reading raises at damage if it was asked to; ``damage`` says what it is.

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
    """Iterates over the messages of a log: tuples as a tracer gets them, :class:`Drop` and :class:`Damage` at their
    places.

    Leaving it as a context manager, or :meth:`close`, ends it; of a log that is followed nothing else does.
    """

    _made: ClassVar[tuple[Any, Any]] = (Drop, _damage)

    def __init__(self, native: _native.LogReader, follow: bool = False, damage: str = "tell") -> None:
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
        """Ends the iteration behind the messages that were read already; from any thread."""
        self._closed.set()
        self._native.close()

    @property
    def bytes(self) -> int:
        """Bytes of the records so far, as Erlang writes them."""
        return self._native.bytes

    @property
    def other_clock(self) -> int:
        """Of a merge: how many time stamps so far were of another clock than the first one, and counted as none."""
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
    """Reads a log, in Erlang's form or in blocks, whoever wrote it (dbg.md, ``trace_client/2``).

    Args:
        source: a path; ``(name, "wrap", suffix)``, with anything behind it, for a wrap set; or a list of these, read
            one after the other.
        follow: True goes on where the log ends now, as it is being written, and at its beginning if it is begun anew;
            of several logs in turn.
        damage: what to do where something can't be read: ``"tell"`` gives a :class:`Damage` there and goes on behind
            it, as far as that is possible; ``"raise"`` raises :class:`Damaged`.

    Raises:
        BadArg: an argument is of the wrong kind.
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
    """Reads several logs as one, in the order of their time stamps.

    The order within a log stays. What has no time stamp (also drop records and damage) comes right behind what it
    followed in its log. Time stamps of another clock than the first one that is seen count as none
    (:attr:`Reader.other_clock`). Monotonic times can be compared between logs of one machine only.

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
    """What :func:`convert` wrote.

    Attributes:
        records: messages and drop records.
        dropped: messages that the drop records tell of.
        damage: what could not be read, the first thousand of it.
        damaged: how much of that there was.
        other_clock: time stamps that a merge couldn't compare.
    """

    records: int
    dropped: int
    damage: tuple[Damage, ...]
    damaged: int
    other_clock: int


def convert(source: Source, out: Any, to: str = "erlang", *, merged: bool = False) -> Written:
    """Writes a log as another one, which only its owner may read.

    Args:
        source: as for :func:`read`; several logs one after the other.
        out: the file; what it held is lost.
        to: ``"erlang"``, as trace ports write it; or ``"blocks"``, compressed, for :func:`read` only.
        merged: True merges several logs as :func:`merge` does.

    Raises:
        BadArg: an argument is of the wrong kind, or ``out`` is one of the logs.
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
        raise BadArg("convert/3", "to", f"{shown(to)} is no form of a log; pass 'erlang' or 'blocks', or see inviso.export")
    logs = named("convert/3", "source", source)
    try:
        target = os.fsdecode(out)
    except TypeError:
        raise BadArg("convert/3", "out", f"{shown(out)} is no path; pass a str or a Path") from None
    if "\0" in target or not target:
        raise BadArg("convert/3", "out", f"{shown(target)} is no path; pass the name of a file")
    apart("convert/3", target, logs)
    records, dropped, damage, damaged, other = _native.log_write(logs, merged, target, to == "blocks")
    return Written(records, dropped, tuple(_damage(*one) for one in damage), damaged, other)


def named(where: str, argument: str, source: Source, follow: bool = False) -> list[Named]:
    """The logs of an argument: path and, of a wrap set, suffix; each is there, unless it is a set that is followed."""
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
            raise BadArg(where, argument, f"{shown(suffix)} is no suffix of a wrap set; pass (name, 'wrap', '.suffix')")
    try:
        path = os.fsdecode(path)
    except TypeError:
        mend = "pass a path, (name, 'wrap', suffix), or a list of these"
        raise BadArg(where, argument, f"{shown(one)} is no log; {mend}") from None
    if "\0" in path or not path:
        raise BadArg(where, argument, f"{shown(path)} is no path; pass the name of a file")
    return path, suffix


def files(logs: Iterable[Named]) -> list[str]:
    """The files of logs that there are."""
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
    """What is written must not take the place of a log that is read: nothing else would be left of it."""
    if os.path.exists(out) and any(os.path.samefile(out, path) for path in files(logs)):
        raise BadArg(where, "out", f"{shown(out)} is the log itself; pass another file")


def _opened(logs: list[Named], follow: bool, merged: bool) -> _native.LogReader:
    return _native.LogReader(logs, follow, merged, *Reader._made)


def _flag(where: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise BadArg(where, name, f"{shown(value)} is not a bool; pass True or False")
