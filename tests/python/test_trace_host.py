"""State that is global to a process, each test in a process of its own: forks, exits, other tools beside us."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(program: str, *flags: str, timeout: float = 60) -> str:
    """Runs a program, which must end well and in time. Returns its output."""
    words = [sys.executable, "-W", "error::DeprecationWarning", *flags, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


HEAD = """
import os, sys, threading, json, inviso
from inviso import trace
def work(n): return n
ME = (__name__, "work", 1)
"""


def script(body: str, **kw: float) -> str:
    return run(HEAD + textwrap.dedent(body), **kw)


def test_interpreter_exit_with_sessions_open() -> None:
    assert (
        script("""
        kept = [trace.session_create("open", t) for t in (None, print, inviso.self())]
        for s in kept:
            s.process("all", True, ["call", "procs"])
            s.function(("_", "_", "_"), True, ["local"])
            s.function("on_load", True, ["local"])
        kept[0].function(("_", "_", "_"), True, ["call_time", "call_memory", "call_count", "call_latency"])
        work(1)
        sys.exit(0)
    """)
        is not None
    )


def test_a_forked_child_is_not_traced_and_the_parent_still_is() -> None:
    assert (
        script("""
        seen = []
        s = trace.session_create("fork", seen.append)
        s.process(inviso.self(), True, ["call"])
        s.function(ME, True, ["local", "call_count"])
        work(1)
        child = os.fork()
        if child == 0:
            work(2)
            assert trace.session_info("all") == []
            assert not s.is_alive()
            with trace.session_create("own") as own:
                own.function(ME, True, ["call_count"])
                work(3)
                assert own.info(ME, "call_count") == ("call_count", 1)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        work(4)
        assert s.info(ME, "call_count") == ("call_count", 2)
        assert s.delivered().wait(30)
        print([m[3][2] for m in seen])
    """)
        == "[[1], [4]]\n"
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path) -> None:
    program = tmp_path / "pool.py"
    program.write_text(
        "import multiprocessing, sys, inviso\nfrom inviso import trace\ndef work(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    s = trace.session_create('pool', lambda m: None)\n"
        "    s.process('all', True, ['call', 'procs'])\n"
        "    s.function(('_', '_', '_'), True, ['local', 'call_count'])\n"
        f"    with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
        "        print(pool.map(work, range(4)))\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("[0, 1, 4, 9]\n", 0), done.stderr


def test_a_session_ends_with_its_last_strong_handle() -> None:
    assert (
        script("""
        import gc
        s = trace.session_create("held")
        weak, = trace.session_info("all")
        s.function(ME, True, ["call_count"])
        del s
        gc.collect()
        work(1)
        print(trace.session_info("all"), weak.is_alive())
    """)
        == "[] False\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_other_monitoring_tools_see_what_they_saw_before() -> None:
    assert (
        script("""
        m = sys.monitoring
        seen = []
        m.use_tool_id(1, "other")
        m.register_callback(1, m.events.PY_START, lambda code, offset: seen.append(code.co_name))
        m.set_local_events(1, work.__code__, m.events.PY_START)
        work(0)
        with trace.session_create("beside") as s:
            s.process("all", True, ["call"])
            s.function(ME, True, ["call_count", "call_time", "local"])
            work(0)
        work(0)
        m.free_tool_id(1)
        print(len(seen), [m.get_tool(n) for n in range(6)])
    """)
        == "3 [None, None, None, None, None, None]\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_without_a_free_tool_id_the_error_names_the_holders() -> None:
    assert (
        script("""
        for n, name in ((4, "first"), (3, "second")):
            sys.monitoring.use_tool_id(n, name)
        s = trace.session_create("none")
        try:
            s.function(ME, True, ["call_count"])
        except RuntimeError as error:
            print("second" in str(error), "first" in str(error), s.info(ME, "all"))
    """)
        == "True True ('all', False)\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize(
    "call",
    [
        's.process("all", True, ["send", "procs", "running", "running_procs", "set_on_spawn"])',
        's.port("all", True, ["send", "ports", "running_ports"])',
        's.system("long_schedule", 100)',
        's.system("long_message_queue", (1, 2))',
        's.system("busy_dist_port", True)',
        's.send([(("_", "_"), [], [("set_seq_token", "label", 1)])])',
    ],
)
def test_a_call_that_is_refused_for_want_of_a_tool_id_leaves_nothing_behind(call: str) -> None:
    assert (
        script(f"""
        m = sys.monitoring
        for n in (3, 4): m.use_tool_id(n, "other")
        s = trace.session_create("refused")
        def settings():
            flags = [s.info(w, "flags") for w in (inviso.self(), "new", "new_ports")]
            return flags, s.info("system", "all"), s.info("send", "match_spec")
        before = settings()
        try: {call}
        except RuntimeError: print("refused", settings() == before)
        m.free_tool_id(3)
        with trace.session_create("later") as later: later.process("new", True, ["silent"])
        print(m.get_tool(3), s.process("all", True, ["send"]) > 0, m.get_tool(3), s.destroy(), m.get_tool(3))
        with trace.session_create("again") as s:
            m.use_tool_id(3, "other")
            try: {call}
            except RuntimeError: print("refused")
        print(trace.session_info("all"), [m.get_tool(n) for n in (3, 4)])
    """)
        == "refused True\nNone True inviso True None\nrefused\n[] ['other', 'other']\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize("taken", [False, True])
def test_a_tool_id_that_the_program_frees_is_no_longer_held_onto(taken: bool) -> None:
    assert (
        script(f"""
        import queue
        m = sys.monitoring
        def count(s):
            queue.Queue().put(1), work(0)
            return sorted(m[2] for m in s.drain())
        s = trace.session_create("first")
        s.process("all", True, ["send", "call"])
        s.function(ME, True, ["local"])
        print(m.get_tool(4), count(s))
        m.free_tool_id(4)
        if {taken}: m.use_tool_id(4, "other")
        other = trace.session_create("second")
        other.process("all", True, ["procs"])
        print(m.get_tool(3), m.get_tool(4), count(s))
        print(other.destroy(), count(s), s.destroy(), [m.get_tool(n) for n in (3, 4)])
        m.free_tool_id(4)
        s = trace.session_create("third")
        s.process("all", True, ["send"])
        print(m.free_tool_id(m.get_tool(4) and 4), s.destroy(), end=" ")
        print(trace.session_info("all"), [m.get_tool(n) for n in (3, 4)])
    """)
        == f"""inviso ['call', 'send']
{"inviso other" if taken else "None inviso"} ['call', 'send']
True ['call', 'send'] True [None, {"'other'" if taken else "None"}]
None True [] [None, None]
"""
    )


ALL = ("send", "receive", "procs", "running", "exiting", "call")


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12), reason="asyncio in another interpreter ends 3.12.1 itself, by a bad free"
)
@pytest.mark.parametrize("flags", ["procs", "running", "running_procs", "send", "receive", "exiting", "all"])
def test_other_interpreters_are_left_alone(flags: str) -> None:
    assert (
        script(f"""
        import faulthandler
        faulthandler.dump_traceback_later(30, exit=True)
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        program = '''if True:
            import asyncio, json, queue, socket, sys
            async def main():
                items = asyncio.Queue()
                await items.put(1), await items.get()
                await asyncio.create_task(asyncio.sleep(0))
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                loop.call_soon(future.set_result, 3)
                await future
            asyncio.run(main())
            for items in (queue.Queue(), queue.SimpleQueue()): items.put(1), items.get()
            for end in socket.socketpair(): end.close()
            sys.setprofile(lambda *event: None)
            json.loads("1")
            sys.setprofile(None)
        '''
        with trace.session_create("here") as s:
            for who in ("all", "new"):
                s.process(who, True, {list(ALL) if flags == "all" else [flags]!r})
            if {flags == "all"}:
                s.function(("builtins", "len", 1), True, ["local"])
                s.port("all", True, ["send", "receive", "ports"])
            other = interpreters.create()
            failed = interpreters.run_string(other, program)
            interpreters.destroy(other)
            before = s.drain()
            t = threading.Thread(target=work, args=(1,))
            t.start()
            t.join()
            print(failed, before, len(inviso.ports()))
    """)
        == "None [] 0\n"
    )


def test_profilers_beside_a_session() -> None:
    assert (
        script("""
        import cProfile, pstats
        profile = cProfile.Profile()
        with trace.session_create("beside") as s:
            s.function(ME, True, ["call_count"])
            profile.enable()
            for n in range(5): work(n)
            profile.disable()
            print(s.info(ME, "call_count")[1])
        stats = pstats.Stats(profile).stats
        print([v[0] for k, v in stats.items() if k[2] == "work"])
        lines = []
        def tracer(frame, event, arg):
            lines.append(event)
            return tracer
        with trace.session_create("beside") as s:
            s.function(ME, True, ["call_count"])
            sys.settrace(tracer)
            work(1)
            sys.settrace(None)
            print(s.info(ME, "call_count")[1], lines.count("call") >= 1)
    """)
        == "5\n[5]\n1 True\n"
    )


def test_a_tracer_that_raises_is_reported_once() -> None:
    words = [
        sys.executable,
        "-c",
        HEAD
        + textwrap.dedent("""
        def bad(message): raise ValueError("mine")
        s = trace.session_create("raising", bad)
        s.process(inviso.self(), True, ["call"])
        s.function(ME, True, ["local"])
        print([work(n) for n in range(3)])
        s.delivered().wait(5)
        s.destroy()
    """),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2]\n")
    assert done.stderr.count("ValueError: mine") == 1


def test_import_is_light() -> None:
    assert (
        run("""
        import sys
        before = set(sys.modules)
        import inviso
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(new - set(sys.stdlib_module_names) - {"inviso"}), "asyncio" in sys.modules)
    """)
        == "[] False\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_callbacks_that_somebody_calls() -> None:
    assert (
        script("""
        s = trace.session_create("s")
        s.process("all", True, ["call", "return_to"])
        s.function(ME, [("_", [], [("exception_trace",)])], ["local", "call_count"])
        monitoring = sys.monitoring
        tool = next(n for n in range(6) if monitoring.get_tool(n) == "inviso")
        for name in filter(str.isupper, dir(monitoring.events)):
            event = getattr(monitoring.events, name)
            try: callback = monitoring.register_callback(tool, event, None)
            except ValueError: continue
            if callback is None: continue
            code = work.__code__
            for arguments in ((), (1,), (code,), (1, 2), (None, -1), (code, 1 << 70), (1, "x", None), (1, 2, 3, 4)):
                assert callback(*arguments) in (None, monitoring.DISABLE), name
            monitoring.register_callback(tool, event, callback)
        work(1)
        print("ok")
    """).splitlines()[-1]
        == "ok"
    )


def test_a_weak_reference_of_ours_that_somebody_calls() -> None:
    assert (
        script("""
        import asyncio, weakref
        async def main():
            s = trace.session_create("s")
            s.process("all", True, ["procs", "running"])
            task = asyncio.create_task(asyncio.sleep(0))
            await asyncio.sleep(0)
            for reference in [*weakref.getweakrefs(task), *weakref.getweakrefs(asyncio.current_task())]:
                if reference.__callback__ is not None and not hasattr(reference.__callback__, "__code__"):
                    for arguments in ((), (1,), (None, None)):
                        assert reference.__callback__(*arguments) is None
            await task
        asyncio.run(main())
        print("ok")
    """)
        == "ok\n"
    )
