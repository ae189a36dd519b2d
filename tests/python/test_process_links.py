"""Links, monitors, exit signals, names, timers: Erlang's meaning for threads and tasks."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import trace
from trace_tools import good
from waiting import until

PATIENCE = 10.0
ROOT = Path(__file__).parents[2]
INHERITED = [json.loads(line) for line in (ROOT / "tests/data/live/inherited_flags.jsonl").read_text().splitlines()]


def waits() -> None:
    """A process that lives until it gets a message."""
    inviso.receive()


def process(body: Any = waits, **options: Any) -> inviso.Pid:
    return inviso.spawn(body, **options)


def ended(pid: inviso.Pid) -> None:
    until(lambda: not pid.is_alive(), PATIENCE)


def told(pid: inviso.Pid) -> Any:
    """The reason in the DOWN message of a process."""
    return inviso.receive(("DOWN", "_", "process", pid, "_"), timeout=PATIENCE)[4]


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    yield
    inviso.trap_exit(False)
    while inviso.peek():
        inviso.receive(timeout=0)


def test_a_link_is_mutual_and_goes_once() -> None:
    child = process()
    assert inviso.link(child) and inviso.link(child)
    assert inviso.links() == [child] and inviso.links(child) == [inviso.self()]
    assert inviso.unlink(child) and inviso.unlink(child)
    assert inviso.links() == [] == inviso.links(child)
    inviso.send(child, "end")


def test_an_exit_comes_as_a_message_to_who_traps_it() -> None:
    inviso.trap_exit(True)

    def leaves() -> None:
        inviso.receive()
        inviso.exit(("bad", 7))

    child = process(leaves)
    inviso.link(child)
    inviso.send(child, "go")
    assert inviso.receive(("EXIT", child, "_"), timeout=PATIENCE) == ("EXIT", child, ("bad", 7))
    assert inviso.links() == []


def test_a_thread_whose_end_nobody_saw_leaves_no_name() -> None:
    program = """
import _thread, inviso, threading, time

lock = _thread.allocate_lock()
lock.acquire()
started = []


def body():
    started.append(threading.current_thread())
    lock.acquire()


_thread.start_new_thread(body, ())
while not started:
    time.sleep(0.01)
[pid] = [pid for pid in inviso.processes() if pid != inviso.self()]
inviso.register("worker", pid)
assert inviso.registered() == ["worker"]
lock.release()
while pid.is_alive():
    time.sleep(0.01)
    inviso.processes()
assert inviso.registered() == [] and inviso.whereis("worker") is None
inviso.register("worker", inviso.self())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_normal_end_ends_nobody() -> None:
    other = process()

    def short() -> None:
        inviso.link(other)

    child = process(short)
    ended(child)
    time.sleep(0.02)
    assert other.is_alive() and inviso.links(other) == []
    inviso.send(other, "end")


def test_an_exception_ends_who_is_linked() -> None:
    other = process(monitor=True)[0]

    def falls() -> None:
        inviso.link(other)
        raise SystemExit("falls")

    child, _ = process(falls, monitor=True)
    assert told(child) == ("SystemExit", ("falls",))
    assert told(other) == ("SystemExit", ("falls",))


def test_a_chain_ends_and_who_traps_in_it_does_not() -> None:
    first = process()
    second = process()
    third: list[Any] = []

    def traps() -> None:
        inviso.trap_exit(True)
        inviso.link(second)
        third.append("linked")
        third.append(inviso.receive(("EXIT", "_", "_"), timeout=PATIENCE))

    def links() -> None:
        inviso.link(first)
        inviso.link(second)

    holder = process(traps)
    until(lambda: third)
    linker = threading.Thread(target=lambda: None)
    linker.start()
    linker.join()
    inviso.link(first)
    inviso.unlink(first)
    middle = process(lambda: (inviso.link(first), inviso.link(second), inviso.receive()))
    until(lambda: len(inviso.links(middle)) == 2)
    inviso.exit(first, "storm")
    ended(first), ended(middle), ended(second), ended(holder)
    assert third[1] == ("EXIT", second, "storm")


def test_kill_is_not_trapped() -> None:
    def stubborn() -> None:
        inviso.trap_exit(True)
        inviso.receive("never")

    child, _ = process(stubborn, monitor=True)
    time.sleep(0.02)
    inviso.exit(child, "kill")
    assert told(child) == "killed"


