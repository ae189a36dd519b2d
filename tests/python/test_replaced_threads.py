"""Programs that replace threads, locks and sleep by greenlets, as gevent does: ours stay those of the system."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from cli_tools import execute
from inviso import seq_trace, trace
from inviso._system import Flag
from trace_tools import good

REPLACE = """
import _thread, threading, time

class Lock:
    # As among greenlets of which there is one: who waits for another one waits for ever, and is told so.
    count = 0
    def acquire(self, blocking=True, timeout=-1):
        if self.count and blocking and timeout:
            raise RuntimeError("this operation would block for ever")
        if not self.count:
            self.count = 1
            return True
        return False
    def release(self):
        self.count -= 1
    def locked(self):
        return bool(self.count)
    def __enter__(self):
        self.acquire()
    def __exit__(self, *error):
        self.release()

class RLock(Lock):
    def acquire(self, blocking=True, timeout=-1):
        self.count += 1
        return True

def never(*arguments, **named):
    return 1

REPLACED = {
    **dict.fromkeys(("start_new_thread", "start_joinable_thread"), never),
    **dict.fromkeys(("_start_new_thread", "_start_joinable_thread"), never),
    "allocate_lock": Lock, "_allocate_lock": Lock, "Lock": Lock, "RLock": RLock, "sleep": never,
}

def replace():
    for module in (_thread, threading, time):
        for name, value in REPLACED.items():
            if hasattr(module, name):
                setattr(module, name, value)
"""
SESSION = """
import json, os
{first}
from inviso import seq_trace, trace
{second}
seen = []
session = trace.session_create("own", seen.append)
{third}
session.process("all", True, ["call", "arity"])
session.function(("json", "loads", "_"), True, ["local"])
json.loads("1")
assert session.delivered().wait(30)
child = os.fork()
if not child:
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
json.loads("2")
assert session.delivered().wait(30)
session.destroy()
print(len(seen), [message[2] for message in seen])
with seq_trace.Collector() as collector:
    seq_trace.set_token("print", True)
    seq_trace.print("here")
    print(len(collector.output().events))
"""


@pytest.mark.parametrize("when", ["first", "second", "third"])
def test_a_tracer_of_a_program_with_greenlets_is_a_thread(when: str) -> None:
    parts = dict.fromkeys(("first", "second", "third"), "") | {when: "replace()"}
    assert good(REPLACE + SESSION.format(**parts)) == "2 ['call', 'call']\n1\n"


PROGRAM = f"""
{REPLACE}
replace()
import json, os
for n in range(300):
    json.loads(str(n))
if not (child := os.fork()):
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_lines_of_a_program_with_greenlets_are_written_by_a_thread(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "inviso", "trace", "-p", "json:loads", "--limit", "1000", "-o", "calls.txt"]
    run = execute([*words, "program.py"], tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "3\n", "")
    assert (tmp_path / "calls.txt").read_text().count(" call json:loads(") == 300


def test_threads_of_ours_are_none_of_the_programs() -> None:
    before = threading.enumerate()
    with trace.session_create("seen", print), seq_trace.Collector():
        assert threading.enumerate() == before


def test_all_threads_that_wait_see_a_flag() -> None:
    flag, seen = Flag(), []
    waiting = [threading.Thread(target=lambda: seen.append(flag.wait())) for _ in range(4)]
    for thread in waiting:
        thread.start()
    assert not flag.wait(0) and not flag.is_set()
    setting = [threading.Thread(target=flag.set) for _ in range(4)]
    for thread in setting:
        thread.start()
    for thread in (*setting, *waiting):
        thread.join(30)
    assert seen == [True] * 4 and flag.wait(0) and flag.is_set()
