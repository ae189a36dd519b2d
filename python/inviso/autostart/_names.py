"""Names of nodes and logs of a process with autostart. Each process has its own.

``{node}``, ``{pid}`` and ``{program}`` are replaced in a name. A child's name without the first two gets its process
id, so that it differs from its parent's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

__all__ = ["Names"]


@dataclass(frozen=True, slots=True)
class Names:
    """Makes the names of one process.

    >>> child = Names("shop", is_child=True)
    >>> child.node_template(None), child.node_template("web"), child.node_template("{program}@h")
    ('shop-{pid}', 'web-{pid}', 'shop-{pid}@h')
    >>> child.log("logs/shop.log", "shop-7@h") == f"logs/shop-{os.getpid()}.log"
    True
    >>> child.log("{node}.log", "shop-7@h"), Names("shop", is_child=False).log("{program}.log", "shop-7@h")
    ('shop-7@h.log', 'shop.log')
    """

    program: str
    """The program's name. A worker of ``multiprocessing`` has its parent's."""
    is_child: bool

    def node_template(self, template: str | None) -> str:
        """The template of the node's name. The listener replaces the process id."""
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
        """Tracer data with this process's names of files. Relative names are in ``folder``, unless it is None.

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
