"""Requests to the runtime component of the own process: from any thread through its one queue, at once in its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg, log, runtime
from inviso.runtime._initiator import Initiator, leave_if_stopped
from inviso.runtime._overload import Load

LIMIT = 30


def traced(number: int) -> int:
    return number


@pytest.fixture
def component() -> Iterator[None]:
    """A component without a control, which no other process reaches."""
    listener = runtime.local()
    listener.run(lambda: listener.host.start("test", []))
    yield
    runtime.stop_listening()


def in_thread(work: Callable[[], Any]) -> Any:
    """The result of a function in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(LIMIT)
    return found[0]


def test_a_log(component: None, tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    assert runtime.init_tracing(("file", str(path))) == ("ok", [("trace_log", "ok")])
    assert runtime.get_status() == ("ok", ("tracing", "running"))
    assert runtime.get_tracerdata() == ("ok", ("file", str(path)))
    assert runtime.tpl(__name__, "traced", 1, []) == ("ok", [1])
    assert runtime.tf(inviso.self(), ["call"]) == ("ok", [1])
    traced(1)
    assert in_thread(lambda: runtime.ctf([(inviso.self(), ["call"])]))[0] == "ok"
    assert runtime.flush() == "ok"
    assert runtime.stop_tracing() == ("ok", "idle")
    assert [message[3][2] for message in log.read(str(path)) if message[2] == "call"] == [[1]]
    assert runtime.clear(["keep_log_files"]) == ("ok", ("new", "running"))
    assert path.exists()


def test_forms_of_patterns_and_flags(component: None) -> None:
    assert runtime.init_tracing("collector")[0] == "ok"
    assert runtime.tpl([(__name__, "traced", "_", []), (__name__, "in_thread", 1, [], ["only_loaded"])]) == (
        "ok",
        [1, 1],
    )
    assert runtime.tp(__name__, "traced", 1, [], ["only_loaded"]) == ("ok", [1])
    assert runtime.tpg("no.such.module", "_", "_", []) == ("ok", [0])
    assert runtime.ctpg(__name__, "traced", 1) == ("ok", [1])
    assert runtime.ctpl([(__name__, "_", "_")])[0] == "ok"
    assert runtime.ctp_all() == "ok"
    assert runtime.tf([("new", ["call"])])[0] == "ok"
    assert runtime.ctf_all() == "ok"


@pytest.mark.parametrize(
    "call",
    [
        lambda: runtime.tp(), lambda: runtime.tp("a", "b", 1), lambda: runtime.tp([("a", "b", 1)]),
        lambda: runtime.tpl(7),
        lambda: runtime.ctp("a", "b"), lambda: runtime.ctpl([("a",)]), lambda: runtime.tf("all"),
        lambda: runtime.tf("all", "call"),
        lambda: runtime.tf([("all", [1])]), lambda: runtime.tpm("a", "b", 1), lambda: runtime.init_tpm(1, 2, 3, 4, 5),
    ],
)  # fmt: skip
def test_malformed_requests_are_not_asked(component: None, call: Callable[[], Any]) -> None:
    with pytest.raises(BadArg):
        call()


def test_suspension_does_not_wait(component: None) -> None:
    assert runtime.suspend("hot") is None
    assert runtime.get_status() == ("ok", ("new", ("suspended", "hot")))  # in the same queue, after it
    assert runtime.tp("json", "_", "_", []) == ("error", "suspended")
    assert runtime.cancel_suspension() == "ok"
    assert runtime.get_status() == ("ok", ("new", "running"))


def test_a_request_in_the_components_own_thread_is_done_at_once(component: None) -> None:
    """A handler of trace messages asks the component that calls it."""
    seen: list[Any] = []
    done = threading.Event()

    def handler(message: Any, number: int) -> int:
        seen.append((number, runtime.get_status(), runtime.ctp(__name__, "traced", 1)))
        done.set()
        return number + 1

    assert runtime.init_tracing((handler, 5))[0] == "ok"
    assert runtime.tpl(__name__, "traced", 1, []) == ("ok", [1])
    assert runtime.tf(inviso.self(), ["call"])[0] == "ok"
    traced(1)
    assert done.wait(LIMIT)
    runtime.stop_tracing()
    assert seen == [(5, ("ok", ("tracing", "running")), ("ok", [1]))]


def test_requests_of_many_threads_are_each_answered(component: None) -> None:
    """Each thread sees its own pattern set, then removed: no request is lost, and none comes between two of another."""
    wrong: list[Any] = []

    def work(number: int) -> None:
        for _ in range(20):
            found = runtime.tpl(f"no.module{number}", "_", "_", []), runtime.ctpl(f"no.module{number}", "_", "_")
            if found != (("ok", [0]), ("ok", [0])):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


def test_without_a_component() -> None:
    assert runtime.init_tracing("collector") == ("error", "not_started")
    runtime.local()
    try:
        assert runtime.get_status() == ("error", "not_started")
    finally:
        runtime.stop_listening()


@pytest.mark.parametrize("how", ["stop_tracing", "clear", "suspend"])
def test_an_initiator_ends_at_its_next_request(component: None, how: str) -> None:
    begun, stopped, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        assert stopped.wait(LIMIT)
        seen.append("before")
        runtime.get_status()
        seen.append("after")

    told: list[str] = []
    listener = runtime.listening()
    assert listener is not None
    ended = threading.Event()
    initiator = listener.host.initiator = Initiator(lambda: work_and(ended, work), told.append)
    initiator.start()
    assert begun.wait(LIMIT)
    runtime.suspend("hot") if how == "suspend" else getattr(runtime, how)()
    runtime.get_status()
    assert initiator.is_stopped and initiator.done.wait(LIMIT)
    stopped.set()
    assert ended.wait(LIMIT)
    assert (seen, told) == (["before"], [])


def work_and(ended: threading.Event, work: Callable[[], None]) -> None:
    try:
        work()
    finally:
        ended.set()


def test_overload_ends_an_initiator_too(component: None) -> None:
    listener = runtime.listening()
    assert listener is not None
    initiator = listener.host.initiator = Initiator(lambda: None)
    listener.run(lambda: listener.host.component._suspend("overload"))
    assert initiator.is_stopped


def test_what_was_lost_before_a_suspension_is_no_reason_after_it(component: None) -> None:
    listener = runtime.listening()
    assert listener is not None
    assert runtime.init_tracing("collector")[0] == "ok"
    made: Any = listener.host.component

    def check(lost: int) -> Any:
        return listener.run(lambda: made._overload.timed(time.monotonic(), Load(0, lost, None)))

    assert check(9000) is None
    assert check(20_000) == (("lost", 11_000),)
    runtime.suspend("lost")
    made._counts = (0, 50_000)  # until its patterns were gone
    assert runtime.cancel_suspension() == "ok"
    while listener.run(lambda: made._overload.due() <= time.monotonic()):
        pass  # its own check is at once
    assert runtime.get_status() == ("ok", ("tracing", "running"))
    assert check(50_000) is None
    assert check(60_001) == (("lost", 10_001),)


def test_several_things_at_once() -> None:
    """Each waits for all the others: in one thread none would end. An exception is reported, and the others go on."""
    told: list[str] = []
    barrier = threading.Barrier(3, timeout=LIMIT)
    seen: list[int] = []

    def work(number: int) -> None:
        barrier.wait()
        if number == 1:
            raise LookupError("one")
        seen.append(number)

    initiator: Initiator = Initiator(lambda: initiator.together([lambda n=n: work(n) for n in range(3)]), told.append)
    initiator.start()
    assert initiator.done.wait(LIMIT)
    assert sorted(seen) == [0, 2] and told == ["LookupError: one"]
    leave_if_stopped()  # this thread is no initiator's


def test_meta_tracing(component: None, tmp_path: Path) -> None:
    """Each of its requests reaches the meta tracer; functions of this process are taken as call-backs."""
    seen = threading.Event()

    def called(pid: Any, message: Any, data: Any) -> Any:
        seen.set()
        return "ok", data, None

    here = (__name__, "traced", 1)
    assert runtime.tpm(*here, [], called) == ("error", "no_metatracer")
    tracerdata = [("trace", ("file", str(tmp_path / "a.log"))), ("ti", ("file", str(tmp_path / "a.ti")))]
    assert runtime.init_tracing(tracerdata) == ("ok", [("trace_log", "ok"), ("ti_log", "ok")])
    assert runtime.init_tpm(*here, called) == "ok"
    assert runtime.init_tpm(*here, None, called, None, None) == ("error", "already_initiated")
    assert runtime.tpm_ms(*here, "first", []) == ("ok", 1)
    assert runtime.tpm_ms_tracer(*here, "second", [("_", [], [("trace", [], ["call"])])]) == ("ok", 1)
    traced(1)
    assert seen.wait(LIMIT)
    assert runtime.ctpm_ms(*here, "first") == "ok"
    assert runtime.ctpm(*here) == "ok"
    assert runtime.tpm(*here, [], called) == ("ok", 1)
    assert runtime.tpm_tracer(*here, []) == ("ok", 1)
    assert runtime.local_register() == (("ok", 1), ("ok", 1))
    assert runtime.remove_local_register() == ("ok", "ok")
    assert runtime.global_register() == (("ok", 0), ("ok", 0))
    assert runtime.remove_global_register() == ("ok", "ok")
