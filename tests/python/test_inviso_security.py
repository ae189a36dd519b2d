"""Rights to trace a process, and names that a control may use: files, functions, nodes. Refusals give their reasons."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inviso._link._folder import Folder
from inviso._link._peer import may_serve
from inviso.control._control import Control
from inviso_tools import HOST, Child, Failed, Peer, Place
from waiting import until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def control(place: Place) -> Iterator[Control]:
    made = Control(name=f"tests@{HOST}")
    yield made
    made.close()


# the folder of sockets


def test_the_folder_is_private(place: Place) -> None:
    node = place.node()
    for path in (place.sockets, place.sockets / "names"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((place.sockets / f"{node.pid}.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o701, 0o777])
def test_a_folder_that_others_may_enter(place: Place, control: Control, mode: int) -> None:
    place.sockets.mkdir()
    place.sockets.chmod(mode)
    refused(place, control, "others may enter it, or it is another user's; chmod 700 it, or set INVISO_DIR")


def test_a_link_in_place_of_the_folder(place: Place, control: Control) -> None:
    (place.path / "real").mkdir(mode=0o700)
    place.sockets.symlink_to(place.path / "real")
    refused(place, control, "it is no folder; remove it, or set INVISO_DIR")
    assert os.listdir(place.path / "real") == []


def test_a_file_in_place_of_the_folder(place: Place, control: Control) -> None:
    place.sockets.write_text("mine")
    refused(place, control, "it is no folder; remove it, or set INVISO_DIR")
    assert place.sockets.read_text() == "mine"


@as_root
def test_the_folder_of_another_user(place: Place) -> None:
    """Only root may use it, and only with root as control."""
    place.sockets.mkdir(mode=0o700)
    os.chown(place.sockets, NOBODY, NOBODY)
    child = place.child("from inviso import runtime")
    with pytest.raises(Failed, match="it is another user's"):
        child.ask("runtime.listen('n')")
    with pytest.raises(PermissionError, match="it is another user's"):
        Folder.open()
    with Folder.open(is_control=True) as folder:
        assert (folder.owner, folder.names(), folder.pids()) == (NOBODY, {}, [])
    assert (place.sockets / "names").stat().st_uid == NOBODY


def refused(place: Place, control: Control, why: str) -> None:
    child = place.child("from inviso import runtime")
    with pytest.raises(Failed) as caught:
        child.ask("runtime.listen('n')")
    assert why in str(caught.value) and "PermissionError" in str(caught.value)
    assert child.ask("runtime.listening()") is None
    assert child.ask("threading.active_count()") == 1
    assert control.add([f"n@{HOST}"], "t", {}) == [(f"n@{HOST}", ("error", ("noconnection", why)))]
    with pytest.raises(PermissionError, match=why.split(";")[0]):
        control.find()


# other users


def test_who_may_be_served() -> None:
    assert may_serve(os.geteuid()) and may_serve(0) and not may_serve(os.geteuid() + 1)


AS_NOBODY = f"""
import inviso, socket
from inviso import cluster, control, runtime, trace, tracing, seq_trace, tprof, etf
from inviso.control._control import Control
from inviso._link import _folder
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""


@as_root
def test_a_peer_of_another_user_is_refused(place: Place) -> None:
    """By its socket's mode, and by the credentials from the kernel."""
    node = place.node()
    other = place.child(AS_NOBODY, name="other")
    path = str(place.sockets / f"{node.pid}.sock")
    with pytest.raises(Failed, match="PermissionError"):
        other.ask(f"socket.socket(socket.AF_UNIX).connect({path!r})")
    # a folder and a socket that are open to others
    for folder in [place.sockets, *place.sockets.parents][:-1]:
        if stat.S_IMODE(folder.stat().st_mode) & 0o001 == 0 and str(folder).startswith(tempfile.gettempdir() + os.sep):
            folder.chmod(folder.stat().st_mode | 0o011)
    os.chmod(path, 0o666)
    other.ask(f"made = socket.socket(socket.AF_UNIX); made.connect({path!r})")
    assert other.ask("etf.loads(made.recv(4096)[4:])") == ("refused", "this process is another user's")
    assert other.ask("made.recv(4096)") == b""
    with Peer(place.sockets, node.pid) as peer:
        assert peer.call("about")["pid"] == node.pid


