"""The sources of an export: logs, sessions, iterables; and the names of their processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

from inviso import _native, etf, log, trace_ports
from inviso._native.process import Pid
from inviso.errors import BadArg, shown
from inviso.logs._read import Reader
from inviso.terms import Atom, Port
from inviso.trace import Session

if TYPE_CHECKING:
    from typing import TypeAlias

    Path: TypeAlias = str | bytes | os.PathLike[Any]
    WrapSet: TypeAlias = tuple[Path, Literal["wrap"], str]
    Source: TypeAlias = Path | WrapSet | Mapping[str, Any] | Iterable[Path | WrapSet] | Session | Iterable[Any]
    Programs: TypeAlias = Mapping[str, tuple[int, str]]

__all__ = ["Merging", "chain", "logs", "merged", "names", "no_term", "parts", "registered"]

_AT_A_TIME = 4096
_LOOKED = 1000

_STREAMS = ("/dev/stdin", "/dev/fd/")
"""Logs that may be pipes, which can be read once."""

_NO_SOURCE = (
    "pass a path, a wrap set (name, 'wrap', suffix), a list of these, a mapping of nodes to logs, a session, or an "
    "iterable of messages"
)


@dataclass(slots=True)
class Merging:
    """Logs of several nodes that are merged."""

    native: _native.log.LogMerge
    logs: list[tuple[list[tuple[str, str | None]], list[str]]]
    """The files of each log, and its trace information files."""

    @property
    def files(self) -> list[tuple[str, str | None]]:
        """The files of all logs."""
        return [file for files, _ in self.logs for file in files]

    def close(self) -> None:
        """Closes the logs."""
        self.native.close()


def merged(where: str, source: Any, causal: bool = False) -> Merging | None:
    """Opens a mapping of nodes to logs, or a folder of logs, as :func:`inviso.merge.logs`. None for other sources."""
    is_folder = isinstance(source, (str, os.PathLike)) and not isinstance(source, Atom) and os.path.isdir(source)
    if not is_folder and not isinstance(source, Mapping):
        return None
    from inviso import merge

    native, sets = merge._opened(
        merge._checked(where, source, None, None, "follow"), "follow", "causal" if causal else None, is_named=True
    )
    return Merging(native, [(each.files, each.ti) for each in sets])


def registered(logs: list[tuple[list[tuple[str, str | None]], list[str]]]) -> dict[Pid | Port, str]:
    """The names of processes in the trace information files of logs: a registered name, else the last name."""
    found: dict[Pid | Port, tuple[bool, str]] = {}
    for files, ti in logs:
        own = _tracee(files) if ti else None
        for entry in log.read(list(ti)) if ti else ():
            match entry:
                case (Pid() as pid, str(name), "alias", _):
                    of = pid if own is None or not pid.is_local() else _of(own, pid)
                    if isinstance(name, Atom) or not found.get(of, (False,))[0]:
                        found[of] = isinstance(name, Atom), str(name)
    return {pid: name for pid, (_, name) in found.items()}


def _tracee(files: list[tuple[str, str | None]]) -> Pid | None:
    """A process of a log's own node."""
    if any(path.startswith(_STREAMS) for path, _ in files):
        return None
    source = [path if suffix is None else (path, "wrap", suffix) for path, suffix in files]
    for message in islice(log.read(source), _LOOKED):
        match message:
            case ("trace" | "trace_ts", Pid() as pid, *_):
                return pid
    return None


def _of(own: Pid, pid: Pid) -> Pid:
    """The process of a log's own node for a pid that was written without its creation."""
    of, number = etf.dumps(own), etf.dumps(pid)[-12:-4]
    return cast("Pid", etf.loads(of[:-12] + number + of[-4:]))


def is_log(source: object) -> bool:
    if isinstance(source, bytes):
        return source[:1] != b"\x83"  # the first byte of a message in the external term format
    is_set = isinstance(source, tuple) and len(source) >= 3 and source[1] == "wrap"
    return is_set or (isinstance(source, (str, os.PathLike)) and not isinstance(source, Atom))


def logs(where: str, source: Any) -> list[tuple[str, str | None]] | None:
    """Paths of logs, with the suffixes of wrap sets; None if the source is something else."""
    if is_log(source):
        return [_log(where, source)]
    if isinstance(source, (bytes, bytearray, memoryview, Atom)) or hasattr(source, "read"):
        raise BadArg(where, "source", f"{shown(source)} is not a log, and has no messages; {_NO_SOURCE}")
    # the first of several shows their kind; an iterator is not read here
    if not isinstance(source, Collection) or not is_log(next(iter(source), None)):
        return None
    several = list(source)
    for one in several:
        if not is_log(one):
            raise BadArg(where, "source", f"{shown(one)} among paths is not a log; {_NO_SOURCE}")
    return [_log(where, one) for one in several]


def _log(where: str, source: Any) -> tuple[str, str | None]:
    if not isinstance(source, tuple):
        path = os.fsdecode(source)
        if not os.path.isfile(path) and not path.startswith(_STREAMS):
            raise BadArg(where, "source", f"there is no file {shown(path)}; pass the path of a log")
        return path, None
    name, suffix = trace_ports.path_of(where, "source", source[0]), source[2]
    if not isinstance(suffix, str) or not suffix:
        raise BadArg(where, "source", f"{shown(suffix)} is not a suffix of a wrap set; pass (name, 'wrap', '.wrp')")
    folder, base = os.path.split(name)
    with contextlib.suppress(OSError):
        for file in os.listdir(folder or "."):
            if file.startswith(base) and file.endswith(suffix) and file[len(base) : -len(suffix)].isdecimal():
                return name, suffix
    raise BadArg(
        where, "source", f"there is no file of the wrap set {name!r}, {suffix!r}; pass the name it was made with"
    )


def parts(where: str, source: Any) -> Iterator[list[Any]]:
    """The messages of a source that is not a log, in lists."""
    if isinstance(source, Session):
        # drained at the first request, when it is known that they can be written
        return (session.drain() for session in (source,))
    try:
        messages = iter(source)
    except TypeError:
        raise BadArg(where, "source", f"{shown(source)} has no messages; {_NO_SOURCE}") from None
    return _some(where, messages, isinstance(source, Reader))


def _some(where: str, messages: Iterator[Any], are_read: bool) -> Iterator[list[Any]]:
    some = list(islice(messages, _AT_A_TIME))
    # a log's reader may begin with any term
    if some and is_log(some[0]) and not are_read:
        raise BadArg(
            where, "source", f"an iterator gave {shown(some[0])}, which is not a message; pass a list of paths"
        )
    while some:
        yield some
        some = list(islice(messages, _AT_A_TIME))


def names(messages: list[Any]) -> dict[Pid | Port, str]:
    """The names of processes of this node, and of ports that messages are about."""
    ports = {
        message[1] for message in messages if isinstance(message, tuple) and len(message) > 1 and _is_own(message[1])
    }
    names: dict[Pid | Port, str] = {port: port.name for port in ports}
    return {**names, **dict(_native.process.process_names())}


def _is_own(who: object) -> bool:
    return isinstance(who, Port) and who.is_local()


def no_term(where: str, error: TypeError) -> BadArg:
    return BadArg(where, "source", f"a message that is not a term: {error}; pass messages as a tracer gets them")


def chain(first: list[Any], rest: Iterator[list[Any]]) -> Iterator[list[Any]]:
    yield first
    yield from rest
