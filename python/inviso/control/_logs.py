"""Fetches logs of nodes. The control copies files of its own host; files of other hosts come from their agents.

No byte goes through a traced process.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, Protocol

from inviso.terms import Atom

__all__ = [
    *("LocalSource", "RemoteSource", "Source", "copy", "copy_set", "fetched", "in_parallel", "left", "open_log"),
    *("paths_of", "posix", "shared_names"),
]

OK, ERROR = Atom("ok"), Atom("error")
CHUNK = 4 << 20
"""Bytes of a file that are copied at a time."""

PART, AHEAD = 1 << 20, 4
"""Bytes of a log of another host in one request, and the largest number of such requests in progress."""

PIECE = 32 << 20
"""Bytes of an unfinished copy that are compared at once."""


class Source(Protocol):
    """A log that is read from its beginning."""

    size: int
    """Its size in bytes, now or when it was opened."""

    def read(self) -> bytes:
        """The next bytes; nothing at the end. OSError if they can't be read."""

    def skip(self, copied: int, begin: int, most: int) -> int:
        """Skips the bytes that an earlier copy has already; called before anything is read.

        Args:
            copied: a descriptor of the file with the earlier copy.
            begin: the place in that file at which this log's copy begins.
            most: bytes that the copy may have, at most.

        Returns:
            The number of equal bytes, which are skipped.

        Raises:
            OSError: the log can't be read.
        """

    def close(self) -> None:
        """Ends the reading."""


class LocalSource:
    """A log of this host. OSError if it is not a plain file."""

    def __init__(self, path: str) -> None:
        self._descriptor = open_log(path)
        self.size = os.fstat(self._descriptor).st_size

    def read(self) -> bytes:
        """The next bytes."""
        return os.read(self._descriptor, CHUNK)

    def skip(self, copied: int, begin: int, most: int) -> int:
        """Skips nothing: to compare a local file takes as long as to copy it."""
        return 0

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


class RemoteSource:
    """A log of another host.

    ``ask`` makes a request: its name, then path, offset and length. The function that it returns waits for the answer
    of that host's agent.

    Raises:
        OSError: the log can't be read.
    """

    def __init__(self, ask: Callable[..., Callable[[], Any]], path: str) -> None:
        self._ask = ask
        self._path = path
        self._asked: deque[tuple[int, Callable[[], Any]]] = deque()
        """Requested parts: the offset, and a function that waits for the answer."""
        self._next = PART
        first, self.size = self._checked(ask("chunk", path, 0, PART)())
        """Its size when it was opened. Later bytes are not read."""
        self._asked.append((0, lambda: ("ok", (first, zlib.crc32(first), self.size))))

    def read(self) -> bytes:
        """The next bytes."""
        while len(self._asked) < AHEAD and self._next < self.size:
            self._asked.append((self._next, self._ask("chunk", self._path, self._next, PART)))
            self._next += PART
        if not self._asked:
            return b""
        offset, answer = self._asked.popleft()
        data, _ = self._checked(answer())
        if len(data) != min(PART, self.size - offset):
            raise OSError(errno.EBADMSG, "it has become shorter", self._path)
        return data

    def skip(self, copied: int, begin: int, most: int) -> int:
        """Skips what was copied before, as far as the checksums agree."""
        same = 0
        for offset in range(0, min(most, self.size), PIECE):
            length = min(PIECE, most - offset, self.size - offset)
            match self._ask("checksum", self._path, offset, length)():
                case ("ok", (_, int(checksum), _)) if checksum == _checksum(copied, begin + offset, length):
                    same = offset + length
                case _:
                    break
        if same:
            self._asked.clear()
            self._next = same
        return same

    def close(self) -> None:
        """RemoteSource is nothing to close."""
        self._asked.clear()

    def _checked(self, answer: Any) -> tuple[bytes, int]:
        match answer:
            case ("ok", (bytes(data), int(checksum), int(size))) if (
                len(data) <= PART and zlib.crc32(data) == checksum and size >= 0
            ):
                return data, size
            case ("ok", _):
                raise OSError(errno.EBADMSG, "its checksum is wrong", self._path)
            case ("error", reason):
                raise OSError(errno.EREMOTEIO, f"the agent of its host answered {reason}", self._path)
        raise OSError(errno.EREMOTEIO, "the agent of its host sent an invalid answer", self._path)


