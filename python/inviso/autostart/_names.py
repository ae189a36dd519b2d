"""Names of nodes and logs of a process that starts by itself: each process has its own.

``{node}``, ``{pid}`` and ``{program}`` stand in a name for these. A child's names get its process id where they hold none of
the first two, so that it takes nothing from its parent.
"""

from __future__ import annotations

import os
import re
from typing import Any

__all__ = ["base_of", "filled", "log_name", "node_template", "own_logs"]


def node_template(template: str | None, base: str, *, is_child: bool) -> str:
    """The template of a node's name; ``base`` stands for the program.

    >>> node_template(None, "shop", is_child=True), node_template("web", "shop", is_child=True)
    ('shop-{pid}', 'web-{pid}')
    >>> node_template("web@h", "shop", is_child=False)
    'web@h'
    """
    name, at, host = (template or "{program}-{pid}").partition("@")
    if is_child and "{pid}" not in name:
        name += "-{pid}"
    return name.replace("{program}", base) + at + host


def filled(text: str, node: str) -> str:
    """A name with what this process is.

    >>> filled("{node}.log", "web@h")
    'web@h.log'
    """
    name = node.partition("@")[0]
    return text.replace("{node}", node).replace("{pid}", str(os.getpid())).replace("{program}", name)


def log_name(text: str, node: str, *, is_child: bool) -> str:
    """The name of a log of this process.

    >>> name = log_name("logs/shop.log", "shop-7@h", is_child=True)
    >>> name == f"logs/shop-{os.getpid()}.log"
    True
    """
    if is_child and "{pid}" not in text and "{node}" not in text:
        stem, suffix = os.path.splitext(text)
        text = f"{stem}-{{pid}}{suffix}"
    return filled(text, node)


def own_logs(tracerdata: Any, node: str, folder: str | None, *, is_child: bool) -> Any:
    """Tracer data with names of this process; relative ones are in ``folder``, if there is one."""

    def name(text: str) -> str:
        own = log_name(text, node, is_child=is_child)
        return own if folder is None else os.path.join(folder, own)

    match tracerdata:
        case [*parts] if isinstance(tracerdata, list):
            return [own_logs(part, node, folder, is_child=is_child) for part in parts]
        case dict():
            return {key: own_logs(part, node, folder, is_child=is_child) for key, part in tracerdata.items()}
        case ("trace" | "ti" as kind, part):
            return kind, own_logs(part, node, folder, is_child=is_child)
        case ("file", str(text), *rest):
            return ("file", name(text), *rest)
        case ("file", (str(text), "wrap", *rest)):
            return "file", (name(text), "wrap", *rest)
    return tracerdata


def base_of(node: str) -> str:
    """What a node is called without its host and without the number of its process.

    >>> base_of(f"shop-{os.getpid()}@h"), base_of("web@h")
    ('shop', 'web')
    """
    return re.sub(rf"-{os.getpid()}$", "", node.partition("@")[0])
