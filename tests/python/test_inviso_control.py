"""The control component and real nodes: forms of arguments, answers, adoption, events, logs."""

from __future__ import annotations

import gc
import json
import queue
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inviso
import pytest
from agent_tools import THERE, Host, joined
from inviso import BadArg, Cluster, control, log, runtime
from inviso.control._control import Control
from node_tools import HOST, Node, started
from waiting import until

ME = f"control@{HOST}"
WORK = ("__main__", "work", "_")


@pytest.fixture(autouse=True)
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process has a name, a private folder of sockets, and no control when a test ends."""
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    monkeypatch.chdir(tmp_path)
    before = inviso.node()
    inviso.set_node(ME)
    yield
    control.stop()
    runtime.stop_listening()
    inviso.set_node(before)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    pytest.importorskip("zenoh", reason="the extra inviso[cluster]")
    with joined(tmp_path_factory.mktemp("hosts"), HOST) as found:
        yield found


class Own:
    """This process as a node of its own control."""

    name = ME

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir

    def run(self, line: str) -> None:
        """Runs a line of Python as :class:`Node` does."""
        exec(line, vars(sys.modules["__main__"]))


@contextmanager
def in_process(folder: Path) -> Iterator[list[Own]]:
    """The one node that the link inside a process leads to."""
    names = vars(sys.modules["__main__"])
    before = set(names)
    own = Own(folder)
    own.run("def work(n): return n + 1")
    yield [own]
    for name in names.keys() - before:
        del names[name]
    gc.collect()  # a free-threaded interpreter frees a function only then, and a pattern of the next test would find it


@pytest.fixture(params=["process", "socket", "agent"])
def nodes(request: pytest.FixtureRequest, named: None, tmp_path: Path) -> Iterator[list[Any]]:
    """The nodes of a link: this process, two others of this host, or two of another host, reached by its agent."""
    if request.param == "process":
        with in_process(tmp_path) as found:
            yield found
    else:
        yield request.getfixturevalue(f"by_{request.param}")


@pytest.fixture(params=["socket", "agent"])
def others(request: pytest.FixtureRequest, named: None) -> list[Node]:
    """Two other processes: of this host, and of another."""
    found: list[Node] = request.getfixturevalue(f"by_{request.param}")
    return found


@pytest.fixture
def by_socket(tmp_path: Path, named: None) -> Iterator[list[Node]]:
    with started(tmp_path, "one", "two") as found:
        yield found


@pytest.fixture
def by_agent(
    hosts: tuple[Host, Host], tmp_path: Path, named: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Node]]:
    here, there = hosts
    monkeypatch.setenv("INVISO_DIR", str(here.folder))
    with started(tmp_path, "one", "two", host=THERE, **there.environment) as found:
        until(lambda: here.sees(*(node.name for node in found)))
        yield found
    control.stop()
    until(lambda: here.sees())


def all_added(nodes: list[Node]) -> list[Node]:
    control.start()
    names = [node.name for node in nodes]
    assert control.add_nodes(names, "tag") == ("ok", [(name, ("ok", "new")) for name in names])
    return nodes


@pytest.fixture
def added(nodes: list[Node]) -> list[Node]:
    """All nodes of a link, added by a control."""
    return all_added(nodes)


@pytest.fixture
def others_added(others: list[Node]) -> list[Node]:
    """Both other processes, added by a control."""
    return all_added(others)


def of(answer: Any) -> dict[str, Any]:
    """Results by node."""
    assert answer[0] == "ok"
    return dict(answer[1])


def each(answer: Any) -> Any:
    """The one result that all nodes have."""
    results = list(of(answer).values())
    assert all(result == results[0] for result in results), results
    return results[0]


class Events:
    """The events of a control, as they come."""

    def __init__(self) -> None:
        self._events: queue.Queue[Any] = queue.Queue()
        control.subscribe(self._events.put)

    def next(self) -> Any:
        tag, pid, (date, time), event = self._events.get(timeout=20)
        assert (tag, len(date), len(time)) == ("inviso_event", 3, 3)
        assert isinstance(pid, inviso.Pid)
        return event


def test_trace_nodes_and_read_their_logs(added: list[Node]) -> None:
    one, last = added[0], added[-1]
    assert each(control.init_tracing(("file", "trace.log"))) == ("ok", [("trace_log", "ok")])
    assert each(control.tpl(*WORK, True)) == ("ok", [1])
    assert each(control.tf("all", ["call", "timestamp", "arity"]))[0] == "ok"
    for node in added:
        node.run("work(1); work(2)")
    assert each(control.flush()) == "ok"
    assert each(control.stop_tracing()) == ("ok", "idle")
    for node in added:
        found = list(log.read(node.log_dir / "trace.log"))
        assert [message[3] for message in found] == [("__main__", "work", 1)] * 2
        assert str(found[0][1]).startswith("<") and found[0][1].node == node.name
    assert each(control.list_logs()) == ("ok", [("trace_log", ".", ["trace.log"])])
    last.run("work(3)")  # nothing is traced any more
    assert len(list(log.read(last.log_dir / "trace.log"))) == 2
    complete = ("complete", [("trace_log", [("ok", "p_trace.log")]), ("ti_log", [])])
    assert control.fetch_log([one.name], ".", "p_") == ("ok", [(one.name, complete)])
    assert Path("p_trace.log").read_bytes() == (one.log_dir / "trace.log").read_bytes()
    assert Path("p_trace.log").stat().st_mode & 0o777 == 0o600
    assert each(control.delete_log()) == ("ok", [("trace_log", [("ok", "trace.log")])])
    assert each(control.list_logs()) == ("ok", [("trace_log", ".", [])])
    assert each(control.clear()) == ("ok", ("new", "running"))
    assert each(control.list_logs()) == ("error", "no_tracerdata")


def test_every_form_of_patterns(added: list[Node]) -> None:
    one, last = added[0].name, added[-1].name
    for node in added:
        node.run("import json")
    for call in (control.tp, control.tpl):
        assert each(call(*WORK, True)) == ("ok", [1])
        assert each(call(*WORK, True, ["only_loaded"])) == ("ok", [1])
        assert each(call([(*WORK, True), ("__main__", "nothing", 1, True)])) == ("ok", [1, 0])
        assert of(call([one], *WORK, True)) == {one: ("ok", [1])}
        assert of(call([one], *WORK, True, [])) == {one: ("ok", [1])}
        assert of(call([one], [(*WORK, True)])) == {one: ("ok", [1])}
        assert of(call(*WORK, True, nodes=[last])) == {last: ("ok", [1])}
        found = of(call(re.compile("json|json[.]decoder"), "_", "_", []))
        assert all(len(answer[1]) == 2 for answer in found.values()), found
        folder = str(Path(json.__file__).parent)
        found = of(call((re.escape(folder), "json.*"), "_", "_", []))
        assert all(len(answer[1]) >= 2 for answer in found.values()), found
        assert each(call("no.such.**", "_", "_", True)) == ("ok", [0])
    for call in (control.ctp, control.ctpl):
        assert each(call(*WORK)) == ("ok", [1])
        assert each(call([WORK, ("__main__", "nothing", 1)])) == ("ok", [1, 0])
        assert of(call([one], *WORK)) == {one: ("ok", [1])}
        assert of(call([one], [WORK])) == {one: ("ok", [1])}
    assert each(control.ctp_all()) == "ok"
    assert of(control.ctp_all([one])) == {one: "ok"}


def test_every_form_of_flags(added: list[Node]) -> None:
    one, *rest = (node.name for node in added)
    assert each(control.tf("all", ["call"])) == ("error", "no_tracer")
    control.init_tracing(("file", "trace.log"))
    number = of(control.tf("all", ["call"]))[one][1][0]
    assert number >= 1
    assert of(control.tf([one], "all", ["call"])) == {one: ("ok", [number])}
    assert of(control.tf([one], [("all", ["call"]), ("new", ["call"])])) == {one: ("ok", [number, 0])}
    assert each(control.tf([("existing", ["call"])])) == ("ok", [number])
    of_each = [(one, [("all", ["call"])]), *((name, [("new", ["call"])]) for name in rest)]
    assert of(control.tf(of_each)) == {one: ("ok", [number]), **{name: ("ok", [0]) for name in rest}}
    assert of(control.tf([(one, [("all", ["call"])], False)])) == {one: ("ok", [number])}
    assert each(control.tf("all", ["all"])) == ("ok", [("error", ("bad_flag", "all"))])
    assert each(control.ctf("all", ["call"])) == ("ok", [number])
    assert of(control.ctf([one], "all", ["call"])) == {one: ("ok", [number])}
    assert each(control.ctf_all()) == "ok"


@pytest.mark.parametrize(
    ("call", "arguments", "argument"),
    [
        (control.tp, (), "arguments"),
        (control.tp, ("m", "f", 1), "arguments"),
        (control.tp, (3, "f", 1, True), "module"),
        (control.tp, ("m", 3, 1, True), "function"),
        (control.tp, ("m", "f", True, True), "arity"),
        (control.tp, ("m", "f", 256, True), "arity"),
        (control.tp, ("m", "f", 1, "yes"), "match_spec"),
        (control.tp, (("re", "("), "f", 1, True), "module"),
        (control.tp, ([3], [("m", "f", 1, True)]), "nodes"),
        (control.ctp, ("m",), "arguments"),
        (control.tf, ("all",), "arguments"),
        (control.tf, ("all", "call"), "confs"),
        (control.ctf, ([("all", [3])],), "confs"),
        (control.init_tracing, (), "arguments"),
        (control.suspend, (), "arguments"),
        (control.stop_tracing, (["one"], 2), "arguments"),
        (control.tpm, ("m", "f", 1), "arguments"),
        (control.tpm, ("m", "f", "_ _", []), "arity"),
        (control.init_tpm, (3, "f", 1, ("m", "f")), "function"),
        (control.fetch_log, ("nowhere", "p"), "folder"),
        (control.fetch_log, (".", "a/b"), "prefix"),
        (control.list_logs, (1, 2), "arguments"),
    ],
)
def test_a_malformed_argument_is_refused_before_a_node_is_asked(call: Any, arguments: Any, argument: str) -> None:
    control.start()
    with pytest.raises(BadArg) as caught:
        call(*arguments)
    assert caught.value.argument == argument
    assert caught.value.function.startswith("control.")


def test_functions_go_to_no_other_process(others_added: list[Node]) -> None:
    for call in (
        lambda: control.init_tracing((print, None)),
        lambda: control.change_options([("overload", (print, 5))]),
        lambda: control.tpm("json", "loads", 8, [], print),
        lambda: control.add_nodes(["three"], "tag", [("overload", (print, 5))]),
    ):
        with pytest.raises(BadArg, match="go to no other process"):
            call()


def test_without_a_control_every_call_says_so() -> None:
    for name in set(control.__all__) - {"NotStarted", "start", "stop"}:
        with pytest.raises(control.NotStarted, match=re.escape(f"control.{name}: there is no control")):
            getattr(control, name)(*[[]] * (2 if name.startswith("add_nodes") else 1 if name.startswith("add_") else 0))


def test_nodes_that_are_not_there(added: list[Node]) -> None:
    names = [node.name for node in added]
    last = names[-1]
    assert of(control.add_nodes(["three", last], "tag")) == {
        f"three@{HOST}": ("error", "nodedown"),
        last: ("ok", "already_added"),
    }
    assert of(control.get_status([last, "four"])) == {
        last: ("ok", ("new", "running")),
        f"four@{HOST}": ("error", "not_an_added_node"),
    }
    assert of(control.stop_nodes(["four", last])) == {f"four@{HOST}": ("error", "not_an_added_node"), last: "ok"}
    assert of(control.get_status()) == {name: ("ok", ("new", "running")) for name in names[:-1]}


def test_options(added: list[Node]) -> None:
    one = added[0]
    assert control.add_nodes(["x"], "tag", ["nonsense"]) == ("error", ("unknown_option", "nonsense"))
    assert control.start(["nonsense"]) == ("error", ("unknown_option", "nonsense"))
    assert control.change_options([("dependency", -1)]) == ("error", ("unknown_option", ("dependency", -1)))
    assert each(control.change_options([("dependency", 5000), "overload"])) == "ok"
    assert of(control.change_options([one.name], {"dependency": "infinity"})) == {one.name: "ok"}


def test_the_control_is_one(added: list[Node]) -> None:
    answer = control.start()
    assert answer[:1] == ("error",) and answer[1][0] == "already_started"
    assert control.stop() == "shutdown"
    assert control.stop() == "shutdown"


def again(tag: str, call: Any = control.add_nodes, *, of_node: Node) -> Any:
    """A node's answer to a new control."""
    control.stop()
    control.start()
    return of(call([of_node.name], tag))[of_node.name]


