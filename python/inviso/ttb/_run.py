"""A run of ttb: the control component, the nodes, their logs, and the form of answers."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from inviso._background import Timer
from inviso._link._names import full
from inviso.control._control import Control
from inviso.control._logs import fetched
from inviso.dbg._saved import Saved
from inviso.errors import BadArg, shown
from inviso.process import Pid
from inviso.process import node as own_node
from inviso.process._objects import tracee_of
from inviso.runtime import NO_NODE, local
from inviso.terms import Atom

__all__ = ["Run", "begin", "fetch", "fetch_dir", "matched", "meant"]

OK, ERROR = Atom("ok"), Atom("error")
TAG = Atom("ttb")
_GROUPS = {
    **{word: "all" for word in ("all", "processes")},
    **{word: "existing" for word in ("existing", "existing_processes")},
    **{word: "new" for word in ("new", "new_processes")},
}


class Run:
    """Tracing that :func:`tracer` began."""

    def __init__(self, control: Control, file: Any, handler: Any) -> None:
        self.control = control
        self.file = file
        self.handler = handler
        self.saved = Saved()
        self.timer: Timer | None = None

    def nodes_of(self, who: Any) -> list[str]:
        """The nodes that may have a process: the node of a Pid, otherwise all."""
        nodes = self.control.nodes()
        if not isinstance(who, Pid):
            return nodes
        return [node for node in nodes if (self.control.is_local(node) if who.is_local() else who.node == node)]

    @property
    def name(self) -> str:
        """The name of logs without the node's name."""
        return self.file if isinstance(self.file, str) else str(self.file[1])

    def log(self, node: str) -> Any:
        """The tracer data of a node."""
        folder, name = os.path.split(self.name)
        base = os.path.join(folder, f"{node}-{name}")
        trace = base if isinstance(self.file, str) else (f"{base}.", "wrap", ".wrp", *self.file[2:])
        return [("trace", ("file", trace)), ("ti", ("file", f"{base}.ti"))]


def begin(nodes: Any, file: Any, *, names: bool, handler: Any) -> Run | tuple[Any, Any]:
    """Adds the nodes and opens their logs. Returns the run, or the answer to return if no node traces."""
    own = own_node()
    control = Control(name=full(f"ttb-{os.getpid()}") if own == NO_NODE else own)
    try:
        wanted = _nodes(control, nodes)
        if not wanted:
            control.close()
            return ERROR, Atom("no_nodes")
        run = Run(control, file, handler)
        failed = _failed(control.add(wanted, TAG, {"dependency": 0}))
        asked = [(node, [run.log(node)]) for node in control.nodes()]
        failed += _failed(control.call_each(asked, "init_tracing"))
        control.remove([node for node, _ in failed if node in control.nodes()], ends=False)
        if not control.nodes():
            control.close()
            return ERROR, failed
        control.call(None, "trace_tokens", True)
        if names:
            control.call(None, "tpm_localnames")
    except BaseException:
        control.close()
        raise
    for node, why in failed:
        print(f"*** {node} is not traced: {words(why)}.", file=sys.stderr)
    return run


def words(why: Any) -> str:
    """A reason as text.

    >>> words(("refused", "shop@h", 17)), words("nodedown")
    ('refused, shop@h, 17', 'nodedown')
    """
    return ", ".join(map(str, why)) if isinstance(why, tuple) else str(why)


def _failed(pairs: list[Any]) -> list[Any]:
    return [(node, answer[1]) for node, answer in pairs if answer[0] != OK]


def _nodes(control: Control, nodes: Any) -> list[str]:
    if nodes is None:
        return [local().node]
    given = [nodes] if isinstance(nodes, str) else nodes
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) and one for one in given):
        raise BadArg("tracer/2", "nodes", f"{shown(nodes)} names no nodes; pass a name, a list of names, 'all' or None")
    found: list[str] = []
    for one in ["*" if one == "all" else one for one in given]:
        if "*" in one or "?" in one:
            found += [each.node for each in control.find([one])]
        else:
            found.append(full(one))
    return list(dict.fromkeys(found))


def meant(item: Any) -> Any:
    """Translates the item of ``p`` for a runtime component."""
    if isinstance(item, Pid):
        return item
    if isinstance(item, str) and item and "ports" not in item:
        return _GROUPS.get(item, item)
    found = None if isinstance(item, str) else tracee_of(item)
    if isinstance(found, Pid):
        return found
    raise BadArg(
        "p/2", "item", f"{shown(item)} is not a process; pass 'all', 'new', 'existing', a Pid or a registered name"
    )


def matched(node: str, answer: Any) -> Any:
    """A node's answer in OTP's form: ``(matched, node, number)``; at a failure its reason is the fourth element."""
    if answer[0] != OK:
        return Atom("matched"), node, 0, answer[1]
    numbers = [one for one in answer[1] if isinstance(one, int)]
    if not numbers and answer[1]:
        return Atom("matched"), node, 0, answer[1][0][1]
    return Atom("matched"), node, sum(numbers)


def fetch(control: Control, folder: str) -> None:
    """Moves the logs of all nodes into a folder."""
    for node, answer in control.call(None, "log_paths"):
        result = (
            fetched(answer[1], folder, "", control.sources(node))
            if answer[0] == OK and answer[1] != "no_log"
            else answer
        )
        if result[0] == "complete":
            control.call([node], "delete_log")
        else:
            print(f"*** The logs of {node} were not fetched: {words(result[1])}.", file=sys.stderr)


def fetch_dir(given: str | None, name: str) -> str:
    """Makes the folder for the fetched logs."""
    folder = os.path.abspath(given or f"ttb_upload_{os.path.basename(name)}-{time.strftime('%Y%m%d-%H%M%S')}")
    if given is not None and os.path.isdir(folder) and os.listdir(folder):
        raise BadArg("stop/1", "opts", f"fetch_dir {shown(given)} is not empty; pass a folder that is, or is not there")
    number = 1
    while given is None and os.path.exists(folder):
        folder = f"{folder.partition('~')[0]}~{number}"
        number += 1
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
