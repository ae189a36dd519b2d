"""Magics: cells that run under them, in a shell of this process, in a kernel, and at a prompt on a terminal."""

from __future__ import annotations

import asyncio
import doctest
import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import inviso
import pytest
from cli_tools import LIMIT, Terminal
from inviso import seq_trace, tprof, trace
from inviso._table import SIZE, Table

pytest.importorskip("IPython")
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output

NAMES = ("tprof -p __main__", "trace", "messages", "tokens")
DEFINED = """
import asyncio, json, queue, threading
def f(x):
    return x + 1
async def g(x):
    await asyncio.sleep(0)
    return f(x)
"""


class Ran:
    """A cell that has run: its output, displays, and variables."""

    def __init__(self, shell: InteractiveShell, code: str) -> None:
        with capture_output() as seen:
            self.result = shell.run_cell(code, store_history=True)
        self.out: str = seen.stdout
        self.err: str = seen.stderr
        outputs: list[RichOutput] = seen.outputs
        self.tables = [output.data for output in outputs if "<table" in output.data.get("text/html", "")]
        self.displayed = [output.data for output in outputs]

    @property
    def table(self) -> str:
        """The only table."""
        [shown] = self.tables
        assert len(shown["text/html"].encode()) <= SIZE
        return str(shown["text/plain"])