def test_another_control_is_refused(added: list[Node]) -> None:
    other = Control(name=f"other@{HOST}")
    try:
        answers = [answer for _, answer in other.add([node.name for node in added], "tag", {})]
    finally:
        other.close()
    assert [answer[:1] + answer[1][:2] for answer in answers] == [("error", "refused", ME)] * len(added)
    events = Events()
    if isinstance(added[0], Own):
        runtime.stop_listening()
    else:
        added[0].kill()
    assert events.next()[:2] == ("disconnected", added[0].name)


def test_adoption(added: list[Node]) -> None:
    one = added[0]
    control.init_tracing([one.name], ("file", "trace.log"))
    control.suspend([one.name], "lunch")
    assert again("second", of_node=one) == ("ok", ("adopted", "tracing", ("suspended", "lunch"), "tag"))
    assert again("third", control.add_nodes_if_ref, of_node=one) == ("error", ("wrong_reference", "second"))
    assert again("second", control.add_nodes_if_ref, of_node=one) == (
        "ok", ("adopted", "tracing", ("suspended", "lunch"), "second"),
    )  # fmt: skip
    control.stop_nodes()
    assert again("fourth", control.add_nodes_if_ref, of_node=one) == ("ok", "new")
    assert again("fifth", of_node=one) == ("ok", ("adopted", "new", "running", "fourth"))


