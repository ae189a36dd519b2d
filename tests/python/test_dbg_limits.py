"""dbg ends by itself, and the program never waits for a reader."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import inviso
import pytest
from cli_tools import Terminal
from dbg_tools import HERE, leaf
from inviso import BadArg, dbg, trace
from inviso.dbg._output import Descriptor
from trace_tools import HERE as TESTS
from trace_tools import LIMIT, ROOT, WATCHDOG, Computing, good
from waiting import until

pytestmark = pytest.mark.usefixtures("dbg_over")
PATIENCE = 10.0


def calls(number: int) -> None:
    for n in range(number):
        leaf(n)


def ended() -> bool:
    return dbg.get_tracer()[0] == "error"


def test_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer(limit=3)
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [("_", [], [("return_trace",)])])
    calls(100)
    until(ended)
    until(lambda: trace.session_info("all") == [])
    assert dbg.tp(HERE, "leaf", 1) == ("ok", [("saved", 1)])  # saved patterns stay
    assert dbg.p("all", "c") == ("error", "no_tracers")
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[2].split(":")[0] for line in printed[:3]] == [
        f"call {HERE}", f"returned from {HERE}", f"call {HERE}",
    ]  # fmt: skip
    assert printed[3:] == ["*** dbg stopped: the limit of 3 messages was reached."]
    assert dbg.tracer()[0] == "ok"


@pytest.mark.parametrize("change", ["p", "tp"])
def test_a_limit_may_be_set_later(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer()
    dbg.p(inviso.self(), "c", **({"limit": 2} if change == "p" else {}))
    dbg.tpl(HERE, "leaf", [], **({"limit": 2} if change == "tp" else {}))
    calls(100)
    until(ended)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    dbg.tracer(rate=(5, 60_000))
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    calls(5)
    assert not ended()
    calls(5)
    until(ended)
    assert capsys.readouterr().out.splitlines()[5:] == [
        f"({inviso.self()}) call {HERE}:leaf(0)", "*** dbg stopped: there were more than 5 messages in 60 s.",
    ]  # fmt: skip


def test_a_rate_begins_anew() -> None:
    seen: list[Any] = []
    dbg.tracer("process", (lambda message, _: seen.append(message), None), rate=(5, 1))
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    for n in range(20):
        leaf(n)
        until(lambda n=n: len(seen) > n)
        time.sleep(0.002)
    assert not ended()


@pytest.mark.parametrize("group", ["all", "processes", "existing", "existing_processes", "new", "new_processes"])
@pytest.mark.parametrize("pattern", [dbg.tp, dbg.tpl])
def test_everything_needs_a_limit(group: str, pattern: Any) -> None:
    def tracer(**limits: Any) -> None:
        dbg.stop()
        dbg.tracer("process", (lambda message, state: state, None), **limits)

    text = r"say how much of it with limit= or rate=, as in dbg.tracer\(limit=1000\)"
    tracer()
    dbg.p(group, ["m", "c"])
    with pytest.raises(BadArg, match=text):
        pattern("_", [])
    with pytest.raises(BadArg, match=text):
        pattern(("_", "_", "_"), "x")
    assert pattern(HERE, "leaf", [])[0] == "ok"
    dbg.p(group, "clear")
    assert pattern("_", [])[0] == "ok"
    with pytest.raises(BadArg, match=text):
        dbg.p(group, "all")
    assert dbg.p(group, "m")[0] == "ok"
    dbg.ctp()
    assert dbg.p(group, "c")[0] == "ok"
    dbg.stop()
    for limits in ({"limit": 10}, {"rate": 10}):
        tracer(**limits)
        assert dbg.p(group, "c")[0] == "ok" and pattern("_", [])[0] == "ok"
    tracer()
    assert pattern("_", [], limit=10)[0] == "ok" and dbg.p(group, "c")[0] == "ok"


def test_one_process_or_ports_are_not_everything() -> None:
    dbg.tracer("process", (lambda message, state: state, None))
    assert dbg.p("ports", ["s", "c"])[0] == "ok"
    assert dbg.tpl("_", [("_", [("==", 1, 2)], [])])[0] == "ok"
    assert dbg.p(inviso.self(), "c")[0] == "ok"


def test_it_ends_when_it_falls_behind(capsys: pytest.CaptureFixture[str]) -> None:
    go = threading.Event()
    dbg.tracer("process", (lambda message, state: go.wait(), None))
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    calls(100_000)  # nothing waits
    go.set()
    until(ended)
    text = capsys.readouterr().out
    found = re.fullmatch(r"\*\*\* dbg stopped: it fell behind, and (\d+) messages were lost\.\n", text)
    assert found and 10_000 < int(found[1]) < 100_000


def test_the_user_sets_how_many_may_be_lost() -> None:
    go = threading.Event()
    seen: list[Any] = []
    dbg.tracer("process", (lambda message, state: go.wait() and seen.append(message), None), lost=1 << 40)
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    calls(100_000)
    go.set()

    def is_over() -> bool:
        last = seen[-1] if seen else ("drop",)
        return last[0] == "trace" and last[3][2] == [99_999]

    until(lambda: is_over() or leaf(99_999) is None)
    lost = sum(message[1] for message in seen if message[0] == "drop")
    assert lost > 10_000 and not ended()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads run in parallel here")
def test_lines_are_written_without_giving_the_gil_away() -> None:
    """A release of the GIL costs a switch interval for each line, however short the call is."""
    reading, writing = os.pipe()
    output = Descriptor(writing)
    try:
        with Computing() as beside:
            time.sleep(0)  # takes the GIL again
            seen = beside.steps
            for n in range(100):
                assert output.write(f"line {n}") == 0
            assert beside.steps == seen
        assert os.read(reading, 1 << 16).count(b"\n") == 100
    finally:
        assert output.finish(PATIENCE) == 0
        os.close(reading)
        os.close(writing)


PROGRAM = """
import os, signal, sys, threading
import inviso
from inviso import dbg
def f(x): pass
dbg.tracer(**eval(sys.argv[1])); dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
"""


class Piped:
    """A program with an unread standard output; its standard error shows that it lives."""

    def __init__(self, text: str, options: str = "{}") -> None:
        path = os.pathsep.join([str(TESTS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WATCHDOG + PROGRAM + text, options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def sign(self) -> str:
        assert self.process.stderr
        return self.process.stderr.readline().strip()

    def close(self) -> None:
        assert self.process.stdout
        self.process.stdout.close()

    def rest(self) -> tuple[str, str]:
        assert self.process.stdout and self.process.stderr
        out = "" if self.process.stdout.closed else self.process.stdout.read()
        err = self.process.stderr.read()
        assert self.process.wait(LIMIT) == 0, err
        self.process.stderr.close()
        if not self.process.stdout.closed:
            self.process.stdout.close()
        return out, err


def test_a_reader_that_stands_still_stops_nobody() -> None:
    program = Piped("""