class Shell:
    """A shell of IPython with the magics, and the definitions of its first cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.names: dict[str, Any] = shell.user_ns

    def __call__(self, code: str) -> Ran:
        ran = Ran(self.shell, code)
        assert trace.session_info("all") == [] and inviso._magics.cells == {}  # type: ignore[attr-defined]
        assert seq_trace.get_token() is None and seq_trace.get_system_tracer() is False
        return ran


@pytest.fixture(scope="module")
def only_shell() -> Iterator[InteractiveShell]:
    from traitlets.config import Config

    main, hook = sys.modules["__main__"], sys.excepthook
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    yield shell
    InteractiveShell.clear_instance()
    sys.modules["__main__"], sys.excepthook = main, hook


@pytest.fixture
def shell(only_shell: InteractiveShell) -> Iterator[Shell]:
    only_shell.reset()
    only_shell.run_line_magic("load_ext", "inviso")
    made = Shell(only_shell)
    made(DEFINED)
    yield made
    only_shell.run_line_magic("unload_ext", "inviso")


def functions(table: str) -> list[str]:
    return re.findall(r"\S+:\S+/\d+", table)


def test_a_profile_of_a_cell(shell: Shell) -> None:
    ran = shell("%%tprof -o seen\ny = [json.loads('[1]') for _ in range(3)]\nz = f(4)")
    assert {"__main__:<module>/0", "__main__:f/1", "json.decoder:JSONDecoder.decode/3"} <= set(functions(ran.table))
    assert not re.search(r"IPython|ipykernel|traitlets|inviso", ran.table)
    assert shell.names["z"] == 5 and len(shell.names["y"]) == 3
    profile = shell.names["seen"]
    assert isinstance(profile, tprof.Profile) and profile["json.decoder:JSONDecoder.decode/3"].calls == 3
    assert profile is shell.names["_"] is shell.names["Out"][shell.shell.execution_count - 1]
    assert profile.type == "call_time" and profile["__main__:<module>/0"].calls == 1


def test_an_empty_cell_has_nothing_but_itself(shell: Shell) -> None:
    assert functions(shell("%%tprof\npass").table) == ["__main__:<module>/0"]
    assert shell("%%trace -p _\npass").displayed[0]["text/plain"] == "No events were seen"


@pytest.mark.parametrize("kind", ["call_count", "call_time", "call_memory"])
def test_types_and_patterns(shell: Shell, kind: str) -> None:
    ran = shell(f"%%tprof -t {kind} -p __main__:f -p 'json.**' -o seen\nf(1)\n_ = json.dumps(f(2))")
    profile = shell.names["seen"]
    assert profile.type == kind and profile["__main__:f/1"].calls == 2
    assert profile.measurement > 0
    if kind == "call_memory":
        assert " own bytes " in ran.table and f" {profile['__main__:f/1'].measurement * 8:,} " in ran.table
    assert "json:dumps/11" in functions(ran.table) and "<module>" not in ran.table


def test_counts_are_of_the_cell_alone(shell: Shell) -> None:
    busy = "import threading\nstop = threading.Event()\ndef other():\n    while not stop.is_set(): f(1)\n"
    shell(busy + "t = threading.Thread(target=other); t.start()")
    shell("%%tprof -t call_count -p __main__ -o seen\nf(1)")
    shell("stop.set(); t.join()")
    assert shell.names["seen"]["__main__:f/1"].calls == 1


def test_per_process_is_still_one_table(shell: Shell) -> None:
    code = "t = threading.Thread(target=f, args=(1,), name='helper'); t.start(); t.join()"
    table = shell(f"%%tprof -p __main__ --per-process\n{code}").table
    assert re.search(r"^cell +__main__:<module>/0 ", table, re.MULTILINE)
    assert re.search(r"^helper +__main__:f/1 ", table, re.MULTILINE)


def test_calls_with_arguments_results_and_exceptions(shell: Shell) -> None:
    ran = shell("%%trace -o seen\nf(1)\nf('<b>')")
    assert isinstance(ran.result.error_in_exec, TypeError)
    seen = shell.names["seen"]
    assert [(row["process"], row["event"], row["what"], row["other"]) for row in seen[:3]] == [
        ("cell", "call", "__main__:f(1)", ""),
        ("cell", "return", "__main__:f/1", "2"),
        ("cell", "call", "__main__:f('<b>')", ""),
    ]
    assert seen[3]["event"] == "exception" and seen[3]["other"].startswith("TypeError('can only concatenate")
    assert 0 <= seen[0]["ms"] <= seen[1]["ms"]
    assert "&lt;b&gt;" in ran.tables[0]["text/html"] and "<b>" not in ran.tables[0]["text/html"]
    assert seen.events[0][2] == "call" and len(list(seen)) == len(seen) == 4
    assert repr(seen) == "<4 events>" and str(seen).count("\n") == 5


def test_messages_between_threads_and_tasks(shell: Shell) -> None:
    shell(
        "%%messages -o seen\nq = queue.Queue()\n"
        "t = threading.Thread(target=lambda: q.put('done'), name='helper'); t.start(); t.join()\nq.get()"
    )
    assert [(row["process"], row["event"], row["what"]) for row in shell.names["seen"]] == [
        ("helper", "send", "'done'"),
        ("cell", "receive", "'done'"),
    ]
    shell(
        "%%messages -o seen\nq = asyncio.Queue()\n"
        "t = asyncio.create_task(q.put(3), name='putter')\nawait t\nawait q.get()"
    )
    rows = [(row["process"], row["event"], row["what"]) for row in shell.names["seen"]]
    assert rows == [("putter", "send", "3"), ("cell", "receive", "3")]
    assert shell.names["seen"][0]["other"].startswith("asyncio.queues.Queue <0.")


def test_a_token_reaches_what_ran_before(shell: Shell) -> None:
    shell(
        "asked, answered = queue.Queue(), queue.Queue()\n"
        "def work():\n    while (n := asked.get()) is not None: answered.put(n + 1)\n"
        "t = threading.Thread(target=work, name='worker'); t.start()"
    )
    ran = shell("%%tokens --label 'order 7' --chart -o seen\nasked.put(1)\nassert answered.get() == 2")
    shell("asked.put(None); t.join()")
    rows = [(row["process"], row["event"], row["what"]) for row in shell.names["seen"]]
    assert rows[:2] == [("cell", "send", "1"), ("worker", "receive", "1")]
    assert rows[2:] == [("worker", "send", "2"), ("cell", "receive", "2")]
    assert {entry.label for entry in shell.names["seen"].events} == {"order 7"}
    assert ["image/svg+xml" in data for data in ran.displayed] == [False, True]


@pytest.mark.parametrize("kind", ["call_time", "call_memory", "call_count"])
def test_a_flame_graph(shell: Shell, kind: str) -> None:
    ran = shell(f"%%tprof -t {kind} -p __main__ --flame\nf(1)")
    table, picture = ran.displayed
    assert "f" in table["text/html"] and "__main__:f/1" in picture["text/html"]


@pytest.mark.parametrize(
    ("magic", "title"), [("messages --graph", "Who talks to whom"), ("trace --timeline", "Calls and messages")]
)
def test_pictures_of_an_analysis(shell: Shell, magic: str, title: str) -> None:
    ran = shell(f"%%{magic}\nq = queue.Queue()\nq.put(f(1))\nassert q.get() == 2")
    table, picture = ran.displayed
    assert "<table" in table["text/html"] and title in picture["text/html"]


def test_pictures_only_when_asked_for(shell: Shell) -> None:
    for name in NAMES:
        ran = shell(f"%%{name}\nf(1)")
        assert len([data for data in ran.displayed if "text/html" in data]) == 1
        assert not any({"image/png", "image/svg+xml"} & set(data) for data in ran.displayed)


@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_cell_stays_its_own(shell: Shell, name: str) -> None:
    shell("5")
    ran = shell(f"%%{name} -o seen\nbefore = _\nf(_)")
    assert ran.result.result == 6 == shell.names["_"] and shell.names["before"] == 5
    assert shell.names["Out"][shell.shell.execution_count - 1] == 6
    quiet = shell(f"%%{name}\nf(2);")
    assert quiet.result.result is None and "Out[" not in quiet.out and shell.names["_"] == 6
    shell(f"%%{name} -o seen\nNone")
    assert shell.names["_"] is shell.names["seen"]


@pytest.mark.parametrize("name", NAMES)
def test_top_level_await(shell: Shell, name: str) -> None:
    ran = shell(f"%%{name}\na = await g(1)\nasync with asyncio.timeout(60):\n    b = [await g(n) for n in range(2)]\nb")
    assert ran.result.success and ran.result.result == [1, 2] and shell.names["a"] == 2


@pytest.mark.parametrize("name", NAMES)
def test_tracebacks_are_those_of_the_cell(shell: Shell, name: str) -> None:
    for code in (f"%%{name}\n\nf(1)\n1 / 0", f"%%{name}\n\nawait g(1)\n1 / 0"):
        ran = shell(code)
        error = ran.result.error_in_exec
        assert isinstance(error, ZeroDivisionError) and not ran.result.success
        found = error.__traceback__
        assert found is not None
        lines = [place.tb_lineno for place in frames(found) if place.tb_frame.f_globals is shell.names]
        assert lines == [4] and "inviso/_magics" not in ran.out
        assert len([data for data in ran.displayed if "text/html" in data]) == 1


def frames(found: Any) -> Iterator[Any]:
    while found is not None:
        yield found
        found = found.tb_next


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "asyncio.CancelledError"])
def test_whatever_ends_a_cell_shows_what_was_seen(shell: Shell, name: str, error: str) -> None:
    ran = shell(f"%%{name} -o seen\nq = queue.SimpleQueue(); q.put(f(1)); q.get()\nraise {error}")
    assert type(ran.result.error_in_exec).__name__ == error.rpartition(".")[2]
    assert ran.table and shell.names["seen"] is shell.names["_"]


def test_a_cell_whose_task_is_left_behind(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at a prompt, where an interrupt ends the loop and not the task."""
    left: list[Any] = []

    def interrupted(coroutine: Any) -> Any:
        left.append(coroutine)
        for _ in range(3):
            coroutine.send(None)
        raise KeyboardInterrupt

    monkeypatch.setattr(shell.shell, "loop_runner", interrupted)
    ran = shell("%%trace\nf(1)\nclass Turn:\n    def __await__(self): yield\nwhile True: await Turn()")
    assert "__main__:f(1)" in ran.table
    monkeypatch.undo()
    left.pop().close()  # a later end of the task shows nothing more
    gc.collect()
    assert shell("f(1)").displayed == [] and trace.session_info("all") == []


