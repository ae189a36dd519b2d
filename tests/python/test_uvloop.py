"""Callbacks on uvloop, whose loops and handles are written in Cython."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import seq_trace, trace

uvloop = pytest.importorskip("uvloop")
HERE = __name__
PATIENCE = 10.0
NAMES = ["call_soon", "call_soon_threadsafe", "call_later", "call_at"]


@pytest.fixture
def session() -> Iterator[trace.Session]:
    with trace.session_create("uvloop") as session:
        yield session


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def note(seen: list[Any], *args: Any) -> None:
    seen.append(args)


async def all_of(seen: list[Any], number: int) -> None:
    """Lets the loop run until ``seen`` has this many items."""
    end = time.monotonic() + PATIENCE
    while len(seen) < number:
        assert time.monotonic() < end, seen
        await asyncio.sleep(0)


def told(session: trace.Session, *tags: str) -> list[Any]:
    return [m for m in session.drain() if m[2] in tags and isinstance(m[3], tuple) and m[3][1] == "note"]


def words() -> list[int]:
    """The function pointers of the methods: tp_vectorcall_offset is the sixth word after the head of a type."""
    found = []
    for name in NAMES:
        function = uvloop.loop.Loop.__dict__[name]
        offset = ctypes.c_ssize_t.from_address(id(type(function)) + object.__basicsize__ + 40).value
        found.append(ctypes.c_size_t.from_address(id(function) + offset).value)
    return found


def test_methods_are_taken_while_somebody_asks_and_given_back() -> None:
    seq_trace.reset_trace()  # left by other tests
    before, functions = words(), [uvloop.loop.Loop.__dict__[name] for name in NAMES]
    for flags in (["send"], ["receive"], ["running_procs"]):
        with trace.session_create("asks") as session:
            session.process("new", True, flags)
            assert all(now != was for now, was in zip(words(), before, strict=True))
        assert words() == before
    with trace.session_create("asks nothing") as session:
        session.process("all", True, ["call", "procs"])
        assert words() == before
    assert functions == [uvloop.loop.Loop.__dict__[name] for name in NAMES]


def test_a_function_of_cython_goes_by_what_it_says(session: trace.Session) -> None:
    for who in ("all", "new"):
        session.process(who, True, ["procs", "running"])
    thread = threading.Thread(target=uvloop.loop.libuv_get_version)
    thread.start()
    thread.join()
    places = [part for m in session.drain() for part in m[2:] if isinstance(part, tuple)]
    assert {tag[:2] for tag in places} == {("uvloop.loop", "libuv_get_version")}


def test_what_other_threads_hand_over(session: trace.Session) -> None:
    seen: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def other() -> None:
            loop.call_soon_threadsafe(note, seen, 1)
            loop.call_soon_threadsafe(functools.partial(note, seen), 2)
            hand = loop.call_soon_threadsafe
            hand(*(note, seen, 3), context=None)

        session.process("new", True, ["send"])
        await loop.run_in_executor(None, other)
        loop.call_soon(note, seen, "no message")
        await all_of(seen, 4)

    session.process("all", True, ["receive"])
    run(main)
    assert seen == [(1,), (2,), (3,), ("no message",)]
    messages = told(session, "send", "receive")
    # the list was empty at the first, and grew by the time that each arrived
    assert [(m[2], m[3][2][1]) for m in messages if m[2] == "send"] == [("send", n) for n in (1, 2, 3)]
    assert [m[3][2][1] for m in messages if m[2] == "receive"] == [1, 2, 3]
    assert len({m[1] for m in messages if m[2] == "send"}) == 1
    assert {m[1] for m in messages if m[2] == "receive"} == {inviso.self()}


def test_tasks_of_cythons_coroutines(session: trace.Session) -> None:
    async def main() -> None:
        pass

    session.process("all", True, ["procs"])
    run(main)
    sent = session.drain()
    (child,) = [m[3] for m in sent if m[2] == "spawn" and m[4] == ("uvloop.loop", "Loop.shutdown_asyncgens", [])]
    assert [(m[2], m[3]) for m in sent if m[1] == child] == [("spawned", inviso.self()), ("exit", "normal")]


def test_who_handed_it_over_is_the_sender(session: trace.Session) -> None:
    seen: list[Any] = []
    session.process("all", True, ["send", "receive"])
    session.recv([(["_", "$1", ("_", inviso.Atom("note"), "_")], [], [("message", "$1")])])

    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(
            None, functools.partial(asyncio.get_running_loop().call_soon_threadsafe, note, seen)
        )
        await all_of(seen, 1)

    run(main)
    (sent, received) = told(session, "send", "receive")
    assert received[-1] == sent[1]


def test_callbacks_run_in_and_out(session: trace.Session) -> None:
    seen: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(note, seen, 1)
        loop.call_later(0.001, note, seen, 2)
        loop.call_at(loop.time() + 0.002, note, seen, 3)
        loop.call_later(0, note, seen, 4)
        loop.call_soon_threadsafe(note, seen, 5)
        await all_of(seen, 5)

    session.process("all", True, ["running_procs"])
    run(main)
    assert sorted(seen) == [(n,) for n in range(1, 6)]
    messages = told(session, "in", "out")
    assert [m[2] for m in messages] == ["in", "out"] * 5
    assert {m[1] for m in messages} == {inviso.self()} and {m[3][0] for m in messages} == {HERE}


def test_a_callback_that_holds_its_loop_is_told(session: trace.Session) -> None:
    def hold() -> None:
        time.sleep(0.06)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(hold)
        await asyncio.sleep(0)

    session.system("long_schedule", 50)
    run(main)
    found = [m for m in session.drain() if m[0] == "monitor" and m[2] == "long_schedule"]
    assert any("hold" in str(m[3]) for m in found), found


def label() -> Any:
    token = seq_trace.get_token("label")
    return None if not token else token[1]


@pytest.fixture
def tracer() -> Iterator[inviso.Pid]:
    stop = threading.Event()
    pid = inviso.spawn(stop.wait)
    seq_trace.set_system_tracer(pid)
    yield pid
    seq_trace.set_token(None)
    seq_trace.set_system_tracer(False)
    seq_trace.reset_trace()
    stop.set()


@pytest.mark.usefixtures("tracer")
def test_callbacks_have_the_token_of_who_scheduled_them_for_once() -> None:
    seen: dict[str, Any] = {}

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def look(name: str) -> None:
            assert seen.setdefault(name, label()) == label()

        def soon() -> None:
            look("soon")
            loop.call_soon(look, "soon of soon")
            seq_trace.set_token("label", "its own")

        def late() -> None:
            look("late")
            over.set_result(None)

        seq_trace.set_token("label", "soon")
        loop.call_soon(soon)
        loop.call_later(0.01, look, "later")
        loop.call_later(0, look, "at once")
        seq_trace.set_token(None)
        loop.call_soon(look, "without")
        loop.call_at(loop.time() + 0.02, late)
        await over

    run(main)
    assert seen == {
        "soon": "soon", "soon of soon": "soon", "later": "soon", "at once": "soon", "without": None, "late": None,
    }  # fmt: skip
    assert label() is None


@pytest.mark.usefixtures("tracer")
def test_tokens_of_what_other_threads_hand_over() -> None:
    seen: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def other() -> None:
            seq_trace.set_token("label", "handed")
            loop.call_soon_threadsafe(lambda: seen.append(label()))
            seq_trace.set_token(None)
            loop.call_soon_threadsafe(lambda: seen.append(label()))

        thread = threading.Thread(target=other)
        thread.start()
        await all_of(seen, 2)
        thread.join()
        seen.append(label())

    run(main)
    assert seen == ["handed", None, None]


class Answers(asyncio.Protocol):
    """A protocol that sets a token by its data. It returns the label that its connection, or task, had before."""

    def __init__(self) -> None:
        self.had = label()
        seq_trace.set_token("label", "made")

    def connection_made(self, transport: Any) -> None:
        self.had = self.had or label()
        self.transport = transport
        seq_trace.set_token("label", "connected")

    def data_received(self, data: bytes) -> None:
        self.transport.write(repr(self.had or label()).encode())
        self.called()

    def called(self) -> None:
        seq_trace.set_token("label", "data")


class Resets(Answers):
    def called(self) -> None:
        seq_trace.reset_trace()
        super().called()


class Nested(Answers):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        assert label() == "data", "the callback keeps its token to its end"


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"?")
    answer = await reader.read(100)
    writer.close()
    return answer


@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize("how", [run, lambda main: asyncio.run(main())], ids=["uvloop", "asyncio"])
def test_the_loop_has_its_own_token_after_each_callback(how: Any) -> None:
    seen: list[Any] = []
    called: list[Any] = []

    async def handler(reader: Any, writer: Any) -> None:
        seen.append(label())
        await reader.read(1)
        writer.close()

    def set_one(*_: Any) -> None:
        seq_trace.set_token("label", "of a callback")
        called.append(label())

    async def main() -> None:
        seq_trace.set_token("label", "in use")
        seq_trace.set_token(None)
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def other() -> None:
            seq_trace.set_token("label", "customer 1")
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

        await asyncio.to_thread(other)
        await ask(port)
        near, far = socket.socketpair()
        with near, far:
            loop.add_reader(near, lambda: (near.recv(1), set_one()))
            for n in range(2):  # again and again
                far.send(b"x")
                await all_of(called, n + 1)
                await ask(port)
            loop.remove_reader(near)
            loop.add_writer(near, lambda: (loop.remove_writer(near), set_one()))
            await all_of(called, 3)
            await ask(port)
        loop.add_signal_handler(signal.SIGUSR1, set_one)
        os.kill(os.getpid(), signal.SIGUSR1)
        await all_of(called, 4)
        await ask(port)
        with pytest.raises(TypeError):
            loop.add_signal_handler(signal.SIGUSR1, main)
        loop.remove_signal_handler(signal.SIGUSR1)
        task = asyncio.create_task(asyncio.sleep(0))
        task.add_done_callback(set_one)
        await task
        await all_of(called, 5)
        await ask(port)
        seen.append(label())
        for protocol in (Answers, Nested, Resets, Answers):
            answers = await loop.create_server(protocol, "127.0.0.1", 0)
            for _ in range(3):
                assert await ask(answers.sockets[0].getsockname()[1]) == b"None"
            await ask(port)

    how(main)
    assert seen == [None] * 6 + ["customer 1"] + [None] * 4, "the task has the token of what it waited for"


class Odd(Exception):
    pass


def test_what_is_scheduled_is_as_the_programs_own(session: trace.Session) -> None:
    session.process("all", True, ["send", "receive", "running_procs"])
    contexts: list[dict[str, Any]] = []
    seen: list[Any] = []

    def fails() -> None:
        raise Odd

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: contexts.append(context))
        handle = loop.call_soon(fails)
        assert "fails" in repr(handle)
        due = loop.time() + 0.002
        late = loop.call_later(0.001, note, seen, 1)
        late.cancel()
        assert late.cancelled()
        for wrong in (lambda: loop.call_soon(), lambda: loop.call_later(1), lambda: loop.call_soon(note, bad=1)):
            with pytest.raises(TypeError):
                wrong()
        loop.call_soon(callback := functools.partial(note, seen, 2))
        await all_of(seen, 1)
        await all_of(contexts, 1)
        while loop.time() <= due:
            await asyncio.sleep(0)
        del callback

    run(main)
    assert seen == [(2,)]
    (context,) = contexts
    assert isinstance(context["exception"], Odd) and "fails" in context["message"]
    frames, step = [], context["exception"].__traceback__
    while step:
        frames.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    assert [name for name in frames if not name.startswith("uvloop")] == ["fails"]


def test_a_closed_loop_and_cycles_leave_nothing(session: trace.Session) -> None:
    session.process("all", True, ["running_procs"])

    class Holder:
        pass

    loop = uvloop.new_event_loop()
    holder = Holder()
    holder.handle = loop.call_later(60, lambda kept: None, holder)  # type: ignore[attr-defined]
    gone = weakref.ref(holder)
    loop.close()
    del holder, loop
    gc.collect()
    assert gone() is None
    loop = uvloop.new_event_loop()
    loop.close()
    session.process("all", True, ["send"])
    for schedule in (loop.call_soon, loop.call_soon_threadsafe):
        with pytest.raises(RuntimeError, match="closed"):
            schedule(print, callback_that_is_never_made)
    assert [m for m in session.drain() if m[2] == "send"] == []


def callback_that_is_never_made() -> None:
    raise AssertionError


def test_a_callback_by_its_name(session: trace.Session) -> None:
    seen: list[Any] = []
    session.process("all", True, ["send", "receive", "running_procs"])

    async def main() -> None:
        asyncio.get_running_loop().call_soon(callback=functools.partial(note, seen))
        await asyncio.sleep(0)

    run(main)
    assert seen == [()]


def test_uvloop_that_is_imported_later() -> None:
    program = """
import asyncio, inviso, threading
from inviso import trace
noted = []
def note(): noted.append(1)
with trace.session_create("early") as session:
    session.process("all", True, ["send", "receive"])
    import uvloop
    async def main():
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(note,))
        thread.start()
        while not noted: await asyncio.sleep(0)
        thread.join()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    print([m[2] for m in session.drain() if m[3] == ("__main__", "note", [])])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['send', 'receive']\n", done.stderr


def test_a_subprocess_is_counted_as_not_measured(tmp_path: Path) -> None:
    """libuv forks it and executes another program in C: its name is unseen."""
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, uvloop\n"
        "async def main():\n"
        "    child = await asyncio.create_subprocess_exec('sh', '-c', 'cat; exit 3', stdin=-1, stdout=-1)\n"
        "    print(await child.communicate(b'through a child'), child.returncode)\n"
        "uvloop.run(main())\n"
    )
    words = [sys.executable, "-m", "inviso", "trace", "-p", "__main__", "-o", str(tmp_path / "calls.txt"), str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "(b'through a child', None) 3\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("*** inviso trace: 1 child process was not measured: ended, or became another program, ")