def test_a_control_that_adopts_a_component_has_its_own_rights(others: list[Node]) -> None:
    one = others[0]
    one.run("from inviso import control; control.start(); began = control.add_node('own')")
    one.run("assert began == ('ok', [(runtime.listening().node, ('ok', 'new'))]), began")
    one.run(
        f"control.init_tracing(('file', {str(one.log_dir)!r} + '-own.log')); control.stop_tracing(); control.stop()"
    )
    control.start()
    assert of(control.add_nodes([one.name], "tag")) == {one.name: ("ok", ("adopted", "idle", "running", "own"))}
    assert each(control.delete_log()) == ("ok", [("trace_log", [("ok", f"{one.log_dir.name}-own.log")])])
    for data in ((("os", "system"), "x"), ("file", "/own.log")):
        assert each(control.init_tracing(data)) == ("error", ("not_allowed", data[0] if data[0] != "file" else data[1]))


def until_gone(node: Node) -> None:
    """Waits until a node has no component any more: a control asks for it by a tag that it can't have."""

    def is_new() -> bool:
        control.stop()
        control.start()
        answer = of(control.add_nodes_if_ref([node.name], "no tag that it has"))[node.name]
        assert answer == ("ok", "new") or answer[1][0] == "wrong_reference"
        return bool(answer == ("ok", "new"))

    until(is_new)