def test_cells_within_a_cell_do_not_end_it(shell: Shell) -> None:
    ran = shell("%%trace\nf(1)\nget_ipython().run_cell('f(2)')\n_ = f(3)")
    assert re.findall(r"f\((\d)\)", ran.table) == ["1", "2", "3"]


def test_the_cells_names_and_future_imports(shell: Shell) -> None:
    future = "from __future__ import annotations\nclass A:\n    x: B = 1\nasync def h(): return await g(1)"
    shell(f"%%tprof -p __main__\n{future}\nv = await h()")
    assert shell.names["A"].__annotations__ == {"x": "B"} and shell.names["v"] == 2
    assert not any(name.startswith("__inviso") for name in shell.names)
    shell("%tprof -p __main__ del A, v")
    assert "A" not in shell.names


def test_lines(shell: Shell) -> None:
    ran = shell("x = %tprof -p __main__ --limit 5 -o seen f(3)")
    assert shell.names["x"] == 4 and shell.names["seen"]["__main__:f/1"].calls == 1 and ran.table
    assert shell("%trace f( {'a b':  3}['a b'] )").table.count("__main__:f") == 2
    shell("def inside(n):\n    return get_ipython().run_line_magic('tprof', '-p __main__ f(n)')")
    assert shell("inside(7)").result.result == 8
    assert "can't await" in shell("%tprof await g(1)").err
    assert "no code of Python" in shell("%trace 1 +").err


