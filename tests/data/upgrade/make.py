"""Writes the files of this folder, one of each form that the package saves; the README says what each is.

    python tests/data/upgrade/make.py FOLDER

The folder gets a subfolder with the name of the package's version. It is made once for a version, and then kept: newer
versions have to read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import inviso
from inviso import autostart, control, dbg, log, merge, tprof, trace, ttb
from inviso.merge import _clocks
from inviso.tool import Tool
from inviso.trace_ports import trace_port

NODE = "shop@here"
ENDS = [("_", [], [("exception_trace",)])]
CASES = """# name, kind, variables, file that switches it on, file that switches it off
("calls", "on_off", ["Module"], "on.case", "off.case")
("flags", "on", [], "flags.case")
"""
CASE_FILES = {
    "on.case": '# every function of a module\nMs = [("_", [], [("return_trace",)])]\n'
    'inviso.tpl(Nodes, Module, "_", "_", Ms)\n',
    "off.case": 'inviso.ctpl(Nodes, Module, "_", "_")\n',
    "flags.case": 'inviso.tf(Nodes, "all", ["call", "timestamp"])\n',
}


def price(number: int, **more: Any) -> int:
    if number == 7:
        raise LookupError(number)
    return number + 1


def order(number: int) -> int:
    return price(number) * 2


async def later(number: int) -> int:
    await asyncio.sleep(0)
    return order(number)


def values() -> None:
    """Calls with arguments of many types."""
    given: list[Any] = [
        0, -1, 1 << 100, 0.5, True, None, "text", "\xfc", b"bytes", [1, [2]], (3, ()), {"key": 4}, {5}, frozenset({6}),
        "x" * 2000, float("inf"), sys.stdin,
    ]  # fmt: skip
    for each in given:
        price(1, value=each)


def work() -> None:
    """What all logs hold: calls, ends and messages of two threads and two tasks."""
    order(1)
    with contextlib.suppress(LookupError):
        order(7)
    thread = threading.Thread(target=order, args=(2,), name="waiter")
    thread.start()
    thread.join()

    async def tasks() -> None:
        await asyncio.gather(*(asyncio.create_task(later(n), name=f"order-{n}") for n in (3, 4)))

    asyncio.run(tasks())


def logged(port: Any, flags: list[str]) -> None:
    """Traces the work into an open port."""
    with trace.session_create("logged", port) as session:
        session.process("all", True, flags)
        for mfa in (("__main__", "price", "_"), ("__main__", "order", "_")):
            session.function(mfa, ENDS, ["local"])
        work()
        if "arity" not in flags:
            values()
        assert session.delivered().wait(30)


def logs(folder: Path) -> None:
    flags = ["call", "procs", "send", "receive", "timestamp"]
    logged(trace_port("file", folder / "calls.log")(), flags)
    logged(trace_port("file", folder / "blocks.log", compress=True)(), ["call", "strict_monotonic_timestamp"])
    few = ["call", "arity", "monotonic_timestamp"]
    logged(trace_port("file", (str(folder / "round"), "wrap", ".log", 1400, 2))(), few)


def dump(folder: Path) -> None:
    """A recorder's dump, which begins with what was overwritten."""
    with trace.session_create("box", None, {"overflow": "overwrite", "ring_bytes": 4096}) as session:
        session.function(("__main__", "price", "_"), ENDS, ["local"])
        session.process(inviso.self(), True, ["call", "strict_monotonic_timestamp"])
        for number in range(100, 140):
            price(number, value="x" * 700)
        session.dump(folder / "box.log", compress=True)


def node(folder: Path) -> None:
    """A log with names of processes, and a measured clock."""
    names = str(folder / f"{NODE}.log"), str(folder / f"{NODE}.ti")
    control.start()
    control.add_node("upgrade")
    control.init_tracing([("trace", ("file", names[0])), ("ti", ("file", names[1]))])
    control.tpm_localnames()
    control.tpl("__main__", "order", "_", True)
    control.tf("all", ["call", "timestamp"])
    me = inviso.self()
    order(10)
    inviso.register("cashier", me)
    order(11)
    inviso.unregister("cashier")
    order(12)
    control.stop_tracing()
    control.stop_all()
    first = next(message for message in log.read(names[0]) if message[0] == "trace_ts")
    when = sum(part * unit for part, unit in zip(first[-1], (10**15, 10**9, 1000), strict=True))
    measured = [(when, 5_000_000_000, 1_000_000), (when + 10**9, 5_000_001_000, 1_000_000)]
    _clocks.write(str(folder / f"{NODE}.clock"), _clocks.Clock("here", "there", measured))