@pytest.mark.parametrize("dependency", [0, 50])
def test_a_component_that_depends_on_its_control_ends(nodes: list[Node], dependency: int) -> None:
    control.start([("dependency", dependency)])
    control.add_nodes([nodes[0].name], "tag")
    until_gone(nodes[0])
    nodes[0].run("work(1)")  # the program goes on


def test_an_adopted_component_does_not_end(nodes: list[Node]) -> None:
    control.start([("dependency", 60_000)])
    control.add_nodes([nodes[0].name], "tag")
    assert again("second", of_node=nodes[0])[1][0] == "adopted"


def test_events(nodes: list[Node]) -> None:
    control.start()
    events = Events()
    one = nodes[0]
    control.add_nodes([node.name for node in nodes], "tag")
    assert [events.next() for _ in nodes] == [("connected", node.name, ("tag", ("new", "running"))) for node in nodes]
    control.init_tracing([one.name], ("file", "trace.log"))
    assert events.next() == ("state_change", one.name, ("tracing", "running"))
    control.suspend([one.name], "why")
    assert events.next() == ("state_change", one.name, ("tracing", ("suspended", "why")))
    control.cancel_suspension([one.name])
    assert events.next() == ("state_change", one.name, ("tracing", "running"))
    control.stop_tracing([one.name])
    assert events.next() == ("state_change", one.name, ("idle", "running"))
    control.clear([one.name])
    assert events.next() == ("state_change", one.name, ("new", "running"))
    control.stop_nodes([one.name])
    assert events.next() == ("disconnected", one.name, None)


