"""Inviso's control component: traces the prepared processes of this host together, by functions of Erlang's ``inviso``.

A process is prepared by ``inviso run``, by autostart, or by :func:`inviso.runtime.listen`. The control adds it as a
*node*, and a runtime component in the process carries out the requests. Answers are as in Inviso:
``("ok", [(node, result)])``. A node that fails has ``("error", reason)`` as its result; the others keep theirs. If the
control's own process has no name (``nonode@nohost``), that process is its only node, and the answer is its result
alone.

>>> import json
>>> from inviso import control
>>> _ = control.start()
>>> control.add_node("mine")
('ok', 'new')
>>> control.tpl("json", "loads", "_", True)
('ok', [1])
>>> control.get_status()
('ok', ('idle', 'running'))
>>> control.stop_all()

Every function takes ``nodes=``, a list of names, in place of the list that the original has first. A name without
``@host`` belongs to this host. :class:`inviso.Cluster` does the same for people who don't know Erlang.
"""

from __future__ import annotations

from ._component import NotStarted, start, stop, stop_all, stop_nodes, subscribe, unsubscribe
from ._files import delete_log, fetch_log, list_logs
from ._meta import (
    ctpm,
    ctpm_globalnames,
    ctpm_localnames,
    ctpm_ms,
    init_tpm,
    tpm,
    tpm_globalnames,
    tpm_localnames,
    tpm_ms,
    tpm_ms_tracer,
    tpm_tracer,
)
from ._nodes import add_node, add_node_if_ref, add_nodes, add_nodes_if_ref, change_options
from ._tracing import (
    cancel_suspension,
    clear,
    ctf,
    ctf_all,
    ctp,
    ctp_all,
    ctpl,
    flush,
    get_status,
    get_tracerdata,
    init_tracing,
    stop_tracing,
    suspend,
    tf,
    tp,
    tpl,
)

__all__ = [
    "NotStarted", "add_node", "add_node_if_ref", "add_nodes", "add_nodes_if_ref", "cancel_suspension",
    "change_options", "clear", "ctf", "ctf_all", "ctp", "ctp_all", "ctpl", "ctpm", "ctpm_globalnames",
    "ctpm_localnames", "ctpm_ms", "delete_log", "fetch_log", "flush", "get_status", "get_tracerdata", "init_tpm",
    "init_tracing", "list_logs", "start", "stop", "stop_all", "stop_nodes", "stop_tracing", "subscribe", "suspend",
    "tf", "tp", "tpl", "tpm", "tpm_globalnames", "tpm_localnames", "tpm_ms", "tpm_ms_tracer", "tpm_tracer",
    "unsubscribe",
]  # fmt: skip

for _name in __all__:  # errors and the documentation show this module's name
    globals()[_name].__module__ = __name__
del _name
