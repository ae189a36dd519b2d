"""Who may import whom, and that nothing leans on a machine."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "inviso"
BELOW = {
    "errors": set(),
    "tracer": {"_native", "errors", "terms"},
    "terms": {"_native"},
    "_steps": set(),
    "_system": set(),
    "_stream": set(),
    "_fork": {"_native", "_system"},
    "_pickles": {"_native", "_seq_nodes"},
    "seq_trace": {
        *("_fork", "_native", "_seq_chart", "_seq_label", "_seq_merge", "_seq_nodes", "_seq_text", "errors", "terms"),
        *("trace_ports", "tracer"),
    },
    "_seq_label": {"_native", "errors", "process", "seq_trace"},
    "_seq_nodes": {"_native", "errors"},
    "_seq_text": {"_native", "_seq_nodes", "_stream", "errors", "process", "terms"},
    "_seq_merge": {
        *("_native", "_system", "_seq_nodes", "_seq_table", "_seq_text", "_table", "errors", "process", "terms", "tracer"),
    },
    "_seq_table": {"_log_text", "_seq_merge"},
    "_table": set(),
    "_seq_chart": {"_native", "_seq_merge", "_seq_text", "errors"},
    "propagate": {"_traceparent", "seq_trace", "_native", "_seq_nodes", "errors"},
    "integrations": {"_config", "_link", "_native", "_seq_nodes", "autostart", "errors", "propagate", "runtime"},
    "_fun2ms": {"Pid", "Port", "Ref", "errors", "match_spec", "terms"},
    "match_spec": {"_native", "errors", "terms"},
    "process": {"_beside", "_fork", "_native", "errors", "terms"},
    "trace_ports": {"_program", "_fork", "_limits", "_native", "errors"},
    "trace": {"_program", 
        *("_fork", "_native", "_system", "_table", "errors", "match_spec", "process", "terms", "trace_ports", "tracer"),
    },
    "export": {"_log_files", "_program", "_seq_merge", "_traceparent", "etf", "log", "merge", "_log_read", "_native", "errors", "terms", "trace", "trace_ports"},
    "analysis": {"_native", "errors", "export", "merge", "picture", "trace"},
    "_pattern": {"errors"},
    "_literal": {"match_spec", "terms"},
    "_options": {"_run"},
    "_beside": {"_fork", "_native", "_system"},
    "_children": {"__version__", "_beside", "_fork", "_native", "_pattern"},
    "_descriptor": {"_native"},
    "_limits": {"errors"},
    "_command": {"_options", "_run", "errors"},
    "tracing": {"_limits", "_native", "_system", "errors", "trace", "trace_ports", "tracer"},
    "dbg": {
        *("Pid", "Port", "_descriptor", "_fork", "_limits", "_literal", "_native", "_pattern", "_stream", "_system", "errors", "log"),
        *("match_spec", "node", "terms", "trace", "trace_ports", "tracing"),
    },
    "_trace_others": {"_children"},
    "_record_cli": {"_command", "_options", "_pattern", "tracing"},
    "_trace_cli": {
        *("_beside", "_children", "_command", "_config", "_descriptor", "_fork", "_limits", "_literal", "_options", "_pattern", "_record_cli", "_run"),
        *("_trace_others", "dbg", "errors", "match_spec", "trace", "trace_ports", "tracing"),
    },
    "_trace_child": {"_beside", "_children", "_trace_cli", "_trace_others", "dbg", "tracing"},
    "tprof": {"_native", "Pid", "_children", "_pattern", "_stream", "errors", "process", "trace"},
    "_magics": {
        *("Pid", "_config", "_log_text", "_pattern", "_seq_table", "analysis", "_table", "errors", "seq_trace", "tprof", "tracing"),
    },
    "etf": {"_native", "errors", "terms"},
    "_log_read": {"_native", "errors", "terms"},
    "_log_text": {"_log_read"},
    "_log_stats": {"_log_read", "_native", "_table", "terms"},
    "_log_client": {"_log_read", "_native", "errors", "process", "trace_ports"},
    "log": {"_log_client", "_log_read", "_log_stats", "_log_text"},
    "_log_files": {"_log_read"},
    "_guarded": {"_native", "_options", "errors"},
    "_log_cli": {"_export_cli", "_guarded", "_log_files", "_log_read", "_log_stats", "_log_text", "_native", "_options", "_stream", "errors"},
    "merge": {"_log_files", "_log_read", "_log_stats", "_native", "errors", "etf", "terms"},
    "_merge_cli": {"_command", "_guarded", "_log_cli", "_options", "merge"},
    "_progress": {"_beside"},
    "_run": {"_native"},
    "_report": {"_children", "_command", "_descriptor", "_pattern", "_progress", "errors", "tprof"},
    "_link": {"_descriptor", "_native", "errors", "etf"},
    "meta": {"errors", "etf", "process", "terms"},
    "runtime": {"_program", 
        *("_beside", "_children", "_descriptor", "_fork", "_link", "_native", "_pattern", "_system", "dbg", "errors", "meta"),
        *("process", "seq_trace", "terms", "tprof", "trace", "trace_ports", "tracing"),
    },
    "control": {"_beside", "_fork", "_link", "_native", "_system", "errors", "process", "runtime", "terms"},
    "cluster": {"_link", "_log_stats", "_pattern", "control", "errors", "merge", "runtime", "terms", "tprof"},
    "_cluster_async": {"cluster"},
    "case": {"errors", "match_spec", "process", "terms"},
    "_config": {"_pattern", "errors"},
    "_config_cli": {"_config", "_options", "errors"},
    "autostart": {
        *("__version__", "_beside", "_children", "_config", "_fork", "_link", "_literal", "_native", "_system", "case"),
        *("errors", "process", "runtime", "terms"),
    },
    "ttb": {
        *("_beside", "_descriptor", "_link", "_literal", "_system", "control", "dbg", "errors", "etf", "log", "match_spec", "merge"),
        *("process", "runtime", "terms"),
    },
    "tool": {
        *("_beside", "_config", "_fork", "_link", "_literal", "_system", "case", "cluster", "control", "errors", "etf", "node"),
        *("runtime", "terms"),
    },
    "agent": {"_link", "control", "errors", "etf", "terms"},
    "_agent_cli": {"_descriptor", "_link", "_options", "agent", "errors", "terms"},
    "_begin": {"_children", "_native", "autostart"},
    "_attach": {"_link", "errors", "terms"},
    "_attached": {"runtime"},
    "_attach_cli": {"_attach", "_config", "_options", "errors"},
    "_completion_cli": {"_options"},
    "_run_cli": {"_command", "_config", "_options", "_run", "autostart", "runtime"},
    "picture": {"errors"},
    "top": {
        *("_cluster_cli", "_command", "_link", "_options", "_pattern", "_system", "cluster", "control", "errors"),
        "runtime",
    },
    "_cluster_cli": {"_command", "_config", "_descriptor", "_options", "cluster", "control", "errors", "runtime"},
    "_case_notes": {"_link", "_literal"},
    "_case_cli": {
        *("_case_notes", "_cluster_cli", "_config", "_link", "_literal", "_options", "cluster", "control", "errors", "runtime", "tool"),
    },
    "cli": {"_diff_cli", "_export_cli",
        *("_agent_cli", "_attach_cli", "_case_cli", "_cluster_cli", "_command", "_completion_cli", "_config", "_config_cli", "_log_cli", "_merge_cli", "_options", "_pattern"),
        *("_report", "_run", "_run_cli", "_trace_cli", "top", "tprof"),
    },
    "_pytest": {"_config", "_pattern", "errors", "log", "tprof", "trace"},
    "_diff_cli": {"_options", "errors", "tprof"},
    "_export_cli": {"_guarded", "_options", "_progress", "errors", "export"},
    "_program": set(),
    "_traceparent": set(),
    "__main__": {"cli"},
}
CRATES = {
    "term": set(),
    "match": {"inviso-term"},
    "core": {"inviso-match", "inviso-term"},
    "log": {"inviso-term"},
    "export": {"inviso-log", "inviso-term"},
    "port": {"inviso-core", "inviso-log", "inviso-term"},
    "cpython": {"inviso-term"},
    "py": {"inviso-core", "inviso-cpython", "inviso-export", "inviso-log", "inviso-match", "inviso-port", "inviso-term"},
}

# The rooms of a crate: folders, or files beside lib.rs.
ROOMS: dict[str, dict[str, set[str]]] = {
    "cpython": {
        "layout": set(),
        "object": {"layout"},
        "interpreter": {"layout", "object"},
        "frames": {"interpreter", "layout", "object"},
        "hooks": {"frames", "interpreter", "layout", "object"},
        "tasks": {"frames", "hooks", "interpreter", "layout", "object"},
        "capture": {"frames", "hooks", "interpreter", "layout", "object", "tasks"},
        "calibrate": {"frames", "hooks", "interpreter", "layout", "object", "tasks"},
    },
}


def parts_of(name: str) -> list[pathlib.Path]:
    """The files of a module, or of a package."""
    return sorted((PACKAGE / name).glob("*.py")) or [PACKAGE / f"{name}.py"]


def imports(path: pathlib.Path) -> set[str]:
    """What a module takes from this package, by the names just under it; and other packages by theirs."""
    own = ["inviso", *path.relative_to(PACKAGE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = own[: len(own) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            found |= {".".join([*base, alias.name]) for alias in node.names} if base == ["inviso"] else {".".join(base)}
    return found


def test_every_module_has_its_place() -> None:
    here = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert here == {*BELOW, "__init__"}


@pytest.mark.parametrize("module", sorted(BELOW))
def test_modules_import_downwards_only(module: str) -> None:
    for path in parts_of(module):
        own = {name.split(".")[1] for name in imports(path) if name.startswith("inviso.")}
        assert own <= BELOW[module] | {module}, path


def test_the_package_needs_the_standard_library_only() -> None:
    for path in PACKAGE.rglob("*.py"):
        # a module for another package is named after it, and nobody else imports it
        guest = {path.stem} if path.parent.name in ("integrations", "propagate") else set()
        guest |= {"zenoh"} if path.relative_to(PACKAGE).parts == ("agent", "_engine.py") else set()
        guest |= {"textual"} if path.relative_to(PACKAGE).parts == ("top", "_screen.py") else set()
        guest |= {"IPython"} if path.relative_to(PACKAGE).parts[0] == "_magics" else set()
        guest |= {"pytest"} if path.parent.name == "_pytest" else set()
        others = {name.partition(".")[0] for name in imports(path)} - {"inviso", "__future__"} - guest
        assert others <= sys.stdlib_module_names, path


def test_an_import_brings_in_little() -> None:
    program = "import sys; before = set(sys.modules); import inviso.trace; print(*set(sys.modules) - before)"
    words = [sys.executable, "-S", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=_path())
    assert done.returncode == 0, done.stderr
    assert not {"asyncio", "subprocess", "socket", "typing_extensions", "inviso.tprof"} & set(done.stdout.split())


def _path() -> dict[str, str]:
    """``-S`` leaves out site-packages: only the place of this package is given."""
    import inviso

    return {**os.environ, "PYTHONPATH": str(pathlib.Path(inviso.__file__).parents[1])}


def test_crates_depend_downwards_only() -> None:
    for crate, below in CRATES.items():
        # what a crate's tests need is not what it stands on
        manifest = (ROOT / "rust" / crate / "Cargo.toml").read_text().partition("[dev-dependencies]")[0]
        assert set(re.findall(r"^(inviso-\w+)\b", manifest, re.MULTILINE)) == below


def rooms_used(code: str) -> set[str]:
    """The rooms that a file names by ``crate::``."""
    found = set(re.findall(r"\bcrate::(\w+)", code))
    for tree in re.findall(r"\bcrate::\{(.*?)\};", code, re.DOTALL):
        while "{" in tree:
            tree = re.sub(r"::\{[^{}]*\}", "", tree)
        found |= {part.strip().split("::")[0].split(" ")[0] for part in tree.split(",") if part.strip()}
    return found


@pytest.mark.parametrize("crate", ROOMS)
def test_rooms_use_what_lies_below_them_only(crate: str) -> None:
    source, rooms = ROOT / "rust" / crate / "src", ROOMS[crate]
    assert {path.stem for path in source.iterdir()} - {"lib"} == rooms.keys()
    for room, below in rooms.items():
        assert room not in below
        for path in (source / room).rglob("*.rs") if (source / room).is_dir() else [source / f"{room}.rs"]:
            code = re.sub(r"//.*", "", path.read_text())
            assert "super::super" not in code, path
            assert rooms_used(code) - {room} <= below, path


PY_ROOMS = {"api", "convert", "entry", "host", "instrument", "library", "processes", "thread"}
# What Python calls lies on top; these files need a class or a function of it.
USES_API = {"convert/etf.rs", "convert/match_spec.rs", "entry/forking.rs", "host/instruments.rs", "host/outlet.rs"}


def test_the_api_lies_on_top() -> None:
    source = ROOT / "rust" / "py" / "src"
    assert {path.name for path in source.iterdir()} == {*PY_ROOMS, "lib.rs"}
    files = [path for room in PY_ROOMS - {"api"} for path in (source / room).rglob("*.rs")]
    using = [path for path in files if "api" in rooms_used(re.sub(r"//.*", "", path.read_text()))]
    assert {str(path.relative_to(source)) for path in using} == USES_API


def test_no_file_of_the_glue_is_long() -> None:
    for crate in ("cpython", "py"):
        for path in (ROOT / "rust" / crate / "src").rglob("*.rs"):
            assert path.read_text().count("\n") <= 600, path


def test_only_two_crates_know_python() -> None:
    for crate in CRATES:
        files = [ROOT / "rust" / crate / "Cargo.toml", *(ROOT / "rust" / crate).rglob("*.rs")]
        knows = [path for path in files if re.search(r"\bpyo3", path.read_text())]
        assert bool(knows) == (crate in ("cpython", "py")), knows


def test_the_core_takes_atomics_from_its_facade_only() -> None:
    for path in (ROOT / "rust" / "core" / "src").rglob("*.rs"):
        if path.name not in ("sync.rs", "barrier.rs") and "tests" not in path.parts:
            code = path.read_text().split("#[cfg(all(test")[0]
            assert "std::thread::spawn" not in code, path


def test_only_the_log_knows_files_and_sockets() -> None:
    for crate in ("term", "match", "core"):
        for path in (ROOT / "rust" / crate / "src").rglob("*.rs"):
            code = re.sub(r"//.*", "", path.read_text())
            assert not re.search(r"\bstd::(fs|net)\b|\bFile::", code), path


def test_every_file_of_the_log_is_without_unsafe_code() -> None:
    assert "#![forbid(unsafe_code)]" in (ROOT / "rust" / "log" / "src" / "lib.rs").read_text()


ENTRIES = {
    # the allocator's hook: counts bytes, calls on; it can't panic, and runs without the GIL
    "cpython/hooks/alloc.rs": {"malloc", "calloc", "realloc"},
    # called by the loader or by our own code, not by the interpreter
    "cpython/interpreter/state.rs": {"look"},
    "cpython/object/tracked.rs": {"visit"},
    "cpython/calibrate.rs": {"probe"},
    # gives an exception back to the interpreter, by intent
    "cpython/interpreter/again.rs": {"call"},
    # a signal's handler may do next to nothing: it notes the signal and wakes a thread
    "py/entry/ending.rs": {"on_signal"},
    # 3.11's frame evaluation function decides in `begin` and `end`, through the door
    "py/entry/callbacks.rs": {"evaluate_unwinding", "evaluate_seen"},
    "cpython/hooks/profile.rs": {"front", "setprofile"},
}
BY_OTHERS = {"py/convert/arrow.rs", "py/api/tracer_abi.rs"}  # called by readers of Arrow, and by tracer modules in C


def test_what_the_interpreter_calls_goes_through_the_door() -> None:
    """A function that CPython calls enters the tracer by ``door``, itself or by the functions of its file that it calls."""
    states = []
    for path in sorted(path for crate in ("cpython", "py") for path in (ROOT / "rust" / crate / "src").rglob("*.rs")):
        name, text = str(path.relative_to(ROOT / "rust")).replace("/src/", "/", 1), path.read_text()
        if name != "py/entry/door.rs" and re.search(r"tls::(get|set)\(", text):
            states.append(name)
        if name in BY_OTHERS:
            continue
        bodies = {
            found[2]: found[0] for found in re.finditer(r"^( *)(?:[^\n/]* )?fn (\$?\w+)\b.*?\n\1\}\n", text, re.S | re.M)
        }

        def enters(function: str, met: frozenset[str] = frozenset(), bodies: dict[str, str] = bodies) -> bool:
            body = bodies.get(function, "")
            called = set(re.findall(r"\b(\w+)(?:::<\w+>)?\(", body)) & bodies.keys() - met - {function}
            return "door::" in body or any(enters(other, met | {function}) for other in called)

        for function in re.findall(r'extern "C(?:-unwind)?" fn (\$?\w+)', text):
            if function in bodies and function not in ENTRIES.get(name, ()):
                assert enters(function), f"{name}: {function} does not go through the door"
    assert states == [], "only the door has a thread's state"


def test_unsafe_code_stays_where_it_belongs() -> None:
    for path in [*(ROOT / "rust" / "core" / "src").rglob("*.rs"), *(ROOT / "rust" / "term" / "src").rglob("*.rs")]:
        code = re.sub(r"//.*", "", path.read_text())
        if re.search(r"\bunsafe (\{|fn|impl)", code):
            assert "forbid(unsafe_code)" not in code, path
            assert "SAFETY:" in path.read_text() or "# Safety" in path.read_text(), path


def tracked() -> list[pathlib.Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in os.fsdecode(listed.stdout).split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_leans_on_a_machine() -> None:
    # a class of one letter, so that this file passes its own test
    folders = r"(?<![\w.$}])/(wor[k]|roo[t]|hom[e]/\w+|User[s]|tm[p]/\w)/"
    forbidden = re.compile(rf"{folders}|\.\./share[d]|https?://(pyp[i]|crate[s]|files[.]pythonhosted)\b")
    for path in tracked():
        if path.name != "Cargo.lock":
            found = forbidden.search(path.read_bytes().decode(errors="replace"))
            assert found is None, f"{path.relative_to(ROOT)}: {found.group()}"


def test_nothing_built_is_kept() -> None:
    assert [path for path in tracked() if path.suffix in (".so", ".pyc", ".whl", ".pyd")] == []


def test_types() -> None:
    pytest.importorskip("mypy")
    words = [sys.executable, "-m", "mypy", "--strict", str(PACKAGE)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
    words = [sys.executable, "-m", "mypy.stubtest", "inviso._native"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_header_is_part_of_the_package() -> None:
    assert PACKAGE / "include" / "inviso_tracer.h" in tracked()
