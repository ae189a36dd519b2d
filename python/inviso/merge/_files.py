"""Finds the files of a node's log: Inviso's file sets, wrap sets by their names, a folder of logs."""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inviso.errors import BadArg, is_text, shown
from inviso.logs._files import beside
from inviso.logs._read import Named, named

from ._clocks import Clock
from ._clocks import beside as offsets_beside

__all__ = ["BadSpec", "FileSet", "folder", "given", "handle_logfile_sort_wrapset", "of_specs"]

_NUMBERED = re.compile(r"(.+)\.(\d+)\.log")


class BadSpec(Exception):
    """A malformed file set; ``spec`` is the given value."""

    def __init__(self, spec: Any) -> None:
        super().__init__(repr(spec))
        self.spec = spec


@dataclass(slots=True)
class FileSet:
    """The log of one node."""

    node: str
    files: list[Named]
    """Its files, the oldest first, or one wrap set by its name and suffix."""
    ti: list[str]
    """Its trace information files."""
    offsets: str | None = None
    """The file with the offsets of its host's clock, if there is one."""
    clock: Clock | None = None
    """The offsets of its host's clock, if the logs are aligned."""
    reader: Any = None
    """The user's reader of the log, if there is one."""
    spec: Any = None
    """The log files as they were given, for such a reader."""
    absent: dict[str, str] = field(default_factory=dict)
    """Files that can't be opened, with the error."""

    def opened(self) -> list[Named]:
        """The files that can be opened. The others go into ``absent``."""
        there = [file for file in self.files if file[1] is not None or self._opens(file[0])]
        self.ti = [path for path in self.ti if self._opens(path)]
        return there

    def _opens(self, path: str) -> bool:
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            self.absent[path] = error.strerror or str(error)
            return False
        return True


def of_specs(specs: Iterable[Any]) -> list[FileSet]:
    """File sets of Inviso's ``merge``: ``(node, logfiles)`` and ``("reader", …, that)``.

    Raises:
        BadSpec: one is malformed.

    >>> of_specs([("shop@h", [("trace_log", ["t1.log", "t0.log"]), ("ti_log", ["t.ti"])])])[0].files
    [('t0.log', None), ('t1.log', None)]
    """
    return [_of_spec(spec) for spec in specs]


def _of_spec(spec: Any) -> FileSet:
    match spec:
        case ("reader", str(module), str(function), inner):
            return _read_by((module, function), inner, spec)
        case ("reader", reader, inner):
            return _read_by(reader, inner, spec)
        case (str(node), list(logs)) if node and is_text(node):
            files, ti = _parts(logs, spec)
            return FileSet(node, files, ti, spec=logs, offsets=offsets_beside(files[0][0]) if files else None)
    raise BadSpec(spec)


def _read_by(reader: Any, inner: Any, spec: Any) -> FileSet:
    match inner:
        case (str(node), logs) if node and is_text(node):
            return FileSet(node, [], [], reader=reader, spec=logs)
    raise BadSpec(spec)


def _parts(logs: list[Any], spec: Any) -> tuple[list[Named], list[str]]:
    several = logs if logs and all(isinstance(one, list) for one in logs) else [logs]
    files: list[Named] = []
    ti: list[str] = []
    for one in several:
        for part in one:
            match part:
                case ("trace_log", *rest):
                    names = handle_logfile_sort_wrapset(_names(rest, spec))
                    files += [(name, None) for name in names]
                case ("ti_log", *rest):
                    ti += _names(rest, spec)
                case _:
                    raise BadSpec(spec)
    return files, ti


def _names(rest: list[Any], spec: Any) -> list[str]:
    """The paths of ``[names]``, or of ``[folder, names]``, the form of ``list_logs``."""
    match rest:
        case [list(names)]:
            where = ""
        case [str(where), list(names)]:
            pass
        case _:
            raise BadSpec(spec)
    paths = []
    for name in names:
        try:
            path = os.path.join(where, os.fsdecode(name))
        except TypeError:
            raise BadSpec(spec) from None
        if not name or "\0" in path:
            raise BadSpec(spec)
        paths.append(path)
    return paths


