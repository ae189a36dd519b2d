"""Makes a process of a service listen, unless it does already."""

from __future__ import annotations

import re

from inviso import runtime
from inviso._config import from_environment
from inviso._link._bell import say
from inviso.autostart._names import Names

__all__ = ["listen"]


def listen(service: str, *, is_worker: bool = True) -> None:
    """Lets control components trace this process from now on, also if it was forked by a process that listens.

    An error is one line on standard error. The service continues.

    Args:
        service: the service's name. Invalid characters are replaced. INVISO_NODE has priority.
        is_worker: this is one of several processes, so its name gets its process id.

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
