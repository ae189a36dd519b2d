"""Allowed imports, and independence of the machine."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys

import inviso
import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "inviso"
BELOW: dict[str, set[str]] = {
    "_about": {"_native"},
    "_descriptor": {"_native"},
    "_program": set(),
    "_task_probe": set(),
    "_stream": set(),
    "_system": set(),
    "_table": set(),
    "_traceparent": set(),
    "errors": set(),
    "terms": {"_native"},
    "_fork": {"_native", "_system"},
    "_limits": {"errors"},
    "_pattern": {"errors"},
    "etf": {"_native", "errors", "terms"},
    "match_spec": {"_native", "errors", "terms"},
    "picture": {"errors"},
    "tracer": {"_native", "errors", "terms"},
    "_background": {"_fork", "_native", "_system"},
    "_config": {"_pattern", "errors"},
    "_link": {"_descriptor", "_native", "errors", "etf"},
    "_literal": {"match_spec", "terms"},
    "trace_ports": {"_fork", "_limits", "_native", "_program", "errors"},
    "_attach": {"_link", "errors", "terms"},
    "_children": {"_background", "_fork", "_native", "_pattern"},
    "process": {"_background", "_fork", "_native", "errors", "terms"},
    "case": {"errors", "match_spec", "process", "terms"},
    "logs": {"_native", "_table", "errors", "process", "terms", "trace_ports"},
    "meta": {"errors", "etf", "process", "terms"},
    "trace": {
        *("_fork", "_native", "_program", "_system", "_table", "errors", "match_spec", "process", "terms"),
        *("trace_ports", "tracer"),
    },
    "log": {"logs"},
    "merge": {"_native", "errors", "etf", "logs", "terms"},
    "seq": {"_native", "_stream", "_system", "_table", "errors", "logs", "process", "terms", "trace_ports", "tracer"},
    "tprof": {"_children", "_native", "_pattern", "_stream", "errors", "picture", "process", "trace"},
    "tracing": {"_limits", "_native", "_system", "errors", "trace", "trace_ports", "tracer"},
    "_pickles": {"_native", "seq"},
    "_pytest": {"_config", "_pattern", "errors", "log", "tprof", "trace"},
    "dbg": {
        *("_descriptor", "_fork", "_limits", "_literal", "_native", "_pattern", "_stream", "_system", "errors", "log"),
        *("match_spec", "process", "terms", "trace", "trace_ports", "tracing"),
    },
    "export": {
        *("_native", "_program", "_traceparent", "errors", "etf", "log", "logs", "merge", "seq", "terms", "trace"),
        "trace_ports",
    },
    "seq_trace": {"_fork", "seq"},
    "analysis": {"_native", "errors", "export", "merge", "picture", "trace"},
    "propagate": {"_native", "_traceparent", "errors", "seq", "seq_trace"},
    "runtime": {
        *("_background", "_children", "_descriptor", "_fork", "_link", "_native", "_pattern", "_program", "_system"),
        *("dbg", "errors", "meta", "process", "seq_trace", "terms", "tprof", "trace", "trace_ports", "tracing"),
    },
    "_attached": {"runtime"},
    "_magics": {
        *("_config", "_native", "_pattern", "_table", "analysis", "errors", "logs", "process", "seq", "seq_trace"),
        *("tprof", "tracing"),
    },
    "autostart": {"_children", "_config", "_link", "_literal", "case", "errors", "process", "runtime", "terms"},
    "control": {"_background", "_fork", "_link", "_native", "_system", "errors", "process", "runtime", "terms"},
    "_begin": {"_children", "_native", "autostart"},
    "agent": {"_link", "control", "errors", "etf", "terms"},
    "cluster": {"_link", "_pattern", "control", "errors", "logs", "merge", "terms", "tprof"},
    "integrations": {"_config", "_link", "_native", "autostart", "errors", "propagate", "runtime", "seq"},
    "ttb": {
        *("_background", "_descriptor", "_link", "_literal", "_system", "control", "dbg", "errors", "etf", "log"),
        *("match_spec", "merge", "process", "runtime", "terms"),
    },
    "tool": {
        *("_background", "_config", "_fork", "_link", "_literal", "_system", "case", "cluster", "control", "errors"),
        *("etf", "runtime", "terms"),
    },
    "top": {"_pattern", "_system", "cluster", "control", "errors", "runtime"},
    "cli": {
        *("_about", "_attach", "_background", "_children", "_config", "_descriptor", "_fork", "_limits", "_link"),
        *("_literal", "_native", "_pattern", "_stream", "agent", "autostart", "cluster", "control", "dbg", "errors"),
        *("export", "logs", "match_spec", "merge", "runtime", "terms", "tool", "top", "tprof", "trace", "trace_ports"),
        "tracing",
    },
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
    "py": {
        "inviso-core",
        "inviso-cpython",
        "inviso-export",
        "inviso-log",
        "inviso-match",
        "inviso-port",
        "inviso-term",
    },
}

# The rooms of a crate: folders, or files beside lib.rs.
ROOMS: dict[str, dict[str, set[str]]] = {
    "cpython": {
        "layout": set(),
        "object": {"layout"},
        "platform": set(),
        "interpreter": {"layout", "object"},
        "frames": {"interpreter", "layout", "object"},
        "hooks": {"frames", "interpreter", "layout", "object", "platform"},
        "tasks": {"frames", "hooks", "interpreter", "layout", "object"},
        "capture": {"frames", "hooks", "interpreter", "layout", "object", "tasks"},
        "calibrate": {"frames", "hooks", "interpreter", "layout", "object", "tasks"},
    },
}


def parts_of(name: str) -> list[pathlib.Path]:
    """The files of a module, or of a package."""
    return sorted((PACKAGE / name).glob("*.py")) or [PACKAGE / f"{name}.py"]


def imports(path: pathlib.Path) -> set[str]:
    """The modules that a module imports: of this package by the names just under it, of others by their own."""
    own = ["inviso", *path.relative_to(PACKAGE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = own[: len(own) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            names = [alias.name for alias in node.names]
            found |= set(map(home, names)) if base == ["inviso"] else {".".join(base)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "inviso":
            found.add(home(node.attr))
    return found


def home(name: str) -> str:
    """The module that defines a name of ``inviso``, or the name itself if it is a module."""
    if name == "_native" or (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists():
        return f"inviso.{name}"
    module = inviso._OF.get(name) or getattr(getattr(inviso, name), "__module__", "inviso").removeprefix("inviso.")
    return "inviso" if module == "inviso" else f"inviso.{module}"


def test_every_module_has_its_place() -> None:
    here = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert here == {*BELOW, "__init__"}


@pytest.mark.parametrize("module", BELOW)
def test_modules_import_downwards_only(module: str) -> None:
    names = {name.split(".")[1] for path in parts_of(module) for name in imports(path) if name.startswith("inviso.")}
    assert names - {module} == BELOW[module]


def test_the_table_reads_from_the_bottom_to_the_top() -> None:
    known = {"_native"}
    for module, below in BELOW.items():
        assert below <= known, module
        known.add(module)


MODULES = {
    ".".join(["inviso", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if path.parent.name != "_site"
}
MUTUAL = {
    # a profile shows and converts itself by functions of modules above it; it imports them when they are called
    "inviso.tprof._model": {f"inviso.tprof._{name}" for name in ("json", "merge", "table", "tree", "view")},
}


def modules_of(name: str) -> set[str]:
    """The modules that a module imports, at its beginning or later, except for annotations only."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    skipped = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    typing = {id(inner) for node in skipped for inner in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing:
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*base, *(node.module.split(".") if node.module else [])])
            found |= {inner if (inner := f"{source}.{alias.name}") in MODULES else source for alias in node.names}
    return {each for each in found if each in MODULES} - {name, "inviso"} - MUTUAL.get(name, set())


