"""`inviso.tool`: sessions, trace cases, history, suspension and return, with real processes; its parts without any."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inviso import BadArg, autostart, etf, log
from inviso.tool import Tool, definitions, std_tdg
from inviso.tool._history import History
from inviso.tool._nodes import Backoff, Nodes
from inviso_tools import HOST, Node, Place
from waiting import until

CASES = """
("calls", "on_off", ["Function"], "calls-on.case", "calls-off.case")
("flags", "on", [], "flags.case")
("faulty", "on", [], "faulty.case")
("fails", "on_off", [], "fails.case", "fails.case")
("waits", "on_off", [], "waits.case", "waits.case")
("absent", "on_off", [], "flags.case", "absent.case")
("many", "on", [], "many.case")
"""
FILES = {
    "calls-on.case": 'inviso.tpl(Nodes, "__main__", Function, "_", True)',
    "calls-off.case": 'inviso.ctpl(Nodes, "__main__", Function, "_")',
    "flags.case": 'inviso.tf(Nodes, "all", ["call", "timestamp", "arity"])',
    "faulty.case": "import os",
    "fails.case": "A = 1\nno_such_module.function()",
    "waits.case": "test_tool.wait()\ninviso.tf(Nodes, 'all', ['call'])",
    "many.case": 'inviso.tpl(Nodes, "__main__", "step", "_", True)\ntest_tool.note(Nodes)',
}
GATE = threading.Event()
WAITING = threading.Event()
NOTED: list[Any] = []


def wait() -> None:
    """A case waits for it; the test opens it."""
    WAITING.set()
    assert GATE.wait(60)


def note(nodes: Any) -> None:
    """Notes the nodes of each run of a case."""
    NOTED.append(nodes)


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    GATE.clear()
    WAITING.clear()
    NOTED.clear()
    yield
    GATE.set()


@pytest.fixture
def cases(place: Place) -> Path:
    for name, text in FILES.items():
        (place.path / name).write_text(text)
    (place.path / "cases").write_text(CASES)
    return place.path / "cases"


class Shop:
    """Two nodes, and a maker of tools for them. All end with the test."""

    def __init__(self, place: Place, cases: Path) -> None:
        self.place = place
        self.cases = cases
        self.one, self.two = place.node("one"), place.node("two")
        self.names = [self.one.node, self.two.node]
        self.tools: list[Tool] = []

    def tool(self, *nodes: str, **config: Any) -> Tool:
        options = {"tc_def_file": self.cases, "timeout": 20.0, "reconnect": None, "reactivate": None, **config}
        self.tools.append(Tool(*(nodes or self.names), **options))
        return self.tools[-1]

    def session(self, **config: Any) -> Tool:
        made = self.tool(**config)
        number, answer = ok(made.start_session())
        assert number == 1 and [result[0] for _, result in ok(answer)] == ["ok", "ok"]
        return made


@pytest.fixture
def shop(place: Place, cases: Path) -> Iterator[Shop]:
    made = Shop(place, cases)
    yield made
    GATE.set()
    for tool in made.tools:
        tool.stop()


def ok(answer: Any) -> Any:
    """The value after ``"ok"``."""
    assert answer[0] == "ok", answer
    return answer[1]


def state(tool: Tool, node: str) -> Any:
    ((_, answer),) = ok(tool.get_node_status([node]))
    return answer[1]


def error(answer: Any) -> Any:
    """The value after ``"error"``."""
    assert answer[0] == "error", answer
    return answer[1]


def calls(node: Node) -> list[str]:
    """The functions called in the last log of a node, in order; tracing there has ended."""
    (path,) = node.ask("listener.host.component.info()['files']")
    return [message[3][1] for message in log.read(path) if message[2] == "call"]


def patterns(node: Node) -> set[str]:
    """The functions with patterns on a node."""
    text = "[one.function for one in listener.host.component._patterns._set]"
    return set(node.ask(text))


TRACING = ("tracing", "running")


# sessions


def test_a_session_from_its_begin_to_its_log(shop: Shop) -> None:
    tool = shop.tool()
    assert [answer for _, answer in ok(tool.get_node_status())] == [("ok", ("inactive", "running"))] * 2
    number, answer = ok(tool.start_session())
    assert number == 1
    assert ok(answer) == [(name, ("ok", [("trace_log", "ok"), ("ti_log", "ok")])) for name in shop.names]
    assert state(tool, "one") == TRACING
    assert tool.sync_rtc("flags")[0] == "ok"
    value = tool.sync_atc("calls", 1, {"Function": "work"})
    assert value == ("ok", [(name, ("ok", [1])) for name in shop.names])
    assert error(tool.atc("calls", 1, {"Function": "work"})) == "already_started"
    assert tool.sync_atc("calls", 2, [("Function", "step")])[0] == "ok"
    assert ok(tool.get_activities())[0] == ("tracecases", [(("calls", 1), "running"), (("calls", 2), "running")])
    shop.one.ask("work()")
    assert tool.sync_dtc("calls", 2)[0] == "ok"
    shop.one.ask("work(3)")
    assert ok(tool.flush()) == [(name, "ok") for name in shop.names]
    assert ok(tool.get_session_data()) == ("tracing", 1, [])
    assert ok(tool.stop_session()) == (1, ("ok", [(name, ("ok", "idle")) for name in shop.names]))
    assert calls(shop.one) == ["work", "step", "work"]
    assert calls(shop.two) == []
    assert state(tool, "one") == ("inactive", "running")
    assert ok(tool.get_session_data()) == ("not_tracing", 1, [])
    (shop.place.path / "copies").mkdir()
    assert [name for name, _ in ok(tool.fetch_log("copies"))] == shop.names
    assert sum(path.suffix == ".log" for path in (shop.place.path / "copies").iterdir()) == 2
    assert ok(tool.start_session())[0] == 2
    assert patterns(shop.one) == set()  # a session begins without any


def test_errors_without_and_with_a_session(shop: Shop) -> None:
    tool = shop.tool()
    for call in (
        lambda: tool.atc("calls", 1), lambda: tool.sync_atc("calls", 1), lambda: tool.dtc("calls", 1),
        lambda: tool.sync_dtc("calls", 1),
        lambda: tool.sync_rtc("calls"), lambda: tool.inviso("ctp_all", []), lambda: tool.stop_session(),
        lambda: tool.flush(),
        lambda: tool.reinitiate_session(), lambda: tool.get_activities(), lambda: tool.get_session_data(),
        lambda: tool.get_autostart_data(0),
    ):  # fmt: skip
        assert call() == ("error", "no_session")
    assert error(tool.save_history("h")) == "no_history"
    assert error(tool.restore_session()) == "no_history"
    tool.start_session()
    assert error(tool.start_session()) == "session_already_started"
    assert error(tool.restore_session()) == "session_active"
    assert error(tool.reset_nodes()) == "session_active"
    for answer in (tool.atc("nothing", 1), tool.sync_rtc("nothing"), tool.dtc("nothing", 1)):
        assert error(answer) == "unknown_tracecase"
    assert error(tool.atc("calls", 1)) == ("missing_variable", "Function")
    assert error(tool.dtc("calls", 1)) == "unknown_id"
    assert tool.sync_atc("flags", 1)[0] == "ok"
    assert error(tool.dtc("flags", 1)) == "no_deactivation"
    assert error(tool.inviso("stop_all", [])) == "invalid_function_name"
    assert error(tool.reactivate("nobody")) == "unknown_node"
    assert error(tool.reactivate("one")) == "not_suspended"
    answers = dict(ok(tool.reinitiate_session(["one", "nobody"])))
    assert error(answers[shop.one.node]) == "already_in_session"
    assert error(answers[f"nobody@{HOST}"]) == "unknown_node"
    assert error(dict(ok(tool.reconnect_nodes(["one"])))[shop.one.node]) == "already_connected"
    assert error(dict(ok(tool.flush(["nobody"])))[f"nobody@{HOST}"]) == "unknown_node"


BAD: dict[str, Any] = {
    "variable": lambda tool: tool.atc("calls", 1, {"Function": "f", "Modul": "m"}),
    "Nodes": lambda tool: tool.atc("calls", 1, {"Function": "f", "Nodes": []}),
    "variables": lambda tool: tool.atc("calls", 1, 5),
    "id": lambda tool: tool.atc("calls", [], {"Function": "f"}),
    "ms": lambda tool: tool.sync_atc("calls", 1, {"Function": "f"}, -1),
    "nodes": lambda tool: tool.get_node_status("one"),
    "node": lambda tool: tool.reactivate("a@b@c"),
    "arguments": lambda tool: tool.inviso("tpl", "json"),
    "pattern": lambda tool: tool.inviso("tpl", ["json", "loads"]),
    "inside": lambda tool: tool.inviso("tf", [[("one", [("all", ["call"])])]]),
    "dependency": lambda tool: tool.get_autostart_data("soon"),
}


def test_a_malformed_argument_changes_nothing(shop: Shop) -> None:
    tool = shop.session()
    for what, call in BAD.items():
        with pytest.raises(BadArg):
            call(tool)
            pytest.fail(what)
    assert ok(tool.get_activities())[0] == ("tracecases", [])
    assert ok(tool.save_history("h")) == str(shop.place.path / "h")
    assert etf.loads((shop.place.path / "h").read_bytes()) == ("inviso_tool_history", 1, [])
    tool.stop_session()
    for again in (tool.start_session, tool.restore_session):
        with pytest.raises(BadArg):
            again(more="text")
    assert ok(tool.get_session_data()) == ("not_tracing", 1, [])


def test_initial_cases_and_custom_tracer_data(shop: Shop) -> None:
    seen: list[Any] = []

    def tdg(node: str, moment: Any, *more: Any) -> Any:
        seen.append((node, more))
        return "file", f"{more[0]}-{node}.log"

    tool = shop.tool(tdg=(tdg), initial_tcs=[("flags", {}), ("calls", {"Function": "work"})])
    assert ok(tool.start_session(["mine"]))[0] == 1
    assert seen == [(name, ("mine",)) for name in shop.names]
    shop.two.ask("work()")
    tool.stop_session()
    assert calls(shop.two) == ["work"]
    assert (shop.place.path / "logs" / f"mine-{shop.two.node}.log").exists()


@pytest.mark.parametrize("tdg", [lambda *_: None, lambda *_: 1 / 0, ("no.such", "function")])
def test_a_generator_that_fails_begins_nothing(shop: Shop, tdg: Any) -> None:
    tool = shop.tool(tdg=tdg)
    assert error(tool.start_session()) == "bad_tdg"
    assert error(tool.get_session_data()) == "no_session"
    assert state(tool, "one") == ("inactive", "running")
    assert "generator" in tool.problems[-1]


def test_a_node_whose_initiation_failed_is_initiated_again(shop: Shop) -> None:
    name = "/not/allowed"
    tool = shop.tool(tdg=lambda node, *_: ("file", name if node == shop.two.node else "a.log"))
    results = dict(ok(ok(tool.start_session())[1]))
    assert error(results[shop.two.node])[0] == "not_allowed"
    assert state(tool, "two") == ("trace_failure", "running")
    assert tool.sync_atc("calls", 1, {"Function": "work"}) == ("ok", [(shop.one.node, ("ok", [1]))])
    name = "b.log"
    assert ok(tool.reinitiate_session()) == [(shop.two.node, ("ok", [("trace_log", "ok")]))]
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(shop.two) == {"work"}


def test_options_of_new_components(shop: Shop) -> None:
    tool = shop.tool(optg=lambda node: ("ok", [("overload", 123), ("dependency", 99)]))
    assert shop.one.ask("(lambda s: (s['overload'], s['dependency']))(listener.host.component.settings)") == (123, 0)
    tool.stop()
    broken = shop.tool(optg=lambda node: ("ok", [("over", 1)]))
    assert state(broken, "one") == "down" and "bad_optg" in broken.problems[0]


# trace cases


def test_phases_of_a_case(shop: Shop) -> None:
    tool = shop.session()
    assert tool.atc("waits", 1) is None
    assert WAITING.wait(60)
    assert error(tool.atc("waits", 1)) == "activating"
    assert error(tool.dtc("waits", 1)) == "activating"
    GATE.set()
    until(lambda: ok(tool.get_activities())[0][1] == [(("waits", 1), "running")])
    GATE.clear()
    WAITING.clear()
    assert tool.dtc("waits", 1) is None
    assert WAITING.wait(60)
    assert error(tool.atc("waits", 1)) == "deactivating"
    assert error(tool.dtc("waits", 1)) == "deactivating"
    assert error(tool.sync_atc("waits", 2, (), 1)) == "timeout"  # and it goes on
    GATE.set()
    until(lambda: ok(tool.get_activities())[0][1] == [(("waits", 2), "running")])


def test_faulty_cases(shop: Shop) -> None:
    tool = shop.session()
    tag, text = error(tool.atc("faulty", 1))
    assert tag == "faulty_tracecase" and "faulty.case, line 1" in text
    tag, text = error(tool.sync_atc("fails", 1))
    assert tag == "faulty_tracecase" and "fails.case, line 2" in text and "no_such_module" in text
    assert ok(tool.get_activities())[0] == ("tracecases", [])
    assert tool.atc("fails", 1) is None
    until(lambda: ok(tool.get_activities())[0] == ("tracecases", []))
    assert tool.sync_atc("absent", 1)[0] == "ok"
    tag, text = error(tool.dtc("absent", 1))
    assert tag == "faulty_tracecase" and "absent.case can't be read" in text
    assert ok(tool.get_activities())[0] == ("tracecases", [(("absent", 1), "running")])
    (shop.place.path / "fails.case").write_text("A = 1")
    assert tool.sync_atc("fails", 2) == 1
    (shop.place.path / "fails.case").write_text(FILES["fails.case"])
    assert error(tool.sync_dtc("fails", 2))[0] == "faulty_tracecase"
    assert error(tool.dtc("fails", 2)) == "unknown_id"  # it counts as off
    assert error(tool.sync_rtc("fails"))[0] == "faulty_tracecase"
    tool.save_history("h")
    assert [entry[1] for entry in etf.loads(Path("h").read_bytes())[2]] == ["absent"]


def test_stopping_a_session_ends_its_cases(shop: Shop) -> None:
    tool = shop.session()
    tool._control.timeout = 0.2
    tool.atc("waits", 1)
    assert WAITING.wait(60)
    assert ok(tool.stop_session())[0] == 1  # it does not wait for ever for cases that can't be stopped
    assert any("does not end" in text for text in tool.problems)
    shop.one.ask("before = listener.host.component._flags")
    GATE.set()
    until(lambda: not any("tool" in thread.name for thread in threading.enumerate()))
    assert shop.one.ask("listener.host.component._flags") == []


def test_answers_with_errors_are_told(shop: Shop) -> None:
    tool = shop.session()
    shop.one.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "one") == ("tracing", "suspended"))
    (shop.place.path / "flags.case").write_text(f'inviso.tf(["{shop.one.node}"], "all", ["call"])')
    assert tool.sync_rtc("flags") == ("ok", [(shop.one.node, ("error", "suspended"))])
    assert "flags.case, line 1: the answer was" in tool.problems[-1]


# suspension and return


def test_a_suspended_node_is_reactivated_with_what_came_meanwhile(shop: Shop) -> None:
    tool = shop.session()
    tool.sync_rtc("flags")
    tool.sync_atc("calls", 1, {"Function": "work"})
    assert ok(tool.inviso("tpl", ["__main__", "step", "_", True]))[0][1] == ("ok", [1])
    shop.two.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "two") == ("tracing", "suspended"))
    assert "lunch" in tool.status()[shop.two.node]["status"]
    assert [name for name, _ in ok(tool.inviso("tpl", ["__main__", "other", "_", True]))] == [shop.one.node]
    tool.sync_dtc("calls", 1)
    assert patterns(shop.two) == {"work", "step"}  # suspended: it knows nothing of that
    assert tool.reactivate("two") is None
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(shop.two) == patterns(shop.one) == {"step", "other"}
    shop.two.ask("work()")
    tool.stop_session()
    assert calls(shop.two) == ["step"]


def test_a_case_that_is_switched_off_while_the_history_is_redone(shop: Shop) -> None:
    """The node that has had it redone gets its off file, too; a new one goes to all."""
    tool = shop.session()
    tool.sync_atc("calls", 1, {"Function": "work"})
    GATE.set()
    assert tool.sync_rtc("waits")[0] == "ok"
    GATE.clear()
    WAITING.clear()
    shop.two.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "two") == ("tracing", "suspended"))
    assert tool.reactivate("two") is None
    assert WAITING.wait(60)  # the first case has been redone
    assert state(tool, "two") == "reactivating"
    assert ok(tool.get_activities())[1] == ("reactivating_nodes", [shop.two.node])
    assert error(tool.reactivate("two")) == "reactivating"
    assert tool.sync_dtc("calls", 1) == ("ok", [(shop.one.node, ("ok", [1]))])
    assert tool.sync_atc("calls", 2, {"Function": "step"}) == ("ok", [(shop.one.node, ("ok", [1]))])
    GATE.set()
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(shop.two) == patterns(shop.one) == {"step"}


def test_a_node_that_drowns_is_reactivated_with_back_off(shop: Shop) -> None:
    """Its own check suspends it each time. The waits grow, and none is shorter than the one before."""
    (shop.place.path / "drowns.py").write_text(
        "def check(what): return ('suspend', 'too much') if what[0] == 'timeout' else 'ignore'\n"
    )
    node = shop.place.node("drowning", before="import sys; sys.path.insert(0, '.')\n", allow=("drowns",))
    events: list[Any] = []
    options = {"overload": (("drowns", "check"), 10)}
    tool = shop.tool("drowning", optg=lambda _: ("ok", options), reactivate=(0.05, 2.0, 0.4))
    tool.events(lambda event: events.append(event[3]))
    tool.start_session()
    tool.sync_rtc("many")
    suspended = ("tracing", ("suspended", "too much"))
    until(lambda: sum(event[0] == "state_change" and event[2] == suspended for event in events) >= 4)
    assert any("too much" in text for text in tool.problems)
    assert [nodes for nodes in NOTED if nodes] == [[node.node]] * len([nodes for nodes in NOTED if nodes])
    assert len(NOTED) >= 1
    options["overload"] = None
    node.ask("listener.post(lambda: listener.host.component.do_change_options({'overload': None}))")
    until(lambda: state(tool, "drowning") == TRACING)
    assert patterns(node) == {"step"}


def test_a_program_that_calls_more_than_can_be_traced(shop: Shop) -> None:
    """The built-in check sees the load. The tool gets an event, waits and tries again until the program calls less."""
    options = {"overload": 20, "protect": {"cpu": 1, "lost": 1}}
    tool = shop.tool("one", optg=lambda _: ("ok", options), reactivate=(0.05, 2.0, 0.2))
    suspended = []
    tool.events(
        lambda event: (
            suspended.append(event[3][2][1]) if event[3][0] == "state_change" and event[3][2][1] != "running" else None
        )
    )
    tool.start_session()
    tool.sync_rtc("flags")
    tool.sync_atc("calls", 1, {"Function": "step"})
    shop.one.ask(
        "drowning = True\ndef drown():\n    while drowning: work(1000)\nthread = threading.Thread(target=drown)\n"
        "thread.start()"
    )
    until(lambda: len(suspended) >= 3)
    shop.one.ask("drowning = False\nthread.join()")
    assert {status[0] for status in suspended} == {"suspended"} and {status[1][0] for status in suspended} <= {
        "cpu",
        "lost",
    }
    until(lambda: state(tool, "one") == TRACING)
    assert patterns(shop.one) == {"step"}


def test_what_a_person_suspends_stays_suspended(shop: Shop) -> None:
    tool = shop.session(reactivate=(0.01, 1.0, 0.01))
    tool.sync_rtc("flags")
    assert ok(tool.inviso("suspend", ["lunch"])) == [(name, "ok") for name in shop.names]
    assert [row["next"] for row in tool.status().values()] == ["", ""]
    assert state(tool, "one") == ("tracing", "suspended")
    assert error(dict(ok(tool.reinitiate_session(["one"])))[shop.one.node]) == "already_in_session"
    assert ok(tool.inviso("cancel_suspension", [])) == [(name, "ok") for name in shop.names]
    until(lambda: state(tool, "one") == TRACING and state(tool, "two") == TRACING)
    assert shop.one.ask("listener.host.component._flags") == [("all", ["call", "timestamp", "arity"])]


def test_a_node_that_somebody_else_lets_trace_again(shop: Shop) -> None:
    tool = shop.session()
    tool.sync_rtc("flags")
    shop.two.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "two") == ("tracing", "suspended"))
    tool.sync_atc("calls", 1, {"Function": "work"})
    shop.two.ask("runtime.cancel_suspension()")
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(shop.two) == {"work"}
    assert shop.two.ask("listener.host.component._flags") == [("all", ["call", "timestamp", "arity"])]


def test_the_own_process_as_a_node(shop: Shop) -> None:
    program = shop.place.node(
        "own", "from inviso.tool import Tool\ntool = Tool('own', 'one', reactivate=(0.02, 1.0, 0.02))\n"
    )
    assert program.ask("tool.start_session()[0], tool.inviso('tpl', ['__main__', 'work', '_', True])[0]") == (
        "ok",
        "ok",
    )
    program.ask("runtime.suspend('lunch')")
    both = [("ok", TRACING)] * 2
    until(lambda: [answer for _, answer in program.ask("tool.get_node_status()[1]")] == both)
    assert patterns(program) == {"work"}
    program.ask("tool.stop()")
    assert program.ask("listener.about()['state']") is None


def test_a_node_that_was_killed_and_comes_back(shop: Shop) -> None:
    tool = shop.session(reconnect=(0.02, 1.5, 0.2))
    began = time.time()
    tool.sync_rtc("flags")
    tool.sync_atc("calls", 1, {"Function": "work"})
    shop.two.kill(signal.SIGKILL)
    until(lambda: state(tool, "two") == "down")
    assert error(tool.reactivate("two")) == "down"
    assert error(dict(ok(tool.reinitiate_session(["two"])))[shop.two.node]) == "down"
    assert tool.sync_atc("calls", 2, {"Function": "step"}) == ("ok", [(shop.one.node, ("ok", [1]))])
    shop.two.wait()
    until(lambda: time.time() > began + 1.1)  # the names of logs have seconds
    again = shop.place.node("two")
    assert again.node == shop.two.node
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(again) == {"work", "step"}
    again.ask("work()")
    tool.stop_session()
    assert calls(again) == ["work", "step"]
    assert len([*(shop.place.path / "logs").glob("two@*.log")]) == 2  # nodes that the first process has left are there


def test_reconnecting_by_hand(shop: Shop) -> None:
    tool = shop.session()
    tool.sync_atc("calls", 1, {"Function": "work"})
    shop.two.kill(signal.SIGKILL)
    until(lambda: state(tool, "two") == "down")
    shop.two.wait()
    assert ok(tool.reconnect_nodes()) == [(shop.two.node, ("error", "nodedown"))]
    again = shop.place.node("two")
    assert ok(tool.reconnect_nodes()) == [(shop.two.node, ("ok", ("inactive", "running")))]
    assert patterns(again) == set()
    again.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "two") == ("inactive", "suspended"))
    assert error(dict(ok(tool.reinitiate_session()))[again.node]) == "suspended"
    assert tool.reactivate("two") is None
    assert state(tool, "two") == ("inactive", "running")
    assert ok(tool.reinitiate_session(["two"]))[0][1][0] == "ok"
    until(lambda: state(tool, "two") == TRACING)
    assert patterns(again) == {"work"}


def test_a_node_that_dies_while_its_history_is_redone(shop: Shop) -> None:
    tool = shop.session()
    GATE.set()
    tool.sync_rtc("waits")
    GATE.clear()
    WAITING.clear()
    shop.two.ask("runtime.suspend('lunch')")
    until(lambda: state(tool, "two") == ("tracing", "suspended"))
    tool.reactivate("two")
    assert WAITING.wait(60)
    shop.two.kill(signal.SIGKILL)
    until(lambda: state(tool, "two") == "down")
    GATE.set()
    assert ok(tool.stop_session())[0] == 1


# histories


def test_a_session_is_restored_from_a_file(shop: Shop) -> None:
    tool = shop.session()
    tool.sync_rtc("flags")
    tool.sync_atc("calls", 1, {"Function": "work"})
    tool.inviso("tpl", ["__main__", "step", "_", True])
    tool.sync_atc("calls", (2, "b"), {"Function": "until"})
    tool.sync_dtc("calls", 1)
    path = ok(tool.save_history("yesterday"))
    assert path == str(shop.place.path / "yesterday") and Path(path).stat().st_mode & 0o777 == 0o600
    tool.stop_session()
    tool.stop()
    later = shop.tool(history_dir=shop.place.path)
    number, _ = ok(later.restore_session("yesterday", ["more"]))
    assert number == 1 and ok(later.get_session_data()) == ("tracing", 1, ["more"])
    assert ok(later.get_activities())[0] == ("tracecases", [(("calls", (2, "b")), "running")])
    assert patterns(shop.one) == patterns(shop.two) == {"step", "until"}
    later.stop_session()
    assert ok(later.restore_session())[0] == 2  # its own last one
    assert patterns(shop.one) == {"step", "until"}
    assert ok(later.save_history(path))
    assert len(etf.loads(Path(path).read_bytes())[2]) == 3


def test_files_that_are_no_history(shop: Shop) -> None:
    tool = shop.tool()
    assert error(tool.restore_session("absent"))[0] == "open"
    for data in (
        b"",
        b"\x83",
        etf.dumps(("inviso_tool_history", 2, [])),
        etf.dumps(("inviso_tool_history", 1, [("case", 1)])),
    ):
        Path("broken").write_bytes(data)
        assert error(tool.restore_session("broken"))[0] == "bad_history"
    assert error(tool.get_session_data()) == "no_session"
    history = [("case", "gone", 1, []), ("call", "stop_all", []), ("call", "tpl", [1]), ("once", "calls", [])]
    Path("odd").write_bytes(etf.dumps(("inviso_tool_history", 1, history)))
    assert ok(tool.restore_session("odd"))[0] == 1
    assert len(tool.problems) == 4
    assert error(tool.save_history("no/such/folder")) == ("open", "No such file or directory")


def test_what_can_t_be_written(shop: Shop) -> None:
    tool = shop.session(tdg=lambda *_: [("trace", ("file", "a.log")), ("ti", ("file", "a.ti"))])
    with pytest.raises(BadArg, match="no other process"):
        tool.inviso("init_tpm", ["__main__", "work", 1, print])
    assert ok(tool.save_history("h"))


def test_autostart_data_traces_from_the_start(shop: Shop) -> None:
    (shop.place.path / "own.case").write_text('inviso_rt.tpl("__main__", Function, "_", True)')
    shop.cases.write_text('("own", "on", ["Function"], "own.case")')
    tool = shop.session(tdg=("test_tool", "fixed", ["z"]))
    tool.inviso("tf", ["all", ["call", "timestamp"]])
    tool.sync_atc("own", 1, {"Function": "work"})
    items, results = ok(tool.get_autostart_data(["one", "nobody"], "infinity"))
    assert items == [
        ("mfa", ("inviso.runtime", "tf", ["all", ["call", "timestamp"]])),
        ("file", (str(shop.place.path / "own.case"), [("Function", "work")])),
    ]
    options, (tag, (module, function, arguments)) = ok(dict(results)[shop.one.node])
    assert (options, tag, module, function) == ([("dependency", "infinity")], "tdg", "test_tool", "fixed")
    assert arguments[0] == shop.one.node and arguments[2:] == ["z"]
    assert error(dict(results)[f"nobody@{HOST}"]) == "unknown_node"
    config = shop.place.path / "auto.config"
    assert (
        autostart.setup_autostart(
            None, None, options, ("file", "auto.log"), [[item for _, item in items]], [], [], file=str(config)
        )
        is None
    )
    child = shop.place.child("def work(n): return n\n", name="auto", INVISO_AUTOSTART=str(config))
    child.ask("work(1)")
    child.ask("from inviso import runtime; runtime.flush()")
    (path,) = [*shop.place.path.rglob("auto.log")]
    assert [message[3][1] for message in log.read(path) if message[2] == "call"].count("work") == 1
    unnamed = shop.tool("nobody", tdg=lambda *_: ("file", "x.log"))
    unnamed.start_session()
    assert ok(unnamed.get_autostart_data(0)) == ([], [(f"nobody@{HOST}", ("error", "bad_tdg"))])


def fixed(node: str, moment: Any, *more: Any) -> Any:
    """Tracer data of a generator that has a name."""
    return "file", "fixed.log"


# the begin and the end


def test_the_end_leaves_nothing_but_what_is_kept(shop: Shop) -> None:
    tool = shop.session(keep_nodes=["two"])
    tool.sync_rtc("flags")
    tool.sync_atc("calls", 1, {"Function": "work"})
    assert ok(tool.stop()) == [(shop.one.node, "ok")]
    assert shop.one.ask("listener.about()['state']") is None
    assert shop.two.ask("listener.about()['state']") == ("tracing", "running")
    assert patterns(shop.two) == {"work"}
    with pytest.raises(RuntimeError, match="has ended"):
        tool.get_node_status()
    second = shop.tool("two")
    assert state(second, "two") == TRACING  # adopted, and it traces
    assert second.sync_atc("calls", 1, {"Function": "step"}) == ("error", "no_session")
    second.start_session()
    assert second.sync_atc("calls", 1, {"Function": "step"}) == ("ok", [(shop.two.node, ("ok", [1]))])
    assert ok(second.stop([])) == [(shop.two.node, "ok")]
    assert patterns(shop.two) == set()


def test_two_tools_and_a_control_beside_each_other(shop: Shop) -> None:
    first, second = shop.tool("one"), shop.tool("two")
    third = shop.tool("one")
    assert state(third, "one") == "down" and "refused" in third.problems[0]
    first.start_session()
    second.start_session()
    assert first.sync_atc("calls", 1, {"Function": "work"}) == ("ok", [(shop.one.node, ("ok", [1]))])
    assert second.sync_atc("calls", 1, {"Function": "step"}) == ("ok", [(shop.two.node, ("ok", [1]))])
    assert (patterns(shop.one), patterns(shop.two)) == ({"work"}, {"step"})


FORKS = """
import os
from inviso.tool import Tool
tool = Tool("one", "absent", timeout=20, reconnect=(0.02, 1.0, 0.02))
tool.start_session()
def forked():
    read, write = os.pipe()
    if not (pid := os.fork()):
        try:
            tool.get_node_status()
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(read, 1000).decode(errors="replace")
"""


def test_a_program_with_a_tool_forks(shop: Shop) -> None:
    """The child has no tool. The parent's goes on, and finds nodes that come."""
    program = shop.place.child(FORKS, name="forks")
    assert "belongs to another process" in program.ask("forked()")
    assert program.ask("tool.get_node_status()[1][0][1]") == ("ok", TRACING)
    shop.place.node("absent")
    until(lambda: program.ask("tool.get_node_status()[1][1][1]") == ("ok", TRACING))
    program.ask("tool.stop()")
    threads = "len(os.listdir('/proc/self/task'))"
    until(lambda: program.ask(threads) == 1)  # a thread that has ended is there for a moment


