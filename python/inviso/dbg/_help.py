"""Texts of ``dbg.h``."""

from __future__ import annotations

from typing import Final

__all__ = ["HELP", "ITEMS"]

HELP: Final = """\
There is help for these; dbg.h(item) shows it:
   p, c
       - whom to trace: trace flags of processes and ports
   tp, tpl, tpe, ctp, ctpl, ctpg, ctpe, ltp, dtp, wtp, rtp
       - what to trace: functions, messages, match specifications
   tracer, trace_port, trace_client, get_tracer, flush_trace_port, stop
       - where trace messages go
   session, session_create, session_destroy
       - several at a time
   n, cn, ln
       - other nodes
   i
       - who is traced
"""

_FUNCTIONS: Final = (
    "tp(module, spec), tp(module, function, spec),\n"
    "tp(module, function, arity, spec), tp((module, function, arity), spec),\n"
    "tp('module:function:arity', spec) -> ('ok', matched) | ('error', reason)\n"
)
_CLEARED: Final = "(), (module), (module, function), (module, function, arity) -> ('ok', matched)\n"

ITEMS: Final[dict[str, str]] = {
    "p": (
        "p(item) -> ('ok', matched) | ('error', reason)\n"
        " - Traces the messages to and from a process or port.\n"
        "p(item, flags) -> ('ok', matched) | ('error', reason)\n"
        " - Traces it by flags: s, r, m, c, p, sos, sol, sofs, sofl, all, clear,\n"
        "   or any flag of inviso.trace.process().\n"
    ),
    "c": (
        "c(module, function, args), c(module, function, args, flags)\n"
        " - Calls a function with trace flags, all of them if none are given.\n"
    ),
    "i": "i() -> None\n - Prints whom dbg traces, and how.\n",
    "tp": _FUNCTIONS + " - Traces calls of exported functions from other modules.\n",
    "tpl": _FUNCTIONS.replace("tp(", "tpl(") + " - Traces all calls of functions.\n",
    "tpe": "tpe(event, spec) -> ('ok', matched) | ('error', reason)\n - Traces messages of 'send' or 'receive'.\n",
    "ctp": "ctp" + _CLEARED + " - Takes patterns of tp and tpl away.\n",
    "ctpl": "ctpl" + _CLEARED + " - Takes patterns of tpl away.\n",
    "ctpg": "ctpg" + _CLEARED + " - Takes patterns of tp away.\n",
    "ctpe": "ctpe(event) -> ('ok', matched)\n - Traces all messages again.\n",
    "ltp": "ltp() -> None\n - Prints the saved match specifications, and the built-in ones.\n",
    "dtp": "dtp(), dtp(number) -> None\n - Forgets saved match specifications.\n",
    "wtp": "wtp(name) -> None | ('error', reason)\n - Writes match specifications to a file.\n",
    "rtp": "rtp(name) -> None | ('error', reason)\n - Reads match specifications from a file.\n",
    "n": "n(node) -> ('error', reason)\n - Adds a node to those that are traced.\n",
    "cn": "cn(node) -> None\n - Removes a node from those that are traced.\n",
    "ln": "ln() -> None\n - Prints the nodes that are traced.\n",
    "tracer": (
        "tracer() -> ('ok', pid) | ('error', reason)\n"
        " - Prints trace messages.\n"
        "tracer(type, data), tracer(node, type, data)\n"
        " - Hands them to 'process', (handler, state); 'file', name;\n"
        "   'port', generator; or 'module', (tracer_module, state).\n"
        "   limit=, rate= and lost= say when to stop.\n"
    ),
    "trace_port": (
        "trace_port(type, parameters) -> generator\n - Makes a file or IP trace port, for tracer('port', ...).\n"
    ),
    "trace_client": (
        "trace_client(type, parameters), trace_client(type, parameters, (handler, state))\n"
        " - Reads what a trace port wrote: 'file', 'follow_file' or 'ip'.\n"
    ),
    "get_tracer": "get_tracer() -> ('ok', tracer) | ('error', reason)\n - Where trace messages go.\n",
    "flush_trace_port": (
        "flush_trace_port() -> None | ('error', reason)\n - Has the trace port written all that was sent before.\n"
    ),
    "stop": "stop() -> None\n - Ends tracing; nothing is left of it.\n",
    "session": "session(session or name, function) -> result\n - Runs functions of dbg in a session.\n",
    "session_create": "session_create(name) -> session\n - Makes a dbg of its own.\n",
    "session_destroy": "session_destroy(session) -> None\n - Ends it.\n",
}