def _checksum(descriptor: int, begin: int, length: int) -> int:
    checksum = 0
    for at in range(begin, begin + length, CHUNK):
        checksum = zlib.crc32(os.pread(descriptor, min(CHUNK, begin + length - at), at), checksum)
    return checksum


def in_parallel(jobs: list[Callable[[], Any]]) -> list[Any]:
    """Runs jobs at the same time, in at most eight threads. Returns their results in order.

    >>> in_parallel([lambda: 1, lambda: 2])
    [1, 2]
    """
    with ThreadPoolExecutor(max(1, min(8, len(jobs)))) as pool:
        return [each.result() for each in [pool.submit(job) for job in jobs]]


def paths_of(answer: Any) -> dict[str, list[str]] | None:
    """The paths in an answer to ``log_paths``, by the kind of the logs.

    None if the answer has another form. It may come from another host, so it is checked.

    >>> paths_of([("trace_log", ["/a/b.log"]), ("ti_log", [])]), paths_of("no_log"), paths_of([("trace_log", [7])])
    ({'trace_log': ['/a/b.log'], 'ti_log': []}, {}, None)
    """
    if answer == "no_log":
        return {}
    found: dict[str, list[str]] = {}
    for part in answer if isinstance(answer, list) else [None]:
        match part:
            case (str(kind), list(paths)) if all(isinstance(path, str) and os.path.basename(path) for path in paths):
                found[kind] = paths
            case _:
                return None
    return found


def fetched(found: list[Any], folder: str, prefix: str, opened: Callable[[str], Source] = LocalSource) -> Any:
    """Copies the logs of one node, and returns its answer.

    ``found`` has the paths by the kind of the logs; ``opened`` opens one.
    """
    results: dict[str, list[Any]] = {"trace_log": [], "ti_log": []}
    is_complete = True
    paths_by_kind = paths_of(found)
    if paths_by_kind is None:
        return ERROR, Atom("bad_answer")
    for kind in ("ti_log", "trace_log"):
        for path in paths_by_kind.get(kind, []):
            if is_complete:
                result = copy(path, folder, prefix, opened)
                results[kind].append(result)
                is_complete = result[0] == OK
    parts = [(Atom(kind), results[kind]) for kind in ("trace_log", "ti_log")]
    return Atom("complete" if is_complete else "incomplete"), parts


def shared_names(answers: list[Any]) -> set[str]:
    """The nodes that share a log's base name with another node. ``answers``: pairs of a node and its answer to
    ``log_paths``.

    >>> found = [(node, ("ok", [("trace_log", [f"/{node}/a.log"])])) for node in ("a@h", "b@h")]
    >>> sorted(shared_names([*found, ("c@h", ("ok", "no_log"))]))
    ['a@h', 'b@h']
    """
    named: dict[str, set[str]] = {}
    for node, answer in answers:
        for paths in (paths_of(answer[1]) or {}).values() if answer[0] == OK else []:
            for path in paths:
                named.setdefault(os.path.basename(path), set()).add(node)
    return {node for nodes in named.values() if len(nodes) > 1 for node in nodes}


def copy(path: str, folder: str, prefix: str, opened: Callable[[str], Source] = LocalSource) -> Any:
    """Copies a file; the copy's name is the prefix and the base name. A file of that name is replaced when the copy is
    whole.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(folder + "/a.log", "wb") as file: _ = file.write(b"records")
    >>> copy(folder + "/a.log", folder, "copy-of-")
    ('ok', 'copy-of-a.log')
    """
    name = prefix + os.path.basename(path)
    target = os.path.join(folder, name)
    try:
        source = opened(path)
    except OSError:
        return ERROR, (Atom("remote_open"), path)
    try:
        part = _part(target)
    except OSError as error:
        source.close()
        return ERROR, (Atom("file_open"), (posix(error), name))
    try:
        _pump([source], part)
        os.replace(target + ".part", target)
    except OSError as error:
        _failed(target, opened)
        return ERROR, (Atom("file_write"), (posix(error), name))
    finally:
        os.close(part)
    return OK, name


