"""``inviso.about`` and ``inviso about``: facts about this process, compared with the interpreter's own."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import inviso
import pytest
from inviso import About, about, log, trace, trace_ports
from inviso._about import Part
from inviso._native import interpreter
from node_tools import started

PACKAGE = Path(inviso.__file__).parent
PARTS = ["hook", "frames", "clock", "barrier", "record", "thread", "task", "allocator"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter."""
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_the_interpreter_and_the_machine() -> None:
    found = about()
    assert isinstance(found, About)
    assert (found.version, found.implementation) == (inviso.__version__, "CPython")
    assert (found.python, found.machine) == (platform.python_version(), platform.machine())
    assert found.system == f"{platform.system()} {platform.release()}"
    assert ("free-threaded" in found.build) == bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert ("debug" in found.build) == bool(sysconfig.get_config_var("Py_DEBUG"))
    if found.libc != "musl":
        assert found.libc == " ".join(platform.libc_ver())


def test_a_build_that_is_known_has_the_fast_forms() -> None:
    found = about()
    is_public = interpreter.facts()["public"]
    assert found.ready and found.frames.fast != is_public
    assert found.frames.form.startswith("CPython's public functions" if is_public else "the interpreter's memory")
    assert found.hook.fast == (sys.version_info >= (3, 12))
    for name in PARTS:
        part = getattr(found, name)
        assert isinstance(part, Part) and part.form
        # a slow form has a price and a remedy; a fast one has neither
        assert (bool(part.cost), bool(part.remedy)) == (not part.fast,) * 2, name


def test_it_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        about().version = "1"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        about().hook.fast = False  # type: ignore[misc]


def test_as_a_dict() -> None:
    found = about()
    plain = json.loads(json.dumps(dataclasses.asdict(found)))
    assert plain["hook"] == dataclasses.asdict(found.hook)
    assert {"version", "implementation", "python", "build", "system", "machine", "libc", "ready", *PARTS} == set(plain)


def test_the_hook_is_installed_while_a_session_traces() -> None:
    def traced() -> None: ...

    before = about()
    assert (before.hook.installed, before.allocator.installed) == (False, False)
    with trace.session_create("about") as session:
        session.function((__name__, traced.__qualname__, 0), True, ["call_memory"])
        while_it_traces = about()
        assert (while_it_traces.hook.installed, while_it_traces.allocator.installed) == (True, True)
        if sys.version_info >= (3, 12):
            ids = [n for n in range(6) if sys.monitoring.get_tool(n) == "inviso"]
            assert while_it_traces.hook.form == f"sys.monitoring, tool id {ids[0]}"
    assert about() == before


def test_it_changes_nothing() -> None:
    program = """if True:
        import dataclasses, sys, threading
        import inviso
        dataclasses.make_dataclass("Used", [], slots=True)  # at the first one 3.15 imports inspect
        modules, threads = set(sys.modules), threading.active_count()
        inviso.about()
        print(sorted(name for name in set(sys.modules) - modules if not name.startswith("inviso")))
        print(threading.active_count() - threads, sys.getprofile(), sys.gettrace())
    """
    done = run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["[]", "0 None None"]


def test_the_text_is_a_table_for_a_terminal() -> None:
    found = about()
    first, second, *rest = str(found).splitlines()
    assert first.startswith(f"inviso {found.version}, CPython {found.python}")
    assert found.machine in second
    assert [line.partition(":")[0] for line in rest[: len(PARTS)]] == PARTS
    assert all(len(line) < 120 for line in rest)
    slow = Part("clock of the operating system", fast=False, cost="a timestamp takes more", remedy="use another")
    text = str(dataclasses.replace(found, clock=slow, build=("debug",)))
    assert "(debug)\n" in text and text.count("clock: a timestamp takes more\n  use another") == 1