ERRORS = [
    ("%%tprof -t nope\n1", "invalid choice: 'nope'"),
    ("%%tprof --limit 0\n1", "no number of rows"),
    ("%%tprof -o 'a b'\n1", "can't be a variable's name"),
    ("%%trace --lim 3\n1", "unrecognized arguments"),
    ("%%trace -p a:b:c:d\n1", "has 4 parts"),
    ("%%trace -p\n1", "expected one argument"),
    ("%%messages -p x\n1", "unrecognized arguments"),
    ("%%tokens -l 'x\n1", "No closing quotation"),
    ("%%tprof", "there is no code"),
    ("%tprof", "there is no code"),
]


@pytest.mark.parametrize(("code", "text"), ERRORS)
def test_errors_of_options_are_one_line(shell: Shell, code: str, text: str) -> None:
    ran = shell(code)
    assert isinstance(ran.result.error_in_exec, UsageError) and ran.displayed == []
    assert text in ran.err and ran.err.strip().count("\n") == 0


@pytest.mark.parametrize("name", NAMES)
def test_help(shell: Shell, name: str) -> None:
    ran = shell(f"%%{name} --help\nraise Exception('this does not run')")
    name = name.split()[0]
    assert ran.result.success and f"usage: %%{name}" in ran.out and "--limit ROWS" in ran.out
    assert f"usage: %%{name}" in (shell.shell.find_cell_magic(name).__doc__ or "")


def test_a_syntax_error_is_reported_as_usual(shell: Shell) -> None:
    ran = shell("%%tprof\nx = 1\nreturn 2")
    assert "'return' outside function" in ran.out and ran.tables == [] and "_magics" not in ran.out


def test_a_pattern_that_takes_nothing_has_a_hint(shell: Shell) -> None:
    for name in ("tprof", "trace"):
        [shown] = shell(f"%%{name} -p __mian__\nf(1);").displayed
        assert "did you mean '__main__'?" in shown["text/plain"] and "text/html" in shown


def test_many_rows_are_bounded(shell: Shell) -> None:
    ran = shell("%%trace --limit 1000 -o seen\nfor n in range(3000): f(n + 10 ** 300)")
    assert len(shell.names["seen"]) == 6000 and "more rows" in ran.table
    shown = shell("%%trace\nfor n in range(3000): f(n)").table
    assert "f(0)" in shown and "f(2999)" in shown and "… 5,970 more rows" in shown


def test_what_is_lost_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inviso._magics._session.RING", 1 << 16)
    ran = shell("%%trace -o seen\nfor n in range(5000): f(n)")
    seen = shell.names["seen"]
    assert seen.lost > 0 and 10_000 <= len(seen) + seen.lost <= 10_002 and f"{seen.lost:,} more were lost" in ran.table


def test_called_as_a_function_and_under_another_magic(shell: Shell) -> None:
    ran = shell("get_ipython().run_cell_magic('tprof', '-p __main__', 'f(1)')")
    assert "__main__:f/1" in ran.table
    ran = shell("%%time\n%%tprof -p __main__\nf(2)")
    assert "__main__:f/1" in ran.table and "Wall time" in ran.out


def test_loading_again_and_unloading(shell: Shell) -> None:
    shell("%reload_ext inviso")
    assert len(shell("%%tprof -p __main__\nf(1);").tables) == 1
    inviso.load_ipython_extension(shell.shell)
    assert len(shell("%%tprof -p __main__\nf(1);").tables) == 1
    shell("%unload_ext inviso")
    assert "not found" in shell("%%tprof\n1").err
    inviso.unload_ipython_extension(shell.shell)
    shell("%load_ext inviso")


def test_nothing_of_ipython_comes_with_an_import() -> None:
    code = "import inviso, sys, inviso.tprof; print([n for n in sys.modules if n.startswith(('IPython', 'traitlets'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("rows", [0, 1, 31, 5000])
def test_a_table_fits(rows: int) -> None:
    cells = [(str(n), "<&'\"\x1b\udc80\n" * 100) for n in range(rows)]
    for limit in (1, 2, 30, 100_000):
        table = Table(("n", "text"), cells, ("note",), limit, "ends", ("n",))
        assert len(table.html().encode()) <= SIZE and "\x1b" not in table.text() + table.html()
        assert len(table.text().splitlines()) == min(rows, limit) + (rows > limit) + 1 + (rows > 0)