def test_a_normal_signal_ends_nobody_and_one_to_oneself_does() -> None:
    child, _ = process(monitor=True)
    inviso.exit(child, "normal")
    time.sleep(0.02)
    assert child.is_alive()
    inviso.send(child, "end")
    assert told(child) == "normal"

    def own() -> None:
        inviso.exit(inviso.self(), "normal")
        inviso.receive(timeout=0)

    child, _ = process(own, monitor=True)
    assert told(child) == "normal"


def test_a_thread_is_told_while_it_waits() -> None:
    child, _ = process(monitor=True)
    time.sleep(0.05)
    begun = time.monotonic()
    inviso.exit(child, "now")
    assert told(child) == "now"
    assert time.monotonic() - begun < 5


def test_links_and_monitors_of_the_dead() -> None:
    child = process(lambda: None)
    ended(child)
    inviso.trap_exit(True)
    inviso.link(child)
    assert inviso.receive(timeout=PATIENCE) == ("EXIT", child, "noproc")
    reference = inviso.monitor(child)
    assert inviso.receive(timeout=PATIENCE) == ("DOWN", reference, "process", child, "noproc")
    assert inviso.exit(child, "late") is True


def test_a_process_whose_end_was_reported_is_dead(session: trace.Session) -> None:
    session.process(inviso.self(), True, ["send"])
    session.process("new", True, ["receive", "procs"])
    for n in range(100):  # its thread may run on for a while
        child, _ = process(lambda: None, name=f"child {n}", monitor=True)
        assert told(child) == "normal"
        assert not child.is_alive() and child not in inviso.processes() and child.name == f"child {n}"
        assert inviso.send(child, "late") == "late"
        assert inviso.whereis("nobody") is None and session.info(child, "flags") is None
    tags = [message[2] for message in session.drain() if "late" in message]
    assert tags == ["send_to_non_existing_process"] * 100


def test_a_dead_tracer_has_no_flags() -> None:
    for _ in range(50):
        tracer, _ = process(monitor=True)
        with trace.session_create("orphan", tracer) as session:
            session.process(inviso.self(), True, ["call"])
            inviso.send(tracer, "end")
            assert told(tracer) == "normal"
            assert not tracer.is_alive() and session.info(inviso.self(), "flags") == ("flags", [])


def test_a_monitor_is_told_once_each_and_taken_back() -> None:
    child = process()
    one, two, three = inviso.monitor(child), inviso.monitor(child), inviso.monitor(child)
    assert inviso.demonitor(two) and not inviso.demonitor(two)
    inviso.send(child, "end")
    got = [inviso.receive(timeout=PATIENCE) for _ in range(2)]
    assert sorted(m[1]._number for m in got) == sorted(r._number for r in (one, three))
    assert not inviso.demonitor(one)


def test_spawn_links_and_watches(session: trace.Session) -> None:
    inviso.trap_exit(True)
    session.process(inviso.self(), True, ["procs", "set_on_spawn"])
    child, reference = process(lambda: inviso.exit("over"), link=True, monitor=True)
    messages = {inviso.receive(timeout=PATIENCE)[:2], inviso.receive(timeout=PATIENCE)[:2]}
    assert messages == {("EXIT", child), ("DOWN", reference)}
    me = inviso.self()
    by_process: dict[Any, list[Any]] = {me: [], child: []}
    for message in session.drain():
        by_process[message[1]].append(message[2])
    assert by_process[me][:2] == ["spawn", "link"]
    assert by_process[child] == ["spawned", "getting_linked", "exit"]


def flags_of(session: trace.Session, *pids: inviso.Pid) -> list[list[str]]:
    return [sorted(map(str, session.info(pid, "flags")[1])) for pid in pids]


def title(case: Any) -> str:
    return "-".join(case["from"]) + (" new" if case.get("new") else "")


SPAWN_LINK, LINK = ([case for case in INHERITED if case["how"] == how] for how in ("spawn_link", "link"))


