"""The program's first frame is the first of its thread, and as deep as without the command."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

SCRIPT = """
import inspect, sys, traceback, warnings
def stack(frame):
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_code.co_name
        frame = frame.f_back
def deep(n):
    try:
        return deep(n + 1)
    except RecursionError:
        return n
def level():
    import inspect
    return [(info.filename, info.function) for info in inspect.stack()]
class Kept(Exception):
    pass
def fail():
    raise Kept
try:
    fail()
except Kept as error:
    kept = error
print(list(stack(sys._getframe())), len(traceback.extract_stack()), level())
print(list(stack(kept.__traceback__.tb_frame)), deep(0))
warnings.warn("seen where the program was called", stacklevel=2)
sys.setrecursionlimit(20 + len(list(stack(sys._getframe()))))
print(deep(0), sys.getrecursionlimit())
sys.setrecursionlimit(1000)
held = sys._getframe()
import atexit
atexit.register(lambda: print(deep(0) > 900, held.f_back is None))

fail()
"""
COMMANDS = {
    "count": ["tprof", "-o", "T.txt"],
    "time": ["tprof", "-t", "call_time", "-o", "T.txt"],
    "memory": ["tprof", "-t", "call_memory", "-o", "T.txt"],
    "trace": ["trace", "-p", "_", "--limit", "1000", "--caller", "--return", "-o", "T.txt"],
}
PROGRAMS = {
    "script": (["s.py"], {"s.py": SCRIPT}),
    "module": (["-m", "pkg.s"], {"pkg/__init__.py": "", "pkg/s.py": SCRIPT}),
    "package": (["-m", "pkg"], {"pkg/__init__.py": "", "pkg/__main__.py": SCRIPT}),
    "folder": (["app"], {"app/__main__.py": SCRIPT}),
}

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="frames stay visible there (docs/limits.md)"
)


def run(folder: pathlib.Path, words: list[str]) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_below_the_programs_first_frame(tmp_path: pathlib.Path, program: str) -> None:
    words, files = PROGRAMS[program]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    plain = run(tmp_path, words)
    assert plain[0] == 1
    assert "Kept" in plain[2]
    for command, options in COMMANDS.items():
        assert run(tmp_path, ["-m", "inviso", *options, *words]) == plain, command


def test_generators_and_collections_at_the_bottom(tmp_path: pathlib.Path) -> None:
    text = """
import gc, sys, threading
def numbers():
    for n in range(1000):
        gc.collect(0)
        yield n
class Loop: pass
for _ in range(100):
    one = Loop(); one.self = one
gc.collect()
started = numbers()
seen = [next(started) for _ in range(10)]
thread = threading.Thread(target=lambda: seen.extend(next(started) for _ in range(10)))
thread.start(); thread.join()
print(seen[-1], sys._getframe().f_back, sum(numbers()))
"""
    (tmp_path / "s.py").write_text(text)
    plain = run(tmp_path, ["s.py"])
    assert plain == (0, "19 None 499500\n", "")
    for command, options in COMMANDS.items():
        assert run(tmp_path, ["-m", "inviso", *options, "s.py"]) == plain, command
