"""Another tool that evaluates frames (PEP 523) works beside this package, in either order."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import textwrap

import pytest
from inviso import trace

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

pytestmark = [
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="later versions are traced through sys.monitoring"),
    pytest.mark.skipif(CC is None, reason="the other tool is written in C, and there is no compiler here"),
]

# Without Python's headers: frames and threads are passed on as they come.
TOOL = """
    extern void *_PyEval_EvalFrameDefault(void *, void *, int);
    extern void *PyInterpreterState_Get(void);
    extern void *_PyInterpreterState_GetEvalFrameFunc(void *);
    extern void _PyInterpreterState_SetEvalFrameFunc(void *, void *);
    typedef void *(*evaluator)(void *, void *, int);

    static evaluator before;
    long frames, polite = 1;

    static void *evaluate(void *thread, void *frame, int throws) {
        frames++;
        return (polite ? before : _PyEval_EvalFrameDefault)(thread, frame, throws);
    }
    void begin(void) {
        before = (evaluator)_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
    }
    int is_on_top(void) {
        return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate;
    }
    void end(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), before); }
"""


class Tool:
    def __init__(self, library: ctypes.PyDLL) -> None:
        self.library = library
        self._frames = ctypes.c_long.in_dll(library, "frames")
        self._polite = ctypes.c_long.in_dll(library, "polite")

    def seen(self, calls: int) -> int:
        """The number of frames that it sees during this many calls of `subject`."""
        before = self._frames.value
        for _ in range(calls):
            subject()
        return self._frames.value - before

    def be(self, *, polite: bool) -> None:
        self._polite.value = polite


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.PyDLL:
    place = tmp_path_factory.mktemp("tool")
    source, built = place / "tool.c", place / "tool.so"
    source.write_text(textwrap.dedent(TOOL))
    subprocess.run([str(CC), "-shared", "-fPIC", "-O1", "-o", str(built), str(source)], check=True)
    return ctypes.PyDLL(str(built))


@pytest.fixture
def tool(library: ctypes.PyDLL) -> Tool:
    tool = Tool(library)
    tool.be(polite=True)
    return tool


def subject() -> None:
    pass


MFA = (__name__, "subject", 0)


def counted(session: trace.Session, calls: int = 10) -> int:
    """The number of counted calls out of this many."""
    session.function(MFA, True, ["call_count"])
    for _ in range(calls):
        subject()
    value = session.info(MFA, "call_count")
    assert isinstance(value, tuple)
    return value[1]


def test_a_tool_that_was_there_first(tool: Tool) -> None:
    tool.library.begin()
    try:
        with trace.session_create("s", None, []) as session:
            assert counted(session) == 10
            assert tool.seen(10) >= 10
        assert tool.library.is_on_top()
        assert tool.seen(10) >= 10
    finally:
        tool.library.end()


def test_a_tool_that_comes_later_and_stays(tool: Tool) -> None:
    with trace.session_create("s", None, []) as session:
        assert counted(session) == 10
        tool.library.begin()
        assert counted(session) == 10
        assert tool.seen(10) >= 10
    try:
        assert tool.library.is_on_top()
        assert tool.seen(10) >= 10
        for _ in range(3):  # ours is still beneath: it must not be put in front of its caller
            with trace.session_create("s", None, []) as session:
                assert counted(session) == 10
                assert tool.seen(10) >= 10
        assert tool.library.is_on_top()
    finally:
        tool.library.end()
    with trace.session_create("s", None, []) as session:
        assert counted(session) == 10


def test_a_tool_that_goes_while_a_session_is_open(tool: Tool) -> None:
    with trace.session_create("s", None, []) as session:
        counted(session)
        tool.library.begin()
        assert counted(session) == 10
        tool.library.end()
        assert counted(session) == 10
    assert tool.seen(10) == 0


def test_a_tool_that_does_not_call_on(tool: Tool) -> None:
    with trace.session_create("s", None, []) as session:
        counted(session)
        tool.library.begin()
        tool.be(polite=False)
        assert counted(session) == 0  # the other tool hides it
    try:
        with trace.session_create("s", None, []) as session:
            assert counted(session) == 10  # in front of it
            assert tool.seen(10) >= 10
        assert tool.library.is_on_top()
    finally:
        tool.library.end()
    with trace.session_create("s", None, []) as session:
        assert counted(session) == 10
    assert tool.seen(10) == 0  # it was removed, and was not put back


def test_a_tool_that_calls_on_again(tool: Tool) -> None:
    with trace.session_create("s", None, []) as session:
        counted(session)
        tool.library.begin()
        tool.be(polite=False)
    try:
        with trace.session_create("s", None, []) as session:
            assert counted(session) == 10  # in front of it
        tool.be(polite=True)
        assert tool.seen(10) >= 10  # its successor does not call it
        with trace.session_create("s", None, []) as session:
            assert counted(session) == 10
    finally:
        tool.library.end()
    assert tool.seen(10) == 0
