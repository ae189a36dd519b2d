"""Programs whose folder has files named like standard modules, and the modules in ``sys.modules`` after a run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

COMMANDS = {
    "count": ["tprof"],
    "time": ["tprof", "-t", "call_time"],
    "memory": ["tprof", "-t", "call_memory"],
    "per process": ["tprof", "-t", "call_time", "--per-process"],
    "json": ["tprof", "-t", "call_time", "--json", "T.json"],
    "pattern": ["tprof", "-p", "__main__"],
    "trace": ["trace", "-p", "__main__"],
    "trace all": ["trace", "-p", "_", "--limit", "100000"],
    "trace log": ["trace", "-p", "__main__", "-o", "T.log"],
    "trace spec": ["trace", "-p", "__main__", "--ms", "lambda n: n > 1", "--return", "--time"],
    "no children": ["tprof", "--no-children"],
}
SHADOW = "print('the file of the program was run:', __name__)\n"
COMMAND = ["../bin/inviso"]
SCRIPT = "import sys\nfrom inviso.cli import main\nsys.exit(main())\n"
"""As the installed ``inviso``, whose own folder is first on the path."""
OLDER_SCRIPT = "import re\n" + SCRIPT
"""As pip has made it."""
PROGRAM = """
import sys
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
print(f(10), sorted(name for name, module in sys.modules.items() if "shadows" in str(getattr(module, "__file__", ""))))
"""


def run(folder: pathlib.Path, *words: str, **more: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def shadows(tmp_path: pathlib.Path) -> pathlib.Path:
    """A program among files named like each standard module that is not part of the interpreter itself."""
    folder = tmp_path / "shadows"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "inviso").write_text(SCRIPT)
    for name in sys.stdlib_module_names - {*sys.builtin_module_names, "__main__"}:
        (folder / f"{name}.py").write_text(SHADOW)
    (folder / "program.py").write_text(PROGRAM)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_of_the_program_is_taken_for_a_standard_module(shadows: pathlib.Path, command: str) -> None:
    plain = run(shadows, "program.py")
    assert plain[:2] == (0, "55 ['__main__']\n")
    words = COMMANDS[command]
    for program in (["program.py"], ["-m", "program"]):
        status, out, err = run(shadows, *COMMAND, *words, *program)
        assert (status, out) == plain[:2], err
        assert "the file of the program was run" not in err and "Traceback" not in err


IMPORTS = """
import sys
sys.stdout.write(sys.path[0][-7:] + chr(10))
for name in NAMES:
    module = __import__(name)
    print(name, module.__file__[-len(name) - 11:], __name__)
def f(): pass
f()
"""
OFTEN = [
    "copy",
    "typing",
    "dataclasses",
    "enum",
    "json",
    "queue",
    "opcode",
    "inspect",
    "select",
    "types",
    "functools",
    "signal",
]
OFTEN = [name for name in OFTEN if name not in sys.builtin_module_names]  # which no program has as its own


@pytest.mark.parametrize("command", COMMANDS)
def test_a_program_finds_its_own_modules(shadows: pathlib.Path, command: str) -> None:
    """Also where this package has imported the standard ones of these names."""
    (shadows / "imports.py").write_text(IMPORTS.replace("NAMES", repr([*OFTEN, "threading"])))
    for name in [*OFTEN, "threading"]:
        (shadows / f"{name}.py").write_text("def _shutdown(): pass\n")
    plain = run(shadows, "imports.py")
    assert plain[0] == 0, plain
    status, out, err = run(shadows, *COMMAND, *COMMANDS[command], "imports.py")
    assert (status, out) == plain[:2], err
    assert "Traceback" not in err


@pytest.mark.parametrize("script", [SCRIPT, OLDER_SCRIPT])
def test_what_was_there_before_the_command_stays(shadows: pathlib.Path, script: str) -> None:
    """A ``sitecustomize`` imports some. With the command the program finds these, and its own for all others."""
    (shadows / "imports.py").write_text(IMPORTS.replace("NAMES", repr(OFTEN)))
    for name in [*OFTEN, "re"]:
        (shadows / f"{name}.py").write_text("")
    (shadows.parent / "bin" / "inviso").write_text(script)
    site = shadows.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import enum, types, functools\n")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    plain = run(shadows, "imports.py", PYTHONPATH=path)
    assert plain[0] == 0 and "shadows/copy.py" in plain[1] and "shadows/enum.py" not in plain[1], plain
    status, out, err = run(shadows, *COMMAND, "tprof", "imports.py", PYTHONPATH=path)
    assert (status, out) == plain[:2], err


@pytest.mark.parametrize("command", COMMANDS)
def test_started_as_a_module(tmp_path: pathlib.Path, command: str) -> None:
    """``python -m`` looks in the working directory first. The imports of the package's ``__init__`` fail then."""
    text = "import inviso, runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = run(tmp_path, "-c", text)[1].split()
    for name in sys.stdlib_module_names - {*sys.builtin_module_names, "__main__", *loaded}:
        (tmp_path / f"{name}.py").write_text(SHADOW)
    (tmp_path / "program.py").write_text(PROGRAM)
    plain = run(tmp_path, "program.py")
    for program in (["program.py"], ["-m", "program"]):
        status, out, err = run(tmp_path, "-m", "inviso", *COMMANDS[command], *program)
        assert (status, out) == plain[:2], err
        assert "Traceback" not in err