@pytest.mark.parametrize("case", SPAWN_LINK, ids=title)
@pytest.mark.parametrize("kind", ["thread", "task", "group", "eager group"])
def test_flags_of_a_process_that_is_linked_from_its_start(session: trace.Session, kind: str, case: Any) -> None:
    async def child() -> None:
        found.append(flags_of(session, parents[0], inviso.self()))
        await asyncio.sleep(0)

    async def main() -> None:
        parents.append(inviso.self())
        if "eager" in kind:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        async with asyncio.TaskGroup() as group:
            session.process(inviso.self(), True, case["from"])
            session.process("new", True, case["new"])
            if kind == "task":
                inviso.spawn(child, link=True)
            else:
                group.create_task(child())
            await asyncio.sleep(0)

    if "eager" in kind and sys.version_info < (3, 12):
        pytest.skip("eager tasks came with 3.12")
    parents: list[inviso.Pid] = []
    found: list[Any] = []
    if kind == "thread":
        me = inviso.self()
        session.process(me, True, case["from"])
        session.process("new", True, case["new"])
        pid = process(link=True)
        found.append(flags_of(session, me, pid))
        inviso.unlink(pid)
        inviso.send(pid, "end")
    else:
        asyncio.run(main())
    assert found == [case["then"]]


@pytest.mark.parametrize("case", LINK, ids=title)
def test_flags_of_a_process_that_is_linked_later(session: trace.Session, case: Any) -> None:
    me, pid = inviso.self(), process()
    session.process(me, True, case["from"])
    session.process(pid, True, case["to"])
    inviso.link(pid)
    assert flags_of(session, me, pid) == case["then"]
    inviso.unlink(pid)
    inviso.send(pid, "end")


def test_tasks() -> None:
    seen: list[Any] = []

    async def sleeper() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def leaves() -> None:
        inviso.exit("mine")

    async def main() -> None:
        inviso.trap_exit(True)
        child = inviso.spawn(sleeper, link=True)
        await asyncio.sleep(0)
        inviso.exit(child, "signal")
        seen.append(await inviso.areceive(("EXIT", child, "_"), PATIENCE))
        other, reference = inviso.spawn(leaves, monitor=True)
        down = await inviso.areceive(("DOWN", reference, "_", "_", "_"), PATIENCE)
        seen.append(down[4])
        falls = inviso.spawn(falling, link=True)
        seen.append(await inviso.areceive(("EXIT", falls, "_"), PATIENCE))

    async def falling() -> None:
        raise ValueError("no")

    asyncio.run(main())
    assert seen[0] == "cancelled"
    assert seen[1][2] == "signal" and seen[2] == "mine" and seen[3][2] == ("ValueError", ("no",))


CANCELLED = "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize("how", ["signal", "its own", "two signals"])
@pytest.mark.parametrize("uncancels", [False, True])
@pytest.mark.parametrize("message", [(), ("plain",), ("sig",)])
def test_a_task_that_survives_an_exit_ends_for_another_reason(how: str, uncancels: bool, message: Any) -> None:
    async def survives() -> None:
        for _ in range(2 if how == "two signals" else 1):
            try:
                if how == "its own":
                    inviso.exit("sig")
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                caught.append(error.args)
                if uncancels:
                    asyncio.current_task().uncancel()  # type: ignore[union-attr]
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(survives())
        pid = inviso.pid(task)
        inviso.monitor(pid)
        for _ in range({"signal": 1, "its own": 0, "two signals": 2}[how]):
            await asyncio.sleep(0)
            inviso.exit(pid, "sig")
            signals.append((("EXIT", inviso.self(), "sig"),))
            while len(caught) < len(signals):
                await asyncio.sleep(0)
        while not caught:
            await asyncio.sleep(0)
        assert pid.is_alive()
        task.cancel(*message)
        assert (await inviso.areceive(("DOWN", "_", "_", pid, "_"), PATIENCE))[4] == (CANCELLED, message)
        assert caught == (signals or [("sig",)])

    caught: list[Any] = []
    signals: list[Any] = []
    asyncio.run(main())


