"""Effects of arbitrary bytes from a peer on a listener: used by its tests and by fuzz/python/fuzz_frames.py."""

from __future__ import annotations

import socket
import time
from typing import Any

from inviso import runtime
from inviso._link._folder import Folder
from inviso._link._frame import Frames, greeting, pack
from inviso.terms import Atom

LIMIT = 20.0
"""Seconds that a listener may take for everything that a peer has sent."""

SPEC = [("_", [], [("return_trace",)])]
INIT, MAKES = ("inviso.meta", "init_std_publld"), ("inviso.meta", "clean_std_publld")
CALLS: list[tuple[str, list[Any]]] = [
    ("add", ["tag", [("dependency", 0), ("overload", 5000), ("protect", {"lost": 5}), ("limits", {"ms": 5})], False]),
    ("init_tracing", [(Atom("file"), "a.log")]),
    ("init_tracing", [[(Atom("trace"), (Atom("file"), ("a", Atom("wrap"), ".b", 1000, 3))),
    (Atom("ti"), (Atom("file"), "a.ti"))]]),
    ("init_tracing", [[("trace", ("ip", (0, 5))), ("ti", ("file", "b.ti", ((*INIT, [1]), MAKES, MAKES)))]]),
    ("init_tracing", [("inviso.runtime", "stop_tracing")]),
    ("init_tracing", [("relayer", "other@here")]),
    ("tp", [[(("re", "textwr.*"), "dedent", "_", SPEC), (("re", "lib", "textwr.*"), "dedent", "_", SPEC)]]),
    ("tpl", [[("textwrap", "dedent", "_", SPEC)]]),
    ("ctp", [[("textwrap", "dedent", "_")]]),
    ("ctpl", [[("textwrap", "dedent", 1)]]),
    ("tf", [[("all", ["call", "timestamp"]), ("new", ["send"]), (("local", "name"), ["call"])]]),
    ("ctf", [[("all", ["call"]), ("new", ["send"])]]),
    ("suspend", [("a", 1)]),
    *((name, []) for name in ("about", "get_status", "cancel_suspension", "flush", "get_tracerdata", "info", "counts")),
    ("sample", ["<0.1.0>"]),
    ("trace_tokens", [True]),
    ("change_options", [{"dependency": "infinity"}]),
    ("change_options", [[("dependency", (1, "other@here")), ("overload", (INIT, 1, (*INIT, []), (*INIT, []))),
    ("limits", {"ms": 50000, "rate": (1, 2)}), ("resume_after", 5)]]),
    ("init_tpm", ["textwrap", "dedent", 1, MAKES, MAKES, MAKES, MAKES]),
    ("tpm", ["textwrap", "dedent", 1, SPEC, ("inviso.meta", "x")]),
    ("tpm_tracer", ["textwrap", "dedent", 1, SPEC]),
    ("tpm_ms", ["textwrap", "dedent", 1, "name", SPEC]),
    ("tpm_ms_tracer", ["textwrap", "dedent", 1, "name", SPEC]),
    ("ctpm_ms", ["textwrap", "dedent", 1, "name"]),
    ("ctpm", ["textwrap", "dedent", 1]),
    ("write_ti", [b"x"]),
    *((name, []) for name in ("tpm_localnames", "ctpm_localnames", "tpm_globalnames", "meta_status")),
    *((name, []) for name in ("ctp_all", "ctf_all", "stop_tracing", "list_logs", "log_paths")),
    ("clear", [["keep_log_files"]]),
    ("list_logs", [[(Atom("trace_log"), ".", ["a.log"])]]),
    ("log_paths", [[(Atom("trace_log"), ".", ["a.log"])]]),
    ("log_paths", [("file", "folder/a.log")]),
    ("delete_log", [["a.log"]]),
    ("delete_log", [[(Atom("trace_log"), ".", ["a.log"])]]),
    ("count", ["call_count", [("textwrap", "_", "_"), ["textwrap", "dedent", 1]]]),
    ("count_live", ["call_count", ["textwrap:dedent:_"], True]),
    *((name, []) for name in ("let_go", "stop_node", "detach")),
]  # fmt: skip


def seeds() -> list[bytes]:
    """Bytes that peers send: each call by itself, and rounds of several."""
    frames = [pack((Atom("call"), number, name, arguments)) for number, (name, arguments) in enumerate(CALLS)]
    hello = greeting(node="peer@here", pid=1)
    added = hello + frames[0]
    return [
        added + b"".join(frames[1:]),
        hello,
        frames[0],
        *(added + frame for frame in [*frames, pack((Atom("relay"), 1))]),
    ]


def check_frames(data: bytes) -> None:
    """The listener answers with frames only, leaves a peer that has ended, and serves the next one as before."""
    listener = runtime.listen("fuzzed")
    try:
        about, *answers = _answers(data)
        assert about[0] == "inviso" and about[2]["node"] == listener.node, about
        assert "crashed" not in repr(answers), answers
        _, answer = _answers(greeting(node="peer@here", pid=1) + pack((Atom("call"), 7, "about", [])))[:2]
        assert answer[:2] == ("answer", 7) and answer[2]["node"] == listener.node, answer
    except (FileNotFoundError, ConnectionRefusedError):
        assert not listener.is_open  # it was told to detach
    finally:
        runtime.stop_listening()


def _answers(data: bytes) -> list[Any]:
    """The terms that come back, until the listener leaves."""
    import os

    frames, found, until = Frames(), [], time.monotonic() + LIMIT
    with Folder.open() as folder, folder.connect(os.getpid()) as made:
        made.settimeout(LIMIT)
        try:
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass  # it was disconnected before it had sent everything
        try:
            while piece := made.recv(1 << 16):
                found += frames.feed(piece)
                assert time.monotonic() < until, "the listener does not leave"
        except ConnectionResetError:
            pass
    return found
