"""The runner of the test files: it shows and counts failures, also if pytest itself doesn't finish."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "pytests.py"
FILES = {
    "test_good.py": "import pytest\ndef test_one(): pass\ndef test_two(): pass\ndef test_three(): pytest.skip()\n",
    "test_bad.py": "def test_one(): pass\ndef test_two(): assert 'what is' == 'shown'\n",
    "test_gone.py": "import os\ndef test_one(): os._exit(0)\n",
    "test_crash.py": "import os\ndef test_one(): os.abort()\n",
    "test_wrong.py": "import no_such_module\n",
    "test_empty.py": "",
    "test_hangs.py": "import threading\ndef test_one(): threading.Event().wait()\n",
    "test_leaves.py": "import subprocess\ndef test_one(): subprocess.Popen(['sleep', '600'])\n",
}


def run(folder: Path, names: list[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    (folder / "tests" / "python").mkdir(parents=True)
    for name in names:
        (folder / "tests" / "python" / name).write_text(FILES[name])
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    main: Any = runpy.run_path(str(SCRIPT))["main"]
    monkeypatch.setitem(main.__globals__, "ROOT", folder)
    monkeypatch.setitem(main.__globals__, "LONG", [])
    monkeypatch.setitem(main.__globals__, "ONCE", {"test_good.py": "known"})
    for name in ("ALONE", "ENDS"):
        monkeypatch.setitem(main.__globals__, name, [])
    return int(main())


def test_all_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, ["test_good.py", "test_empty.py"], monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 passed, 1 skipped in ")


def test_what_fails_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ["test_good.py", "test_bad.py", "test_wrong.py"], monkeypatch) == 1
    out = capsys.readouterr().out
    assert "assert 'what is' == 'shown'" in out and "failed: test_bad.py (status 1), test_wrong.py" in out
    assert out.splitlines()[-1].startswith("1 failed, 3 passed, 1 skipped, 1 error in ")


@pytest.mark.parametrize("name", ["test_gone.py", "test_crash.py"])
def test_a_process_that_ends_early_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(tmp_path, ["test_good.py", name], monkeypatch) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 passed, 1 skipped, 1 error in ")


def test_a_file_that_does_not_end_has_failed_and_its_stacks_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INVISO_TEST_DEADLINE", "5")
    assert run(tmp_path, ["test_good.py", "test_hangs.py"], monkeypatch) == 1
    out = capsys.readouterr().out
    assert "test_hangs.py did not end in 5 s" in out and "in test_one" in out
    assert out.splitlines()[-1].startswith("2 passed, 1 skipped, 1 error in ")


def test_a_process_that_a_test_leaves_behind_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ["test_good.py", "test_leaves.py"], monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 passed, 1 skipped in ")


def test_what_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, ["test_good.py", "test_empty.py"], monkeypatch, "--further") == 0
    out = capsys.readouterr().out
    assert "test_good.py" in out.splitlines()[0] and "test_good.py" not in out.split("\n", 1)[1]


def test_a_file_that_is_named_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"test_good\.py"):
        run(tmp_path, ["test_empty.py"], monkeypatch)


def test_tests_that_a_shell_starts_in_the_background_can_interrupt_programs() -> None:
    name = "test_keyboard_interrupt_goes_through_traced_frames"
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/python/test_host_fork.py::{name}"]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *words]
    done = subprocess.run(ignoring, cwd=SCRIPT.parents[1], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_what_the_interpreter_between_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests" / "python").mkdir(parents=True)
    for name in ("test_good.py", "test_bad.py"):
        (tmp_path / "tests" / "python" / name).write_text(FILES[name])
    main: Any = runpy.run_path(str(SCRIPT))["main"]
    for name, value in (
        ("ROOT", tmp_path),
        ("LONG", []),
        ("ALONE", ["test_good.py"]),
        ("ONCE", {}),
        ("ENDS", ["test_bad.py"]),
    ):
        monkeypatch.setitem(main.__globals__, name, value)
    for between, status in ((sys.version_info[:2], 0), ((3, 0), 1)):
        monkeypatch.setitem(main.__globals__, "BETWEEN", [between])
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--further"])
        assert main() == status, capsys.readouterr().out
