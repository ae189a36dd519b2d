"""Prepares a process to be traced from outside: a listener, and the runtime component that a control adds.

>>> from inviso import runtime
>>> runtime.listen("docs").node.partition("@")[0]
'docs'
>>> runtime.listening() is not None
True
>>> runtime.stop_listening()
"""

from __future__ import annotations

import os
import re
import sys

from inviso import process
from inviso._link._bell import say
from inviso._link._folder import Folder
from inviso._link._names import host as own_host
from inviso._system import RLock
from inviso.errors import BadArg, shown

from . import _local
from ._component import FLAGS
from ._listener import Listener
from ._local import (
    cancel_suspension,
    clear,
    ctf,
    ctf_all,
    ctp,
    ctp_all,
    ctpg,
    ctpl,
    ctpm,
    ctpm_ms,
    flush,
    get_status,
    get_tracerdata,
    global_register,
    init_tpm,
    init_tracing,
    local_register,
    remove_global_register,
    remove_local_register,
    stop_tracing,
    suspend,
    tf,
    tp,
    tpg,
    tpl,
    tpm,
    tpm_ms,
    tpm_ms_tracer,
    tpm_tracer,
)

__all__ = [
    "FLAGS",
    "cancel_suspension",
    "clear",
    "ctf",
    "ctf_all",
    "ctp",
    "ctp_all",
    "ctpg",
    "ctpl",
    "ctpm",
    "ctpm_ms",
    "flush",
    "get_status",
    "get_tracerdata",
    "global_register",
    "init_tpm",
    "init_tracing",
    "listen",
    "listening",
    "local",
    "local_register",
    "node_name",
    "remove_global_register",
    "remove_local_register",
    "stop_listening",
    "stop_tracing",
    "suspend",
    "tf",
    "tp",
    "tpg",
    "tpl",
    "tpm",
    "tpm_ms",
    "tpm_ms_tracer",
    "tpm_tracer",
]

_listener: Listener | None = None
_named: str | None = None
"""The node name that this process has from listening."""

_changing = RLock()
NO_NODE = "nonode@nohost"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def listen(node: str | None = None, *, log_dir: str = "inviso-logs", allow: tuple[str, ...] = ()) -> Listener:
    """Let control components of this user's processes trace this process. A waiting listener costs nothing.

    Args:
        node: the process's name, with or without ``@host``. ``{pid}`` and ``{program}`` are replaced. Default:
            ``INVISO_NODE``, else ``{program}-{pid}``. If a living process has that name, ``-PID`` is appended.
        log_dir: the only folder below which a control can create logs.
        allow: modules whose functions a control may name as handlers. A package allows its submodules, too.

    Returns:
        The listener. A second call returns the same one.

    Raises:
        BadArg: ``node`` is not a node's name.
        OSError: there is no folder for the socket, or it belongs to another user.

    >>> listen("docs") is listen()
    True
    >>> stop_listening()
    """
    global _listener, _named
    with _changing:
        found = listening()
        if found is not None and found.is_public:
            return found
        name = node_name(node)
        folder = Folder.open()
        try:
            # listen first: a name counts as taken only if its process listens
            socket_ = folder.listen(os.getpid())
            try:
                taken = folder.claim(name, os.getpid())
                if taken != name:
                    say(f"a process has the name {name} already; this one is {taken}")
                made = Listener(taken, folder, log_dir, tuple(allow), socket_)
            except BaseException:
                socket_.close()
                folder.remove(os.getpid())
                raise
        except BaseException:
            folder.close()
            raise
        if found is not None:
            found.close()
        _listener = made
        if process.node() in (NO_NODE, _named):  # in a forked child _named is the parent's
            process.set_node(taken)
            _named = taken
        return made


def local() -> Listener:
    """The listener. If there is none, a new one for this process alone, which no other process can reach.

    >>> local() is local()
    True
    >>> local().is_public
    False
    >>> stop_listening()
    """
    global _listener
    with _changing:
        found = listening()
        if found is None:
            found = _listener = Listener(process.node(), None, ".", ())
        return found


def listening() -> Listener | None:
    """This process's listener; None if there is none.

    >>> listening() is None
    True
    """
    return _listener if _listener is not None and _listener.is_open else None


def stop_listening() -> None:
    """Ends the listener and the runtime component, with all their effects.

    >>> stop_listening()
    """
    global _listener, _named
    with _changing:
        listener, _listener = _listener, None
        if listener is not None:
            listener.close()
        if _named is not None and process.node() == _named:
            process.set_node(NO_NODE)
        _named = None


_local._find = listening


def node_name(given: str | None = None, program: str | None = None) -> str:
    """The full name of this process as a node.

    Args:
        given: the name, as for :func:`listen`.
        program: the path of the program for ``{program}``. Default: the program of this process.

    Raises:
        BadArg: it is not a node's name.

    >>> node_name("shop-1").startswith("shop-1@")
    True
    >>> node_name("{program}", "work/job.py").startswith("job@")
    True
    """
    text = given if given is not None else os.environ.get("INVISO_NODE") or "{program}-{pid}"
    if program is None:
        program = _program(sys.orig_argv)
    base = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.basename(program).removesuffix(".py"))[:48] or "python"
    name, _, host = text.replace("{pid}", str(os.getpid())).replace("{program}", base).partition("@")
    if not _NAME.fullmatch(name):
        why = f"{shown(text)} is not a name; pass up to 64 letters, digits, '_', '.' and '-', such as shop-{{pid}}"
        raise BadArg("runtime.listen", "node", why)
    if host and not _HOST.fullmatch(host):
        why = f"{shown(host)} is not a name of a host; leave it out, and it is this one's"
        raise BadArg("runtime.listen", "node", why)
    return f"{name}@{host or own_host()}"


def _program(words: list[str]) -> str:
    """The script or module of a command line; ``python`` if it has none.

    >>> _program(["python", "-X", "dev", "work/job.py", "-c"])
    'work/job.py'
    >>> _program(["python", "-m", "job"]), _program(["python", "-c", "1"])
    ('job', 'python')
    """
    rest = iter(words[1:])
    for word in rest:
        if word in ("-X", "-W"):
            next(rest, None)
        elif word.startswith("-c") or word == "-":
            break
        elif not word.startswith("-"):
            return word
    return "python"
