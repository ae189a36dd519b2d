"""Names of nodes and logs of a process that starts by itself: each process has its own.

``{node}``, ``{pid}`` and ``{program}`` stand in a name for these. A child's names get its process id where they hold none of
the first two, so that it takes nothing from its parent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

__all__ = ["Names"]


@dataclass(frozen=True, slots=True)
class Names:
    """What names of one process are made of.

    >>> child = Names("shop", is_child=True)
    >>> child.node_template(None), child.node_template("web"), child.node_template("{program}@h")
    ('shop-{pid}', 'web-{pid}', 'shop-{pid}@h')
    >>> child.log("logs/shop.log", "shop-7@h") == f"logs/shop-{os.getpid()}.log"
    True
    >>> child.log("{node}.log", "shop-7@h"), Names("shop", is_child=False).log("{program}.log", "shop-7@h")
    ('shop-7@h.log', 'shop.log')
    """

    program: str
    """What the program is called; a worker of ``multiprocessing`` is called as its parent is."""
    is_child: bool

    def node_template(self, template: str | None) -> str:
        """The template of the node's name; the listener puts the process id in."""
        name, at, host = (template or "{program}-{pid}").partition("@")
        if self.is_child and "{pid}" not in name:
            name += "-{pid}"
        return name.replace("{program}", self.program) + at + host

    def log(self, text: str, node: str) -> str:
        """The name of a log."""
        if self.is_child and "{pid}" not in text and "{node}" not in text:
            stem, suffix = os.path.splitext(text)
            text = f"{stem}-{{pid}}{suffix}"
        return text.replace("{node}", node).replace("{pid}", str(os.getpid())).replace("{program}", self.program)

    def tracerdata(self, given: Any, node: str, folder: str | None) -> Any:
        """Tracer data with names of this process; relative ones are in ``folder``, if there is one.

        >>> Names("shop", is_child=False).tracerdata([("trace", ("file", "a.log"))], "shop@h", "/logs")
        [('trace', ('file', '/logs/a.log'))]
        """

        def path(text: str) -> str:
            own = self.log(text, node)
            return own if folder is None else os.path.join(folder, own)

        match given:
            case list():
                return [self.tracerdata(part, node, folder) for part in given]
            case dict():
                return {key: self.tracerdata(part, node, folder) for key, part in given.items()}
            case ("trace" | "ti" as kind, part):
                return kind, self.tracerdata(part, node, folder)
            case ("file", str(text), *rest):
                return ("file", path(text), *rest)
            case ("file", (str(text), "wrap", *rest)):
                return "file", (path(text), "wrap", *rest)
        return given
