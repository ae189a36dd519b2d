"""Runs each file of tests in a pytest of its own, several at a time, and closes with the sum of their counts.

    python scripts/pytests.py [--further] [argument of pytest...]

--further: the interpreter is not the first of a run. The files of ONCE are left out; on 3.12 and 3.13 those of ENDS,
too.

A file has its own process for two reasons. Leftovers of a test can't reach another file. And a session looks for
its functions among all objects of the process: four to ten times as many where one process holds every file of tests.
INVISO_TEST_JOBS is how many files run at a time: one more than there are cores, because some tests wait.
INVISO_TEST_DEADLINE is how many seconds a file may take. Then its processes are aborted, and the stacks of its threads
are shown: a test that waits for ever fails, and the run goes on.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

ROOT = pathlib.Path(__file__).resolve().parent.parent
# They begin first: the run should not end with one of them alone.
LONG = ["test_stress.py", "test_host_fork.py", "test_comings_and_goings.py", "test_properties.py"]
# They take all processors, so they run one after the other when the others are done.
ALONE = ["test_chaos.py", "test_agent_scale.py"]
# Files whose tests run no hook of the interpreter, or only to have something to read: one interpreter is enough.
ONCE = {
    "test_agent_scale.py": "agents, and nodes without a program",
    "test_analysis_questions.py": "tables of messages that are given",
    "test_autostart_files.py": "configuration files",
    "test_bad_arguments.py": "arguments are checked before anything is traced",
    "test_benches.py": "the benchmark's runner and its tables",
    "test_case.py": "files of trace cases",
    "test_case_cli.py": "a command that asks nodes",
    "test_chaos.py": "agents, and what becomes of their nodes",
    "test_cli_report.py": "texts of reports",
    "test_comings_and_goings.py": "a control and sockets",
    "test_completion.py": "files that are made from the command's options",
    "test_config.py": "settings and where they come from",
    "test_conformance_runner.py": "the runner of recorded cases; the cases themselves run under each interpreter",
    "test_differential.py": "match specifications outside calls, compared with Erlang's answers",
    "test_etf.py": "terms and bytes",
    "test_export.py": "logs in, files of other tools out",
    "test_export_tables.py": "logs in, tables out",
    "test_export_names.py": "logs in, files of other tools out",
    "test_inviso_hostile.py": "frames",
    "test_layout.py": "types, imports and files of the sources",
    "test_log.py": "logs of files",
    "test_log_cli.py": "texts of `inviso log`",
    "test_merge.py": "logs in, one log or lines out",
    "test_merge_cli.py": "texts of `inviso merge`",
    "test_otp_reads.py": "bytes that Erlang reads",
    "test_otp_terms.py": "terms and bytes",
    "test_otp_writes.py": "bytes that Erlang writes",
    "test_otlp.py": "logs in, spans out",
    "test_picture.py": "rows in, drawings out",
    "test_picture_browser.py": "pages in a browser",
    "test_profile_diff.py": "two profiles in, a difference out",
    "test_pytests.py": "this file",
    "test_release.py": "metadata, and files of a release",
    "test_seq_chart.py": "printouts and drawings",
    "test_seq_merge.py": "logs in, one sequence out",
    "test_soak.py": "a service for half a minute, and leaks; the long run is by hand",
    "test_top_screen.py": "keys and a screen",
    "test_upgrade.py": "files of earlier versions",
}
# Files that 3.12 and 3.13 leave out; the first Python of a run and the free-threaded one run them. They test many
# processes, commands and match specifications. These use the hooks of an interpreter only as other files do.
ENDS = [
    *("test_children.py", "test_cli.py", "test_dbg_limits.py", "test_docs.py", "test_flight_recorder.py"),
    *("test_match_fuzz.py", "test_match_hostile.py", "test_meta.py", "test_meta_model.py", "test_ms.py"),
    *("test_multiprocess.py", "test_otp_blame.py", "test_process_message_numbers.py", "test_process_pids.py"),
    *("test_run_children.py", "test_runtime_local.py", "test_seq_multiprocess.py", "test_seq_nodes.py"),
    *("test_shadowed_modules.py", "test_share.py", "test_trace_command.py", "test_agent.py", "test_agent_clocks.py"),
    *("test_agent_paths.py", "test_agent_security.py", "test_autostart.py", "test_autostart_children.py"),
    *("test_autostart_control.py", "test_cluster.py", "test_cluster_async.py", "test_cluster_others.py"),
    *("test_dask.py", "test_inviso_control.py", "test_inviso_faults.py", "test_inviso_models.py"),
    *("test_inviso_programs.py", "test_inviso_security.py", "test_magics.py"),
    *("test_meta_nodes.py", "test_pytest_plugin.py", "test_ray.py"),
    *("test_real_services.py", "test_tool.py", "test_top.py", "test_ttb.py"),
]
BETWEEN = [(3, 12), (3, 13)]
DEADLINE = int(os.environ.get("INVISO_TEST_DEADLINE") or 600)  # the longest file takes 150 s on two cores
NO_TESTS = 5  # pytest's status where all tests of a file were deselected


def plugins_to_block(path: pathlib.Path) -> list[str]:
    """The plugins of pytest that this file does not need. To load those of anyio and hypothesis takes two seconds."""
    uses_hypothesis = "hypothesis" in path.read_text(encoding="utf-8")
    return ["cacheprovider", "anyio", *([] if uses_hypothesis else ["hypothesispytest"])]


def run(path: pathlib.Path, arguments: list[str]) -> tuple[pathlib.Path, int, str, float]:
    begun = time.monotonic()
    blocked = [word for name in plugins_to_block(path) for word in ("-p", f"no:{name}")]
    words = [sys.executable, "-m", "pytest", *blocked]
    words += [str(path.relative_to(ROOT)), *arguments]
    # A file, because a process that outlives pytest would hold a pipe open.
    with tempfile.TemporaryFile() as shown:
        pytest = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.STDOUT, process_group=0
        )
        late = b""
        try:
            pytest.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            late = f"\n{path.name} did not end in {DEADLINE} s: its processes were aborted\n".encode()
            signal_group(pytest.pid, signal.SIGABRT)  # pytest's faulthandler shows the stacks of the threads
            with contextlib.suppress(subprocess.TimeoutExpired):
                pytest.wait(30)
        finally:
            signal_group(pytest.pid, signal.SIGKILL)
        status = pytest.wait()
        shown.seek(0)
        output = shown.read() + late
    return path, status, output.decode(errors="replace"), time.monotonic() - begun


def signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def counts(output: str) -> dict[str, int]:
    """The counts in pytest's last line: ``3 passed, 1 skipped in 0.12s``."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ [a-z]+ in [\d.]+s\b", line)]
    found = re.findall(r"(\d+) ([a-z]+)", lines[-1].split(" in ")[0]) if lines else []
    return {{"errors": "error", "warning": "warnings"}.get(word, word): int(number) for number, word in found}


