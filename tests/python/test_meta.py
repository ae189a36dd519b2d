"""Meta tracing in one process: requests and their answers, call-backs, loop data, names, the ti file."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import meta_tools
import pytest
from inviso import Atom, etf, log, meta
from inviso.runtime import _meta
from inviso.runtime._resolver import Resolver
from inviso.runtime._tracerdata import Refused
from meta_tools import Runtime, aliases, assoc_id, mfa, off, on, other, record, work
from trace_tools import LIMIT, good
from waiting import until

OK, ERROR = "ok", "error"
ME = "meta_tools"
WORK = mfa(work)
OTHER = mfa(other)
RETURNS: list[Any] = [("_", [], [("return_trace",)])]
RAISES: list[Any] = [("_", [], [("exception_trace",)])]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Requests wait as long as a test may; only the test of a request that doesn't wait shortens that."""

    def wait(seconds: float, last: float = LIMIT) -> None:
        monkeypatch.setattr(_meta, "PATIENCE", seconds)
        monkeypatch.setattr(_meta, "LAST", last)

    wait(LIMIT)
    return wait


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(tmp_path)
    yield made
    made.component.end()


@pytest.fixture
def traced(runtime: Runtime) -> Runtime:
    assert runtime.begin() == (OK, [("ti_log", OK)])
    return runtime