@pytest.mark.parametrize("command", ["count", "trace"])
def test_a_program_that_can_not_be_read(shadows: pathlib.Path, command: str) -> None:
    (shadows / "unreadable.py").write_bytes(b"print('\xff')\n")
    plain = run(shadows, "unreadable.py")
    assert plain[0] == 1
    assert run(shadows, *COMMAND, *COMMANDS[command], "unreadable.py") == plain


SESSION = """
import sys
sys.path.remove(sys.path[0])
import inviso
from inviso import seq_trace, trace
sys.path.insert(0, FOLDER)
with trace.session_create("look") as session:
    session.process("all", True, FLAGS)
    session.port("all", True, ["send", "receive", "ports"])
    session.system("long_schedule", 100)
    session.function(("_", "_", "_"), True, ["local"])
    seq_trace.set_token("label", 1)
    seq_trace.set_token([])
    session.drain()
print(sorted(name for name, module in sys.modules.items() if "shadows" in str(getattr(module, "__file__", ""))))
"""
FLAGS = ["call", "return_to", "procs", "running", "exiting", "running_procs", "send", "receive", "garbage_collection"]


@pytest.mark.parametrize("flags", [[flag] for flag in FLAGS] + [FLAGS])
def test_a_session_imports_nothing_of_the_programs(shadows: pathlib.Path, flags: list[str]) -> None:
    text = SESSION.replace("FOLDER", repr(str(shadows))).replace("FLAGS", repr(flags))
    status, out, err = run(shadows.parent, "-c", text)
    assert (status, out) == (0, "[]\n"), err


LEFT = """
import json, sys
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"asyncio", "_asyncio", "concurrent", "logging", "multiprocessing", "socket", "ssl", "subprocess", "selectors"}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_program_did_not_import_is_not_there(tmp_path: pathlib.Path, command: str) -> None:
    (tmp_path / "program.py").write_text(LEFT)
    status, out, err = run(tmp_path, "-P", "-m", "inviso", *COMMANDS[command], "program.py")
    assert status == 0, err
    assert HEAVY & set(json.loads(out)) == set()


LAZY = """
import importlib.util, sys
spec = importlib.util.find_spec("lazy_one")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["lazy_one"] = module
spec.loader.exec_module(module)
from inviso import trace
session = trace.session_create("look")
lazy = [("lazy_one", *rest) for rest in (("_", "_"), ("f", "_"), ("C.f", "_"), ("f", 0))]
for pattern in (("_", "_", "_"), *lazy):
    session.function(pattern, True, ["call_count"])
    session.function(pattern, True, ["local"])
    session.info((*pattern[:2], 0), "all") if "_" not in pattern[:2] else None
session.destroy()
print("end")
"""


def test_a_pattern_loads_no_lazy_module(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lazy_one.py").write_text("print('loaded')\ndef f(): pass\n")
    assert run(tmp_path, "-c", LAZY) == (0, "end\n", "")