@pytest.fixture
def of_nobody(place: Place) -> Iterator[tuple[Child, Path]]:
    """A listener of another user's, and the folder of its sockets."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o700)
    os.chown(folder, NOBODY, NOBODY)
    made = place.child(AS_NOBODY, name="nobody", INVISO_DIR=str(folder))
    made.ask(f"listener = runtime.listen('theirs', log_dir={str(folder)!r})")
    yield made, folder
    shutil.rmtree(folder)


@as_root
def test_root_may_be_control(place: Place, of_nobody: tuple[Child, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    child, folder = of_nobody
    monkeypatch.setenv("INVISO_DIR", str(folder))
    made = Control(name=f"root@{HOST}")
    try:
        assert made.add([f"theirs@{HOST}"], "mine", {}) == [(f"theirs@{HOST}", ("ok", "new"))]
        assert made.call(None, "get_status") == [(f"theirs@{HOST}", ("ok", ("new", "running")))]
    finally:
        made.close()
    assert {path.stat().st_uid for path in folder.iterdir()} == {NOBODY}
    assert child.ask("os.listdir(os.environ['INVISO_DIR'])") != []


@as_root
def test_a_listener_of_another_user_gets_no_request(place: Place, control: Control) -> None:
    """A stranger's socket in the folder is not a node: each side checks the credentials of the other."""
    place.node()  # makes the folder
    false = place.child(
        "import socket\nmade = socket.socket(socket.AF_UNIX)\nmade.bind('false.sock')\n"
        f"os.setuid({NOBODY})\nmade.listen(8)\n"
    )
    false.ask("1")
    os.rename(place.path / "false.sock", place.sockets / f"{false.pid}.sock")
    (place.sockets / "names" / f"false@{HOST}").symlink_to(f"{false.pid}.sock")
    ((_, answer),) = control.add([f"false@{HOST}"], "t", {})
    assert answer == ("error", ("noconnection", "the process that listens there is another user's"))


# files


@pytest.mark.parametrize(
    "name",
    [
        "/etc/x",
        "../x",
        "a/../../x",
        "a/b/../../../x",
        "..",
        ".",
        "",
        "/",
        "a\0b",
        "out/x",
        "out/deep/er/x",
        "linked",
        "\0",
    ],
)
def test_files_outside_the_folder_of_logs(place: Place, control: Control, name: str) -> None:
    node = place.node()
    outside, logs = place.path / "outside", place.path / "logs"
    outside.mkdir()
    logs.mkdir()
    (logs / "out").symlink_to(outside)
    (outside / "file").write_text("theirs")
    (logs / "linked").symlink_to(outside / "file")
    before = sorted(place.path.rglob("*"))
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    for data in (("file", name), ("file", (name, "wrap", ".log", 1000, 2)), [("trace", ("file", name))]):
        ((_, answer),) = control.call(None, "init_tracing", data)
        assert answer == ("error", ("not_allowed", name)), data
    for spec in ([name], [("trace_log", "", [name])], ("file", name), [("trace", ("file", name))]):
        assert control.call(None, "delete_log", spec) == [(node.node, ("error", ("not_allowed", name)))], spec
    assert sorted(place.path.rglob("*")) == before
    assert (outside / "file").read_text() == "theirs"
    assert control.call(None, "get_status") == [(node.node, ("ok", ("new", "running")))]


@pytest.mark.parametrize("suffix", ["/../../x", "/x", "a/b", "\0"])
def test_the_end_of_a_wrap_sets_names_leads_nowhere(place: Place, control: Control, suffix: str) -> None:
    node = place.node()
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    answer = control.call(None, "init_tracing", ("file", ("a", "wrap", suffix, 1000, 2)))
    assert answer == [(node.node, ("error", ("not_allowed", suffix)))]


def test_files_in_the_folder_of_logs(place: Place, control: Control) -> None:
    node = place.node()
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    for name in ("a", "b/c", str(place.path / "logs" / "d"), "e/../f"):
        assert control.call(None, "init_tracing", ("file", name)) == [(node.node, ("ok", [("trace_log", "ok")]))]
        control.call(None, "stop_tracing")
    found = sorted(
        str(path.relative_to(place.path / "logs")) for path in (place.path / "logs").rglob("*") if path.is_file()
    )
    assert found == ["a", "b/c", "d", "f"]
    assert all(
        stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (place.path / "logs").rglob("*") if path.is_file()
    )


def test_only_logs_that_were_written_here_are_deleted(place: Place, control: Control) -> None:
    node = place.node()
    (place.path / "logs").mkdir()
    for name in ("theirs", "w.x.log", "w.1.txt", "w.0.log.old"):
        (place.path / "logs" / name).write_text("theirs")
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")

    def delete(*spec: Any) -> Any:
        return control.call(None, "delete_log", *spec)[0][1]

    for data in (("file", "a"), ("file", "b"), ("file", ("w.", "wrap", ".log", 1000, 2))):
        control.call(None, "init_tracing", data)
        control.call(None, "stop_tracing")
    assert delete(["theirs", "a"]) == ("ok", [("ok", "a"), ("error", ("not_allowed", "theirs"))])
    assert delete([("trace_log", ".", ["theirs", "w.x.log", "w.1.txt"])]) == (
        "ok", [("trace_log", [("error", ("not_allowed", name)) for name in ("w.1.txt", "w.x.log", "theirs")])],
    )  # fmt: skip
    assert delete(("file", "theirs")) == ("ok", [("trace_log", [("error", ("not_allowed", "theirs"))])])
    assert delete(["a"]) == ("ok", [("error", ("enoent", "a"))])
    assert delete() == ("ok", [("trace_log", [("ok", "w.0.log")])])
    # a later component has the list of files that this process has written
    control.remove(None, ends=True)
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    assert delete(["b", "theirs"]) == ("ok", [("error", ("not_allowed", "theirs")), ("ok", "b")])
    assert sorted(os.listdir(place.path / "logs")) == ["theirs", "w.0.log.old", "w.1.txt", "w.x.log"]


