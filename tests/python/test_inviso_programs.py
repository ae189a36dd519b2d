"""A prepared program notices nothing at forks, the end, exec, signals and closed descriptors; a listener at rest."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from inviso import log
from inviso.control._control import Control
from inviso_tools import HOST, Node, Peer, Place
from waiting import until

FLAGS = ["call", "timestamp"]


@pytest.fixture
def control(place: Place) -> Iterator[Control]:
    made = Control(name=f"tests@{HOST}")
    yield made
    made.close()


def trace(control: Control, node: Node, name: str = "log") -> None:
    assert control.add([node.node], "mine", {"overload": None})[0][1][0] == "ok"
    assert control.call(None, "init_tracing", ("file", name))[0][1] == ("ok", [("trace_log", "ok")])
    assert control.call(None, "tpl", [("__main__", "step", "_", True)])[0][1] == ("ok", [1])
    assert control.call(None, "tf", [("all", FLAGS)])[0][1][0] == "ok"


def calls(path: Path) -> int:
    return sum(1 for message in log.read(path) if message[0] == "trace_ts" and message[2] == "call")


def stop(control: Control, node: Node) -> int:
    assert control.call(None, "stop_tracing") == [(node.node, ("ok", "idle"))]
    return calls(Path(node.ask("listener.host.component.info()['files']")[0]))


# forks


def test_a_forked_child_has_no_listener(place: Place, control: Control) -> None:
    """No thread and no socket; traced functions run untraced there; the parent goes on."""
    node = place.node()
    trace(control, node)
    node.ask("work(5)")
    node.ask(
        "r, w = os.pipe()\n"
        "if not (pid := os.fork()):\n"
        "    work(100)\n"
        "    links = [f'/proc/self/fd/{one}' for one in os.listdir('/proc/self/fd')]\n"
        "    sockets = [one for one in links if os.path.islink(one) and 'socket' in os.readlink(one)]\n"
        "    import inviso\n"
        "    os.write(w, repr((runtime.listening(), len(os.listdir('/proc/self/task')), sockets)).encode())\n"
        "    os._exit(0)\n"
        "status = os.waitpid(pid, 0)[1]"
    )
    assert node.ask("status") == 0
    listening, threads, sockets = eval(node.ask("os.read(r, 4096).decode()"))
    assert listening is None
    assert threads == 1
    assert sockets == []
    node.ask("work(5)")
    assert stop(control, node) == 10


def test_a_child_may_listen_itself(place: Place, control: Control) -> None:
    node = place.node()
    node.ask(
        "r, w = os.pipe()\n"
        "if not (pid := os.fork()):\n"
        "    own = runtime.listen('child')\n"
        "    os.write(w, own.node.encode())\n"
        "    signal.pause()\n"
    )
    child = node.ask("os.read(r, 4096).decode()")
    try:
        assert child == f"child@{HOST}"
        assert sorted(each.node for each in control.find()) == sorted([child, node.node])
        names = [child, node.node]
        assert control.add(names, "mine", {}) == [(name, ("ok", "new")) for name in names]
    finally:
        os.kill(node.ask("pid"), signal.SIGKILL)


def test_a_child_that_outlives_its_parent_keeps_nothing_open(place: Place, control: Control) -> None:
    """Also if a library forks without the interpreter's knowledge: the end of the process itself is seen."""
    node = place.node(body="import ctypes\n")
    events: list[object] = []
    control.subscribe(lambda event: events.append(event[3]))
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    node.ask(
        "libc = ctypes.PyDLL(None)\n"
        "children = []\n"
        "if not (pid := os.fork()):\n"
        "    signal.pause()\n"
        "children.append(pid)\n"
        "if not (pid := libc.fork()):\n"  # the hooks of the interpreter don't run
        "    libc.pause()\n"
        "children.append(pid)\n"
    )
    children = node.ask("children")
    try:
        assert control.call(None, "get_status") == [(node.node, ("ok", ("new", "running")))]
        node.kill()
        until(lambda: events[-1][:2] == ("disconnected", node.node))
        assert control.nodes() == []
        assert control.add([node.node], "mine", {})[0][1][0] == "error"
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def test_many_forks(place: Place, control: Control) -> None:
    node = place.node()
    trace(control, node)
    node.ask("work(10)")
    node.tell(
        "for _ in range(200):\n"
        "    if not (pid := os.fork()):\n"
        "        work(1)\n"
        "        os._exit(7)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\n"
    )
    while control.call(None, "get_status", timeout=60) == [(node.node, ("ok", ("tracing", "running")))]:
        if node.has_answer():
            break
    assert node.answer() is None
    node.ask("work(10)")
    assert stop(control, node) == 20
    assert node.stderr() == ""