def test_other_objects_show_themselves() -> None:
    with trace.session_create("a<b>") as session:
        assert "&lt;b&gt;" in session._repr_html_() and "alive" in session._repr_html_()
    assert "destroyed" in session._repr_html_()
    event = ("seq_trace", "a", ("print", (0, 1), inviso.self(), [], "<i>" * 1000))
    output = seq_trace.Output("shop@here", seq_trace.Anchor(0, 0), (event,) * 500, 7)
    assert repr(output) == "<Output of shop@here: 500 events, 7 lost>"
    assert len(output._repr_html_().encode()) <= SIZE and "… 470 more rows" in output._repr_html_()
    stats = inviso.log.Stats()
    stats.add(("trace", inviso.self(), "call", ("m<", "f", 2)))
    assert repr(stats) == "<Stats of 1 messages, 0 damaged>" and "m&lt;:f/2" in stats._repr_html_()


def test_the_page(shell: Shell) -> None:
    page = pathlib.Path(__file__).parents[2] / "docs" / "jupyter.md"
    cells = re.findall(r"```ipython\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(cells) > 8
    for cell in cells:
        ran = shell(cell)
        assert ran.result.success, ran.out
        assert bool(ran.displayed) == cell.startswith("%%")
    shell("[t.join() for t in threading.enumerate() if t.name == 'worker']")


def test_docstrings() -> None:
    from inviso._magics import _seen

    assert doctest.testmod(_seen).failed == 0


CELLS = [
    "%load_ext inviso\nimport asyncio, os\n" + DEFINED,
    "%%tprof -p __main__\nprint(f(1))",
    "%%trace -p _\nprint(f(1))\nf(2)",
    "%%messages\nq = asyncio.Queue()\nawait asyncio.create_task(q.put(f(1)), name='putter')\nprint(await q.get())",
    "%%tokens --chart\nq = asyncio.Queue()\nawait asyncio.create_task(q.put(f(1)), name='putter')\nawait q.get()",
    "%tprof -p __main__ f(1)",
    "%%trace\nf(1)\n1 / 0",
    "%%tprof -p __main__\nf(1)\nprint('interrupt me', flush=True)\nwhile True: f(2)",
    "%%trace\nf(1)\nprint('interrupt me', flush=True)\nwhile True: await asyncio.sleep(0.01)",
    "from inviso import trace, seq_trace\ntrace.session_info('all'), seq_trace.get_system_tracer(), _",
]


def test_in_a_kernel() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, message: Any, cell: Any, place: int) -> Any:
            if "interrupt me" in message["content"].get("text", ""):
                self.interrupting = asyncio.ensure_future(self.km.interrupt_kernel())
            return super().process_message(message, cell, place)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    Client(notebook, timeout=LIMIT, kernel_name="python3", allow_errors=True).execute()
    cells = [cell.outputs for cell in notebook.cells]
    shown = [[output.data for output in outputs if output.output_type == "display_data"] for outputs in cells]
    tables = ["\n".join(data["text/plain"] for data in each if "<table" in data.get("text/html", "")) for each in shown]
    errors = [[output.ename for output in outputs if output.output_type == "error"] for outputs in cells]
    values = [[output.data for output in outputs if output.output_type == "execute_result"] for outputs in cells]
    results = [[data["text/plain"] for data in each] for each in values]

    assert errors == [[], [], [], [], [], [], ["ZeroDivisionError"], ["KeyboardInterrupt"], ["CancelledError"], []]
    assert results == [[], [], ["3"], [], ["2"], ["2"], [], [], [], results[-1]]
    assert results[-1][0].startswith("([], False, <2 events>")
    assert [len(each) for each in shown] == [0, 1, 1, 1, 2, 1, 1, 1, 1, 0]
    for place in (1, 5, 7):
        assert sorted(functions(tables[place])) == ["__main__:<module>/0", "__main__:f/1"]
    for place, calls in ((2, ["1", "2"]), (6, ["1"]), (8, ["1"])):
        assert re.findall(r"call +__main__:f\((\d)\)", tables[place]) == calls
        assert tables[place].count("return") == len(calls) and f"{2 * len(calls)} events" in tables[place]
    for place in (3, 4):
        assert re.search(r"putter +send +2 +asyncio.queues.Queue", tables[place])
        assert re.search(r"cell +receive +2", tables[place])
    assert "image/svg+xml" in shown[4][1]


