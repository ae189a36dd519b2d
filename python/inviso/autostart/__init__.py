"""Tracing a program from its first line: what a process finds in INVISO_AUTOSTART.

=========================================  =======================================================================
value of the variable                      what is done
=========================================  =======================================================================
a file's name                              as that config file says: Python literals, a pair a line (below)
``module:function``                        the function is called with INVISO_AUTOSTART_ARG; it answers
                                           ``(mfa, options, tag)``, anything else is no tracing
``conf=module:function``                   it is called with the node's name, and answers the name of a config file,
                                           or ``"no_autostart"``
``no``, or empty                           nothing
=========================================  =======================================================================

===========  =====================================================================================================
key          value
===========  =====================================================================================================
``repeat``   how many more processes are traced; written back one less, before tracing begins. Default: all
``mfa``      ``("module", "function", [arguments])``: what initiates tracing; :func:`init` is the standard one
``options``  of the runtime component, a list; ``[]`` by default
``tag``      its incarnation tag; ``default_tag`` by default
``node``     the process's name; ``{pid}`` and ``{program}`` stand for these
``allow``    modules whose functions a control may name
``log_dir``  the folder of logs; a control names logs below it only
``follow``   True: children are traced, too, each with a name and logs of its own
``wait``     seconds that ``__main__`` waits until tracing was initiated, at most; 2
===========  =====================================================================================================

The file and its folder belong to the user or root, and nobody else may write them. Functions here write such files.

>>> from inviso import autostart
>>> autostart.which_config_file()[0]
'ok'
"""

from __future__ import annotations

from typing import Any

from ._library import inhibit_autostart, set_repeat, setup_autostart, which_config_file

__all__ = ["inhibit_autostart", "init", "set_repeat", "setup_autostart", "which_config_file"]


def __getattr__(name: str) -> Any:
    """The standard initiator is loaded where it is needed: it brings the runtime component with it."""
    if name == "init":
        from ._standard import init

        return init
    raise AttributeError(f"module 'inviso.autostart' has no attribute {name!r}")
