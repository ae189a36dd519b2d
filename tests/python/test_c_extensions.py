"""A C extension that makes frames and functions while its own exception is set, as Cython does, under each tool."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

C = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

static PyObject *globals;

/* A line of its own in the traceback: a code object and a frame, with the exception set. */
static void add_frame(const char *name, int line)
{
    PyCodeObject *code = PyCode_NewEmpty("own.c", name, line);
    PyFrameObject *frame = code ? PyFrame_New(PyThreadState_Get(), code, globals, NULL) : NULL;
    if (frame != NULL) {
        PyTraceBack_Here(frame);
    }
    Py_XDECREF(frame);
    Py_XDECREF(code);
}

static PyObject *frames(PyObject *self, PyObject *count)
{
    long n = PyLong_AsLong(count);
    PyErr_SetString(PyExc_ValueError, "from C");
    for (long i = 0; i < n; i++) {
        add_frame("frames", 10 + (int)i);
    }
    return NULL;
}

/* Functions: of a code object that is given, twice, and one more that lives on in a dict. */
static PyObject *functions(PyObject *self, PyObject *arguments)
{
    PyObject *code, *kept;
    if (!PyArg_ParseTuple(arguments, "OO", &code, &kept)) {
        return NULL;
    }
    PyErr_SetString(PyExc_LookupError, "functions from C");
    PyObject *exception[3];
    for (int i = 0; i < 2; i++) {
        PyObject *function = PyFunction_New(code, globals);
        if (i == 1 && function != NULL) {
            PyErr_Fetch(&exception[0], &exception[1], &exception[2]);
            PyDict_SetItemString(kept, "made", function);
            PyErr_Restore(exception[0], exception[1], exception[2]);
        }
        Py_XDECREF(function);
    }
    add_frame("functions", 20);
    return NULL;
}

/* What an object's end runs, with the exception set: a weak reference's callback and a finaliser in Python. */
static PyObject *ends(PyObject *self, PyObject *made)
{
    PyErr_SetString(PyExc_KeyError, "ends from C");
    PyObject *exception[3];
    PyErr_Fetch(&exception[0], &exception[1], &exception[2]);
    PyObject *object = PyObject_CallNoArgs(made);
    PyErr_Restore(exception[0], exception[1], exception[2]);
    Py_XDECREF(object);
    return NULL;
}

/* Containers enough for a collection of garbage, with the exception set. */
static PyObject *collects(PyObject *self, PyObject *nothing)
{
    PyErr_SetString(PyExc_OSError, "collected in C");
    PyObject *exception[3];
    for (int i = 0; i < 3000; i++) {
        PyObject *list = PyList_New(1), *dict = PyDict_New();
        if (list != NULL && dict != NULL) {
            Py_INCREF(list);
            PyList_SET_ITEM(list, 0, list);
            PyErr_Fetch(&exception[0], &exception[1], &exception[2]);
            PyErr_Restore(exception[0], exception[1], exception[2]);
        }
        Py_XDECREF(dict);
        Py_XDECREF(list);
    }
    return NULL;
}

/* Calls a function that fails, makes frames and functions in the midst of that, and lets the exception through. */
static PyObject *through(PyObject *self, PyObject *called)
{
    PyObject *result = PyObject_CallNoArgs(called);
    if (result == NULL) {
        add_frame("through", 30);
        add_frame("through", 31);
    }
    return result;
}

static PyMethodDef methods[] = {
    {"frames", frames, METH_O, NULL},
    {"functions", functions, METH_VARARGS, NULL},
    {"ends", ends, METH_O, NULL},
    {"collects", collects, METH_NOARGS, NULL},
    {"through", through, METH_O, NULL},
    {NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "own", NULL, -1, methods};

PyMODINIT_FUNC PyInit_own(void)
{
    globals = PyDict_New();
    if (globals != NULL) {
        PyDict_SetItemString(globals, "__name__", PyUnicode_FromString("own"));
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    }
    return PyModule_Create(&module);
}
"""

