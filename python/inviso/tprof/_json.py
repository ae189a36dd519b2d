"""Profiles as JSON: ``Profile.to_dict`` writes them, ``load`` reads them."""

from __future__ import annotations

import os
from typing import Any

from inviso._pattern import parse, show
from inviso.errors import BadArg, shown

from ._check import bad
from ._model import CALL_TYPES, Calls, ChildProcess, Function, Node, Process, Profile, SavedProcess
from ._tree import measured

__all__ = ["VERSION", "load", "to_dict"]

VERSION = 1
"""The version of the format. Added keys don't change it."""


def to_dict(profile: Profile) -> dict[str, Any]:
    """See ``Profile.to_dict``."""
    total = profile.measurement
    functions = profile.functions
    order = sorted(
        range(len(functions)), key=lambda n: (-functions[n].measurement, functions[n].mfa, functions[n].line)
    )
    place = {n: at for at, n in enumerate(order)}
    more = {"children": profile.children, "missing": profile.missing, "nodes": _nodes(profile, place)}
    return {
        "version": VERSION,
        "type": profile.type,
        "unit": profile.unit,
        "patterns": [show(p) for p in profile.patterns],
        "elapsed_ns": profile.elapsed_ns,
        "timed_out": profile.timed_out,
        "calls": profile.calls,
        "measurement": total,
        "processes": _processes(profile),
        "functions": [_function(functions[n], total) for n in order],
        **{name: value for name, value in more.items() if value},
    }


def load(path: str | os.PathLike[str]) -> Profile:
    """Reads a profile from a file of ``inviso tprof --json`` or ``Profile.to_json``.

    Its processes are :class:`SavedProcess`; ``result`` is None.

    Raises:
        BadArg: the file is not a profile, or has a version that this program doesn't read.
        OSError: the file can't be read.

    >>> import os, tempfile
    >>> f = Function("shop", "total", 1, "shop.py", 3, (Calls(None, 4, 4),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "p.json")
    ...     with open(path, "w") as file:
    ...         _ = file.write(Profile("call_count", (f,), ()).to_json())
    ...     load(path)
    <Profile of call_count: 1 function, 4 calls>
    """
    import json

    if not isinstance(path, (str, os.PathLike)):
        raise bad("tprof.load, path", f"{shown(path)} is not a path", "give the file that tprof --json wrote")
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except ValueError as error:
        raise _wrong(path, f"it is not JSON ({error})") from None
    if not isinstance(data, dict) or "version" not in data or data.get("type") not in CALL_TYPES:
        raise _wrong(path, "it is not a profile")
    if data["version"] != VERSION:
        raise _wrong(path, f"its form is of version {shown(data['version'])}, and this one reads version {VERSION}")
    try:
        return _profile(data)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _wrong(path, f"it is damaged ({error.__class__.__name__}: {error})") from None


def _wrong(path: str | os.PathLike[str], why: str) -> BadArg:
    return bad("tprof.load, path", f"{os.fspath(path)}: {why}", "give a file that tprof --json wrote")


def _profile(data: dict[str, Any]) -> Profile:
    known: dict[str, Process] = {
        str(p["id"]): SavedProcess(str(p["id"]), str(p["kind"]), str(p["name"] or "")) for p in data["processes"]
    }

    def calls(each: list[dict[str, Any]]) -> tuple[Calls, ...]:
        return tuple(
            Calls(known[c["id"]], _number(c["calls"]), _number(c["measurement"]), None, _number(c.get("waiting", 0)))
            for c in each
        )

    rows = []
    for f in data["functions"]:
        each = calls(f["processes"])
        if data["type"] == "call_count":
            each = (Calls(None, _number(f["calls"]), _number(f["measurement"])),)
        rows.append(
            Function(str(f["module"]), str(f["function"]), _number(f["arity"]), str(f["file"]), int(f["line"]), each)
        )
    nodes = []
    for number, node in enumerate(data.get("nodes", [])):
        parent, function = node["parent"], node["function"]
        if not (parent is None or 0 <= parent < number) or not (function is None or 0 <= function < len(rows)):
            raise ValueError(f"node {number} has no such caller or function")
        nodes.append(Node(parent, function, calls(node["processes"])))
    functions, kept = measured(rows, nodes)
    return Profile(
        data["type"],
        functions,
        tuple(parse(list(data["patterns"]), "tprof.load, patterns")) if data["patterns"] else (),
        _number(data["elapsed_ns"]),
        timed_out=bool(data["timed_out"]),
        children=_number(data.get("children", 0)),
        missing=str(data.get("missing", "")),
        nodes=kept,
    )


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{shown(value)} is not a number from 0")
    return value


def _nodes(profile: Profile, place: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {
            "parent": node.parent,
            "function": None if node.function is None else place[node.function],
            "processes": _calls(node.processes),
        }
        for node in profile.nodes
    ]


def _calls(each: tuple[Calls, ...]) -> list[dict[str, Any]]:
    return [
        {
            "id": repr(c.process),
            "calls": c.calls,
            "measurement": c.measurement,
            **({"waiting": c.waiting} if c.waiting else {}),
        }
        for c in each
        if c.process is not None
    ]


def _function(f: Function, total: int) -> dict[str, Any]:
    measurement, calls = f.measurement, f.calls
    return {
        "module": f.module,
        "function": f.function,
        "arity": f.arity,
        "file": f.filename,
        "line": f.line,
        "calls": calls,
        "measurement": measurement,
        **({} if f.cumulative is None else {"cumulative": f.cumulative, "waiting": f.waiting}),
        "per_call": measurement / calls if calls else 0.0,
        "percent": 100.0 * measurement / total if total else 0.0,
        "processes": _calls(f.processes),
    }


def _processes(profile: Profile) -> list[dict[str, Any]]:
    sums: dict[Process, list[int]] = {}
    for f in profile.functions:
        for c in f.processes:
            if c.process is not None:
                entry = sums.setdefault(c.process, [0, 0])
                entry[0] += c.calls
                entry[1] += c.measurement
    return [
        {
            "id": repr(pid),
            "kind": str(pid.kind),
            "name": str(pid.name or "") or None,
            "calls": calls,
            "measurement": measurement,
        }
        for pid, (calls, measurement) in sorted(sums.items(), key=lambda item: (-item[1][1], _order(item[0])))
    ]


def _order(process: Process) -> tuple[Any, ...]:
    """Sorts processes of this program first; the others by number, not by text."""
    if isinstance(process, ChildProcess):
        return 1, process.os_pid, process.id
    if isinstance(process, SavedProcess):
        return 2, process.node, process.id
    return 0, process