def test_tracing_begins_and_ends_while_the_program_forks(place: Place, control: Control) -> None:
    """A request waits for other threads of the package. These rest during a fork, and the fork waits for the request.

    A fork and a request that wait for each other take :data:`PATIENCE` of meta tracing, which is long here.
    """
    node = place.node(
        body="sys.modules['inviso.runtime._meta'].PATIENCE = 30.0\n", before="import sys, inviso.runtime._meta\n"
    )
    control.timeout = 60.0
    assert control.add([node.node], "mine", {"overload": None})[0][1] == ("ok", "new")
    node.ask(
        "is_over, longest, forks = threading.Event(), 0.0, 0\n"
        "def fork():\n"
        "    global longest, forks\n"
        "    while not is_over.is_set():\n"
        "        began = time.monotonic()\n"
        "        if not (pid := os.fork()):\n"
        "            os._exit(0)\n"
        "        longest, forks = max(longest, time.monotonic() - began), forks + 1\n"
        "        os.waitpid(pid, 0)\n"
        "forking = threading.Thread(target=fork)\n"
        "forking.start()\n"
    )
    data = [("trace", ("file", "log")), ("ti", ("file", "ti"))]
    for _ in range(30):
        assert control.call(None, "init_tracing", data) == [
            (node.node, ("ok", [("trace_log", "ok"), ("ti_log", "ok")]))
        ]
        assert control.call(None, "tf", [("all", FLAGS)])[0][1][0] == "ok"
        assert control.call(None, "flush") == [(node.node, "ok")]
        assert control.call(None, "stop_tracing") == [(node.node, ("ok", "idle"))]
    node.ask("is_over.set() or forking.join()")
    assert node.ask("forks") > 30 and node.ask("longest") < 15


