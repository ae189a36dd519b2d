"""The commands of trace cases: ``inviso case list|on|off|run``.

Each command is a control component for its own duration: it adopts the nodes that trace, carries out a case for them,
and releases them. Cases that are on are noted in the folder of sockets, so that a later command can switch them off.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from inviso._config import effective
from inviso._link._folder import Folder
from inviso._link._names import host, host_of
from inviso._link._peer import has_ended
from inviso._literal import NotLiteral, read
from inviso.cluster import Answers, NodeError
from inviso.control._control import Control, Found, own_name
from inviso.control._use import using
from inviso.errors import BadArg
from inviso.runtime._component import words as in_words
from inviso.tool import Definition, definitions
from inviso.tool._cases import Faulty, bindings, carry_out, check

from ._case_notes import Note, Notes
from ._cluster import TAG, carried_out, lines, seconds, show
from ._options import parsed

__all__ = ["main", "parser"]

ID = "1"
"""The default id of a case that is on."""


def main(words: list[str]) -> int:
    """Carries out one of the commands. Returns the exit status: 0; 1 if a node or a case failed or no node was found; 2
    for a wrong command line.

    >>> main(["run", "no-such-case", "-n", "no-such-node", "--cases", "/dev/null"])
    2
    """
    given = parsed(parser(), words)
    if isinstance(given, int):
        return given
    work = COMMANDS[given.command]
    given.command = f"case {given.command}"
    return carried_out(given.command, given, work)


def parser() -> argparse.ArgumentParser:
    """The parser of the command lines.

    >>> parser().parse_args(["on", "calls", "Module=shop", "-n", "shop-*"]).variables
    [('Module', 'shop')]
    """
    about = "Switch trace cases on and off in nodes that trace."
    top = argparse.ArgumentParser(prog="inviso case", allow_abbrev=False, description=about)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str, *, has_nodes: bool | None = None) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        if has_nodes is not None:
            made.add_argument("case", metavar="CASE", help="its name in the file of trace cases")
            value = "a variable of the case; the value is a Python literal, anything else is text"
            made.add_argument("variables", nargs="*", type=_variable, metavar="VAR=VALUE", help=value)
            node: dict[str, Any] = {"dest": "nodes", "action": "append", "required": has_nodes, "default": []}
            pattern = "a name, or a pattern with * and ? (in quotes); may be given several times"
            made.add_argument("-n", "--node", **node, metavar="NODE", help=pattern)
        made.add_argument("--cases", metavar="FILE", help="the file that lists trace cases (INVISO_CASES)")
        made.add_argument("--json", action="store_true", help="write JSON")
        made.add_argument("--timeout", type=seconds, metavar="TIME", help="how long a node may take (5s)")
        return made

    command("list", "List the trace cases, their variables, and the nodes where they are on.")
    on = command("on", "Switch a trace case on in nodes that trace.", has_nodes=True)
    off = command(
        "off", "Switch a trace case off where it was switched on, or in nodes that are named.", has_nodes=False
    )
    for each in (on, off):
        each.add_argument("--id", default=ID, help="the id of a case that is on several times (1)")
    command("run", "Run a trace case once in nodes that trace.", has_nodes=True)
    return top


def _variable(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable; give one such as Module=shop.prices")
    try:
        return name, read(value)
    except NotLiteral:
        return name, value


def _list(given: Any) -> int:
    cases = _cases(given)
    on = [note for note in _notes() if any(not _is_gone(node, pid) for node, pid in note.nodes.items())]
    rows = {name: _row(case, [note for note in on if note.name == name]) for name, case in cases.items()}
    if given.json:
        print(json.dumps(rows, indent=1))
        return 0
    cells = [
        [name, row["kind"], *map(" ".join, (row["variables"], row["on"])), row["file"]] for name, row in rows.items()
    ]
    lines(["case", "kind", "variables", "on", "file"], cells, cells)
    return 0


def _row(case: Definition, notes: list[Note]) -> dict[str, Any]:
    on = {note.id: [node for node, pid in note.nodes.items() if not _is_gone(node, pid)] for note in notes}
    kind = "on" if case.off is None else "on_off"
    return {"kind": kind, "variables": list(case.variables), "on": on, "file": case.on, "off_file": case.off}


def _notes() -> list[Note]:
    try:
        with Folder.open(make=False, is_control=True) as folder:
            return Notes(folder).all()
    except FileNotFoundError:
        return []


def _on(given: Any) -> int:
    case = _case(given, _cases(given))
    variables = _bindings(given, case)
    with _Nodes(given) as nodes:
        notes = Notes(nodes.control.folder())
        before = notes.get(case.name, given.id)
        alive = [] if before is None else nodes.living(before)
        if alive:
            why = f"it is on already as {given.id}, for {', '.join(alive)}; give another --id, or switch it off first"
            return _failed(given, f"{case.name}: {why}")
        done = nodes.carry_out(case.on, variables, "on")
        if done.pids:
            notes.put(Note(case.name, given.id, variables, case.off, done.pids))
        return done.shown(given, case.name)


def _run(given: Any) -> int:
    case = _case(given, _cases(given))
    variables = _bindings(given, case)
    with _Nodes(given) as nodes:
        return nodes.carry_out(case.on, variables, "run").shown(given, case.name)


def _off(given: Any) -> int:
    name = given.case
    with _Nodes(given, finds=False) as nodes:
        notes = Notes(nodes.control.folder())
        note = notes.get(name, given.id)
        if note is None or given.variables:
            case = _case(given, _cases(given))
            if note is None and not given.nodes:
                why = f"it is not on as {given.id}, as far as is noted here; "
                why += "to run its off file all the same, name its variables and nodes (-n)"
                return _failed(given, f"{name}: {why}")
            variables, off = _bindings(given, case), case.off
        else:
            variables, off = note.variables, note.off
        if off is None:
            return _failed(given, f"{name}: it has no file that switches it off; 'inviso stop' ends all tracing")
        noted = {} if note is None else note.nodes
        nodes.find(given.nodes or list(noted), {} if given.nodes else noted)
        given.nodes = given.nodes or list(noted)
        done = nodes.carry_out(off, variables, "off")
        left = {node: pid for node, pid in noted.items() if node not in done.pids and node not in done.gone}
        if note is not None and left:
            notes.put(Note(name, given.id, note.variables, note.off, left))
        elif note is not None:
            notes.take(name, given.id)
        return done.shown(given, name)


class _Nodes:
    """The nodes of a command. Those that it adopts are released at the end."""

    def __init__(self, given: Any, *, finds: bool = True) -> None:
        self.control = Control(name=own_name(), timeout=given.timeout)
        self._given = given
        self._finds = finds
        self._found: dict[str, Found] = {}
        self._errors: dict[str, NodeError] = {}
        self._gone: dict[str, str] = {}

    def __enter__(self) -> _Nodes:
        if self._finds:
            self.find(self._given.nodes, {})
        return self

    def __exit__(self, *_: object) -> None:
        self.control.remove(None, ends=False)
        self.control.close()

    def living(self, note: Note) -> list[str]:
        """The nodes of a note whose processes still trace."""
        found = self.control.find(list(note.nodes))
        return [each.node for each in found if note.nodes[each.node] == each.pid and _why_not(each) != "not_tracing"]

    def find(self, patterns: list[str], pids: dict[str, int]) -> None:
        """Finds the nodes. A node with a number in ``pids`` must still be that process."""
        for each in self.control.find(patterns):
            why = _why_not(each)
            if each.node in pids and pids[each.node] != each.pid:
                self._gone[each.node] = "its process has ended"
            elif pids and why == "not_tracing":
                self._gone[each.node] = "it traces no longer"
            elif why is not None:
                self._errors[each.node] = NodeError(each.node, why)
            else:
                self._found[each.node] = each
        self._errors |= {node: NodeError(node, "timeout") for node in self.control.silent}
        known = {*self._found, *self._errors, *self._gone}
        self._gone |= {node: "its process has ended" for node in pids if node not in known}

    def carry_out(self, path: str, variables: dict[str, Any], what: str) -> _Done:
        """Adopts the found nodes and carries out a case's file for them."""
        added = dict(self.control.add(list(self._found), TAG, {}))
        errors = {node: NodeError(node, answer[1]) for node, answer in added.items() if answer[0] == "error"}
        done = _Done(what, {**self._errors, **errors}, self._gone)
        names = [node for node in self._found if node not in errors]
        if not names:
            return done
        try:
            with using(self.control):
                found = carry_out(path, variables, names)
        except Faulty as why:
            if what != "off":
                done.problems.append(f"{why}; what other statements have set stays, until tracing ends")
                return done
            done.problems.append(str(why))  # the case still counts as off
        else:
            done.value = found.value
            done.problems += [f"{path}, line {each.line}: {each.why}" for each in found.refused]
        done.pids = {node: self._found[node].pid for node in names}
        return done