# functions

MODULES = {
    "mine.py": (
        "import os\nfrom os import getcwd\ndef f(message, data): return data\nnumber = 7\nclass Thing: pass\n"
        "def made(): ...\nmade.__module__ = 'os'\n"
    ),
    "mine_too.py": "def f(message, data): return data\n",
    "pack/__init__.py": "",
    "pack/inner.py": "def f(message, data): return data\n",
    "packed.py": "def f(message, data): return data\n",
    "breaks.py": "raise RuntimeError('at import')\n",
}

NAMED: dict[tuple[Any, ...], Any] = {
    ("mine", "f"): "ok",
    ("pack.inner", "f"): "ok",
    ("os", "system"): "not_allowed",
    ("builtins", "exec"): "not_allowed",
    ("mine_too", "f"): "not_allowed",
    ("packed", "f"): "not_allowed",
    ("min", "f"): "not_allowed",
    ("", "f"): "not_allowed",
    ("mine", "os.system"): "not_allowed",
    ("mine", ""): "not_allowed",
    ("mine.os", "system"): "bad_function",
    ("mine", "getcwd"): "not_allowed",
    ("mine", "made"): "not_allowed",
    ("mine", "number"): "bad_function",
    ("mine", "__builtins__"): "bad_function",
    ("mine", "nothing"): "bad_function",
    ("pack.nothing", "f"): "bad_function",
    ("pack..inner", "f"): "bad_function",
    ("breaks", "f"): "bad_function",
    ("inviso.control", "start"): "not_allowed",
    ("inviso.trace", "session_create"): "not_allowed",
    ("_main_", "f"): "not_allowed",
}


def test_functions_that_a_control_may_name(place: Place, control: Control) -> None:
    for name, text in MODULES.items():
        path = place.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    node = place.node(before="import sys; sys.path.insert(0, '')\n", allow=("mine", "pack", "breaks"))
    assert control.add([node.node], "mine", {})[0][1] == ("ok", "new")
    for named, expected in NAMED.items():
        ((_, answer),) = control.call(None, "init_tracing", (named, 0))
        if expected == "ok":
            assert answer == ("ok", [("trace_log", "ok")]), named
            control.call(None, "stop_tracing")
        else:
            assert answer == ("error", (expected, named)), named
    # of a check of overload, too: it is never called, and switched off
    assert control.call(None, "change_options", {"overload": (("os", "getpid"), 10)}) == [(node.node, "ok")]
    assert control.call(None, "init_tracing", ("file", "a"))[0][1][0] == "ok"
    until(lambda: control.call(None, "info")[0][1][1]["overload_check_failed"])


# names of nodes


def test_a_name_that_is_taken(place: Place, control: Control) -> None:
    first = place.node("same")
    second = place.node("same")
    assert first.node == f"same@{HOST}"
    assert second.node == f"same-{second.pid}@{HOST}"
    assert first.stderr() == ""
    assert second.stderr().splitlines() == [
        f"inviso: a process has the name same@{HOST} already; this one is {second.node}"
    ]
    assert [each.node for each in control.find()] == sorted([first.node, second.node])
    first.kill()
    first.wait()
    assert place.node("same").node == f"same@{HOST}"


def test_many_that_want_one_name_at_once(place: Place, control: Control) -> None:
    """One gets the name, and each can be reached by the name that it got."""
    children = [place.child("from inviso import runtime", name=f"c{n}") for n in range(8)]
    for child in children:
        child.ask("1")
    for child in children:
        child.tell("runtime.listen('same').node")
    names = [child.answer() for child in children]
    assert len(set(names)) == 8
    assert names.count(f"same@{HOST}") == 1
    assert sorted((each.node, each.pid) for each in control.find()) == sorted(
        (name, child.pid) for name, child in zip(names, children, strict=True)
    )


@pytest.mark.parametrize("name", ["a b", "a/b", "", "../x", "a" * 65, "a@b/c", "a@..\0", "é", "a@b c"])
def test_invalid_names(place: Place, name: str) -> None:
    child = place.child("from inviso import runtime")
    with pytest.raises(Failed, match="BadArg: runtime.listen, node"):
        child.ask(f"runtime.listen({name!r})")
    assert not place.sockets.exists() or os.listdir(place.sockets) == []


def test_a_socket_of_an_earlier_process_of_this_number(place: Place) -> None:
    child = place.child("from inviso import runtime")
    place.sockets.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(place.sockets / f"{child.pid}.sock"))
    child.ask("runtime.listen('n')")
    with Peer(place.sockets, child.pid) as peer:
        assert peer.call("about")["pid"] == child.pid


@pytest.mark.parametrize("name", ["", "../lock", "/etc/passwd", "a\0b", "x" * 5000, "\udc80", "names", "é"])
def test_names_of_nodes_lead_nowhere(place: Place, control: Control, name: str) -> None:
    node = place.node()
    assert control.add([name, node.node], "t", {}) == [(name, ("error", "nodedown")), (node.node, ("ok", "new"))]