def test_no_modules_import_each_other_in_a_circle() -> None:
    above = {name: modules_of(name) for name in MODULES}
    while free := {name for name, below in above.items() if not below & above.keys()}:
        above = {name: below for name, below in above.items() if name not in free}
    assert above == {}


def test_no_import_of_the_package_is_hidden() -> None:
    for path in MODULES.values():
        hidden = re.search(r"""import_module\(\s*["'](inviso|\.)""", path.read_text())
        assert hidden is None, path


def test_no_module_is_long() -> None:
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= 600, path


def test_the_package_needs_the_standard_library_only() -> None:
    for path in PACKAGE.rglob("*.py"):
        # a module for another package is named after it, and no other module imports it
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
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(inviso.__file__).parents[1])}


def test_crates_depend_downwards_only() -> None:
    for crate, below in CRATES.items():
        # imports of a crate's tests don't count
        manifest = (ROOT / "rust" / crate / "Cargo.toml").read_text().partition("[dev-dependencies]")[0]
        assert set(re.findall(r"^(inviso-\w+)\b", manifest, re.MULTILINE)) == below


# The rooms of rust/core, lowest first: contents, and the lower rooms that each imports. State below, behaviour above.
CORE_ROOMS = {
    "sync": set(),  # atomics and locks, barriers, sections, the current snapshot; mutants of the models
    "clock": {"sync"},  # ticks
    "ring": {"sync"},  # the ring of one thread and session
    "count": {"sync"},  # cells, counters, histograms
    "record": {"clock"},  # the fields of a record, and the elements of its message
    "state": {"sync", "clock", "ring", "count", "record"},  # state of a node, its sessions, processes and threads
    "delivery": {"sync", "ring", "record", "state"},  # from the rings to the taker, and from a record to its message
    "emit": {"sync", "record", "state"},  # from an event to its ring, or to a tracer module after the section
    # the hot path; it makes room in a ring whose taker lags
    "trace": {"sync", "count", "record", "state", "delivery", "emit"},
    "control": {"sync", "count", "record", "state"},  # patterns, flags, sessions: publish, arm, wait, retire
    "point": {"sync", "clock", "count", "record", "state", "trace", "control"},  # a Rust program as its own host
}
# Remaining imports of higher rooms, by file and room, each with its reason. There are none.
UP: dict[tuple[str, str], str] = {}
CORE = ROOT / "rust" / "core" / "src"