def profiles(folder: Path) -> None:
    for kind in ("call_count", "call_time", "call_memory"):
        with tprof.Profiler(type=kind, pattern="__main__", tree=kind == "call_time", trace="all") as profiler:
            profiler.enable_trace()
            work()
            (folder / f"{kind}.json").write_text(profiler.collect().to_json())


def settings(folder: Path) -> None:
    """Files that people, or functions for them, write."""
    for name, text in {"cases": CASES, **CASE_FILES}.items():
        (folder / name).write_text(text)
    rules = [
        (("inviso", name, arity), ("inviso_rt", name, ("inviso.case", "drop_first")))
        for name, arity in (("tf", 3), ("tpl", 5))
    ]
    answer = autostart.setup_autostart(
        None, 2, [("dependency", 5000), ("overload", 1000)], ("file", "shop-{pid}.log"),
        [["on.case", "flags.case"]], [("Module", "shop"), ("Nodes", [])], rules, "nightly",
        file=str(folder / "autostart.config"),
    )  # fmt: skip
    assert answer is None, answer
    calls = [
        ("ttb", "tracer", []),
        ("ttb", "p", ["all", ["call", "timestamp"]]),
        ("ttb", "tp", ["json", "loads", ENDS]),
    ]
    assert ttb.write_config(str(folder / "ttb.config"), calls) is None
    dbg.tracer("process", (lambda message, state: state, None))
    dbg.tp("json", "loads", [(["$1", "_"], [(">", "$1", 3)], [("return_trace",), ("message", "$1")])])
    assert dbg.wtp(str(folder / "specs")) is None
    dbg.stop()
    with Tool("no-such-node", tc_def_file=folder / "cases", history_dir=str(folder)) as tool:
        tool.start_session()
        tool.inviso("tpl", ["json", "_", "_", [("_", [], [("return_trace",)])]])
        tool.sync_rtc("flags", {})
        tool.sync_atc("calls", 1, {"Module": "shop"})
        tool.inviso("tf", ["all", ["call"]])
        answer = tool.save_history("history")
        assert answer[0] == "ok", answer


class Shown:
    """Values as text that shows the type of each, so that no change is overlooked. Pids have the numbers in which they
    come."""

    def __init__(self) -> None:
        self._pids: list[Any] = []

    def text(self, value: Any) -> str:
        match value:
            case inviso.Pid():
                if value not in self._pids:
                    self._pids.append(value)
                return f"<{value.node} {self._pids.index(value)}>"
            case inviso.Atom():
                return f":{value}"
            case str() | bytes() if len(value) > 100:
                return f"{value[:10]!r}*{len(value)}"
            case list():
                return f"[{self._all(value)}]"
            case tuple():
                return f"({self._all(value)})"
            case dict():
                return "{" + ", ".join(f"{self.text(key)}: {self.text(each)}" for key, each in value.items()) + "}"
            case set() | frozenset():
                return f"{type(value).__name__} {sorted(map(self.text, value))}"
            case inviso.Opaque():
                return f"Opaque({value.type}, {value.id}, {value.text})"
            case _:
                return repr(value)

    def _all(self, values: Any) -> str:
        return ", ".join(map(self.text, values))


def held(folder: Path) -> dict[str, list[str]]:
    """The contents of the logs of such a folder, as this version reads them."""
    sources: dict[str, Any] = {name: str(folder / name) for name in ("calls.log", "blocks.log", "box.log")}
    sources["round"] = (str(folder / "round"), "wrap", ".log")
    sources |= {name: str(folder / name) for name in (f"{NODE}.log", f"{NODE}.ti")}
    found = {name: [*map(Shown().text, log.read(source))] for name, source in sources.items()}
    merged = merge.read({NODE: str(folder / f"{NODE}.log")}, clock="wall")
    shown = Shown()
    found["merged"] = [f"{entry.node} {shown.text(entry.names)} {shown.text(entry.message)}" for entry in merged]
    return found


def main(made: Path) -> None:
    os.chdir(made)
    os.environ["INVISO_DIR"] = tempfile.mkdtemp()
    for write in (logs, dump, node, profiles, settings):
        write(made)
    for path in made.iterdir():
        path.chmod(0o644)


if __name__ == "__main__" and "__file__" not in globals():
    main(Path(sys.argv[1]))
elif __name__ == "__main__":
    made = Path(sys.argv[1]).resolve() / inviso.__version__
    made.mkdir()
    # Logs and profiles have the paths of files: so this is run as a file without a folder.
    again = "import sys; exec(compile(open(sys.argv.pop(1)).read(), 'make.py', 'exec'))"
    subprocess.run([sys.executable, "-c", again, __file__, str(made)], check=True)
    (made / "held.json").write_text(json.dumps(held(made), indent=0) + "\n")