def test_a_fork_in_the_listeners_own_thread(place: Place) -> None:
    """A check of overload forks: it doesn't wait for its own thread."""
    (place.path / "checks.py").write_text(
        "import os\ncalls = []\ndef check(argument):\n"
        "    if not (pid := os.fork()):\n        os._exit(3)\n"
        "    calls.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    node = place.node(before="import sys; sys.path.insert(0, '')\n", allow=("checks",))
    made = Control(name=f"tests@{HOST}")
    try:
        trace(made, node)
        assert made.call(None, "change_options", {"overload": (("checks", "check"), 20)}) == [(node.node, "ok")]
        node.ask("import checks")
        until(lambda: len(node.ask("checks.calls")) >= 3)
        assert set(node.ask("checks.calls")) == {3}
        assert made.call(None, "get_status") == [(node.node, ("ok", ("tracing", "running")))]
    finally:
        made.close()


# the end


@pytest.mark.parametrize("way", ["sys.exit(3)", "raise SystemExit(3)", "os.kill(os.getpid(), signal.SIGINT)"])
def test_a_program_that_ends_while_it_is_traced(place: Place, control: Control, way: str) -> None:
    """The log has all of it, and the status is the program's own."""
    text = f"def main():\n    work(50)\n    {way}\n"
    node = place.node(body="import sys\n" + text)
    trace(control, node)
    node.tell("main()")
    status = node.wait()
    assert status == (-signal.SIGINT if "SIGINT" in way else 3)
    until(lambda: control.nodes() == [])
    assert calls(place.path / "logs" / "log") == 50
    assert os.listdir(place.sockets / "names") == []


@pytest.mark.parametrize(
    "way", ["os._exit(3)", "os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(3)'])"]
)
def test_a_program_that_ends_at_once(place: Place, control: Control, way: str) -> None:
    """Nothing hangs; the written log can be read; the control notices the end."""
    node = place.node(body="import sys\n")
    trace(control, node)
    node.ask("work(50)")
    assert control.call(None, "flush") == [(node.node, "ok")]
    node.tell(way)
    until(lambda: control.nodes() == [])
    assert node.wait() == 3
    assert calls(place.path / "logs" / "log") == 50
    assert control.find() == []


def test_after_exec_the_process_can_be_prepared_again(place: Place, control: Control) -> None:
    node = place.node(body="import sys\n")
    again = "import sys; from inviso import runtime; print(runtime.listen('again').node, flush=True); sys.stdin.read()"
    node.tell(f"os.execv(sys.executable, [sys.executable, '-c', {again!r}])")
    assert node.process.stdout.readline().decode().strip() == f"again@{HOST}"
    assert [(each.node, each.pid) for each in control.find()] == [(f"again@{HOST}", node.pid)]


# descriptors that the program closes


def test_a_program_that_closes_all_descriptors(place: Place, control: Control) -> None:
    """The listener ends with one line. Files that get its numbers stay the program's. Forks and the end work."""
    node = place.node()
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    ours = sorted(int(one) for one in node.ask("os.listdir('/proc/self/fd')"))
    node.ask("os.closerange(3, 5000)")
    # the program takes all the numbers
    node.ask(f"files = [os.open(f'own-{{n}}', os.O_RDWR | os.O_CREAT) for n in range({max(ours) + 20})]")
    until(lambda: control.nodes() == [])
    until(lambda: node.ask("runtime.listening() is None"))
    before = node.ask("time.process_time()")
    node.ask("time.sleep(0.3)")
    assert node.ask("time.process_time()") - before < 0.2
    node.ask("if not (pid := os.fork()): os._exit(0)")
    node.ask("os.waitpid(pid, 0)")
    assert node.ask("[os.fstat(one).st_size for one in files if os.fstat(one).st_size]") == []
    assert node.stderr().splitlines() == ["inviso: the runtime component ends: the program has closed its descriptors"]
    # it can be prepared again
    assert node.ask("runtime.listen('n').node") == f"n@{HOST}"
    assert [each.pid for each in control.find()] == [node.pid]
    node.ask("runtime.stop_listening()")
    node.ask("[os.fstat(one) for one in files] and None")
    node.process.stdin.close()
    assert node.wait() == 0


def test_a_control_that_closes_all_descriptors(place: Place) -> None:
    node, other = place.node(), place.control("other")
    other.ask(f"control.add([{node.node!r}], 't', {{'dependency': 0}})")
    other.ask("os.closerange(3, 5000)")
    other.ask("files = [os.open(f'own-{n}', os.O_RDWR | os.O_CREAT) for n in range(200)]")
    until(lambda: node.ask("listener.host.component is None"))
    other.ask("if not (pid := os.fork()): os._exit(0)")
    other.ask("os.waitpid(pid, 0)")
    other.ask("control.close()")
    assert other.ask("[os.fstat(one).st_size for one in files if os.fstat(one).st_size]") == []
    other.process.stdin.close()
    assert other.wait() == 0


def test_a_daemon(place: Place, control: Control) -> None:
    """The usual two forks, a session of its own, all descriptors closed: nothing of the parent's is touched."""
    node = place.node()
    trace(control, node)
    node.ask(
        "r, w = os.pipe()\n"
        "if not (pid := os.fork()):\n"
        "    os.setsid()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    os.chdir('/')\n"
        "    os.dup2(w, 0)\n"
        "    os.closerange(1, 5000)\n"
        "    files = [os.open('/dev/null', os.O_RDWR) for _ in range(300)]\n"
        "    work(100)\n"
        "    os.write(0, b'done')\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)"
    )
    assert node.ask("os.read(r, 4096)") == b"done"
    node.ask("work(7)")
    assert stop(control, node) == 7


# signals


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_handlers_of_signals_are_the_programs(place: Place, control: Control, name: str) -> None:
    node = place.node(body="got = []\n")
    node.ask(f"before = signal.signal(signal.{name}, lambda number, frame: got.append(threading.get_ident()))")
    trace(control, node)
    node.tell("signal.pause()")
    while not node.has_answer():
        node.kill(getattr(signal, name))
    node.answer()
    assert set(node.ask("got")) == {node.ask("threading.main_thread().ident")}
    node.ask("work(3)")
    assert stop(control, node) == 3
    assert node.ask(f"signal.getsignal(signal.{name}) is not before")


CAUGHT = "int(re.search('SigCgt:\\\\t(.*)', open('/proc/self/status').read())[1], 16) >> 14 & 1"
"""Whether some handler is in place for SIGTERM."""


def test_sigterm_ends_a_program_after_its_log_is_whole(place: Place, control: Control) -> None:
    """Also during its work; the program sees the default action, and ends by it."""
    node = place.node(body="import re\n")
    trace(control, node)
    node.ask("work(5000)")
    assert node.ask("signal.getsignal(signal.SIGTERM) is signal.SIG_DFL")
    node.tell("done = work(5000), os.kill(os.getpid(), signal.SIGTERM), signal.pause()")
    assert node.wait() == -signal.SIGTERM
    assert calls(place.path / "logs" / "log") == 10_000
    assert node.stderr() == ""
    until(lambda: control.nodes() == [])
    assert os.listdir(place.sockets / "names") == []


def test_sigterm_is_left_alone_where_nothing_is_traced(place: Place, control: Control) -> None:
    """Neither before, nor afterwards: there is one thread, and no handler."""
    node = place.node(body="import re\n")
    facts = f"len(os.listdir('/proc/self/task')), {CAUGHT}"
    until(lambda: node.ask(facts) == (2, 0))  # a thread that has ended is there for a moment
    trace(control, node)
    assert node.ask(facts)[1] == 1
    for _ in range(3):
        assert control.call(None, "stop_tracing") == [(node.node, ("ok", "idle"))]
        assert node.ask(CAUGHT) == 0
        assert control.call(None, "init_tracing", ("file", "again"))[0][1][0] == "ok"
        assert node.ask(CAUGHT) == 1
    assert control.remove(None, ends=True) == [(node.node, "ok")]
    until(lambda: node.ask(facts) == (2, 0))
    node.kill(signal.SIGTERM)
    assert node.wait() == -signal.SIGTERM


def test_sigterm_of_a_program_that_handles_it_no_longer(place: Place, control: Control) -> None:
    node = place.node(body="import re\ngot = []\nsignal.signal(signal.SIGTERM, lambda *_: got.append(1))\n")
    trace(control, node)
    node.ask("os.kill(os.getpid(), signal.SIGTERM)")
    assert node.ask("got") == [1]
    node.ask("signal.signal(signal.SIGTERM, signal.SIG_DFL)")
    until(lambda: node.ask(CAUGHT) == 1)
    node.tell("done = work(100), os.kill(os.getpid(), signal.SIGTERM), signal.pause()")
    assert node.wait() == -signal.SIGTERM
    assert calls(place.path / "logs" / "log") == 100


def test_sigterm_while_the_program_ends(place: Place, control: Control) -> None:
    """The log is whole, whichever is the first."""
    for n in range(10):
        node = place.node()
        trace(control, node, f"log-{n}")
        node.ask("work(1000)")
        node.tell("raise SystemExit(3)")
        node.kill(signal.SIGTERM)
        assert node.wait() in (3, -signal.SIGTERM)
        until(lambda: control.nodes() == [])
        assert calls(place.path / "logs" / f"log-{n}") == 1000


def test_sigterm_while_the_interpreter_is_held(place: Place, control: Control) -> None:
    """Native code that keeps the GIL doesn't keep the process alive: after two seconds the signal ends it."""
    node = place.node(body="import re\n")
    trace(control, node)
    node.tell("re.match('(a*)*b', 'a' * 40)")
    node.kill(signal.SIGTERM)
    assert node.wait(timeout=30) == -signal.SIGTERM


def test_a_thread_of_the_program_waits_for_signals(place: Place, control: Control) -> None:
    """A signal that all threads of the program block goes to the thread that waits for it, and never to one of this
    package.
    """
    node = place.node(before="import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n")
    trace(control, node)
    node.tell("signal.sigwait([signal.SIGTERM])")
    until(lambda: control.call(None, "get_status")[0][1] == ("ok", ("tracing", "running")))
    node.kill(signal.SIGTERM)
    assert "SIGTERM" in node.answer()
    assert node.ask("1") == 1


def test_listening_before_signals_are_blocked(place: Place) -> None:
    node = place.node()
    node.ask("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])")
    blocked = node.ask(
        "[int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1 for task in os.listdir('/proc/self/task') "
        "if task != str(os.getpid()) for line in open(f'/proc/self/task/{task}/status') if line.startswith('SigBlk')]"
    )
    assert blocked and all(blocked)


# at rest


def test_a_listener_at_rest_does_nothing(place: Place) -> None:
    """Its thread is not woken in a second, and there is no session; also beside a component that was added."""
    node = place.node(body="from inviso import trace\n")
    with Peer(place.sockets, node.pid) as peer:
        for added in (False, True):
            if added:
                assert peer.call("add", "mine", {}, False) == ("ok", "new")
            thread = until(lambda: node.ask("listener._thread._native_id"))
            status = Path(f"/proc/{node.pid}/task/{thread}/status")
            before = until(lambda status=status: asleep(status))
            time.sleep(1.0)
            assert status.read_text().split("voluntary_ctxt_switches:")[1].split()[0] == before
            assert node.ask("trace.session_info('all')") == []


def asleep(status: Path) -> str | None:
    """The thread's number of waits, once it waits."""
    text = status.read_text()
    return text.split("voluntary_ctxt_switches:")[1].split()[0] if "State:\tS" in text else None


def test_a_traced_program_closes_all_descriptors(place: Place, control: Control) -> None:
    """The log doesn't write into a file that has its number now."""
    node = place.node()
    trace(control, node)
    node.ask("work(10)")
    node.ask("os.closerange(3, 5000)")
    node.ask("files = [os.open(f'own-{n}', os.O_RDWR | os.O_CREAT) for n in range(200)]")
    node.ask("work(1000)")
    until(lambda: control.nodes() == [])
    until(lambda: node.ask("runtime.listening() is None"))
    node.ask("if not (pid := os.fork()): os._exit(0)")
    node.ask("os.waitpid(pid, 0)")
    assert node.ask("[os.fstat(one).st_size for one in files if os.fstat(one).st_size]") == []
    node.process.stdin.close()
    assert node.wait() == 0


def test_controls_and_listeners_that_end_leave_nothing(place: Place) -> None:
    """A service may make a control every minute, for years."""
    child = place.child(
        "import gc, weakref\nfrom inviso import runtime\nfrom inviso.control._control import Control\n"
        "made = []\n"
        "for _ in range(5):\n"
        "    control, listener = Control(name='c@h'), runtime.listen('n')\n"
        "    control.find()\n"
        "    made += [weakref.ref(control._hub), weakref.ref(listener)]\n"
        "    control.close()\n"
        "    runtime.stop_listening()\n"
        "del control, listener\n"
    )
    child.ask("gc.collect()")
    assert child.ask("[one() for one in made if one() is not None]") == []
    assert (
        child.ask(
            "[os.readlink(f'/proc/self/fd/{one}') for one in range(100, 200) if os.path.exists(f'/proc/self/fd/{one}')]"
        )
        == []
    )