def handle_logfile_sort_wrapset(names: Iterable[str]) -> list[str]:
    """The names of a wrap set's files, the oldest first. They are sorted by the number in which they differ; the file
    after the first missing number is the oldest.

    >>> handle_logfile_sort_wrapset(["t11.log", "t13.log", "t10.log", "t15.log", "t12.log"])
    ['t15.log', 't10.log', 't11.log', 't12.log', 't13.log']
    """
    names = list(names)
    if len(names) < 2:
        return names
    # digits at the ends of the common parts belong to the number
    before = _common(names)
    after = _common([name[before:][::-1] for name in names])
    numbers = {name: name[before : len(name) - after] for name in names}
    if not all(number.isascii() and number.isdigit() for number in numbers.values()):
        return names
    names.sort(key=lambda name: int(numbers[name]))
    pairs = itertools.pairwise(names)
    holes = [at for at, (a, b) in enumerate(pairs, 1) if int(numbers[b]) > int(numbers[a]) + 1]
    return names[holes[0] :] + names[: holes[0]] if holes else names


def _common(texts: list[str]) -> int:
    """The length of the common beginning, without digits at its end."""
    least, most = min(texts), max(texts)
    pairs = enumerate(zip(least, most, strict=False))
    length = next((at for at, (a, b) in pairs if a != b), min(len(least), len(most)))
    return len(least[:length].rstrip("0123456789"))


def given(where: str, sources: Any, ti: Mapping[str, Any] | None) -> list[FileSet]:
    """File sets from a mapping of nodes to logs, or from a folder."""
    if isinstance(sources, (str, bytes, os.PathLike)):
        path = os.fsdecode(sources)
        if not os.path.isdir(path):
            raise BadArg(where, "sources", f"{shown(path)} is not a folder; pass one, or a mapping of nodes to logs")
        sets = folder(path)
        if not sets:
            mend = "pass the folder that logs were fetched to"
            raise BadArg(where, "sources", f"no NODE.log is in {shown(path)}; {mend}")
    elif isinstance(sources, Mapping):
        sets = [_of_mapping(where, node, source) for node, source in sources.items()]
        if not sets:
            raise BadArg(where, "sources", "it names no log; pass a mapping of nodes to logs, or a folder")
    else:
        mend = "pass a mapping of nodes to logs, or a folder"
        raise BadArg(where, "sources", f"{shown(sources)} is not a mapping; {mend}")
    for node, path in (ti or {}).items():
        found = [each for each in sets if each.node == node]
        if not found:
            nodes = ", ".join(each.node for each in sets)
            raise BadArg(where, "ti", f"{shown(node)} is none of the nodes; they are {nodes}")
        found[0].ti = [os.fsdecode(path)]
    return sets


def _of_mapping(where: str, node: Any, source: Any) -> FileSet:
    if not is_text(node) or not node:
        raise BadArg(where, "sources", f"{shown(node)} is not a node's name; pass a str")
    files = named(where, "sources", source)
    if len(files) > 1 and any(suffix is not None for _, suffix in files):
        raise BadArg(where, "sources", f"{node}: a wrap set among other logs; pass it alone, or the paths of its files")
    path, suffix = files[0]
    return FileSet(
        node, files, beside(files), offsets=offsets_beside(path if suffix is None else f"{path.rstrip('.')}.")
    )


def folder(path: str) -> list[FileSet]:
    """The logs of a folder by their nodes: ``NODE.log``, or the wrap set ``NODE.N.log``, and ``NODE.ti``.

    A number at the end of an IP address belongs to the node's name.
    """
    plain: dict[str, str] = {}
    wrapped: dict[str, list[str]] = {}
    for name in sorted(os.listdir(path)):
        full = os.path.join(path, name)
        if not name.endswith(".log") or name == ".log" or not os.path.isfile(full):
            continue
        found = _NUMBERED.fullmatch(name)
        if found and not _is_address(name[: -len(".log")]):
            wrapped.setdefault(found[1], []).append(full)
        else:
            plain[name[: -len(".log")]] = full
    sets = []
    for node in sorted({*plain, *wrapped}):
        files = [*handle_logfile_sort_wrapset(wrapped.get(node, [])), *([plain[node]] if node in plain else [])]
        ti = os.path.join(path, f"{node}.ti")
        sets.append(
            FileSet(
                node,
                [(file, None) for file in files],
                [ti] if os.path.isfile(ti) else [],
                offsets=os.path.join(path, f"{node}.clock"),
            )
        )
    return sets


def _is_address(node: str) -> bool:
    try:
        ipaddress.IPv4Address(node.rpartition("@")[2])
    except ValueError:
        return False
    return True