def test_a_node_that_is_killed_is_disconnected(others_added: list[Node]) -> None:
    one, two = others_added
    events = Events()
    two.kill()
    assert events.next()[:2] == ("disconnected", two.name)
    assert of(control.get_status()) == {one.name: ("ok", ("new", "running"))}


def test_events_in_a_mailbox() -> None:
    control.start([("subscribe", inviso.self())])
    control.subscribe()
    control.add_node("tag")
    got = [inviso.receive(timeout=10)[3] for _ in range(2)]
    assert got == [("connected", ME, ("tag", ("new", "running")))] * 2
    control.unsubscribe()
    control.stop_nodes()
    assert inviso.receive(timeout=10)[3] == ("disconnected", ME, None)
    assert control.subscribe("nobody") == ("error", ("badarg", "nobody"))
    assert control.unsubscribe(print) is None


def test_a_subscriber_that_has_ended_or_raises_disturbs_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    control.start()
    ended = inviso.spawn(lambda: None)
    while ended.is_alive():
        pass
    assert control.subscribe(ended) == ("error", ("badarg", ended))

    def raises(event: Any) -> None:
        raise ValueError("mine")

    control.subscribe(raises)
    events = Events()
    control.add_node("tag")
    assert events.next()[0] == "connected"
    assert "ValueError: mine" in capsys.readouterr().err


def test_a_control_that_has_ended_is_no_process_any_more() -> None:
    before = inviso.processes()
    _, pid = control.start()
    assert isinstance(pid, inviso.Pid) and pid in inviso.processes()
    monitored = inviso.monitor(pid)
    control.stop()
    assert inviso.receive(timeout=10)[:4] == ("DOWN", monitored, "process", pid)
    for _ in range(5):
        with Cluster("nobody*"):
            pass
    # a process of an earlier test may have been about to end
    until(lambda: set(inviso.processes()) <= set(before))
    assert not pid.is_alive()


def test_this_process_is_a_node_too(tmp_path: Path) -> None:
    control.start()
    assert of(control.add_nodes([ME], "tag")) == {ME: ("ok", "new")}
    seen: list[Any] = []
    assert each(control.init_tracing((lambda message, state: seen.append(message) or state, 0))) == (
        "ok",
        [("trace_log", "ok")],
    )
    assert each(control.tpl("textwrap", "dedent", "_", True)) == ("ok", [1])
    control.tf(inviso.self(), ["call", "arity"])
    textwrap.dedent("1")
    assert each(control.stop_tracing()) == ("ok", "idle")
    assert [message[2:] for message in seen] == [("call", ("textwrap", "dedent", 1))]


def test_a_control_without_a_name_has_bare_answers() -> None:
    inviso.set_node("nonode@nohost")
    control.start()
    assert control.get_status() == ("error", "not_an_added_node")
    assert control.add_node("tag") == ("ok", "new")
    assert control.suspend("x") is None
    assert control.get_status() == ("ok", ("new", ("suspended", "x")))
    assert control.add_nodes(["other"], "tag") == ("error", "not_distributed")
    assert control.fetch_log(".", "p") == ("error", "not_distributed")
    assert control.stop_nodes() is None


def test_handlers_of_other_processes_are_named_and_admitted(tmp_path: Path) -> None:
    module = "def handle(message, data):\n    open(data, 'a').write(message[2] + '\\n')\n    return data\n"
    (tmp_path / "handlers.py").write_text(module)
    seen = tmp_path / "seen"
    with started(tmp_path, "one", allow=("handlers",), PYTHONPATH=str(tmp_path)) as (one,):
        control.start()
        control.add_nodes([one.name], "tag")
        refused = ("error", ("not_allowed", ("os", "system")))
        assert each(control.init_tracing((("os", "system"), "x"))) == refused
        assert each(control.init_tracing((("handlers", "handle"), str(seen)))) == ("ok", [("trace_log", "ok")])
        control.tpl(*WORK, True)
        control.tf("all", ["call"])
        one.run("work(1)")
        control.stop_tracing()
    assert seen.read_text() == "call\n"