PROGRAM = """
import gc, sys, threading, weakref
import own

ended = []

class Made:
    def __init__(self):
        weakref.finalize(self, ended.append, "finalised").atexit = False
    def __del__(self):
        ended.append("deleted")

def body(value=1):
    return value + 1

def fails():
    return {}["in Python"]

def caught(call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        names, where = [], error.__traceback__.tb_next
        while where is not None:
            names.append(f"{where.tb_frame.f_code.co_name}:{where.tb_lineno}")
            where = where.tb_next
        return f"{error!r} context {error.__context__!r} {names}"
    return "nothing was raised"

def step(n):
    kept = {}
    lines = [
        caught(own.frames, 0), caught(own.frames, n), caught(own.functions, body.__code__, kept),
        kept["made"].__code__ is body.__code__, caught(own.ends, Made), caught(own.collects),
        caught(own.through, fails),
    ]
    return "\\n".join(map(str, lines))

def work(told):
    told += [step(n) for n in range(1, 4)]

def main():
    print(step(3))
    told = [[], []]
    threads = [threading.Thread(target=work, args=(each,)) for each in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told[0] == told[1]
    print(*told[0], sep="\\n")
    try:
        raise RuntimeError("handled")
    except RuntimeError:
        print(caught(own.frames, 2))
    gc.collect()
    print(ended.count("deleted"), ended.count("finalised"), flush=True)
    own.through(lambda: own.frames(2))

main()
"""

SESSION = """
from inviso import seq_trace, trace
session = trace.session_create("own")
{}
"""
SESSIONS = {
    "on_load": 'session.function("on_load", True, ["local"])',
    "counters": """
for functions in (("_", "_", "_"), "on_load"):
    session.function(functions, True, ["call_count", "call_time", "call_memory", "call_latency"])
session.process("all", True, ["call"])""",
    "messages": """
for functions in (("_", "_", "_"), "on_load"):
    session.function(functions, [("_", [], [("return_trace",), ("exception_trace",)])], ["local"])
session.process("all", True, ["call", "return_to", "set_on_spawn"])""",
    "flags": """
session.process("all", True, ["all", "cpu_timestamp"])
session.port("all", True, ["all"])
session.function("on_load", True, ["call_count"])""",
    "a pattern of another module": 'session.function(("json.decoder", "_", "_"), True, ["call_count"])',
    "a token": 'seq_trace.set_token("label", 1), seq_trace.set_token("send", True)',
}
COMMANDS = {
    **{f"tprof {kind}": ["tprof", "-t", kind] for kind in ("call_count", "call_time", "call_memory")},
    "tprof per process": ["tprof", "-t", "call_time", "--per-process"],
    "tprof of one module": ["tprof", "-p", "json"],
    "tprof of one function": ["tprof", "-p", "__main__:step"],
    "trace": ["trace", "-p", "_", "--limit", "1000000"],
    "trace exceptions": ["trace", "-p", "_", "--limit", "1000000", "--exceptions", "--caller"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extension and a program that uses it."""
    made = tmp_path_factory.mktemp("own")
    (made / "own.c").write_text(C)
    include = sysconfig.get_path("include")
    words = ["cc", "-shared", "-fPIC", "-w", f"-I{include}", "-o", str(made / "own.so"), str(made / "own.c")]
    subprocess.run(words, check=True, timeout=120)
    (made / "program.py").write_text(PROGRAM)
    return made


def ended(folder: Path, *words: str) -> tuple[int, str, str]:
    run = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[int, str, str]:
    """How the program ends untraced."""
    told = ended(folder, "program.py")
    assert told[0] == 1 and "ValueError('from C') context RuntimeError('handled') ['frames:11', 'frames:10']" in told[1]
    assert told[2].endswith("ValueError: from C\n"), told
    return told


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_leaves_an_exception_of_c_as_it_is(folder: Path, plain: tuple[int, str, str], name: str) -> None:
    report = folder / "report.txt"
    assert ended(folder, "-m", "inviso", *COMMANDS[name], "-o", str(report), "program.py") == plain
    assert "__main__:step" in report.read_text() or name == "tprof of one module"


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_leaves_an_exception_of_c_as_it_is(folder: Path, plain: tuple[int, str, str], name: str) -> None:
    (folder / "begin.py").write_text(SESSION.format(SESSIONS[name]))
    code = "import sys; sys.path.insert(0, '.'); import begin, runpy; runpy.run_path('program.py', run_name='__main__')"
    status, out, err = ended(folder, "-c", code)
    assert (status, out) == plain[:2], err
    assert err.endswith("ValueError: from C\n")