def main() -> int:
    arguments = sys.argv[1:]
    files = sorted((ROOT / "tests" / "python").glob("test_*.py"), key=lambda path: path.name)
    if gone := {*LONG, *ALONE, *ONCE, *ENDS} - {path.name for path in files}:
        sys.exit(f"scripts/pytests.py names files that are not there: {', '.join(sorted(gone))}")
    if "--further" in arguments:
        arguments.remove("--further")
        left = {*ONCE, *(ENDS if sys.version_info[:2] in BETWEEN else ())}
        print("left out, because other interpreters say all:", ", ".join(sorted(left)))
        files = [path for path in files if path.name not in left]
    jobs = int(os.environ.get("INVISO_TEST_JOBS") or (os.cpu_count() or 1) + 1)
    begun, total, failed = time.monotonic(), collections.Counter[str](), []
    files.sort(key=lambda path: LONG.index(path.name) if path.name in LONG else len(LONG))
    alone = [path for path in files if path.name in ALONE]
    for some, many in (([path for path in files if path not in alone], jobs), (alone, 1)):
        with ThreadPoolExecutor(many) as pool:
            for running in as_completed([pool.submit(run, path, arguments) for path in some]):
                path, status, output, seconds = running.result()
                print(f"{seconds:7.1f} s  {path.name}", flush=True)
                counted = counts(output)
                total.update(counted)
                if status not in (0, NO_TESTS) or (status == 0 and not counted):
                    failed.append(f"{path.name} (status {status})")
                    total["error"] += not counted  # pytest did not finish
                    print(output, flush=True)
    words = ["failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "error"]
    if failed:
        print("failed:", ", ".join(sorted(failed)))
    print(", ".join(f"{total[word]} {word}" for word in words if total[word]), f"in {time.monotonic() - begun:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