def test_a_wrap_set_and_its_files(added: list[Node]) -> None:
    one = added[0]
    data = ("file", ("set.", "wrap", ".log", 1000, 3))
    assert each(control.init_tracing([(node.name, data) for node in added])) == ("ok", [("trace_log", "ok")])
    control.tpl(*WORK, True)
    control.tf("all", ["call", "timestamp"])
    one.run("for n in range(200): work(n)")
    control.stop_tracing()
    kind, folder, names = of(control.list_logs())[one.name][1][0]
    assert (kind, folder, len(names)) == ("trace_log", ".", 3)
    answer = dict(control.fetch_log([one.name], ".", "p_")[1])[one.name]
    assert answer[0] == "complete"
    assert sorted(name for _, name in answer[1][0][1]) == [f"p_{name}" for name in sorted(names)]
    assert each(control.get_tracerdata()) == ("ok", data)


def test_a_pattern_comes_to_functions_that_are_defined_later(added: list[Node]) -> None:
    one = added[0]
    control.init_tracing([one.name], ("file", "trace.log"))
    assert of(control.tpl([one.name], "__main__", "later", "_", True)) == {one.name: ("ok", [0])}
    control.tf([one.name], "all", ["call", "arity"])
    one.run("exec('def later(): pass', globals())")
    one.run("later()")
    control.stop_tracing([one.name])
    assert [message[3] for message in log.read(one.log_dir / "trace.log")] == [("__main__", "later", 0)]


def test_a_node_that_ends_leaves_a_readable_log(others_added: list[Node]) -> None:
    one, two = others_added
    control.init_tracing(("file", "trace.log"))
    control.tpl(*WORK, True)
    control.tf("all", ["call"])
    events = Events()
    one.run("work(1)")
    one.end()
    assert events.next()[:2] == ("disconnected", one.name)
    assert len(list(log.read(one.log_dir / "trace.log"))) == 1
    two.run("work(1)")
    assert of(control.stop_tracing()) == {two.name: ("ok", "idle")}


def test_messages_are_relayed_to_another_node(tmp_path: Path) -> None:
    module = (
        "def handle(message, data):\n    open(data, 'a').write(f'{message[1].node} {message[2]}\\n')\n    return data\n"
    )
    (tmp_path / "handlers.py").write_text(module)
    seen = tmp_path / "seen"
    with started(tmp_path, "one", "two", allow=("handlers",), PYTHONPATH=str(tmp_path)) as (one, two):
        control.start()
        control.add_nodes([one.name, two.name], "tag")
        control.init_tracing([two.name], (("handlers", "handle"), str(seen)))
        answer = control.init_tracing([(one.name, ("relayer", "three"))])
        assert of(answer) == {one.name: ("error", ("not_an_added_node", f"three@{HOST}"))}
        assert of(control.init_tracing([one.name], ("relayer", "two"))) == {one.name: ("ok", [("trace_log", "ok")])}
        assert of(control.get_tracerdata([one.name])) == {one.name: ("ok", ("relayer", two.name))}
        control.tpl([one.name], *WORK, True)
        control.tf([one.name], "all", ["call"])
        one.run("work(1); work(2)")
        control.stop_tracing([one.name])
        control.stop_tracing([two.name])
        assert seen.read_text() == f"{one.name} call\n" * 2
        # the relayer goes
        control.init_tracing([two.name], "collector")
        control.init_tracing([one.name], ("relayer", "two"))
        events = Events()
        two.kill()
        told = [events.next() for _ in range(3)]
        assert {event[:2] for event in told} == {
            ("disconnected", two.name),
            ("port_down", one.name),
            ("state_change", one.name),
        }


def test_logs_that_tracer_data_or_names_stand_for(added: list[Node]) -> None:
    one = added[0]
    (one.log_dir / "old.log").parent.mkdir(exist_ok=True)
    (one.log_dir / "old.log").write_bytes(b"")
    data = ("file", "old.log")
    assert of(control.list_logs([(one.name, data)])) == {one.name: ("ok", [("trace_log", ".", ["old.log"])])}
    assert of(control.list_logs([(one.name, "collector")])) == {one.name: ("ok", "no_log")}
    complete = ("complete", [("trace_log", [("ok", "p_old.log")]), ("ti_log", [])])
    for spec in (data, [("trace_log", ".", ["old.log"])]):
        assert of(control.fetch_log([(one.name, spec)], ".", "p_")) == {one.name: complete}


def test_a_log_outside_the_folder_of_logs_is_no_other_process_s(others_added: list[Node]) -> None:
    one = others_added[0]
    refused = ("error", ("not_allowed", "../old.log"))
    assert of(control.fetch_log([(one.name, [("trace_log", "..", ["old.log"])])], ".", "p_")) == {one.name: refused}