for n in range(50_000): f("x" * 100)
print("calls are done", file=sys.stderr, flush=True)
while dbg.get_tracer()[0] == "ok": f("x" * 100)
print("tracing has ended", file=sys.stderr, flush=True)
""")
    assert program.sign() == "calls are done"
    assert program.sign() == "tracing has ended"
    out, err = program.rest()
    assert err == ""
    lines = out.splitlines()
    assert re.fullmatch(r"\*\*\* dbg stopped: it fell behind, and \d+ messages were lost\.", lines[-1])
    assert len(lines) > 1000 and all(" call __main__:f('xx" in line or line.startswith("***") for line in lines)


def test_half_of_a_pipe_is_the_program_s() -> None:
    program = Piped(
        """
for n in range(20_000): f("x" * 100)
import fcntl, termios, time
half = fcntl.fcntl(1, fcntl.F_GETPIPE_SZ) // 2
while int.from_bytes(fcntl.ioctl(1, termios.FIONREAD, bytes(4)), sys.byteorder) < half: time.sleep(0.001)
os.write(1, b"a line of its own\\n" * 100)
print("it was written", file=sys.stderr, flush=True)
""",
        "{'lost': 1 << 40}",
    )
    assert program.sign() == "it was written"
    out, err = program.rest()
    assert (out.count("a line of its own\n"), err) == (100, "")


def test_no_line_comes_inside_another_one(tmp_path: Path) -> None:
    program = Piped(
        """
