"""Traces a program from its first line, by the environment variable INVISO_AUTOSTART.

=========================================  =======================================================================
value of the variable                      effect
=========================================  =======================================================================
a file's name                              tracing by that config file: Python literals, a pair on each line (below)
``module:function``                        the function is called with INVISO_AUTOSTART_ARG. It returns
                                           ``(mfa, options, tag)``; anything else means no tracing
``conf=module:function``                   the function is called with the node's name. It returns the name of a
                                           config file, or ``"no_autostart"``
``no``, or empty                           none
=========================================  =======================================================================

===========  =====================================================================================================
key          value
===========  =====================================================================================================
``repeat``   how many more processes are traced; decremented in the file before tracing begins. Default: all
``mfa``      ``("module", "function", [arguments])``: the initiator of tracing; :func:`init` is the standard one
``options``  options of the runtime component, a list; ``[]`` by default
``tag``      its incarnation tag; ``default_tag`` by default
``node``     the process's name; ``{pid}`` and ``{program}`` are replaced
``allow``    modules whose functions a control may name
``log_dir``  the folder of logs; a control can name logs below it only
``follow``   True: children are traced, too, each with a name and logs of its own
``wait``     seconds that ``__main__`` waits for the initiation of tracing, at most; 2 by default
===========  =====================================================================================================

The file and its folder must belong to the user or root, and others must not be able to write them. Functions of this
module write such files.

>>> from inviso import autostart
>>> autostart.which_config_file()[0]
'ok'
"""

from __future__ import annotations

from typing import Any

from ._library import inhibit_autostart, set_repeat, setup_autostart, which_config_file

__all__ = ["inhibit_autostart", "init", "set_repeat", "setup_autostart", "which_config_file"]


def __getattr__(name: str) -> Any:
    """Loads the standard initiator at its first use, as it imports the runtime component."""
    if name == "init":
        from ._standard import init

        return init
    raise AttributeError(f"module 'inviso.autostart' has no attribute {name!r}")