def copy_set(
    paths: list[str], target: str, opened: Callable[[str], Source] = LocalSource, heard: Callable[[int], object] = int
) -> str:
    """Copies the files of a wrap set into one log, oldest first, and returns its path.

    ``heard`` is called with the number of bytes of each part.

    Raises:
        OSError: a file can't be read, or the log can't be written.
    """
    part = _part(target)
    try:
        _pump((opened(path) for path in in_order(paths)), part, heard)
        os.replace(target + ".part", target)
    except BaseException:
        _failed(target, opened)
        raise
    finally:
        os.close(part)
    return target


def _part(target: str) -> int:
    """Opens the file that becomes ``target`` when it is whole. It may have bytes of an earlier copy that failed."""
    return os.open(target + ".part", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _failed(target: str, opened: Callable[[str], Source]) -> None:
    """Deletes an unfinished copy of a local file. One from another host stays: the next copy continues it."""
    if opened is LocalSource:
        with suppress(OSError):
            os.unlink(target + ".part")


def left(folder: str, node: str) -> list[str]:
    """The files of the wrap set of a node that has ended, oldest first. OSError if the folder can't be read.

    >>> left("/", "shop-1@h")
    []
    """
    names = [name for name in os.listdir(folder) if name.startswith(f"{node}.") and name.endswith(".log")]
    return in_order([os.path.join(folder, name) for name in names if name[len(node) + 1 : -len(".log")].isdigit()])


def open_log(path: str) -> int:
    """Opens a log for reading. The path comes from another process, so anything but a plain file (a link, too) is an
    OSError.
    """
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(source).st_mode):
        return source
    os.close(source)
    raise OSError(errno.EINVAL, "it is not a plain file", path)


def in_order(paths: list[str]) -> list[str]:
    """The files of a wrap set, oldest first. The file after the gap in the numbers is the oldest.

    >>> in_order(["a.2.log", "a.0.log", "a.3.log"])
    ['a.2.log', 'a.3.log', 'a.0.log']
    """
    if len(paths) < 2:
        return paths
    names = [os.path.basename(path) for path in paths]
    before = len(os.path.commonprefix(names))
    while before and names[0][before - 1].isdigit():
        before -= 1
    by_number = sorted(paths, key=lambda path: int("0" + _digits(os.path.basename(path)[before:])))
    numbers = [int("0" + _digits(os.path.basename(path)[before:])) for path in by_number]
    gap = next((at for at, number in enumerate(numbers) if number != at), 0)
    return by_number[gap:] + by_number[:gap]


def _digits(text: str) -> str:
    return text[: len(text) - len(text.lstrip("0123456789"))]


def _pump(sources: Iterable[Source], target: int, heard: Callable[[int], object] = int) -> None:
    """Copies logs one after the other. Bytes of an earlier copy stay as far as they are equal."""
    there, written = os.fstat(target).st_size, 0
    for source in sources:
        with closing(source):
            same = source.skip(target, written, there - written) if there > written else 0
            written += same
            if same < source.size:
                there = 0
            os.lseek(target, written, os.SEEK_SET)
            while data := source.read():
                view = memoryview(data)
                while view:
                    view = view[os.write(target, view) :]
                written += len(data)
                heard(len(data))
    os.ftruncate(target, written)


def posix(error: OSError) -> Atom:
    """Erlang's name of an error of the operating system.

    >>> posix(FileNotFoundError(2, "no such file"))
    'enoent'
    """
    name: Atom = Atom(errno.errorcode.get(error.errno or 0, "unknown").lower())
    return name