def is_stamp(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and abs(value[0] * 10**6 + value[1] - seconds()) < LIMIT


def seconds() -> int:
    mega, rest, _ = meta.now()
    return mega * 10**6 + rest


# section 1.6: the answer to each request


def nothing(*_: Any) -> None:
    return None


WILD = [
    ("_", "f", 1),
    ("m", "_", 1),
    ("m", "f", "_"),
    ("m.**", "f", 1),
    (1, "f", 1),
    ("m", 2, 1),
    ("m", "f", -1),
    ("m", "f", True),
]


@pytest.mark.parametrize("wrong", WILD)
def test_wildcards_and_wrong_types(traced: Runtime, wrong: Any) -> None:
    assert traced.ask("init_tpm", *wrong, nothing) == (ERROR, "bad_mfa")
    assert traced.ask("tpm", *wrong, []) == (ERROR, "badarg")
    assert traced.ask("tpm", *wrong, [], nothing) == (ERROR, "badarg")
    assert traced.ask("ctpm", *wrong) == (ERROR, "bad_mfa")
    assert traced.ask("tpm_ms", *wrong, "name", []) == (ERROR, "not_initiated")


def test_init_tpm(traced: Runtime) -> None:
    assert traced.ask("init_tpm", *WORK, nothing) == OK
    assert traced.ask("init_tpm", *WORK, nothing) == (ERROR, "already_initiated")
    assert traced.ask("init_tpm", *OTHER, None, nothing, None, None) == OK
    assert traced.ask("ctpm", *WORK) == OK
    assert traced.ask("ctpm", *WORK) == (ERROR, "bad_mfa")
    assert traced.ask("init_tpm", *WORK, nothing) == OK


@pytest.mark.parametrize("request_name", ["tpm", "tpm_tracer"])
def test_tpm_of_an_initiated_function(traced: Runtime, request_name: str) -> None:
    assert traced.ask(request_name, *WORK, []) == (ERROR, "not_initiated")
    traced.ask("init_tpm", *WORK, nothing)
    assert traced.ask(request_name, *WORK, []) == (OK, 1)
    assert traced.ask(request_name, *WORK, True) == (ERROR, "badarg")
    assert traced.ask(request_name, *WORK, "no list") == (ERROR, "badarg")
    assert traced.ask(request_name, *WORK, [("not a clause",)]) == (OK, 0)
    traced.ask("init_tpm", ME, "missing", 0, nothing)
    assert traced.ask(request_name, ME, "missing", 0, []) == (OK, 0)


@pytest.mark.parametrize("request_name", ["tpm", "tpm_tracer"])
@pytest.mark.parametrize("functions", [(nothing,), (None, nothing, None, None)])
def test_tpm_with_functions(traced: Runtime, request_name: str, functions: Any) -> None:
    assert traced.ask(request_name, *WORK, [], *functions) == (OK, 1)
    assert traced.ask(request_name, *WORK, [], *functions) == (ERROR, "already_initiated")
    assert traced.ask(request_name, ME, "missing", 0, [], *functions) == (OK, 0)
    assert traced.ask(request_name, ME, "missing", 0, [], *functions) == (ERROR, "already_initiated")
    assert traced.ask("ctpm", ME, "missing", 0) == OK


@pytest.mark.parametrize("request_name", ["tpm_ms", "tpm_ms_tracer"])
def test_tpm_ms(traced: Runtime, request_name: str) -> None:
    assert traced.ask(request_name, *WORK, "a", RETURNS) == (ERROR, "not_initiated")
    traced.ask("init_tpm", *WORK, nothing)
    assert traced.ask(request_name, *WORK, "a", RETURNS) == (OK, 1)
    assert traced.ask(request_name, *WORK, "b", [("no", "clause")]) == (OK, 0)
    assert traced.ask(request_name, *WORK, "b", "no list") == (OK, 0)
    assert meta.list_tpm_ms(*WORK) == (OK, ["a"])
    assert traced.patterns(work) == RETURNS


def test_ctpm_ms_is_always_ok(traced: Runtime) -> None:
    assert traced.ask("ctpm_ms", *WORK, "a") == OK
    assert traced.ask("ctpm_ms", "_", "_", "_", "a") == OK
    traced.ask("init_tpm", *WORK, nothing)
    assert traced.ask("ctpm_ms", *WORK, "a") == OK


def test_names_are_pairs(traced: Runtime) -> None:
    assert traced.ask("ctpm_localnames") == ((ERROR, "bad_mfa"), (ERROR, "bad_mfa"))
    assert traced.ask("tpm_localnames") == ((OK, 1), (OK, 1))
    assert traced.ask("tpm_localnames") == ((ERROR, "already_initiated"), (ERROR, "already_initiated"))
    assert traced.ask("ctpm_localnames") == (OK, OK)
    assert traced.ask("tpm_localnames") == ((OK, 1), (OK, 1))
    assert traced.ask("tpm_globalnames") == ((OK, 0), (OK, 0))
    assert traced.ask("ctpm_globalnames") == (OK, OK)


REQUESTS: list[tuple[str, tuple[Any, ...]]] = [
    ("init_tpm", (*WORK, nothing)),
    ("tpm", (*WORK, [])),
    ("tpm", (*WORK, [], nothing)),
    ("tpm_tracer", (*WORK, [])),
    ("tpm_ms", (*WORK, "a", [])),
    ("tpm_ms_tracer", (*WORK, "a", [])),
    ("ctpm_ms", (*WORK, "a")),
    ("ctpm", WORK),
    ("tpm_localnames", ()),
    ("ctpm_localnames", ()),
    ("tpm_globalnames", ()),
    ("ctpm_globalnames", ()),
]


@pytest.mark.parametrize(("name", "arguments"), REQUESTS)
def test_without_a_meta_tracer(runtime: Runtime, name: str, arguments: Any) -> None:
    assert runtime.ask(name, *arguments) == (ERROR, "no_metatracer")
    runtime.ask("init_tracing", ("file", str(runtime.folder / "t.log")))
    assert runtime.ask(name, *arguments) == (ERROR, "no_metatracer")


@pytest.mark.parametrize(("name", "arguments"), REQUESTS)
def test_while_suspended(traced: Runtime, name: str, arguments: Any) -> None:
    traced.ask("suspend", "enough")
    assert traced.ask(name, *arguments) == (ERROR, "suspended")
    traced.ask("cancel_suspension")
    assert traced.ask(name, *arguments) not in ((ERROR, "suspended"), (ERROR, "no_metatracer"))


@pytest.mark.parametrize(("name", "arguments"), [one for one in REQUESTS if one[1]])
def test_a_wrong_number_of_arguments(traced: Runtime, name: str, arguments: Any) -> None:
    wrong = arguments[:2]
    assert traced.ask(name, *wrong) == (ERROR, ("badarg", (name, list(wrong))))
    assert traced.ask(name, *arguments, *range(7)) == (ERROR, ("badarg", (name, [*arguments, *range(7)])))


def test_a_meta_tracer_that_has_died(traced: Runtime) -> None:
    assert traced.component._meta is not None
    traced.component._meta._session.destroy()
    assert traced.ask("tpm", *WORK, [], nothing) == (ERROR, "no_metatracer")
    assert traced.ask("stop_tracing") == (OK, "idle")


# section 3.2: call-backs


def test_what_call_backs_are_given(traced: Runtime) -> None:
    seen: list[Any] = []
    call = record(seen)
    assert traced.ask("tpm", *WORK, RAISES, call, call, call, None) == (OK, 1)
    assert seen == [WORK]
    assert work(1, b=2) == 3
    with pytest.raises(ValueError, match="less than nothing"):
        work(-1)
    assert traced.data == (([], []), [1, 2, 3, 4, 5])
    me = inviso.self()
    called, returned, again, raised = seen[1:]
    assert called[:1] + called[1][:2] == (me, "call", [1, 2])
    assert returned[:1] + returned[1][:2] == (me, "return_from", 3)
    assert again[1][1] == [-1, 0]
    assert raised[1][:2] == ("exception_from", ("error", ("ValueError", ("less than nothing",))))
    assert all(is_stamp(one[1][2]) for one in seen[1:])


def test_returns_only_where_they_are_asked_for(traced: Runtime) -> None:
    seen: list[Any] = []
    traced.ask("tpm", *WORK, [], None, None, record(seen), None)
    work(1)
    traced.settle()
    assert seen == []
    traced.ask("tpm", *WORK, RETURNS)
    with pytest.raises(ValueError, match="less"):
        work(-1)
    work(1)
    traced.settle()
    assert [one[1][:2] for one in seen] == [("return_from", 1)]


def test_it_works_in_any_process_and_without_flags(traced: Runtime) -> None:
    seen: list[Any] = []
    traced.ask("tpm", *WORK, [], record(seen))
    pids: list[Any] = []

    async def task() -> None:
        pids.append(inviso.self())
        work(2)

    def thread() -> None:
        pids.append(inviso.self())
        work(1)
        asyncio.run(task())

    one = threading.Thread(target=thread)
    one.start()
    one.join(LIMIT)
    traced.settle()
    assert [(pid, what[1]) for pid, what in seen] == [(pids[0], [1, 0]), (pids[1], [2, 0])]


def test_output_is_bytes_or_a_list_of_bytes(traced: Runtime) -> None:
    outputs: list[Any] = []
    traced.ask("tpm", *WORK, [], lambda pid, what, data: ("ok", data, outputs.pop(0)))
    one, two, three = (etf.dumps(n) for n in (1, 2, 3))
    outputs[:] = [one, [two, [three, []]], [], None, "text", [one, "text"], bytearray(one), three]
    for _ in range(8):
        work(1)
    assert traced.entries() == [1, 2, 3, 3]
    status = traced.settle()
    assert (status["entries"], status["wrong_answers"], status["exceptions"]) == (4, 0, 0)


def test_nonsense_changes_nothing_and_is_counted(traced: Runtime) -> None:
    def raises(*_: Any) -> Any:
        raise KeyError("no such thing")

    def leaves(*_: Any) -> Any:
        raise SystemExit(3)

    answers: list[Any] = [None, "ok", ("ok",), ("ok", 1), ("error", 1, b""), ("ok", 1, b"", 2), ["ok", 1, b""]]
    traced.ask("tpm", *WORK, [], lambda pid, what, data: answers.pop(0))
    for _ in range(7):
        work(1)
    status = traced.settle()
    assert (status["wrong_answers"], status["exceptions"], status["entries"]) == (7, 0, 0)
    assert '("ok", data, output)' in status["error"]
    assert traced.data == (([], []), [])
    traced.ask("tpm", *OTHER, RETURNS, raises, leaves, raises, raises)
    other()
    assert traced.ask("ctpm", *OTHER) == OK
    status = traced.settle()
    assert status["exceptions"] == 4
    assert status["error"] == "KeyError: 'no such thing'"
    assert traced.ask("meta_status") == (OK, status)
    assert meta.status() == status


def test_init_and_remove_function(traced: Runtime) -> None:
    order: list[Any] = []

    def init(*arguments: Any) -> Any:
        order.append(("init", *arguments))
        return "ok", "begun", etf.dumps("hello")

    def remove(*arguments: Any) -> Any:
        order.append(("remove", *arguments))
        return "ok", "ended"

    traced.ask("init_tpm", *WORK, init, None, None, remove)
    assert order == [("init", *WORK, (([], []), []))]
    assert traced.data == "begun"
    assert traced.entries() == ["hello"]
    traced.ask("ctpm", *WORK)
    assert order[1:] == [("remove", *WORK, "begun")]
    assert traced.data == "ended"


def test_functions_by_name(traced: Runtime) -> None:
    assert traced.ask("tpm", *WORK, [], (ME, "named_call")) == (OK, 1)
    work(4, 5)
    assert traced.entries() == [("named", [4, 5])]
    missing = (ME, "no_such_function")
    assert traced.ask("tpm", *OTHER, [], missing) == (ERROR, ("bad_function", missing))
    assert traced.ask("tpm", *OTHER, [], "void") == (OK, 1)  # anything else is no function


def test_no_call_is_handled_after_ctpm(traced: Runtime) -> None:
    seen: list[Any] = []
    traced.ask("tpm", *WORK, RETURNS, record(seen))
    work(1)
    assert traced.ask("ctpm", *WORK) == OK
    assert len(seen) == 1  # earlier calls were handled first
    work(2)
    traced.settle()
    assert len(seen) == 1
    assert traced.patterns(work) is False


# section 3.3: public loop data


def test_default_loop_data(traced: Runtime) -> None:
    assert traced.data == (([], []), [])


def test_custom_loop_data(runtime: Runtime) -> None:
    removed: list[Any] = []
    assert runtime.begin(((lambda size: ["data"] * size, [2]), removed.append, None)) == (OK, [("ti_log", OK)])
    assert runtime.data == ["data", "data"]
    runtime.ask("suspend", "a while")
    assert removed == [["data", "data"]]
    assert runtime.data == ["data", "data"]
    runtime.ask("stop_tracing")
    assert removed == [["data", "data"]] * 2


def test_loop_data_that_cannot_be_made(runtime: Runtime) -> None:
    assert runtime.begin((("builtins", "int", ["x"]), None, None)) == (OK, [("ti_log", OK)])
    assert runtime.data == (ERROR, "init_publ_ld_func")
    assert runtime.settle()["exceptions"] == 1
    assert runtime.ask("tpm", *WORK, [], lambda pid, what, data: ("ok", "new", b"")) == (OK, 1)
    work(1)
    assert runtime.data == "new"


def test_the_cleaner_runs_by_a_timer(runtime: Runtime) -> None:
    from inviso.runtime._meta import Meta, TiSpec

    time = [0.0]
    cleaned: list[Any] = []

    def clean(data: Any) -> Any:
        cleaned.append(data)
        if len(cleaned) == 2:
            raise ValueError("it failed")
        return "clean"

    tracer = Meta(str(runtime.ti), TiSpec(lambda: "dirty", None, clean), clock=lambda: time[0])
    tracer.start()
    try:
        for now, data in [
            (59.9, "dirty"),
            (60.0, "clean"),
            (100.0, "clean"),
            (119.9, "clean"),
            (120.0, "clean"),
            (180.0, "clean"),
        ]:
            time[0] = now
            tracer.look()
            assert tracer._request(lambda: tracer._data) == data
    finally:
        tracer.stop()
    assert cleaned == ["dirty", "clean", "clean"]  # the one that failed counts as done
    assert tracer.status()["exceptions"] == 1


def test_a_component_looks_after_the_cleaner(traced: Runtime) -> None:
    tracer = traced.component._meta
    assert tracer is not None
    old = ("caller", ("x", 1), (1, 2, 3))
    tracer._request(lambda: setattr(tracer, "_data", (([old], []), "kept")))
    tracer._clock = lambda: tracer._cleaned + 61
    wait = traced.component.poll()
    assert wait is not None and wait >= 0.05  # it does not spin
    assert traced.data == (([], []), "kept")


def test_what_is_cleaned() -> None:
    at = (1, 30, 999_999)
    older, oldest, young = (1, 0, 0), (0, 999_999, 999_999), (1, 0, 1)
    lists = [("a", older), ("b", oldest), ("c", young)], [], [(oldest,), (young,)]
    assert meta.clean_std_publld((lists, [("b", oldest)]), at) == (
        ([("a", older), ("c", young)], [], [(young,)]),
        [("b", oldest)],
    )
    assert meta.clean_std_publld(lists, at) == ([("a", older), ("c", young)], [], [(young,)])


@pytest.mark.parametrize("data", [None, (), [], ((), "x"), ([1],), ([("a", "b")], []), ((["x"],), 0)])
def test_what_cannot_be_cleaned(data: Any) -> None:
    with pytest.raises(inviso.BadArg, match="clean_std_publld/1, data"):
        meta.clean_std_publld(data)


# section 3.4: named match specifications

ONE: list[Any] = [([1, "_"], [], [("message", Atom("one"))])]
TWO: list[Any] = [([2, "_"], [], [("message", Atom("two"))])]


def test_the_newest_stands_in_front(traced: Runtime) -> None:
    traced.ask("init_tpm", *WORK, nothing)
    traced.ask("tpm_ms", *WORK, "one", ONE)
    traced.ask("tpm_ms", *WORK, ("two",), TWO)
    assert meta.list_tpm_ms(*WORK) == (OK, [("two",), "one"])
    assert traced.patterns(work) == TWO + ONE
    traced.ask("tpm_ms", *WORK, "one", RETURNS)
    assert meta.list_tpm_ms(*WORK) == (OK, ["one", ("two",)])
    assert traced.patterns(work) == RETURNS + TWO


def test_an_empty_one_takes_all(traced: Runtime) -> None:
    traced.ask("init_tpm", *WORK, nothing)
    traced.ask("tpm_ms", *WORK, "one", ONE)
    traced.ask("tpm_ms", *WORK, "all", [])
    assert traced.patterns(work) == [("_", [], []), *ONE]


def test_the_last_one_that_goes_takes_the_pattern(traced: Runtime) -> None:
    traced.ask("init_tpm", *WORK, nothing)
    traced.ask("tpm_ms", *WORK, "one", ONE)
    traced.ask("tpm_ms", *WORK, "two", TWO)
    traced.ask("ctpm_ms", *WORK, "one")
    assert traced.patterns(work) == TWO
    traced.ask("ctpm_ms", *WORK, "two")
    assert traced.patterns(work) is False
    assert meta.list_tpm_ms(*WORK) == (OK, [])
    assert traced.ask("tpm_ms", *WORK, "one", ONE) == (OK, 1)


def test_tpm_replaces_what_has_a_name(traced: Runtime) -> None:
    traced.ask("init_tpm", *WORK, nothing)
    traced.ask("tpm_ms", *WORK, "one", ONE)
    assert traced.ask("tpm", *WORK, TWO) == (OK, 1)
    assert meta.list_tpm_ms(*WORK) == (OK, [])
    assert traced.patterns(work) == TWO
    assert traced.ask("tpm_ms", *WORK, "one", ONE) == (OK, 1)  # it is initiated still
    assert traced.patterns(work) == ONE


def test_a_call_back_may_ask(traced: Runtime) -> None:
    answers: list[Any] = []

    def call(pid: Any, what: Any, data: Any) -> Any:
        answers.append(meta.tpm_ms(*OTHER, "mine", RETURNS))
        answers.append(meta.list_tpm_ms(*OTHER))
        answers.append(meta.ctpm_ms(*OTHER, "mine"))
        answers.append(meta.tpm_ms(*WORK, "not", RETURNS))
        answers.append(meta.list_tpm_ms("no", "such", 1))
        meta.write_ti(etf.dumps("from the call-back"))
        return "ok", data, etf.dumps("answer")

    seen: list[Any] = []
    traced.ask("init_tpm", *OTHER, record(seen))
    traced.ask("tpm", *WORK, [], call)
    work(1)
    traced.settle()
    assert traced.entries() == ["answer", "from the call-back"]  # one queue
    assert answers == [(OK, 1), (OK, ["mine"]), None, (OK, 1), (ERROR, "not_initiated")]


# the regular trace, switched on and off from a meta trace


def calls(runtime: Runtime) -> list[Any]:
    runtime.ask("stop_tracing")
    return [message[3] for message in log.read(runtime.folder / "t.log") if message[2] == "call"]


@pytest.mark.parametrize("request_name", ["tpm_tracer", "tpm_ms_tracer"])
def test_the_regular_trace_is_switched_at_the_call(runtime: Runtime, request_name: str) -> None:
    assert runtime.begin(log=True) == (OK, [("trace_log", OK), ("ti_log", OK)])
    runtime.ask("tpl", [(*WORK, [])])
    begins = [("_", [], [("trace", [], ["call", "arity"])])]
    ends = [("_", [], [("trace", ["all"], [])])]
    for function, spec in ((on, begins), (off, ends)):
        name = ["a name"] * (request_name == "tpm_ms_tracer")
        runtime.ask("init_tpm", *mfa(function), nothing)
        assert runtime.ask(request_name, *mfa(function), *name, spec) == (OK, 1)
    work(1)
    on()
    work(2)
    work(3)
    off()
    work(4)
    assert calls(runtime) == [WORK, WORK]


def test_without_the_tracer_only_who_is_traced_is_switched(runtime: Runtime) -> None:
    runtime.begin(log=True)
    runtime.ask("tpl", [(*WORK, [])])
    runtime.ask("tpm", *mfa(on), [("_", [], [("trace", ["arity"], ["call"])])], nothing)
    on()
    work(1)
    runtime.ask("tf", [(inviso.self(), ["call", "arity"])])
    work(2)
    on()
    work(3)
    assert calls(runtime) == [WORK, (*WORK[:2], [3, 0])]


def test_silence_belongs_to_the_regular_trace(runtime: Runtime) -> None:
    runtime.begin(log=True)
    runtime.ask("tpl", [(*WORK, [])])
    runtime.ask("tf", [(inviso.self(), ["call", "arity"])])
    runtime.ask("tpm", *mfa(off), [("_", [], [("silent", True)])], nothing)
    runtime.ask("tpm", *mfa(on), [("_", [], [("silent", False)])], nothing)
    work(1)
    off()
    work(2)
    on()
    work(3)
    assert calls(runtime) == [WORK, WORK]
    assert inviso.meta.get_tracer() is None


def test_the_tracer_is_that_of_the_regular_session_and_no_other(runtime: Runtime) -> None:
    runtime.begin(log=True)
    mine = meta.get_tracer()
    assert runtime.component._tracing is not None and mine == runtime.component._tracing.session.id
    spec = [("_", [], [("trace", [], ["call"]), ("trace", [], ["send"])]), ([1], [], [("message", False)])]
    runtime.ask("tpm_tracer", *WORK, spec, nothing)
    assert runtime.patterns(work) == [
        ("_", [], [("trace", [], ["call", (("tracer", mine),)]), ("trace", [], ["send"])]),
        ([1], [], [("message", False)]),
    ]
    runtime.ask("tpl", [(*OTHER, [])])
    wrong = [("_", [], [("trace", [], ["call", (("tracer", mine + 1000),)])])]
    assert runtime.ask("tpm", *mfa(on), wrong, nothing) == (OK, 1)
    on()
    other()
    assert calls(runtime) == []


def test_without_a_log_there_is_no_regular_tracer(traced: Runtime) -> None:
    assert meta.get_tracer() is None
    spec = [("_", [], [("trace", [], ["call"])])]
    assert traced.ask("tpm_tracer", *WORK, spec, nothing) == (OK, 1)
    assert traced.patterns(work) == spec
    assert traced.ask("tf", [("all", ["call"])]) == (ERROR, "no_tracer")


# section 3.5: suspension and stop


def test_stop_handles_what_was_called_before(runtime: Runtime) -> None:
    runtime.begin(log=True)
    runtime.ask("tpm", *WORK, [], lambda pid, what, data: ("ok", data, etf.dumps(what[1][0])))
    for n in range(2000):
        work(n)
    assert runtime.ask("stop_tracing") == (OK, "idle")
    work(5000)
    assert meta_tools.entries(runtime.ti) == list(range(2000))


@pytest.mark.parametrize("how", [("stop_tracing",), ("suspend", "why"), ("clear", ["keep_log_files"])])
def test_the_order_of_the_end(runtime: Runtime, how: Any) -> None:
    order: list[Any] = []

    def remove(module: str, function: str, arity: int, data: Any) -> Any:
        order.append((function, data, runtime.component._meta and runtime.patterns(work)))
        return "ok", data + 1

    runtime.begin(((lambda: 0, []), lambda data: order.append(("all", data)), None))
    for one in (WORK, OTHER):
        runtime.ask("tpm", *one, [], None, None, None, remove)
    runtime.ask(*how)
    assert [step[:2] for step in order] == [("work", 0), ("other", 1), ("all", 2)]
    assert not any(step[2:] and step[2] for step in order)  # all patterns had gone before


def test_after_a_suspension_all_is_initiated_again(traced: Runtime) -> None:
    seen: list[Any] = []
    traced.ask("tpm", *WORK, [], record(seen))
    traced.ask("tpm_localnames")
    work(1)
    traced.ask("suspend", "enough")
    work(2)
    traced.ask("cancel_suspension")
    work(3)
    assert traced.data == (([], []), [])
    assert len(seen) == 1
    assert traced.settle()["functions"] == 0
    assert traced.ask("tpm", *WORK, [], record(seen)) == (OK, 1)
    assert traced.ask("tpm_localnames") == ((OK, 1), (OK, 1))
    work(4)
    traced.settle()
    assert len(seen) == 2


def test_a_call_back_that_does_not_return(runtime: Runtime, patience: Callable[..., None]) -> None:
    runtime.begin(log=True)
    inside, let_go = threading.Event(), threading.Event()

    def hangs(pid: Any, what: Any, data: Any) -> Any:
        inside.set()
        let_go.wait(LIMIT)
        return "ok", "too late", etf.dumps("too late")

    runtime.ask("tpm", *WORK, [], hangs)
    work(1)
    assert inside.wait(LIMIT)
    patience(0.2, 0.1)
    assert runtime.ask("tpm", *OTHER, [], nothing) == (ERROR, "time_out")
    assert runtime.ask("get_status") == (OK, ("tracing", "running"))
    assert runtime.ask("tp", [(*WORK, [])]) == (OK, [1])
    tracer = runtime.component._meta
    assert tracer is not None
    assert runtime.ask("stop_tracing") == (OK, "idle")
    let_go.set()
    until(lambda: tracer._worker._over.is_set())
    assert meta_tools.entries(runtime.ti) == []
    assert tracer._data == (([], []), [])
    assert tracer.status()["functions"] == 1  # an abandoned request was not carried out


def test_call_backs_that_are_too_slow_for_all(runtime: Runtime, patience: Callable[..., None]) -> None:
    go_on = threading.Event()
    removed: list[Any] = []

    def slow(pid: Any, what: Any, data: Any) -> Any:
        go_on.wait(0.01)
        return "ok", data, etf.dumps(what[1][0])

    runtime.begin()
    runtime.ask("tpm", *WORK, [], None, slow, None, lambda *all: removed.append(all) or ("ok", all[3]))
    for n in range(5000):
        work(n)
    patience(0.05)
    tracer = runtime.component._meta
    assert tracer is not None
    assert runtime.ask("stop_tracing") == (OK, "idle")
    assert removed == [(*WORK, (([], []), []))]  # the end works all the same
    status = tracer.status()
    assert status["messages"] == status["entries"] < 5000
    assert status["lost"] == 5000 - status["messages"]
    assert meta_tools.entries(runtime.ti) == list(range(status["messages"]))


def test_after_a_suspension_that_could_not_wait_calls_are_handled(
    traced: Runtime, patience: Callable[..., None]
) -> None:
    go_on = threading.Event()
    traced.ask("tpm", *WORK, [], lambda pid, what, data: go_on.wait(0.01) or ("ok", data, None))
    for n in range(1000):
        work(n)
    patience(0.05)
    assert traced.ask("suspend", "enough") == OK
    patience(LIMIT)
    traced.ask("cancel_suspension")
    before = traced.settle()
    assert 0 < before["lost"] == 1000 - before["messages"]
    assert traced.ask("tpm", *WORK, [], nothing) == (OK, 1)
    work(1)
    assert traced.settle()["messages"] == before["messages"] + 1


def test_patterns_go_before_what_waits_is_handled(runtime: Runtime) -> None:
    inside, let_go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def call(pid: Any, what: Any, data: Any) -> Any:
        seen.append(what[1][0])
        inside.set()
        let_go.wait(LIMIT)
        return "ok", data, None

    runtime.begin()
    runtime.ask("tpm", *WORK, [], call)
    tracer = runtime.component._meta
    assert tracer is not None
    work(1), work(2)
    assert inside.wait(LIMIT)
    stopping = threading.Thread(target=runtime.ask, args=("stop_tracing",))
    stopping.start()
    try:
        until(lambda: tracer._session.info(WORK, "meta")[1] is False)
        work(3)
    finally:
        let_go.set()
        stopping.join(LIMIT)
    assert seen == [1, 2]


def test_the_end_of_the_log_ends_it(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, limits={"limit": 3})
    runtime.begin(log=True)
    removed: list[Any] = []
    runtime.ask("tpm", *WORK, [], None, None, None, lambda *all: removed.append(all))
    runtime.ask("tpl", [(*OTHER, [])])
    runtime.ask("tf", [("all", ["call"])])
    for _ in range(10):
        other()

    def has_ended() -> bool:
        runtime.component.poll()
        return bool(removed)

    until(has_ended)
    assert runtime.ask("get_status") == (OK, ("idle", "running"))
    assert runtime.ask("tpm", *WORK, [], nothing) == (ERROR, "no_metatracer")
    runtime.component.end()


def test_suspension_does_not_wait_for_ever(runtime: Runtime, patience: Callable[..., None]) -> None:
    runtime.begin(log=True)
    inside, let_go = threading.Event(), threading.Event()

    def hangs(*_: Any) -> Any:
        inside.set()
        let_go.wait(LIMIT)

    runtime.ask("tpm", *WORK, [], hangs)
    work(1)
    assert inside.wait(LIMIT)
    patience(0.2, 0.1)
    assert runtime.ask("suspend", "enough") == OK
    runtime.ask("cancel_suspension")
    assert runtime.ask("tpm", *OTHER, [], nothing) == (ERROR, "no_metatracer")
    let_go.set()


# section 3.6: names


def test_register_and_unregister(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    me = inviso.self()
    inviso.register("adder", me)
    with pytest.raises(inviso.BadArg):
        inviso.register("adder", me)
    inviso.unregister("adder")
    with pytest.raises(inviso.BadArg):
        inviso.unregister("adder")
    found = traced.entries()
    assert aliases(found, Atom) == [
        (me, "adder", "alias"),
        (None, "adder", "unalias"),
        (None, "adder", "unalias"),  # at the call, whether or not it succeeds
    ]
    assert all(is_stamp(entry[3]) for entry in found)
    assert traced.data == (([], []), [])
    assert traced.settle()["exceptions"] == 0


def test_an_alias_has_the_time_of_the_call(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    with inviso.trace.session_create("times") as session:
        session.function(("inviso.process", "register", 2), RETURNS, ["meta"])
        inviso.register("adder", inviso.self())
        inviso.unregister("adder")
        call, returned = session.drain()
    (alias,) = (entry for entry in traced.entries() if entry[1:3] == ("adder", "alias"))
    assert call[2:3] + returned[2:3] == ("call", "return_from")
    assert call[-1] <= alias[3] < returned[-1]


def test_names_that_are_there_and_processes_that_end(traced: Runtime) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, args=(LIMIT,), name="holder")
    thread.start()
    pid = inviso.pid(thread)
    inviso.register("here", thread)
    try:
        before = meta.now()
        traced.ask("tpm_localnames")
        (found,) = (entry for entry in traced.entries() if entry[1] == "here")
        assert found[:3] == (pid, "here", "alias")
        assert before <= found[3] <= meta.now()
    finally:
        end.set()
        thread.join(LIMIT)
    until(lambda: len(aliases(traced.entries(), Atom)) == 2)
    assert aliases(traced.entries(), Atom)[1] == (pid, "here", "unalias")


def test_a_thread_that_is_registered_by_itself(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    pids = []

    def register() -> None:
        pids.append(inviso.self())
        inviso.register("by itself", threading.current_thread())

    thread = threading.Thread(target=register)
    thread.start()
    thread.join(LIMIT)
    until(lambda: len(aliases(traced.entries(), Atom)) == 2)
    assert aliases(traced.entries(), Atom) == [(pids[0], "by itself", "alias"), (pids[0], "by itself", "unalias")]


def test_threads_tasks_and_their_new_names(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    main = inviso.self()
    pids: list[Any] = []
    step = threading.Barrier(2, timeout=LIMIT)

    def thread() -> None:
        pids.append(inviso.self())
        step.wait()
        step.wait()

    one = threading.Thread(target=thread, name="worker")
    one.start()
    step.wait()
    traced.settle()
    one.name = "renamed"
    traced.settle()
    step.wait()
    one.join(LIMIT)

    async def task() -> None:
        current = asyncio.current_task()
        assert current is not None
        pids.append(inviso.self())
        await asyncio.get_running_loop().run_in_executor(None, traced.settle)
        current.set_name("second")
        await asyncio.get_running_loop().run_in_executor(None, traced.settle)

    async def both() -> None:
        await asyncio.create_task(task(), name="first")
        await asyncio.create_task(asyncio.sleep(0))

    asyncio.run(both())
    found = aliases(traced.entries(), str)
    thread_pid, task_pid = pids
    assert (main, "MainThread", "alias") in found
    assert [entry[1:] for entry in found if entry[0] == thread_pid] == [
        ("worker", "alias"),
        ("worker", "unalias"),
        ("renamed", "alias"),
    ]
    assert [entry[1:] for entry in found if entry[0] == task_pid] == [
        ("first", "alias"),
        ("first", "unalias"),
        ("second", "alias"),
    ]
    assert not any(entry[1].startswith(("Task-", "inviso ")) for entry in found)


def test_short_tasks_have_their_names_from_the_beginning(runtime: Runtime) -> None:
    runtime.begin(log=True)
    runtime.ask("tpm_localnames")
    runtime.ask("tpl", [(*WORK, [])])
    runtime.ask("tf", [("all", ["call", "timestamp"])])

    async def task(n: int) -> None:
        work(n)

    async def several() -> None:
        for n in range(300):
            await asyncio.create_task(task(n), name=f"job-{n}")
            if n % 100 == 50:
                await asyncio.to_thread(runtime.settle)  # looks

    asyncio.run(several())
    runtime.ask("stop_tracing")
    names = {entry[1]: entry for entry in meta_tools.entries(runtime.ti) if entry[1].startswith("job-")}
    calls = [message for message in log.read(runtime.folder / "t.log") if message[2] == "call"]
    assert len(names) == len(calls) == 300
    for n, message in enumerate(calls):
        pid, _, word, at = names[f"job-{n}"]
        assert (pid, word) == (message[1], "alias")
        assert at < message[-1]


def test_names_are_looked_up_now_and_then(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    tracer = traced.component._meta
    assert tracer is not None
    traced.component.poll()
    assert not tracer._names.is_due(0)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, args=(LIMIT,), name="late")
    thread.start()
    try:
        tracer._clock = lambda: tracer._names._due
        traced.component.poll()
        tracer._request(lambda: None)
        assert (inviso.pid(thread), "late", "alias") in aliases(meta_tools.entries(traced.ti), str)
    finally:
        end.set()
        thread.join(LIMIT)


def test_ctpm_localnames_ends_all_of_it(traced: Runtime) -> None:
    traced.ask("tpm_localnames")
    traced.ask("ctpm_localnames")
    before = len(traced.entries())
    inviso.register("later", inviso.self())
    inviso.unregister("later")
    thread = threading.Thread(target=str, name="unseen")
    thread.start()
    thread.join(LIMIT)
    assert len(traced.entries()) == before


@pytest.mark.parametrize(
    "spec", [None, (("inviso.meta", "init_std_publld", [4, 0]), None, None), ((lambda: ([], [], []), []), None, None)]
)
def test_names_work_with_all_forms_of_loop_data(runtime: Runtime, spec: Any) -> None:
    runtime.begin(spec)
    before = runtime.data
    assert runtime.ask("tpm_localnames") == ((OK, 1), (OK, 1))
    inviso.register("adder", inviso.self())
    inviso.unregister("adder")
    assert [entry[1:3] for entry in runtime.entries() if type(entry[1]) is Atom] == [
        ("adder", "alias"),
        ("adder", "unalias"),
    ]
    assert runtime.data == before


# section 3.7: the file, and tracer data


def test_the_file_byte_for_byte(traced: Runtime) -> None:
    pid = etf.loads(bytes([131, 88, *etf.dumps(Atom("nonode@nohost"))[1:], 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0]))
    stamp = (1795, 618231, 17)
    meta.write_ti(meta.alias(pid, Atom("adder"), stamp))
    meta.write_ti([meta.unalias(None, ("id", 1), stamp), [b"anything"]])
    traced.ask("stop_tracing")
    first = etf.dumps((pid, Atom("adder"), Atom("alias"), stamp))
    second = etf.dumps((Atom("undefined"), ("id", 1), Atom("unalias"), stamp))
    wanted = b"".join(b"\0" + len(one).to_bytes(4) + one for one in (first, second, b"anything"))
    assert traced.ti.read_bytes() == wanted
    assert second == (
        b"\x83h\x04w\x09undefinedh\x02m\0\0\0\x02ida\x01w\x07unaliash\x03b\0\0\x07\x03b\0\x09\x6e\xf7a\x11"
    )
    assert os.stat(traced.ti).st_mode & 0o777 == 0o600


def test_it_is_emptied_at_first(runtime: Runtime) -> None:
    runtime.ti.write_bytes(b"from before")
    runtime.begin()
    assert runtime.ti.read_bytes() == b""


def test_a_ti_part_alone(runtime: Runtime) -> None:
    assert runtime.begin() == (OK, [("ti_log", OK)])
    assert runtime.ask("get_status") == (OK, ("tracing", "running"))
    assert runtime.ask("list_logs") == (OK, [("ti_log", str(runtime.folder), ["t.ti"])])
    assert runtime.ask("flush") == OK
    runtime.ask("stop_tracing")
    assert runtime.ask("log_paths") == (OK, [("ti_log", [str(runtime.ti)])])
    assert runtime.ask("delete_log") == (OK, [("ti_log", [(OK, "t.ti")])])
    assert not runtime.ti.exists()
    assert runtime.ask("list_logs") == (OK, [("ti_log", str(runtime.folder), [])])


def test_both_parts(runtime: Runtime) -> None:
    given = {"trace": ("file", str(runtime.folder / "t.log")), "ti": ("file", str(runtime.ti))}
    assert runtime.ask("init_tracing", given) == (OK, [("trace_log", OK), ("ti_log", OK)])
    assert runtime.ask("get_tracerdata") == (OK, given)
    runtime.ask("stop_tracing")
    assert runtime.ask("list_logs") == (
        OK,
        [("trace_log", str(runtime.folder), ["t.log"]), ("ti_log", str(runtime.folder), ["t.ti"])],
    )
    assert runtime.ask("clear") == (OK, ("new", "running"))
    assert list(runtime.folder.iterdir()) == []


def test_a_file_that_fails_does_not_end_tracing(runtime: Runtime) -> None:
    missing = str(runtime.folder / "no" / "t.ti")
    given = [("trace", ("file", str(runtime.folder / "t.log"))), ("ti", ("file", missing))]
    failed = (ERROR, ("open", [missing, "enoent"]))
    assert runtime.ask("init_tracing", given) == (OK, [("trace_log", OK), ("ti_log", failed)])
    assert runtime.ask("get_status") == (OK, ("tracing", "running"))
    assert runtime.ask("tpm_localnames") == (ERROR, "no_metatracer")
    assert runtime.ask("tf", [(inviso.self(), ["call"])]) == (OK, [1])


def test_loop_data_that_takes_too_long(runtime: Runtime, patience: Callable[..., None]) -> None:
    let_go = threading.Event()
    patience(0.2)
    assert runtime.begin(((lambda: let_go.wait(LIMIT), []), None, None)) == (OK, [("ti_log", (ERROR, "time_out"))])
    assert runtime.ask("tpm_localnames") == (ERROR, "no_metatracer")
    let_go.set()


@pytest.mark.parametrize(
    "wrong", [("file",), ("file", 1), ("file", ""), ("file", "x", ()), ("file", "x", (1, 2, 3)), ("relay", "n@h"), None]
)
def test_bad_ti_data(runtime: Runtime, wrong: Any) -> None:
    answer = runtime.ask("init_tracing", [("ti", wrong)])
    assert answer[:1] + answer[1][:1] == (ERROR, "bad_ti_td")
    assert runtime.ask("get_status") == (OK, ("new", "running"))


def test_one_file_for_both_is_refused(runtime: Runtime) -> None:
    same = ("file", str(runtime.ti))
    assert runtime.ask("init_tracing", [("trace", same), ("ti", same)]) == (ERROR, ("bad_ti_td", same))
    assert not runtime.ti.exists()


def test_a_function_that_may_not_be_named(tmp_path: Path) -> None:
    class Strict(Resolver):
        def function(self, named: Any) -> Any:
            raise Refused((Atom("not_allowed"), named))

    runtime = Runtime(tmp_path, Strict())
    named = ("os", "system")
    assert runtime.begin((("os", "system", ["true"]), None, None)) == (ERROR, ("not_allowed", named))
    assert runtime.ask("get_status") == (OK, ("new", "running"))
    assert list(tmp_path.iterdir()) == []
    runtime.begin()
    assert runtime.ask("tpm", *WORK, [], named) == (ERROR, ("not_allowed", named))
    runtime.component.end()


def test_what_cannot_be_written_is_counted(runtime: Runtime) -> None:
    runtime.ask("init_tracing", [("ti", ("file", "/dev/full"))])
    meta.write_ti([b"one", b"two"])
    status = runtime.settle()
    assert (status["entries"], status["unwritten"]) == (0, 2)
    assert status["error"] == "/dev/full: No space left on device"


LARGE = """
import resource, signal, sys
from inviso.runtime._ti_file import TiFile

file = TiFile(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for size in (60, 70, 20, 30):
    file.write(b"x" * size)
print(file.entries, file.lost, file.error)
file.close()
"""


def test_an_entry_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "t.ti"
    assert good(LARGE, str(path)) == "2 2 File too large\n"
    assert path.read_bytes() == b"".join(b"\0" + size.to_bytes(4) + b"x" * size for size in (60, 20))


def test_a_program_that_closes_all_descriptors(runtime: Runtime) -> None:
    runtime.begin()
    tracer = runtime.component._meta
    assert tracer is not None
    own = tracer._file._own
    assert own is not None
    theirs = runtime.folder / "theirs"
    with theirs.open("wb") as file:
        os.dup2(file.fileno(), own.number)
        meta.write_ti(b"entry")
        assert runtime.settle()["unwritten"] == 1
        os.close(own.number)
    assert theirs.read_bytes() == b""


def test_write_ti_from_any_thread(traced: Runtime) -> None:
    thread = threading.Thread(target=meta.write_ti, args=(etf.dumps(1),))
    thread.start()
    thread.join(LIMIT)
    assert meta.write_ti([etf.dumps(2), [etf.dumps(3)]]) is None
    assert traced.entries() == [1, 2, 3]
    with pytest.raises(inviso.BadArg, match="write_ti/1, output"):
        meta.write_ti("text")
    traced.ask("stop_tracing")
    assert meta.write_ti(b"") == (ERROR, "no_metatracer")


def test_metacast_of_this_node(traced: Runtime) -> None:
    seen: list[Any] = []
    traced.ask("init_tpm", *WORK, None, record(seen), record(seen), None)
    pid = inviso.self()
    assert meta.metacast_call([inviso.node()], pid, *WORK[:2], [1, 2]) is None
    assert meta.metacast_return_from([inviso.node()], pid, *WORK, 3) is None
    traced.settle()
    assert seen == [(pid, ("call", [1, 2], None)), (pid, ("return_from", 3, None))]
    for cast, rest in ((meta.metacast_call, ([1, 2],)), (meta.metacast_return_from, (2, 3))):
        with pytest.raises(inviso.BadArg, match="nodes: 'shop@elsewhere' is another node"):
            cast(["shop@elsewhere"], pid, *WORK[:2], *rest)  # type: ignore[operator]


# the examples of Inviso's guide


def test_assoc_id_of_the_guide(traced: Runtime) -> None:
    """``mytrace:call_assoc_id/3`` of the guide has the bare arguments, and ``term_to_binary`` of the entry."""

    @meta.bare
    def call_assoc_id(calling_pid: Any, arguments: Any, publ_loop_data: Any) -> Any:
        pid, reference = arguments
        return "ok", publ_loop_data, etf.dumps((pid, reference, Atom("alias"), meta.now()))

    assert traced.ask("tpm", *mfa(assoc_id), [], call_assoc_id) == (OK, 1)
    assert assoc_id(inviso.self(), "request-17") == "request-17"
    (entry,) = traced.entries()
    assert entry[:3] == (inviso.self(), "request-17", "alias")
    assert is_stamp(entry[3])


def test_ten_places_of_the_guide(runtime: Runtime) -> None:
    """``list_to_tuple`` of ten empty lists makes the loop data, in the form of the first releases."""
    init = ("builtins", "tuple", [[[] for _ in range(10)]])
    assert runtime.begin((init, Atom("void"), ("inviso.meta", "clean_std_publld")), log=True) == (
        OK,
        [("trace_log", OK), ("ti_log", OK)],
    )
    assert runtime.data == ([],) * 10
    assert runtime.ask("tpm_localnames") == ((OK, 1), (OK, 1))

    def waits(pid: Any, what: Any, data: Any) -> Any:
        stamp = what[2] if what[1][0] else (0, 1, 0)
        return "ok", (*data[:9], [*data[9], (pid, stamp)]), None

    def returns(pid: Any, what: Any, data: Any) -> Any:
        return "ok", (*data[:9], [entry for entry in data[9] if entry[0] != pid]), etf.dumps(what[1])

    runtime.ask("tpm", *WORK, [], None, waits, returns, None)
    work(1)
    work(0)  # its entry looks abandoned
    assert [len(one) for one in runtime.data] == [0] * 9 + [2]
    tracer = runtime.component._meta
    assert tracer is not None
    tracer._clock = lambda: tracer._cleaned + 60
    runtime.component.poll()
    assert [len(one) for one in runtime.data] == [0] * 9 + [1]
    runtime.ask("tpm", *WORK, RETURNS)
    work(2)
    assert runtime.data == ([],) * 10
    assert runtime.entries()[-1] == 2


def test_a_bare_call_back_gets_no_exceptions() -> None:
    heard: list[Any] = []

    @meta.bare
    def back(pid: Any, value: Any, data: Any) -> Any:
        heard.append(value)
        return "ok", data, None

    assert back(1, ("exception_from", ("error", "x"), None), "data") == (OK, "data", None)
    assert back(1, ("return_from", 5, None), "data") == (OK, "data", None)
    assert heard == [5]
    assert back.__name__ == "back" and back.__module__ == __name__


# forks

FORK = """
import os, sys, pathlib
import inviso
from inviso import meta
from inviso.runtime._component import Component
from inviso.runtime._resolver import Resolver

def work(n):
    return n

folder = pathlib.Path(sys.argv[1])
component = Component("tag", {}, lambda event: None, Resolver())
component.call("init_tracing", ([("ti", ("file", str(folder / "t.ti")))],))
component.call("tpm", ("__main__", "work", 1, [], lambda pid, what, data: ("ok", data, b"%d" % what[1][0])))
component.call("tpm_localnames", ())
own = component._meta._file._own.number
work(1)
child = os.fork()
if not child:
    work(2)
    answer = meta.write_ti(b"of the child"), meta.status(), component.has_meta, inviso.trace.session_info("all")
    try:
        os.fstat(own)
    except OSError:
        print(*answer, flush=True)
    os._exit(0)
os.waitpid(child, 0)
work(3)
component.end()
data = (folder / "t.ti").read_bytes()
print(data.count(b"of the child"), [n for n in b"123" if b"\\0\\0\\0\\0\\x01%c" % n in data])
"""


def test_a_forked_child_has_none(tmp_path: Path) -> None:
    assert good(FORK, str(tmp_path)).splitlines() == ["('error', 'no_metatracer') None False []", f"0 {list(b'13')}"]


def test_importing_inviso_loads_none_of_it() -> None:
    program = (
        "import inviso, sys; print([name for name in sys.modules if 'meta' in name and name.startswith('inviso')])"
    )
    assert good(program) == "[]\n"