def test_at_a_prompt_on_a_terminal() -> None:
    words = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"]
    terminal = Terminal([*words, "--HistoryManager.enabled=False", "--ext", "inviso"])

    def typed(lines: str, text: str) -> None:
        terminal.seen = ""
        os.write(terminal.master, lines.encode() + b"\n")
        terminal.until(text)

    terminal.until("In [1]:")
    typed("def f(x): return x + 1\n", "In [2]:")
    typed("%tprof -p __main__ f(1)", "In [3]:")
    assert "__main__:f/1" in terminal.seen and "Out[2]: 2" in terminal.seen and "<table" not in terminal.seen
    typed("%%trace\nf(4)\n\n", "In [4]:")
    assert re.search(r"call +__main__:f\(4\)", terminal.seen)
    typed("%%trace\nf(5); print('go'); import asyncio; await asyncio.sleep(60)\n\n", ": go\r\n")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("2 events")
    terminal.until("KeyboardInterrupt")
    assert re.search(r"call +__main__:f\(5\)", terminal.seen)
    typed("from inviso import trace; print(trace.session_info('all'))", "[]\r\n")
    typed("exit", "")
    terminal.rest()
    assert terminal.process.returncode == 0


def test_settings_are_the_defaults_of_options(
    shell: Shell, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.inviso]\npatterns = ['json.**']\ntype = 'call_memory'\nlimit = 2\n")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    ran = shell("%%tprof -o seen\n_ = json.dumps([f(1)], indent=1)")
    profile = shell.names["seen"]
    assert profile.type == "call_memory" and len(functions(ran.table)) == 2 < len(profile.functions)
    assert f"measured: json.** (patterns, {file}); the memory of" in ran.table and "__main__" not in ran.table
    ran = shell("%%trace -o seen\n_ = json.dumps([f(1)], indent=1)")
    assert ran.table.endswith(f"traced: json.** (patterns, {file})") and len(shell.names["seen"]) > 2
    assert len(re.findall("^[0-9]+[.][0-9]", ran.table, re.MULTILINE)) == 2

    ran = shell("%%tprof -p __main__:f -t call_time --limit 9 -o seen\n_ = json.dumps([f(1)], indent=1)")
    assert shell.names["seen"].type == "call_time" and functions(ran.table) == ["__main__:f/1"]
    assert str(file) not in ran.table, "options count before settings"
    monkeypatch.setenv("INVISO_TYPE", "call_count")
    monkeypatch.setenv("INVISO_PATTERNS", "__main__:f")
    ran = shell("%%tprof -o seen\n_ = json.dumps([f(1)], indent=1)")
    assert shell.names["seen"].type == "call_count" and functions(ran.table) == ["__main__:f/1"]
    assert "measured: __main__:f (patterns, INVISO_PATTERNS)" in ran.table, "variables count before the file"
    for name in ("messages", "tokens"):
        ran = shell(f"%%{name}\nq = queue.Queue()\nfor n in range(3): q.put(n)\nfor n in range(3): q.get()")
        assert len(re.findall("^[0-9.]+ ", ran.table, re.MULTILINE)) <= 3 and "more rows" in ran.table


@pytest.mark.parametrize(
    ("text", "variable", "why"),
    [
        ("limit = 0", "", "limit: 0 "),
        ("pattern = 'x'", "", "pattern: there is no such setting"),
        ("", "json.*", "patterns: "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_setting_is_one_line_and_nothing_runs(
    shell: Shell, name: str, text: str, variable: str, why: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.inviso]\n{text}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INVISO_PATTERNS", variable)
    ran = shell(f"%%{name}\nran = True")
    assert isinstance(ran.result.error_in_exec, UsageError) and "ran" not in shell.names
    assert f"%%{name.split()[0]}: config, {why}" in ran.err + ran.out
    assert "\nShows" not in ran.out and "usage: " in shell(f"%%{name.split()[0]} --help").out


@pytest.mark.parametrize("name", NAMES)
def test_another_cell_magic_below(shell: Shell, name: str) -> None:
    ran = shell(f"%%{name} -o seen\n\n%%time\nz = f(1)\nz + 1")
    assert ran.result.success and "Wall time" in ran.out and shell.names["z"] == 2
    assert len(ran.displayed) >= 1 and "seen" in shell.names
    if name.startswith("tprof"):
        assert shell.names["seen"]["__main__:f/1"].calls == 1
    ran = shell(f"%%time\n%%{name}\nf(2)")
    assert ran.result.success and "Wall time" in ran.out and ran.displayed
    ran = shell(f"%%{name}\n%%nothing\nf(2)")
    assert not ran.result.success