import os
for n in range(3000):
    f(("x" * 70, n))
    if n % 3 == 0: os.write(1, b"a line of its own\\n")
dbg.stop()
""",
        "{'lost': 1 << 40}",
    )
    lines = []
    assert program.process.stdout
    while line := program.process.stdout.readline():  # slowly
        lines.append(line)
        if len(lines) % 50 == 0:
            time.sleep(0.005)
    assert sum(line == "a line of its own\n" for line in lines) == 1000
    assert all(line.startswith(("(<", "***", "a line")) and line.count("(<") < 2 for line in lines)
    program.rest()


def test_a_terminal_that_leaves_lines_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("termios")
    import pty
    import tty

    try:
        reader, writer = pty.openpty()
    except OSError as error:
        pytest.skip(str(error))
    monkeypatch.setitem(sys.modules, "_pyrepl", sys)
    try:
        output = Descriptor(writer)
        tty.setraw(writer)
        output.write("one\nof two")
        output.write("äöü")
        due, came = "one\r\nof two\r\näöü\r\n".encode(), b""
        while len(came) < len(due):  # the written bytes arrive in parts
            came += os.read(reader, 1000)
        assert came == due
        assert output.finish(1) == 0
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("error", ["SystemExit(1)", "KeyboardInterrupt", "GeneratorExit", "ValueError(1)"])
def test_a_handler_that_raises_ends_it_and_is_told_of(error: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f() -> None: ...

    def handler(message: Any, state: Any) -> Any:
        raise eval(error)

    dbg.tracer("process", (handler, 0))
    dbg.p(inviso.self(), "c")
    dbg.tpl(__name__, f.__qualname__, [])
    f()
    assert dbg._session._default.settle(30)
    dbg.stop()
    out, err = capsys.readouterr()
    name = error.partition("(")[0]
    assert f"*** dbg stopped: its handler raised {name}.\n" in out + err and f"{name}" in err.splitlines()[-1]


def test_a_stream_that_can_not_be_written_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bad:
        def write(self, text: str) -> None:
            raise RuntimeError("it can't be written")

        def flush(self) -> None: ...

    def f() -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Bad())
        dbg.tracer()
    dbg.p(inviso.self(), "c")
    dbg.tpl(__name__, f.__qualname__, [])
    f()
    assert dbg._session._default.settle(30)
    dbg.stop()
    assert "RuntimeError: it can't be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "call",
    [
        lambda: dbg.tp("json", "loads", "nope", limit=2),
        lambda: dbg.tp("json", "loads", [("_", [], [("nofn",)])], limit=2),
        lambda: dbg.tp("json", "loads", 3.5, limit=2),
        lambda: dbg.tpl("_", "f", [], limit=2),
        lambda: dbg.p(1.5, "c", limit=2),
        lambda: dbg.p("nobody", "c", limit=2),
        lambda: dbg.p(inviso.self(), "zz", limit=2),
    ],
)
def test_what_fails_sets_no_limit(call: Any) -> None:
    def f() -> None: ...

    seen: list[Any] = []
    dbg.tracer("process", (lambda message, state: seen.append(message), 0))
    dbg.p(inviso.self(), "c")
    dbg.tpl(__name__, f.__qualname__, [])
    with contextlib.suppress(BadArg):
        call()
    for _ in range(10):
        f()
    dbg.stop()
    assert len(seen) == 10


def test_a_slow_reader_is_told_of_what_was_lost() -> None:
    program = Piped(
        """
for n in range(30_000): f("x" * 100)
print("calls are done", file=sys.stderr, flush=True)
""",
        "{'lost': 1 << 40}",
    )
    assert program.sign() == "calls are done"
    out, err = program.rest()
    assert err == ""
    lost = sum(map(int, re.findall(r"^\*\*\* Dropped (\d+) messages\.$", out, re.MULTILINE)))
    assert out.count(" call __main__:f('") + lost <= 30_000 and lost > 0


@pytest.mark.parametrize("how", ["", "signal.signal(signal.SIGPIPE, signal.SIG_DFL)"])
def test_a_reader_that_goes_away_ends_it(how: str) -> None:
    program = Piped(f"""
{how}
f(1)
print("begun", file=sys.stderr, flush=True)
while dbg.get_tracer()[0] == "ok": f(1)
print("over", file=sys.stderr, flush=True)
sys.stdout = None
""")
    assert program.sign() == "begun"
    program.close()
    assert program.sign() == "over"
    assert program.rest() == ("", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_lines_wait() -> None:
    program = Piped("""
