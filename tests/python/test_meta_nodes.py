"""Meta tracing of other processes: names that a control may use, and the results."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from trace_tools import SUBJECTS, good

HEAD = f"""
import os, socket, subprocess, sys
import inviso
from inviso import control, log

folder, host = sys.argv[1], socket.gethostname()
os.environ["INVISO_DIR"] = os.path.join(folder, "sockets")
inviso.set_node("control@" + host)

class Node:
    def __init__(self, name, *allow):
        self.name = name + "@" + host
        program = "import sys; sys.path.append({str(SUBJECTS)!r}); import meta_node; meta_node.main()"
        words = [sys.executable, "-c", program, name, os.path.join(folder, name), *allow]
        self.program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.program.stdout.readline() == "ready\\n"

    def do(self, *words):
        print(*words, file=self.program.stdin, flush=True)
        assert self.program.stdout.readline() == "done\\n"

    def end(self):
        self.program.stdin.close()
        assert self.program.wait(30) == 0
        self.program.stdout.close()

def bare(answer):
    assert answer[0] == "ok"
    return [result for _, result in answer[1]]
"""

NODES = [f"shop-{n}@{socket.gethostname()}" for n in (1, 2)]
KINDS = [("trace", "log"), ("ti", "ti")]

TWO = """
nodes = Node("shop-1", "meta_node"), Node("shop-2", "meta_node")
control.start()
control.add_nodes([node.name for node in nodes], "tag")
spec = ("inviso.meta", "init_std_publld", [4, []]), None, ("inviso.meta", "clean_std_publld")
data = [(node.name, [("trace", ("file", "t.log")), ("ti", ("file", "t.ti", spec))]) for node in nodes]
print(bare(control.init_tracing(data)))
print(bare(control.tpm_localnames()))
print(bare(control.tpm("meta_node", "assoc_id", 2, [], ("meta_node", "call_assoc_id"))))
print(bare(control.tpm([nodes[0].name], "meta_node", "assoc_id", 2, [], ("meta_node", "call_assoc_id"))))
for number, node in enumerate(nodes):
    node.do("assoc", f"order-{number}")
    node.do("register", f"cashier-{number}")
    node.do("thread", f"worker-{number}")
statuses = control._component.current_control("status").call(None, "meta_status")
print([answer[1]["entries"] > 0 for _, answer in statuses])
print(bare(control.stop_tracing()))
for node in nodes:
    entries = list(log.read(os.path.join(folder, node.name.partition("@")[0], "t.ti")))
    print([entry[1:3] for entry in entries if entry[1] != "MainThread"], len({entry[0] for entry in entries}))
print(bare(control.list_logs()))
os.mkdir(os.path.join(folder, "here"))
print(bare(control.fetch_log(os.path.join(folder, "here"), "1-")))
control.stop_all()
for node in nodes:
    node.end()
"""


def test_two_nodes(tmp_path: Path) -> None:
    begun = ("ok", [("trace_log", "ok"), ("ti_log", "ok")])
    names = [[(f"order-{n}", "alias"), (f"cashier-{n}", "alias"), (f"worker-{n}", "alias")] for n in range(2)]
    logs = ("ok", [("trace_log", ".", ["t.log"]), ("ti_log", ".", ["t.ti"])])
    assert good(HEAD + TWO, str(tmp_path)).splitlines() == [
        str([begun, begun]),
        str([(("ok", 1), ("ok", 1))] * 2),
        str([("ok", 1), ("ok", 1)]),
        str([("error", "already_initiated")]),
        str([True, True]),
        str([("ok", "idle")] * 2),
        f"{names[0]} 2",
        f"{names[1]} 2",
        str([logs, logs]),
        str([("complete", [(f"{kind}_log", [("ok", f"1-{node}-t.{end}")]) for kind, end in KINDS]) for node in NODES]),
    ]
    assert sorted(os.listdir(tmp_path / "here")) == sorted(f"1-{node}-t.{end}" for node in NODES for _, end in KINDS)


REFUSED = """
node = Node("strict")
control.start()
control.add_nodes([node.name], "tag")
def begin(*spec):
    part = ("file", "t.ti", spec) if spec else ("file", "t.ti")
    return bare(control.init_tracing([("ti", part)]))[0]
for function in ("system", "getcwd"):
    print(begin(("os", function, []), None, None))
print(begin(("inviso.meta", "write_ti", [b"x"]), None, None))
print(begin(("inviso.meta", "init_std_publld", [1, 0]), ("inviso.trace", "session_info"), None))
print(bare(control.get_status())[0], os.path.exists(os.path.join(folder, "strict", "t.ti")))
print(begin())
refused = [("meta_node", "unlisted"), ("inviso.meta", "bare"), ("inviso.runtime._meta", "Meta"), ("os", "path.join")]
for named in refused:
    print(bare(control.tpm("meta_node", "assoc_id", 2, [], named))[0])
print(bare(control.init_tracing([("ti", ("file", "../t.ti"))]))[0][0])
try:
    control.tpm("meta_node", "assoc_id", 2, [], print)
except inviso.BadArg as wrong:
    print(wrong)
print(bare(control.tpm("meta_node", "assoc_id", 2, [], None))[0])
control.stop_all()
node.end()
"""


def test_what_a_control_may_not_name(tmp_path: Path) -> None:
    def no(module: str, function: str) -> str:
        return str(("error", ("not_allowed", (module, function))))

    lines = good(HEAD + REFUSED, str(tmp_path)).splitlines()
    assert lines[:4] == [
        no("os", "system"),
        no("os", "getcwd"),
        no("inviso.meta", "write_ti"),
        no("inviso.trace", "session_info"),
    ]
    assert lines[4:6] == ["('ok', ('new', 'running')) False", "('ok', [('ti_log', 'ok')])"]
    assert lines[6:10] == [
        no("meta_node", "unlisted"),
        no("inviso.meta", "bare"),
        no("inviso.runtime._meta", "Meta"),
        no("os", "path.join"),
    ]
    assert lines[10] == "error"
    assert lines[11].startswith("control.tpm, callbacks: functions go to no other process; name one as")
    assert lines[12:] == ["('ok', 1)"]
