"""A process of a service listens, unless it does so already."""

from __future__ import annotations

import re

from inviso import runtime
from inviso._config import from_environment
from inviso._link._bell import say
from inviso.autostart._names import Names

__all__ = ["listen"]


def listen(service: str, *, is_worker: bool = True) -> None:
    """Control components can trace this process from here on, also where it was forked by one that they can trace.

    What is wrong is one line on standard error: the service goes on.

    Args:
        service: its name, of which bad characters go; INVISO_NODE counts before it.
        is_worker: it is one of several, and its name has its process id.

    >>> runtime.stop_listening()  # as in a process that was just forked
    >>> listen("shop:app")
    >>> runtime.listening().node.startswith("shop_app-")
    True
    >>> runtime.stop_listening()
    """
    if runtime.listening() is not None:
        return
    try:
        settings = from_environment()
        template = settings["node"].value if "node" in settings else "{program}" if not is_worker else None
        program = re.sub(r"[^A-Za-z0-9_.-]", "_", service)[:48] or "python"
        more = {name: settings[name].value for name in ("log_dir", "allow") if name in settings}
        runtime.listen(Names(program, is_worker).node_template(template), **more)
    except Exception as error:
        say(f"this process can't be traced from outside: {error}")
