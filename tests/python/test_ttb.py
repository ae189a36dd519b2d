"""``inviso.ttb``: OTP's Trace Tool Builder over the control component."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import log, ttb
from meta_tools import other, work
from trace_tools import LIMIT, SUBJECTS, good
from waiting import until

MODULE = "meta_tools"

NODE = "nonode@nohost"


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    ttb.stop("nofetch")


def matched(number: int) -> Any:
    return "ok", [("matched", NODE, number)]


def begin(folder: Path, *opts: Any, name: Any = "ttb") -> Any:
    file = str(folder / name) if isinstance(name, str) else ("wrap", str(folder / name[1]), *name[2:])
    return ttb.tracer(None, [("file", file), *opts])


def fetched(folder: Path) -> list[Any]:
    """The messages of the only log."""
    (path,) = (one for one in (folder / "fetched").iterdir() if one.suffix != ".ti")
    return list(log.read(path))


def test_from_tracer_to_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert begin(tmp_path) == ("ok", [NODE])
    assert begin(tmp_path) == ("error", "already_started")
    assert ttb.p("all", "call") == ("ok", [("all", [("matched", NODE, len(inviso.processes()))])])
    assert ttb.tp(MODULE, "work", []) == matched(1)
    inviso.register("clerk", inviso.self())
    work(1, 2)
    other()
    inviso.unregister("clerk")
    folder = str(tmp_path / "fetched")
    assert ttb.stop([("fetch_dir", folder), "format", "return_fetch_dir"]) == ("stopped", folder)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"Stored logs in {folder}"
    assert [line.partition(" (Timestamp")[0] for line in lines] == [
        f"(({inviso.self()!r}, 'MainThread', '{NODE}')) call {MODULE}:work(1,2)"
    ]
    assert sorted(os.listdir(folder)) == [f"{NODE}-ttb", f"{NODE}-ttb.ti"]
    assert sorted(os.listdir(tmp_path)) == ["fetched"]  # they were moved
    assert ttb.stop() == ("error", "not_tracing")
    assert inviso.trace.session_info("all") == []


def test_local_and_global_patterns(tmp_path: Path) -> None:
    begin(tmp_path)
    ttb.p("all", "c")
    assert ttb.tpl(MODULE, "work", 2, []) == matched(1)
    assert ttb.tpl((MODULE, "other", 0), []) == matched(1)
    assert ttb.tp((MODULE, "off"), []) == matched(1)
    assert ttb.tp("no_such_module", []) == matched(0)
    work(1), other()
    assert ttb.ctpl(MODULE, "work") == matched(1)
    work(2), other()
    assert ttb.ctpg(MODULE, "other", 0) == matched(1)
    other()
    assert ttb.ctp() != ("error", "not_tracing")
    work(3), other()
    ttb.stop([("fetch_dir", str(tmp_path / "fetched"))])
    assert [message[3][1] for message in fetched(tmp_path)] == ["work", "other", "other", "other"]


@pytest.mark.parametrize("spec", ["x", [("_", [], [("exception_trace",)])], lambda *_: exception_trace()])  # type: ignore[name-defined]  # noqa: F821
def test_match_specifications(tmp_path: Path, spec: Any) -> None:
    begin(tmp_path)
    ttb.p("all", "call")
    assert ttb.tp(MODULE, "other", spec) == ("ok", [("matched", NODE, 1), ("saved", "x")])
    other()
    ttb.stop([("fetch_dir", str(tmp_path / "fetched"))])
    assert [message[2] for message in fetched(tmp_path)] == ["call", "return_from"]


def test_a_specification_by_its_number(tmp_path: Path) -> None:
    begin(tmp_path)
    mine = [([1, "_"], [], [])]
    assert ttb.tpl(MODULE, "work", mine)[1][1:] == [("saved", 1)]
    assert ttb.tpl(MODULE, "work", 2, 1)[1][1:] == [("saved", 1)]
    with pytest.raises(inviso.BadArg, match="tpl/2, match_spec: 7 is not a match specification"):
        ttb.tpl(MODULE, "work", 7)


def test_flags(tmp_path: Path) -> None:
    begin(tmp_path)
    me = inviso.self()
    assert ttb.p(me, ["c", "arity"]) == ("ok", [(me, [("matched", NODE, 1)])])
    assert ttb.p(threading.current_thread(), "m")[1][0][1] == [("matched", NODE, 1)]
    ((item, answers),) = ttb.p("nobody", "call")[1]
    assert (item, answers[0][:3], answers[0][3][0]) == ("nobody", ("matched", NODE, 0), "bad_process")
    ttb.tpl(MODULE, "work", [])
    work(1)
    ttb.p(me, "clear")
    work(2)
    ttb.stop([("fetch_dir", str(tmp_path / "fetched"))])
    (message,) = fetched(tmp_path)
    assert message[:1] + message[2:4] == ("trace_ts", "call", (MODULE, "work", 2))


def test_before_tracer() -> None:
    calls: list[tuple[Any, ...]] = [
        *((ttb.p, "all", "call"), (ttb.tp, "m", []), (ttb.tpl, "m", []), (ttb.ctp,), (ttb.ctpl, "m"), (ttb.ctpg, "m")),
        *((ttb.write_trace_info, 1, 2), (ttb.stop,)),
    ]
    for function, *arguments in calls:
        assert function(*arguments) == ("error", "not_tracing")


BAD: list[tuple[Any, tuple[Any, ...], str]] = [
    (ttb.tracer, (17,), "tracer/2, nodes"),
    (ttb.tracer, ([""],), "tracer/2, nodes"),
    (ttb.tracer, (None, [("resume", 1)]), "tracer/2, opts: .* is not an option"),
    (ttb.tracer, (None, ["shell"]), "tracer/2, opts"),
    (ttb.tracer, (None, [("file", "")]), "tracer/2, opts: file"),
    (ttb.tracer, (None, [("file", ("wrap", "x", 0, 1))]), "tracer/2, opts: file"),
    (ttb.tracer, (None, [("timer", "soon")]), "tracer/2, opts: timer"),
    (ttb.tracer, (None, [("timer", (5, ["nothing"]))]), "stop/1, opts"),
    (ttb.tracer, (None, [("process_info", 1)]), "tracer/2, opts: process_info"),
    (ttb.tracer, (None, [("handler", print)]), "tracer/2, opts: .* is not a handler"),
    (ttb.p, ("ports", "call"), "p/2, item"),
    (ttb.p, (3.5, "call"), "p/2, item"),
    (ttb.p, ("all", "calls"), "p/2, flags"),
    (ttb.tp, ("m",), "tp/2, arguments"),
    (ttb.tp, ("m", "f", "a", []), "tp/3, arguments"),
    (ttb.ctp, (1,), "ctp/1, arguments"),
    (ttb.stop, ("now",), "stop/1, opts"),
    (ttb.format, (17,), "format/2, files"),
    (ttb.format, (".", ["sorted"]), "format/2, opts"),
    (ttb.seq_trigger_ms, ("loud",), "seq_trigger_ms/1, flags"),
    (ttb.run_history, ("some",), "run_history/1, which"),
    (ttb.write_config, ("f", 17), "write_config/2, config"),
    (ttb.write_config, ("f", [("os", "system", ["true"])]), "write_config/2, config"),
    (ttb.write_config, ("f", "all", ["over"]), "write_config/3, opts"),
]


@pytest.mark.parametrize(("function", "arguments", "text"), BAD)
def test_bad_arguments(function: Any, arguments: Any, text: str) -> None:
    with pytest.raises(inviso.BadArg, match=f"^{text}"):
        function(*arguments)


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(inviso.BadArg, match=r"stop/1, opts: fetch_dir .* is not empty"):
        ttb.stop([("fetch_dir", str(tmp_path))])
    assert ttb.p("all", "call")[0] == "ok"  # it goes on


def test_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert ttb.tracer() == ("ok", [NODE])
        assert sorted(os.listdir())[:2] == [f"{NODE}-ttb", f"{NODE}-ttb.ti"]
        ttb.stop()
    folders = [line.removeprefix("Stored logs in ") for line in capsys.readouterr().out.splitlines()]
    assert [os.path.basename(folder)[:15] for folder in folders] == ["ttb_upload_ttb-"] * 2
    assert sorted(os.listdir()) == sorted(map(os.path.basename, folders))


def test_a_wrap_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(tmp_path, name=("wrap", "small", 300, 2))
    ttb.p(inviso.self(), ["call", "arity"])
    ttb.tpl(MODULE, "work", [])
    for n in range(50):
        work(n)
    ttb.stop([("fetch_dir", str(tmp_path / "fetched")), "format"])
    assert len(list((tmp_path / "fetched").glob("*.wrp"))) == 2
    lines = capsys.readouterr().out.splitlines()[1:]
    assert 0 < len(lines) < 50
    assert all(f"call {MODULE}:work/2" in line for line in lines)


def test_a_handler_and_what_it_is_told(tmp_path: Path) -> None:
    def handler(out: Any, message: Any, info: dict[Any, Any], state: list[Any]) -> list[Any]:
        print(message[3][1], file=out)
        return [*state, (info["node"], info["names"], info["release"], info.get("missing"))]

    seen: list[Any] = []

    def last(out: Any, message: Any, info: Any, state: list[Any]) -> list[Any]:
        seen[:] = handler(out, message, info, state)
        return seen[:]

    begin(tmp_path, ("handler", (last, [])))
    ttb.p(inviso.self(), "call")
    ttb.tpl(MODULE, "work", [])
    assert ttb.write_trace_info("release", "1.4") is None
    assert ttb.write_trace_info("release", lambda: ("again", 2)) is None
    work(1)
    out = tmp_path / "out.txt"
    ttb.stop([("fetch_dir", str(tmp_path / "fetched")), ("format", [("out", str(out))])])
    assert out.read_text() == "work\n"
    assert seen == [(NODE, ["MainThread"], ["1.4", ("again", 2)], None)]


def test_without_names(tmp_path: Path) -> None:
    seen: list[Any] = []
    begin(
        tmp_path,
        ("process_info", False),
        ("handler", (lambda out, message, info, state: seen.append(info["names"]), None)),
    )
    ttb.p(inviso.self(), "call")
    ttb.tpl(MODULE, "work", [])
    work(1)
    ttb.stop([("fetch_dir", str(tmp_path / "fetched")), "format"])
    assert seen == [[]]


def test_a_timer_stops_it(tmp_path: Path) -> None:
    folder = tmp_path / "fetched"
    begin(tmp_path, ("timer", (1, [("fetch_dir", str(folder))])))
    until(lambda: ttb.p("all", "call") == ("error", "not_tracing"))
    until(lambda: len(list(folder.glob("*"))) == 2)


def test_start_trace(tmp_path: Path) -> None:
    opts = [("file", str(tmp_path / "ttb"))]
    assert ttb.start_trace(None, [(MODULE, "work", []), (MODULE, "other", 0, [])], ("all", "call"), opts) == (
        "ok",
        [NODE],
    )
    work(1), other()
    ttb.stop([("fetch_dir", str(tmp_path / "fetched"))])
    assert [message[3][1] for message in fetched(tmp_path)] == ["work", "other"]


def test_sequential_tracing_by_a_trigger(tmp_path: Path) -> None:
    begin(tmp_path)
    ttb.p(inviso.self(), "call")
    spec = ttb.seq_trigger_ms(["send", "print"])
    assert spec == [("_", [], [("set_seq_token", "send", True), ("set_seq_token", "print", True)])]
    ttb.tpl(MODULE, "work", spec)
    work(1)
    inviso.seq_trace.print("paid")
    inviso.seq_trace.set_token([])
    ttb.stop([("fetch_dir", str(tmp_path / "fetched"))])
    assert [message[0] for message in fetched(tmp_path)] == ["trace_ts", "seq_trace"]
    assert not inviso.seq_trace.get_system_tracer()


def test_history_and_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(ttb.list_history())
    begin(tmp_path)
    ttb.p("all", "call")
    ttb.tpl(MODULE, "work", [])
    ttb.p(inviso.self(), "clear")
    calls = ttb.list_history()[before:]
    assert [call[1] for call in calls] == ["tracer", "p", "tpl", "p"]
    assert [call[0] for call in calls] == list(range(before + 1, before + 5))
    file = str(tmp_path / "config")
    assert ttb.write_config(file, [before + 2, before + 3]) is None
    assert ttb.list_config(file) == [(1, "p", ("all", "call")), (2, "tpl", (MODULE, "work", []))]
    assert ttb.write_config(file, [("ttb", "ctp", [MODULE])], ["append"]) is None
    assert [call[1] for call in ttb.list_config(file)] == ["p", "tpl", "ctp"]
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert ttb.write_config(file, [before + 99]) == ("error", "not_found")
    assert ttb.write_config(str(tmp_path / "pid"), [before + 4])[1][0] == "not_literal"
    capsys.readouterr()
    assert ttb.run_config(file, [2, 3]) is None
    printed = capsys.readouterr().out
    assert f"ttb.tpl('{MODULE}', 'work', []) ->\n('ok', [('matched', '{NODE}', 1)])" in printed
    assert "ttb.ctp(" in printed and "ttb.p(" not in printed
    assert ttb.run_history(before + 3) is None
    assert "ttb.tpl(" in capsys.readouterr().out
    assert ttb.run_config(file, [4]) == ("error", "not_found")


@pytest.mark.parametrize(
    "text", ["('ttb', 'eval', ['1'])", "__import__('os')", "('os', 'system', ['true'])", "(", "('ttb', 'p')"]
)
def test_a_configuration_runs_nothing_else(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text + "\n")
    for answer in (ttb.list_config(str(file)), ttb.run_config(str(file))):
        assert answer[:1] + answer[1][:1] == ("error", "bad_config")


NODES = f"""
import os, socket, subprocess, sys
import inviso
from inviso import ttb