@pytest.mark.parametrize(
    "how", ["inside another task", "with a timeout", "in a group", "gathered", "raised anew", "twice"]
)
def test_an_exit_signal_is_known_again_wherever_a_task_waits(how: str) -> None:
    async def waits() -> None:
        if how == "inside another task":
            await asyncio.create_task(asyncio.sleep(60))
        elif how == "with a timeout":
            await asyncio.wait_for(asyncio.sleep(60), 60)
        elif how == "in a group":
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
        elif how == "gathered":
            await asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
        elif how == "raised anew":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise asyncio.CancelledError from None
        else:
            try:
                await asyncio.sleep(60)
            finally:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                await asyncio.sleep(60)

    async def main() -> None:
        pid, reference = inviso.spawn(waits, monitor=True)
        await asyncio.sleep(0)  # its first step is before this one
        inviso.exit(pid, "sig")
        assert await inviso.areceive(timeout=PATIENCE) == ("DOWN", reference, "process", pid, "sig")

    asyncio.run(main())


@pytest.mark.parametrize("how", ["signal", "its own"])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit("other"), ("SystemExit", ("other",))), (SystemExit("sig"), ("SystemExit", ("sig",))),
        (SystemExit(), ("SystemExit", ())), (ValueError("v"), ("ValueError", ("v",))), (None, "normal"),
    ],
)  # fmt: skip
def test_a_thread_that_survives_an_exit_ends_for_another_reason(
    monkeypatch: pytest.MonkeyPatch, how: str, error: Any, reason: Any
) -> None:
    def survives() -> None:
        try:
            if how == "its own":
                inviso.exit("sig")
            inviso.receive()
        except SystemExit as sent:
            assert sent.code == "sig" and sent.args == ("sig",)
        if error is not None:
            raise error

    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    child = process(survives, monitor=True)[0]
    if how == "signal":
        inviso.exit(child, "sig")
    assert told(child) == reason


def test_an_exit_keeps_nothing_of_the_program() -> None:
    class Reason:
        pass

    reason = Reason()
    gone = weakref.ref(reason)
    try:
        inviso.exit(reason)
    except SystemExit as error:
        assert error.code is reason
    del reason
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
@pytest.mark.parametrize("traced", [False, True])
def test_spawn_of_what_ends_in_its_eager_first_step(session: trace.Session, traced: bool) -> None:
    async def ends_at_once(n: int) -> None:
        found.append(n)
        if n == 3:
            raise LookupError("three")
        if n == 4:
            inner.append(inviso.spawn(ends_at_once, 5))
            assert inviso.links() == [parents[0]]

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        parents.append(inviso.self())
        inviso.trap_exit(True)
        if traced:
            session.process(inviso.self(), True, ["procs", "set_on_spawn"])
        plain = inviso.spawn(ends_at_once, 1)
        watched, reference = inviso.spawn(ends_at_once, 2, monitor=True)
        assert await inviso.areceive() == ("DOWN", reference, "process", watched, "normal")
        failed, reference = inviso.spawn(ends_at_once, 3, monitor=True, link=True)
        reason = ("LookupError", ("three",))
        got = [await inviso.areceive(), await inviso.areceive()]
        assert sorted(got) == sorted([("EXIT", failed, reason), ("DOWN", reference, "process", failed, reason)])
        linked = inviso.spawn(ends_at_once, 4, link=True)
        assert await inviso.areceive() == ("EXIT", linked, "normal")
        pids = [plain, watched, failed, linked, *inner]
        assert len(set(pids)) == 5 and not any(pid.is_alive() for pid in pids)
        assert {pid.kind for pid in pids} == {"task"} and inviso.links() == [] == inviso.peek()
        if traced:
            sent = [m for m in session.drain() if m[1] in pids]
            assert [m[1:] for m in sent if m[2] == "exit"] == [
                (pid, "exit", reason if pid == failed else "normal") for pid in (plain, watched, failed, *inner, linked)
            ]

    parents: list[inviso.Pid] = []
    inner: list[inviso.Pid] = []
    found: list[int] = []
    asyncio.run(main())
    assert found == [1, 2, 3, 4, 5]


