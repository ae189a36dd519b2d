"""Who may import whom, and that nothing leans on a machine."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "inviso"
ALLOWED = {
    "errors": set(),
    "terms": set(),
    "process": {"_native", "errors"},
    "trace": {"_native", "errors", "terms"},
}


@pytest.mark.parametrize("module", sorted(ALLOWED))
def test_modules_import_downwards_only(module: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            imported |= {node.module} if node.module else {name.name for name in node.names}
    assert imported <= ALLOWED[module]


def test_crates_depend_downwards_only() -> None:
    allowed = {"term": set(), "core": {"inviso-term"}, "py": {"inviso-term", "inviso-core"}}
    for crate, below in allowed.items():
        manifest = (ROOT / "rust" / crate / "Cargo.toml").read_text()
        assert set(re.findall(r"^(inviso-\w+)\.workspace", manifest, re.MULTILINE)) == below
        assert ("pyo3" in manifest) == (crate == "py")


def test_the_core_takes_atomics_from_its_facade_only() -> None:
    for path in (ROOT / "rust" / "core" / "src").rglob("*.rs"):
        if path.name not in ("sync.rs", "barrier.rs") and "tests" not in path.parts:
            code = path.read_text().split("#[cfg(all(test")[0]
            assert "std::thread::spawn" not in code, path


def test_types() -> None:
    pytest.importorskip("mypy")
    words = [sys.executable, "-m", "mypy", "--strict", str(PACKAGE)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
    words = [sys.executable, "-m", "mypy.stubtest", "inviso._native"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
