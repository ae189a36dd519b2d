"""Functions that are made later: which of them are armed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest
from inviso import tprof, trace
from trace_tools import child, good

NEW_WAY = sys.version_info >= (3, 12)


def module(name: str, text: str) -> types.ModuleType:
    """Makes a module."""
    made = types.ModuleType(name)
    exec(compile(text, name, "exec"), made.__dict__)
    return made


def is_armed(function: Any) -> bool:
    """Whether its calls are events of a session."""
    tools = [n for n in range(6) if sys.monitoring.get_tool(n)]
    return any(sys.monitoring.get_local_events(n, function.__code__) for n in tools)


TEXT = "def f(): return g()\ndef g():\n    def inner(): return 1\n    return inner()\n"


def test_a_pattern_arms_what_it_takes_and_nothing_else() -> None:
    with tprof.Profiler(type="call_count") as profiler:
        profiler.set_pattern("later.wanted:_:_")
        wanted, other = module("later.wanted", TEXT), module("later.other", TEXT)
        for _ in range(3):
            wanted.f()
            other.f()
        result = profiler.collect()
        calls = {f.function: f.calls for f in result.functions if f.function != "<module>"}
        assert calls == {"f": 3, "g": 3, "g.<locals>.inner": 3}
        assert {f.module for f in result.functions} == {"later.wanted"}
        if NEW_WAY:
            assert is_armed(wanted.f)
            assert not is_armed(other.f)
            assert not is_armed(other.g)
        rows = profiler._session._native.counters("call_count")
        assert {row[0] for row in rows} == {"later.wanted"}


def test_a_pattern_for_one_function() -> None:
    with tprof.Profiler(type="call_count") as profiler:
        assert profiler.set_pattern("later.one", "g", 0) == 0
        made = module("later.one", TEXT)
        made.f()
        assert [f.function for f in profiler.collect().functions] == ["g"]
        assert {row[1] for row in profiler._session._native.counters("call_count")} == {"g"}
        if NEW_WAY:
            assert is_armed(made.g)
            assert not is_armed(made.f)


def test_a_second_pattern_widens_and_a_cleared_one_narrows() -> None:
    with tprof.Profiler(type="call_count") as profiler:
        profiler.set_pattern("later.first")
        early = module("later.second", TEXT)
        profiler.set_pattern("later.second")
        one, two = module("later.first", TEXT), module("later.second", TEXT)
        for made in (early, one, two):
            made.f()
        calls = {(f.module, f.function): f.calls for f in profiler.collect().functions}
        assert sum(n for (m, name), n in calls.items() if (m, name) == ("later.second", "f")) >= 1
        assert calls["later.first", "f"] == 1
        profiler.clear_pattern("later.second")
        three = module("later.second", TEXT)
        three.f()
        assert {f.module for f in profiler.collect().functions} == {"later.first"}
        if NEW_WAY:
            assert not is_armed(three.f)
        profiler.clear_pattern("later.first")
        assert trace.session_info("on_load") == []


def test_sessions_wait_for_functions_of_their_own(session: trace.Session) -> None:
    session.function("on_load", True, ["call_count"])
    with tprof.Profiler(type="call_count") as profiler:
        profiler.set_pattern("later.mine")
        mine, other = module("later.mine", TEXT), module("later.everything", TEXT)
        mine.f()
        other.f()
        assert {f.module for f in profiler.collect().functions} == {"later.mine"}
        assert {row[0] for row in profiler._session._native.counters("call_count")} == {"later.mine"}
        assert session.info(("later.mine", "f", 0), "call_count") == ("call_count", 1)
        assert session.info(("later.everything", "f", 0), "call_count") == ("call_count", 1)
    session.function("on_load", False, ["call_count"])
    last = module("later.last", TEXT)
    last.f()
    assert session.info(("later.last", "f", 0), "call_count") == ("call_count", False)


def test_a_module_name_beyond_ascii() -> None:
    with tprof.Profiler(type="call_count") as profiler:
        profiler.set_pattern("später.für")
        made = module("später.für", TEXT)
        made.f()
        assert {"f", "g", "g.<locals>.inner"} <= {f.function for f in profiler.collect().functions}


def test_a_pattern_of_another_module_costs_new_functions_nothing() -> None:
    text = """
import types
from inviso import tprof
with tprof.Profiler(type="call_time") as profiler:
    profiler.set_pattern("later.none")
    profiler.enable_trace()
    def run():
        def made(): pass
        for _ in range(100): made()
    for _ in range(10): run()
    assert profiler._session._native.counters("call_time") == []
    print(len(profiler.collect().functions))
"""
    assert good(text) == "0\n"


@pytest.mark.parametrize("kind", ["call_count", "call_time"])
def test_the_command_measures_a_module_that_is_imported_later(kind: str, tmp_path: Any) -> None:
    (tmp_path / "mymod.py").write_text(TEXT)
    (tmp_path / "othermod.py").write_text(TEXT)
    (tmp_path / "job.py").write_text("import mymod, othermod\nmymod.f(); othermod.f()\n")
    text = f"""
from inviso.cli import main
sys.stderr = sys.stdout
main(["tprof", "-t", "{kind}", "-p", "mymod:_:_", "--json", "-", {str(tmp_path / "job.py")!r}])
"""
    done = child(text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "othermod" not in done.stdout + done.stderr
    assert "g.<locals>.inner" in done.stdout


def test_a_session_that_begins_while_the_interpreter_starts(tmp_path: pathlib.Path) -> None:
    """In ``sitecustomize``, where 3.15 is not complete yet."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom inviso import trace\nsys.early = trace.session_create('early')\n"
        "sys.found = sys.early.function(('os', '_', '_'), True, ['call_count'])\n"
        "sys.early.function(('os', 'getenv', 2), [('_', [], [('message', ('process_dump',))])], ['local'])\n"
        "sys.early.process('all', True, ['call', 'send', 'receive', 'procs'])\n"
    )
    text = (
        "import os, sys; os.getenv('A'); os.getenv('B'); print(sys.found > 10, sys.early.info(('os', 'getenv', 2), "
        "'call_count'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True ('call_count', 2)\n", "")