for n in range(6_000): f("x" * 100)
status = []
for n in range(20):
    child = os.fork()
    if child == 0:
        f("child")
        assert dbg.get_tracer()[0] == "error"
        os._exit(0)
    status.append(os.waitpid(child, 0)[1])
    f("parent")
print("forked", status == [0] * 20, file=sys.stderr, flush=True)
""")
    assert program.sign() == "forked True"
    out, err = program.rest()
    assert err == "" and "'child'" not in out
    assert out.count("f('parent')") == 20 or "Dropped" in out


def test_a_child_may_trace_by_itself() -> None:
    out = good("""
import os, inviso
from inviso import dbg
def f(x): pass
dbg.tracer(); dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
child = os.fork()
if child == 0:
    assert dbg.tracer()[0] == "ok"
    dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
    f("child")
    dbg.stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
f("parent")
""")
    assert len(re.findall(r"f\('child'\)", out)) == len(re.findall(r"f\('parent'\)", out)) == 1


def test_a_program_that_closes_its_files_keeps_them() -> None:
    out = good("""
import os, inviso
from inviso import dbg
def f(x): pass
dbg.tracer(); dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
os.closerange(3, 1000)
mine = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
f(1)
while dbg.get_tracer()[0] == "ok": f(1)
dbg.stop()
for number in mine: os.close(number)
print("fine")
""")
    assert out == "fine\n"


def test_a_stream_that_is_closed_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    dbg.tracer()
    monkeypatch.undo()
    stream.close()
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    leaf(1)
    until(ended)


def test_a_stream_of_another_encoding_has_the_rest_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    out = io.BytesIO()
    stream = io.TextIOWrapper(out, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    dbg.tracer()
    dbg.p(inviso.self(), "c")
    dbg.tpl(HERE, "leaf", [])
    leaf("\u20ac")
    dbg.stop()
    dbg.dhandler(("trace", inviso.self(), "call", ("m", "f", ["\u20ac"])), stream)
    monkeypatch.undo()
    stream.flush()
    text = out.getvalue().decode("ascii")
    assert text.count("('\\u20ac')") == 2 and "stopped" not in text


def test_lines_stand_in_the_cell_that_was_traced() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    sources = [
        "import inviso, threading\nfrom inviso import dbg\ndef f(x): return x\n",
        "_ = dbg.tracer(), dbg.p('all', 'c'), dbg.tpl('__main__', 'f', [])",
        "f(1);",
        "t = threading.Thread(target=f, args=(2,)); t.start(); t.join()",
        "f('x' * 5000); print('mine')",
        "dbg.stop()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=LIMIT, kernel_name="python3").execute()
    texts = ["".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream") for cell in notebook.cells]
    assert texts[1] == texts[5] == ""
    assert re.fullmatch(r"\(<0\.\d+\.\d+>\) call __main__:f\(1\)\n", texts[2]), texts
    assert re.fullmatch(r"\(<0\.\d+\.\d+>\) call __main__:f\(2\)\n", texts[3]), texts
    traced = re.findall(r"\(<.*call .*", texts[4])  # print writes the end of a line by itself
    assert len(traced) == 1 and len(traced[0]) == dbg.LINE and texts[4].startswith("mine")


def test_at_a_prompt_on_a_terminal() -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    terminal = Terminal([sys.executable, "-q", "-i"], PYTHONPATH=path, PYTHON_BASIC_REPL="1")

    def typed(line: str, text: str) -> None:
        terminal.seen = ""
        os.write(terminal.master, line.encode() + b"\n")
        terminal.until(text)

    terminal.until(">>> ")
    typed("import inviso; from inviso import dbg", ">>> ")
    typed("def f(x): return x + 1\n", ">>> ")
    typed("dbg.tracer()", "('ok', <0.")
    typed("dbg.p(inviso.self(), 'c'), dbg.tpl('__main__', 'f', 'x')", "('saved', 'x')")
    typed("f(41)", "returned from __main__:f/1 -> 42")
    assert "call __main__:f(41)" in terminal.seen
    typed("dbg.stop()", ">>> ")
    typed("f(1), 'over'", "(2, 'over')")
    assert "call" not in terminal.seen
    os.write(terminal.master, b"exit()\n")
    terminal.rest()
    assert terminal.process.returncode == 0


def test_no_standard_output_at_all() -> None:
    good("""