class _Done:
    """The results of carrying out a case."""

    def __init__(self, what: str, errors: dict[str, NodeError], gone: dict[str, str]) -> None:
        self.what = what
        self.errors = errors
        self.gone = gone
        """Nodes that have nothing left to switch off, with the reasons."""
        self.pids: dict[str, int] = {}
        """The nodes for which it was carried out, with their process ids."""
        self.problems: list[str] = []
        self.value: Any = None

    def shown(self, given: Any, name: str) -> int:
        """Prints the results and returns the exit status."""
        for problem in self.problems:
            print(f"inviso {given.command}: {problem}", file=sys.stderr)
        parts = _parts(self.value)
        rows: dict[str, Any] = {node: {"case": name, "is": self.what, "answer": parts.get(node)} for node in self.pids}
        rows |= {node: {"case": name, "is": why, "answer": None} for node, why in self.gone.items()}
        if self.problems and not rows and not self.errors:
            return 1
        return max(show(given, Answers(rows, self.errors)), int(bool(self.problems)))


def _parts(value: Any) -> dict[str, Any]:
    """The nodes' answers to the last call of a case, if it was a call of the control."""
    match value:
        case ("ok", list(pairs)) if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return {node: answer[1] if isinstance(answer, tuple) and answer[1:] else answer for node, answer in pairs}
    return {}