def test_nodes_by_patterns_and_a_config_file(shop: Shop) -> None:
    (shop.place.path / "tool.config").write_text("""
("nodes", ["o*", "absent"])
("tc_def_file", "cases")  # beside this file
("tdg", ("inviso.tool", "std_tdg"))
("reactivate", None)
("reconnect", None)
""")
    tool = Tool(config_file=shop.place.path / "tool.config", timeout=20)
    shop.tools.append(tool)
    assert [name for name, _ in ok(tool.get_node_status())] == [shop.one.node, f"absent@{HOST}"]
    assert "calls" in tool.cases and repr(tool) == "<tool of 2 nodes, without a session>"
    assert ok(ok(tool.start_session())[1])[0][1][0] == "ok"
    assert "tracing" in tool._repr_html_()


def test_cases_of_a_setting(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_CASES", str(shop.cases))
    assert "calls" in shop.tool("absent", tc_def_file=None).cases
    monkeypatch.delenv("INVISO_CASES")
    folder = shop.place.path / "project"
    (folder / "below").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.inviso]\ncases = "../cases"\n')
    monkeypatch.chdir(folder / "below")
    assert "calls" in shop.tool("absent", tc_def_file=None).cases


WRONG: dict[str, Any] = {
    "config_file": {"config_file": "absent"},
    "tc_def": {"tc_def_file": "absent"},
    "loco": {"loco": 1},
    "nodes": {"nodes": ["a"]},
    "dir": {"dir": 5},
    "tdg": {"tdg": "module"},
    "optg": {"optg": ("a",)},
    "unknown case": {"initial_tcs": [("nothing", {})]},
    "no variable": {"tc_def_file": "cases", "initial_tcs": [("calls", {})]},
    "backoff": {"reactivate": (5, 0.5, 10)},
    "longest": {"reconnect": (5, 2, 1)},
    "timeout": {"timeout": 0},
    "debug": {"debug": "yes"},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_begins_nothing(cases: Path, what: str) -> None:
    before = threading.active_count()
    with pytest.raises(BadArg):
        Tool("nobody", **WRONG[what])
    assert threading.active_count() == before


@pytest.mark.parametrize("text", ["1", "('nodes',)", "('node', ['a'])", "('timeout', 'long')", "open('x')"])
def test_a_wrong_config_file(place: Place, text: str) -> None:
    Path("tool.config").write_text(text)
    with pytest.raises(BadArg, match=r"tool\.config"):
        Tool("nobody", config_file="tool.config")


DEFINITIONS = {
    "('a', 'on', [], 'f', 'g')": "no trace case",
    "('a', 'off', [], 'f')": "no trace case",
    "('a', 'on_off', [], 'f')": "no trace case",
    "('a', 'on', ['Nodes'], 'f')": "'Nodes' is no variable",
    "('a', 'on', ['no name'], 'f')": "no variable",
    "('a', 'on', ['A', 'A'], 'f')": "twice",
    "('a', 'on', [], 'f')\n('a', 'on', [], 'g')": "twice",
    "x = 1": "no literal",
    "(": "line 1",
}


@pytest.mark.parametrize("text", DEFINITIONS)
def test_wrong_definitions(tmp_path: Path, text: str) -> None:
    (tmp_path / "cases").write_text(text)
    with pytest.raises(BadArg, match=DEFINITIONS[text]):
        definitions(tmp_path / "cases")


# the parts without processes


def test_names_of_logs() -> None:
    data = std_tdg("shop-1@web", ((2026, 1, 2), (3, 4, 5)), "ignored")
    assert data == [
        ("trace", ("file", "shop-1@web_2026-1-2_3-4-5.log")),
        ("ti", ("file", "shop-1@web_2026-1-2_3-4-5.ti")),
    ]


def test_back_off_grows_to_its_longest_and_begins_anew() -> None:
    backoff = Backoff(10, 2, 60)
    waits = []
    now = 0.0
    for _ in range(5):
        waits.append(backoff.wait(now))
        now += waits[-1]
        backoff.good(now)
        now += 5
    assert waits == [10, 20, 40, 60, 60]
    assert backoff.wait(now + 55) == 10  # it lasted as long as the last wait
    assert backoff.wait(now + 56) == 20  # a try that failed


SUSPENDED = ("suspended", "why")
NODE = "n@h"


def test_states_of_a_node() -> None:
    nodes = Nodes([NODE])
    assert nodes[NODE].shape() == "down" and nodes.changed("other@h", "tracing", "running") is None
    nodes.connected(NODE, "new", "running")
    assert nodes[NODE].shape() == ("inactive", "running") and nodes.active() == []
    assert nodes.changed(NODE, "tracing", "running") is None and nodes.active() == [NODE]
    nodes.connected(NODE, "new", "running")  # older than its own latest report
    assert nodes.active() == [NODE]
    assert nodes.changed(NODE, "tracing", SUSPENDED) == "suspended" and nodes.active() == []
    assert nodes.changed(NODE, "idle", SUSPENDED) is None
    assert nodes[NODE].shape() == ("inactive", "suspended")
    nodes.changed(NODE, "tracing", SUSPENDED)
    nodes[NODE].is_redone = True
    assert nodes.changed(NODE, "tracing", "running") is None  # the tool did that
    assert nodes[NODE].shape() == "reactivating" and nodes.active() == []
    assert nodes.changed(NODE, "tracing", SUSPENDED) == "suspended" and not nodes[NODE].is_redone
    assert nodes.changed(NODE, "tracing", "running") == "resumed"
    assert nodes.disconnected(NODE) and not nodes.disconnected("other@h")
    assert nodes[NODE].shape() == "down"


def test_what_a_node_is_told() -> None:
    """Entries in order, for any later state of the cases."""
    history = History()
    call = history.call("tpl", ("json",))
    on, off, failed, once = (
        history.begin("on", 1, {}),
        history.begin("off", 1, {}),
        history.begin("failed", 1, {}),
        history.once("once", {}),
    )
    for run in (on, off):
        history.activated(run)
    assert history.after(0, set()) == [call, on, off, failed, once]
    history.forget(failed)
    history.stopping(off)
    assert history.after(0, set()) == [call, on, once]
    assert [type(each).__name__ for each in history.after(once.number, {on.number, off.number})] == ["Off"]
    history.forget(off)
    again = history.begin("off", 1, {})
    assert history.after(off.number, {off.number})[-1] is again
    assert [entry.number for entry in history.entries()] == [call.number, on.number, once.number, again.number]
    assert history.phases() == [(("on", 1), "running"), (("off", 1), "activating")]