def trees(body: str) -> list[list[str]]:
    """The paths of a ``use``."""
    head, brace, rest = body.strip().partition("{")
    first = [part for part in head.split("::") if part]
    if not brace:
        return [[part.partition(" as ")[0].strip() for part in first]] if first else []
    inner, depth, pieces = rest.rstrip().removesuffix("}"), 0, [""]
    for letter in inner:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [first + path for piece in pieces for path in trees(piece)]


def rust_files(source: pathlib.Path) -> dict[tuple[str, ...], pathlib.Path]:
    """The files of a crate by their modules, without tests and models."""
    found = {}
    for path in source.rglob("*.rs"):
        parts = path.relative_to(source).with_suffix("").parts
        if not {"models", "tests", "lib"} & set(parts):
            found[parts[:-1] if parts[-1] == "mod" else parts] = path
    return found


def rust_code(path: pathlib.Path) -> str:
    """A file without comments and tests."""
    return re.split(r"#\[cfg\((?:all\()?test\b", re.sub(r"//.*", "", path.read_text()))[0]


def rust_imports(module: tuple[str, ...], path: pathlib.Path) -> list[list[str]]:
    """The modules of its crate that a file names, by whole paths."""
    code = rust_code(path)
    uses = r"\buse\s+([^;]+);"
    rest = re.sub(uses, "", code)
    named = [path for body in re.findall(uses, code) for path in trees(body)]
    named += [path.split("::") for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", rest)]
    own = set(re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", code, re.MULTILINE))
    named += [[name] for name in re.findall(r"(?<![\w:])(\w+)::", rest) if name in own]
    whole = []
    for found in named:
        above = found.count("super") or len(module)
        if found[0] == "crate":
            whole.append(found[1:])
        elif found[0] in own:
            whole.append([*module, *found])
        elif module[:-above]:  # else a module inside the file names its file
            whole.append([*module[:-above], *found[above:]])
    return whole


def arrows_up(source: pathlib.Path, rooms: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports of a crate that its table of rooms does not have, by file and room."""
    ups = set()
    for module, path in rust_files(source).items():
        for found in rust_imports(module, path):
            room, other = module[0], found[0]
            assert room in rooms and other in rooms, f"{path}: {'::'.join(found)} is in no room"
            if other != room and other not in rooms[room]:
                ups.add((str(path.relative_to(source)), other))
    return sorted(ups)


def calls_up(source: pathlib.Path, rooms: dict[str, set[str]], receivers: dict[str, str]) -> set[tuple[str, str]]:
    """Calls of methods that an ``impl`` in a higher room has, by module and name.

    ``receivers``: a type and the name of its values.
    """
    rank = {room: at for at, room in enumerate(rooms)}
    code = {module: rust_code(path) for module, path in rust_files(source).items()}
    found = set()
    for kind, receiver in receivers.items():
        block = rf"^impl {kind} \{{\n.*?^\}}"
        blocks = {module: "".join(re.findall(block, text, re.S | re.M)) for module, text in code.items()}
        names = [
            (name, module[0])
            for module, text in blocks.items()
            for name in re.findall(r"^    [^/\n]*\bfn (\w+)", text, re.M)
        ]
        for module, text in code.items():
            called = re.findall(rf"\b{receiver}\.(\w+)\(", text) + re.findall(r"\bself\.(\w+)\(", blocks[module])
            found |= {
                ("::".join(module), name) for name, room in names if name in called and rank[room] > rank[module[0]]
            }
    return found


def circles(source: pathlib.Path, alone: str = "") -> list[str]:
    """The modules of a crate that import each other in a circle, or that import such modules.

    Those below the room ``alone`` don't count.
    """
    files = rust_files(source)
    below: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, path in files.items():
        whole = [tuple(found) for found in rust_imports(module, path)]
        owners = [next((p[:n] for n in range(len(p), 0, -1) if p[:n] in files), module) for p in whole]
        below[module] = {owner for owner in owners if owner != module and owner[0] != alone}
    while free := {module for module, own in below.items() if not own & below.keys()}:
        below = {module: own for module, own in below.items() if module not in free}
    return sorted("::".join(module) for module in below)


def test_rooms_of_the_core_import_downwards_only() -> None:
    assert arrows_up(CORE, CORE_ROOMS) == sorted(UP), (
        "imports that the tables of rooms lack, or that the tables have and the crate has not"
    )


def test_nobody_calls_a_method_of_the_node_from_below() -> None:
    """An ``impl Node`` is behaviour of the room that it stands in, wherever the struct is."""
    assert calls_up(CORE, CORE_ROOMS, {"Node": "node"}) == set()


def test_files_of_the_core_form_no_circle() -> None:
    """Except for the ring: its ends use fields of the ring that no other module may use."""
    assert circles(CORE, alone="ring") == []


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


# The rooms of rust/py, lowest first: what each holds, and the rooms below it that it imports. State is below, behaviour
# above.
PY = ROOT / "rust" / "py" / "src"
PY_ROOMS: dict[str, set[str]] = {
    "convert": set(),  # terms to Python objects and back
    "state": {"convert"},  # what the host, its processes and its threads keep; what instruments are made of
    "door": {"state"},  # the single entry of everything that CPython calls
    "control": {"state", "door"},  # which code has events: found, armed, taken in when it comes later
    "directory": {"state", "door", "control"},  # from a thread, task, queue or port to its process and back
    "thread": {"convert", "state"},  # a running call, its callers, its arguments, as the core sees them
    # watched functions and modules; messages, senders, tokens, lengths
    "instrument": {"convert", "state", "control", "thread"},
    "delivery": {"convert", "state", "door", "instrument"},  # from the rings of sessions to mailboxes
    # threads and tasks as processes: starts, turns, links, ends
    "processes": {"convert", "state", "door", "control", "directory", "instrument"},
    # instruments, one folder or file for each piece of the standard library
    "library": {"convert", "state", "door", "control", "directory", "instrument", "processes"},
    "entry": {"state", "door", "control", "directory", "thread", "instrument"},  # what the interpreter calls
    # the table of all instruments; the ends of sessions; forks
    "host": {
        *("state", "door", "control", "directory", "instrument", "delivery", "processes", "library", "entry"),
    },
    # what Python calls
    "api": {
        *("convert", "state", "door", "control", "directory", "instrument", "delivery", "processes", "library", "host"),
    },
}
# No import points up. These functions and tables of higher rooms are given to the state when the module is made
# (`state::above`), each for a reason.
ABOVE = {
    "handlers": "the order of all handlers of a function is known where all instruments are",
    "modules": "so are all modules that instruments wait for",
    "thread_begins": "the door makes a thread's state, for which the directory finds the process",
    "thread_ends": "the door drops it, and the process emits its end",
    "greenlet_changed": "the door lets an event in on another greenlet, which an instrument looks at",
    "port_gone": "the directory sees that an object is freed; ports emit the end",
    "task_gone": "likewise; links and monitors get to know",
    "woken": "a task's step begins with a result, which the instrument of futures receives",
    "served": "a loop runs a callback, and ports know for which of them",
    "settle": "ends that wait are signalled between two instructions, or while a process waits for a message",
    "callbacks": "arming registers the interpreter's callbacks, which know instruments and calls",
    "evaluate": "the same before 3.12",
    "profile": "the same before 3.12, for functions written in C",
    "tokens_idle": "the core and the directory see the last token go; all instruments are asked whether they stay",
}
# Files that pieces of the library share. A piece imports no other file of another piece.
SHARED = {"inner_callbacks", "pool_queues", "results"}


def test_rooms_of_the_glue_import_downwards_only() -> None:
    assert arrows_up(PY, PY_ROOMS) == []
    rank = list(PY_ROOMS)
    assert all(rank.index(other) < rank.index(room) for room, below in PY_ROOMS.items() for other in below)


def test_lower_rooms_of_the_glue_get_few_functions_from_above() -> None:
    fields = re.search(r"pub struct Above \{(.*?)^\}", (PY / "state" / "above.rs").read_text(), re.S | re.M)
    assert fields is not None
    assert set(re.findall(r"^    pub (\w+):", fields[1], re.M)) == ABOVE.keys()


def test_nobody_of_the_glue_calls_a_method_from_below() -> None:
    values = ["directory", "spawning", "loading", "armed", "mailbox", "deliveries", "running"]
    kinds = ["Directory", "Spawning", "Loading", "Armed", "Mailbox", "Deliveries", "RunningTask"]
    receivers = dict(zip(kinds, values, strict=True)) | {"Host": "host", "ThreadState": "state", "Delivery": "delivery"}
    assert calls_up(PY, PY_ROOMS, receivers) == set()


def test_files_of_the_glue_form_no_circle() -> None:
    assert circles(PY) == []


def test_a_piece_of_the_library_imports_no_sister() -> None:
    for module, path in rust_files(PY).items():
        if module[0] == "library" and len(module) > 1:
            others = {found[1] for found in rust_imports(module, path) if found[0] == "library" and len(found) > 1}
            assert others - SHARED <= {module[1]}, path


def test_no_file_of_the_glue_is_long() -> None:
    for crate in ("cpython", "py"):
        for path in (ROOT / "rust" / crate / "src").rglob("*.rs"):
            assert path.read_text().count("\n") <= 600, path


def test_only_two_crates_know_python() -> None:
    for crate in CRATES:
        files = [ROOT / "rust" / crate / "Cargo.toml", *(ROOT / "rust" / crate).rglob("*.rs")]
        knows = [path for path in files if re.search(r"\bpyo3", path.read_text())]
        assert bool(knows) == (crate in ("cpython", "py")), knows


# Uses outside the facade, and so outside the models, with the reason. `Arc` is allowed: its counts are not a protocol
# of this package. A lint of clippy would see the type behind the facade's name, and refuse both.
BESIDE_THE_FACADE = {
    "count/cells.rs": ({"LazyLock"}, "one store for the process; loom has none that is static"),
    "point.rs": ({"thread::panicking"}, "no synchronisation"),
    "state/snapshot.rs": ({"atomic"}, "a static counter that only has to give another number each time"),
    "state/token_liveness.rs": ({"OnceLock"}, "set before the first token; the models set none"),
    "state/tracee.rs": ({"OnceLock"}, "one user: the thread that runs the process, or the host"),
    "sync/barrier.rs": ({"atomic"}, "a compiler's fence, and what the system offers; loom has a fence in its place"),
    "sync/mutants.rs": ({"OnceLock"}, "no model may explore it"),
    "sync/section.rs": ({"Mutex"}, "unused sections: a static, which loom does not have"),
}


# What the rules for versions cover in rust/core: names at its root, the modules `kinds` and `tracer`.
CORE_INTERFACE = {
    *("Busy", "Call", "Capture", "Class", "Error", "Event", "Flags", "Mfa", "Op", "Options", "Overflow", "Point"),
    *("Program", "Record", "Session", "Tracee", "What", "Who", "drain", "kinds", "lost", "tracer"),
}


def test_the_interface_of_the_core_is_small() -> None:
    """It grows on purpose only; what a host uses is in one module beside it."""
    code = re.sub(r"//.*", "", (CORE / "lib.rs").read_text())
    host = re.search(r"^pub mod host \{\n.*?^\}\n", code, re.S | re.M)
    assert host is not None
    root = code.replace(host[0], "")
    bodies = re.findall(r"^pub use\s+([^;]+);", root, re.M)
    assert {path[-1] for body in bodies for path in trees(body)} == CORE_INTERFACE
    assert re.findall(r"^pub (?!use)\w+ \w+", root, re.M) == []


def test_the_core_takes_atomics_from_its_facade_only() -> None:
    beside = {}
    for module, path in rust_files(CORE).items():
        code = rust_code(path)
        names = [found for body in re.findall(r"\buse\s+([^;]+);", code) for found in trees(body)]
        names += [found.split("::") for found in re.findall(r"\bstd(?:::\w+)+", re.sub(r"\buse\s+[^;]+;", "", code))]
        found = {name[2] for name in names if name[:2] == ["std", "sync"] and len(name) > 2} - {"Arc"}
        found |= {"::".join(name[1:3]) for name in names if name[:2] == ["std", "thread"]}
        if found and module != ("sync",):
            beside[str(path.relative_to(CORE))] = found
    assert beside == {file: names for file, (names, _) in BESIDE_THE_FACADE.items()}


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
    # gives an exception back to the interpreter, on purpose
    "cpython/interpreter/again.rs": {"call"},
    # a signal's handler may do very little: it notes the signal and wakes a thread
    "py/entry/ending.rs": {"on_signal"},
    # 3.11's frame evaluation function decides in `begin` and `end`, through the door
    "py/entry/callbacks.rs": {"evaluate_unwinding", "evaluate_seen"},
    "cpython/hooks/profile.rs": {"front", "setprofile"},
}
BY_OTHERS = {"py/convert/arrow.rs", "py/api/tracer_abi.rs"}  # called by readers of Arrow, and by tracer modules in C


def test_what_the_interpreter_calls_goes_through_the_door() -> None:
    """A function that CPython calls enters the tracer by ``door``, directly or through functions of its file."""
    states = []
    for path in sorted(path for crate in ("cpython", "py") for path in (ROOT / "rust" / crate / "src").rglob("*.rs")):
        name, text = str(path.relative_to(ROOT / "rust")).replace("/src/", "/", 1), path.read_text()
        if name != "py/door.rs" and re.search(r"tls::(get|set)\(", text):
            states.append(name)
        if name in BY_OTHERS:
            continue
        bodies = {
            found[2]: found[0]
            for found in re.finditer(r"^( *)(?:[^\n/]* )?fn (\$?\w+)\b.*?\n\1\}\n", text, re.S | re.M)
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


def test_no_file_depends_on_a_machine() -> None:
    # a class of one letter, so that this file passes its own test
    folders = r"(?<![\w.$}])/(wor[k]|roo[t]|hom[e]/\w+|User[s]|tm[p]/\w)/"
    forbidden = re.compile(rf"{folders}|\.\./share[d]|https?://(pyp[i]|crate[s]|files[.]pythonhosted)\b")
    for path in tracked():
        if path.name != "Cargo.lock":
            found = forbidden.search(path.read_bytes().decode(errors="replace"))
            assert found is None, f"{path.relative_to(ROOT)}: {found.group()}"


def test_no_built_file_is_in_the_repository() -> None:
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