def _why_not(found: Found) -> str | None:
    """The reason why a case can't be carried out for a node; None if it can."""
    match found.about["state"]:
        case ("tracing", "running"):
            return None
        case ("tracing", ("suspended", reason)):
            return f"suspended: {in_words(reason)}"
    return "not_tracing"


def _is_gone(node: str, pid: int) -> bool:
    """Whether a process of this host has ended."""
    return host_of(node) == host() and has_ended(pid)


def _cases(given: Any) -> dict[str, Definition]:
    path = effective({"cases": given.cases})["cases"].value
    if path is None:
        why = "there is no file of trace cases; pass --cases FILE, set INVISO_CASES, or cases in [tool.inviso]"
        raise BadArg("case", "--cases", why)
    return definitions(path)


def _case(given: Any, cases: dict[str, Definition]) -> Definition:
    if given.case not in cases:
        raise BadArg("case", "CASE", f"there is no trace case {given.case!r}; there are {', '.join(cases) or 'none'}")
    return cases[given.case]


def _bindings(given: Any, case: Definition) -> dict[str, Any]:
    found = bindings("case", case, given.variables)
    if isinstance(found, str):
        raise BadArg("case", "VAR=VALUE", f"{case.name!r} needs a value of its variable {found}; give {found}=VALUE")
    try:
        check(case.on)
    except Faulty as why:
        raise BadArg("case", "CASE", str(why)) from None
    return found


def _failed(given: Any, why: str) -> int:
    print(f"inviso {given.command}: {why}", file=sys.stderr)
    return 1


COMMANDS: dict[str, Callable[[Any], int]] = {"list": _list, "on": _on, "off": _off, "run": _run}