folder, host = sys.argv[1], socket.gethostname()
os.environ["INVISO_DIR"] = os.path.join(folder, "sockets")
program = "import sys; sys.path.append({str(SUBJECTS)!r}); import meta_node; meta_node.main()"
nodes = {{}}
for name in ("shop-1", "shop-2"):
    words = [sys.executable, "-c", program, name, os.path.join(folder, name)]
    nodes[name] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert nodes[name].stdout.readline() == "ready\\n"

def do(name, *words):
    print(*words, file=nodes[name].stdin, flush=True)
    assert nodes[name].stdout.readline() == "done\\n"

print(ttb.tracer(["nobody"]))
print(ttb.tracer(["shop-*", "nobody"]))
print(ttb.p("all", "call")[1][0][1][0][:2])
print(ttb.tpl("meta_node", "assoc_id", []))
ttb.write_trace_info("release", "1.4")
for n in range(2):
    for name in ("shop-1", "shop-2"):
        do(name, "register", f"clerk-{{n}}") if not n else None
        do(name, "assoc", f"order-{{n}}")
def handler(out, message, info, state):
    print(info["node"], info["names"][-1], message[3][2][1], info["release"])
    return state
ttb.stop([("fetch_dir", os.path.join(folder, "all")), ("format", [("handler", (handler, None))])])
print(sorted(os.listdir(os.path.join(folder, "all"))))
print([os.listdir(os.path.join(folder, name)) for name in nodes])
for each in nodes.values():
    each.stdin.close()
    assert each.wait(30) == 0
    each.stdout.close()
"""


def test_two_nodes(tmp_path: Path) -> None:
    from trace_tools import child

    done = child(NODES, str(tmp_path), limit=LIMIT)
    host = os.uname().nodename
    nobody, one, two = (f"{name}@{host}" for name in ("nobody", "shop-1", "shop-2"))
    assert done.stderr == f"*** {nobody} is not traced: nodedown.\n"
    folder = tmp_path / "all"
    assert done.stdout.splitlines() == [
        str(("error", [(nobody, "nodedown")])),
        str(("ok", [one, two])),
        str(("matched", one)),
        str(("ok", [("matched", one, 1), ("matched", two, 1)])),
        f"Stored logs in {folder}",
        *(f"{node} clerk-0 order-{n} ['1.4']" for n in range(2) for node in (one, two)),
        str(sorted(f"{node}-ttb{end}" for node in (one, two) for end in ("", ".ti"))),
        "[[], []]",
    ]
    assert done.returncode == 0


def test_importing_inviso_does_not_load_it() -> None:
    assert good("import inviso, sys; print('inviso.ttb' in sys.modules)") == "False\n"