import sys
sys.stdout = None
import inviso
from inviso import dbg
def f(x): pass
dbg.tracer(); dbg.p("all", "c"); dbg.tpl("__main__", "f", [])
while dbg.get_tracer()[0] == "ok": f(1)
""")


def test_an_interrupt_is_the_programs() -> None:
    program = Piped(
        """
try:
    print("begun", file=sys.stderr, flush=True)
    while True: f(1)
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr, flush=True)
dbg.stop()
""",
        "{'limit': 100}",
    )
    assert program.sign() == "begun"
    program.process.send_signal(signal.SIGINT)
    assert program.sign() == "interrupted"
    program.rest()


@pytest.mark.parametrize("ask", ["dbg.stop()", "dbg.get_tracer()", "dbg.tracer()"])
def test_a_file_that_can_not_be_written_is_told_of_once(ask: str, tmp_path: Path) -> None:
    program = f"""
import resource, time, inviso
from inviso import dbg
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
def f(n): pass
dbg.tracer("file", "calls.txt"); dbg.p(inviso.self(), "c"); dbg.tpl(__name__, "f", [])
for n in range(300): f(n)
dbg._session._default.settle(5)
while dbg._session._default._tracing.ended is None: time.sleep(0.001)
{ask}
dbg.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    told = re.fullmatch(r"\*\*\* dbg stopped: calls\.txt: File too large; (\d+) messages were lost\.\n", done.stderr)
    assert told is not None, done.stderr
    whole = (tmp_path / "calls.txt").read_text().count("\n")
    assert 0 < int(told[1]) <= 300 - whole


def test_a_file_that_somebody_empties_goes_on_at_its_beginning(tmp_path: Path) -> None:
    def f(n: int) -> None: ...

    path = tmp_path / "calls.txt"
    dbg.tracer("file", str(path))
    dbg.p(inviso.self(), "c")
    dbg.tpl(__name__, "_", "_", [], limit=1000)
    f(1)
    assert dbg._session._default.settle(30)
    until(lambda: path.stat().st_size > 0)
    os.truncate(path, 0)
    f(2)
    dbg.stop()
    text = path.read_text()
    assert "\0" not in text and "f(2)" in text and "f(1)" not in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_port_that_can_not_be_written_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def f(n: int) -> None: ...

    (tmp_path / "log").symlink_to("/dev/full")
    dbg.tracer("port", dbg.trace_port("file", str(tmp_path / "log")))
    dbg.p(inviso.self(), "c")
    dbg.tpl(__name__, "_", "_", [], limit=1000)
    f(1)
    dbg.stop()
    dbg.stop()
    error = capsys.readouterr().err
    assert error.count("*** dbg:") == 1 and "No space left on device" in error and "lost." in error


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's pipes grow")
@pytest.mark.parametrize("grows", [True, False])
def test_what_waits_at_the_end_is_written_or_counted(grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    grow = Descriptor._make_room
    if not grows:  # as if the system allowed a pipe one more page only
        monkeypatch.setattr(Descriptor, "_make_room", lambda self, size: grow(self, size) if size < 10_000 else None)
    reader, writer = os.pipe()
    output = Descriptor(writer)
    os.close(writer)
    for n in range(2000):
        output.write(f"{n:099}")
    left = output.finish(0.1)
    with open(reader, encoding="ascii") as file:
        lines = file.read().splitlines()
    if grows:
        assert left == 0 and len(lines) == 2000
    else:
        assert left > 0 and lines[-1] == f"*** Dropped {2000 - (len(lines) - 1)} messages."