def test_the_command() -> None:
    done = run("-m", "inviso", "about", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plain = json.loads(done.stdout)
    here = dataclasses.asdict(about())
    assert {name: plain[name] for name in ("version", "python", "machine", "libc", "ready")} == {
        name: here[name] for name in ("version", "python", "machine", "libc", "ready")
    }
    done = run("-m", "inviso", "about")
    assert done.returncode == 0 and done.stdout.startswith(f"inviso {inviso.__version__}, CPython ")
    done = run("-m", "inviso", "about", "--yaml")
    assert done.returncode == 2 and "--yaml" in done.stderr and not done.stdout


def test_a_package_without_its_native_module_says_what_to_do(tmp_path: Path) -> None:
    """So it looks in an interpreter of another implementation, and where files were copied by hand."""
    shutil.copytree(PACKAGE, tmp_path / "inviso", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    done = run("-S", "-c", "import inviso", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        f"ImportError: inviso has no native module for this interpreter, CPython {platform.python_version()} ("
    )
    assert "needs CPython 3.11 or later" in last and "pip install" in last


MOVED = {13: 184, 14: 208, 15: 208}
"""Where the interpreter's table for debuggers says where a thread's current frame is, by minor version."""

UNKNOWN = f"""if True:
    import ctypes
    table = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    place = ctypes.c_uint64.from_address(table + {MOVED.get(sys.version_info.minor)})
    place.value += 8
    import inviso
"""
"""The beginning of a program in an interpreter that keeps its frames elsewhere: the check is made at the first use."""

needs_a_table = pytest.mark.skipif(
    sys.version_info.minor not in MOVED or interpreter.facts()["public"],
    reason="before 3.13 the interpreter has no table; a build by public functions does not read it",
)


@needs_a_table
def test_an_interpreter_that_is_not_known_is_refused_before_anything_changes() -> None:
    program = """
    import sys
    from inviso import trace
    for name in ("x", "y"):
        try:
            trace.session_create(name)
        except RuntimeError as error:
            print(error)
    print([sys.monitoring.get_tool(n) for n in range(6)], sys.getprofile(), sys.gettrace())
    here = inviso.about()
    print(here.ready, here.frames.cost, here.hook.installed)
    """
    done = run("-c", UNKNOWN + program)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, tools, state = done.stdout.splitlines()
    why = "debug offsets: thread_state.current_frame is 80, expected 72"
    assert first == second
    assert first.startswith(
        f"inviso can't trace here: it does not know how this interpreter, CPython {sys.version_info[0]}"
    )
    assert f"({why})" in first and "INVISO_PUBLIC_API=1" in first and "newer version of inviso" in first
    assert tools == f"{[None] * 6} None None"
    assert state == f"False no session can begin: {why} False"


@needs_a_table
def test_what_needs_no_frames_works_there(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    port = trace_ports.trace_port("file", str(file))()
    with trace.session_create("log", tracer=port) as session:
        session.process(inviso.self(), True, ["call", "timestamp"])
        session.function(("json", "loads", "_"), True, ["local"])
        json.loads("[1]")
    port.close()
    program = f"""
    from inviso import analysis, etf, match_spec_test
    from inviso.cli import main
    print(match_spec_test([1, print, main], [(["$1", "_", "$2"], [("is_function", "$2", 1)], [])])[1])
    print(match_spec_test([1, print], [(["$1", "_"], [], [])])[1], etf.loads(etf.dumps((1, "a"))))
    inviso.send(inviso.self(), "letter")
    print(inviso.receive(timeout=0), inviso.self().is_alive())
    main(["log", "print", {str(file)!r}])
    main(["export", "collapsed", {str(file)!r}, "-o", "-"])
    print(analysis.tables({str(file)!r}).calls.rows()[0]["function"])
    """
    done = run("-c", UNKNOWN + program)
    assert (done.returncode, done.stderr) == (0, "inviso export: 1 messages to -\n")
    no_function, matched, letter, call, *rest = done.stdout.splitlines()
    # how many parameters a function has is not known there
    assert (no_function, matched, letter) == ("False", "True (1, 'a')", "letter True")
    assert "call json:loads" in call
    assert any("json:loads" in line for line in rest)


@needs_a_table
def test_other_processes_are_traced_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    program = f"""
    import sys
    from inviso import Cluster
    with Cluster("shop") as cluster:
        cluster.trace("__main__:work", messages=True, folder={str(tmp_path / "logs")!r}).check()
        print("traced", flush=True)
        sys.stdin.readline()
        print([row["lost"] for row in cluster.stop().check().values()], inviso.about().ready)
    """
    with started(tmp_path, "shop") as (node,):
        control = subprocess.Popen(
            [sys.executable, "-c", UNKNOWN + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert control.stdout is not None and control.stdout.readline() == "traced\n"
        node.run("work(1)")
        out, _ = control.communicate("stop\n", timeout=60)
    assert (control.returncode, out) == (0, "[0] False\n")
    (copy,) = (tmp_path / "logs").glob("shop@*.log")
    assert [message[3] for message in log.read(copy)] == [("__main__", "work", 1)]


@needs_a_table
def test_the_commands_say_so_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNKNOWN.replace("    import inviso\n", ""))
    (tmp_path / "job.py").write_text("print('it ran')\n")
    path = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    done = run("-m", "inviso", "about", PYTHONPATH=path)
    assert done.returncode == 1 and "no session can begin: debug offsets" in done.stdout
    for command in ("tprof", "trace"):
        done = run("-m", "inviso", command, "-p", "json", str(tmp_path / "job.py"), PYTHONPATH=path)
        assert done.returncode == 2 and not done.stdout, (done.stdout, done.stderr)
        assert "inviso can't trace here" in done.stderr and "Traceback" not in done.stderr