def test_a_task_group_is_linked_to_its_children(session: trace.Session) -> None:
    pids: list[inviso.Pid] = []

    async def child() -> None:
        pids.append(inviso.self())
        await asyncio.sleep(0)

    async def main() -> None:
        pids.append(inviso.self())
        session.process(inviso.self(), True, ["procs"])
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())

    asyncio.run(main())
    parent, one, two = pids
    tags = [(m[2], m[3]) for m in session.drain() if m[1] == parent and m[2] in ("link", "getting_unlinked")]
    assert tags == [("link", one), ("link", two), ("getting_unlinked", one), ("getting_unlinked", two)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_an_eager_child_of_a_task_group_is_linked_before_it_runs(session: trace.Session) -> None:
    async def ends_at_once() -> None:
        pids.append(inviso.self())
        assert inviso.links() == [pids[0]]

    async def waits() -> None:
        pids.append(inviso.self())
        assert inviso.links() == [pids[0]]
        await asyncio.sleep(0)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        pids.append(inviso.self())
        session.process(inviso.self(), True, ["procs", "set_on_link"])
        async with asyncio.TaskGroup() as group:
            group.create_task(ends_at_once())
            group.create_task(waits())

    pids: list[inviso.Pid] = []
    asyncio.run(main())
    parent, first, second = pids
    sent = [m[1:4] for m in session.drain() if m[2] != "spawn"]
    for child in (first, second):
        assert [m[1:] for m in sent if m[0] == child] == [
            ("spawned", parent), ("getting_linked", parent), ("exit", "normal")
        ]  # fmt: skip
        assert [m[1] for m in sent if m[0] == parent and m[2] == child] == ["link", "getting_unlinked"]


def test_a_task_group_stops_its_children_itself(session: trace.Session) -> None:
    reasons: list[Any] = []

    async def falls() -> None:
        await asyncio.sleep(0)
        raise ValueError("one")

    async def waits_long() -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        session.process("new", True, ["procs"])
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(falls())
                group.create_task(waits_long())
        except ExceptionGroup as errors:
            reasons.extend(errors.exceptions)

    asyncio.run(main())
    exits = [m[3] for m in session.drain() if m[2] == "exit" and m[3] != "normal"]
    assert exits == [("ValueError", ("one",)), ("asyncio.exceptions.CancelledError", ())] and len(reasons) == 1


def test_names_go_with_their_process(session: trace.Session) -> None:
    session.process("new", True, ["procs"])
    ready = threading.Event()

    def named() -> None:
        inviso.register("worker", inviso.self())
        ready.set()
        inviso.receive()

    child = process(named)
    assert ready.wait(PATIENCE) and inviso.whereis("worker") == child and "worker" in inviso.registered()
    inviso.send("worker", "end")
    ended(child)
    until(lambda: inviso.whereis("worker") is None)
    assert [m[2:] for m in session.drain() if m[1] == child][1:] == [
        ("register", "worker"),
        ("exit", "normal"),
        ("unregister", "worker"),
    ]


def test_a_name_at_a_node() -> None:
    me = inviso.self()
    inviso.register("here", me)
    try:
        inviso.send(("here", inviso.node()), 1)
        inviso.send(("nobody", inviso.node()), 2)
        assert inviso.receive(timeout=0) == 1 and inviso.peek() == []
        with pytest.raises(inviso.BadArg, match="send/2, destination: .*another node"):
            inviso.send(("here", "other@host"), 1)
    finally:
        inviso.unregister("here")


def test_a_timer_can_be_stopped() -> None:
    inviso.send_after(5, inviso.self(), "tick")
    inviso.send_after(10_000, inviso.self(), "never").cancel()
    assert inviso.receive(timeout=PATIENCE) == "tick"
    assert inviso.peek() == []


def test_ends_in_many_threads_are_told_to_all() -> None:
    children = [process(monitor=True)[0] for _ in range(50)]
    for child in children:
        inviso.send(child, "end")
    down = {inviso.receive(("DOWN", "_", "process", "_", "normal"), timeout=PATIENCE)[3] for _ in children}
    assert down == set(children)


def test_a_fork_and_an_exit_with_links() -> None:
    text = """
import inviso, os, threading
def waits(): inviso.receive()
children = [inviso.spawn(waits, link=n % 2 == 0) for n in range(6)]
for child in children: inviso.monitor(child)
inviso.register("me", inviso.self())
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pid = os.fork()
if pid == 0:
    assert inviso.links() == [] and inviso.whereis("me") is None
    other = inviso.spawn(lambda: None)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("good")
"""
    assert good(text) == "good\n"
