"""Tables in Markdown of the results of a run.

    python -m benches.python.report RESULT.json ... [--into docs/costs.md]

prints the tables, or puts them between the page's two marks.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .runner import NOISE, beside

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown; none if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *lines, ""] if lines else []


def page(result: dict[str, Any]) -> str:
    """All tables of one interpreter's run."""
    machine, python = result["machine"], result["python"]
    lines = [
        f"### CPython {python['version']}{', free-threaded' if python['free_threaded'] else ''}",
        "",
        f"{result['date']}; {machine['cpu']}, {machine['cores']} cores, {machine['system']}; built with "
        f"`{python['flags'] or 'unknown flags'}`; the best of {result['rounds']} rounds"
        f"{' of a quick run: to see that it works, not to be quoted' if result['quick'] else ''}.",
        "",
    ]
    lines += (
        _costs(result)
        + _beside(result["subjects"], result["tools"])
        + programs(result.get("programs", {}), result["tools"])
        + _passing(result.get("passing", {}))
        + _threads(result["threads"], python["free_threaded"])
        + _once(result["once"])
    )
    measured = {**result["subjects"], **result.get("programs", {})}
    for name, subject in measured.items():
        lines += [f"- {name}: `{tool}` went wrong: {why.splitlines()[0]}" for tool, why in subject["wrong"].items()]
    missing = {f"- `{tool}`: {why}" for subject in measured.values() for tool, why in subject["missing"].items()}
    lines += sorted(missing)
    lines += [f"- {name} failed: {why.splitlines()[-1]}" for name, why in result["failed"].items()]
    return "\n".join(lines).rstrip() + "\n"


def _costs(result: dict[str, Any]) -> list[str]:
    subjects = result["subjects"]
    head = ["", "", *(f"{name}{' **void**' if subject['void'] else ''}" for name, subject in subjects.items())]
    rows = [["untraced, ns", "", *(f"{subject['base_ns']:g}" for subject in subjects.values())]]
    for name, tool in result["tools"].items():
        cells = [_cost(subject["tools"].get(name), tool["one"]) for subject in subjects.values()]
        if any(cell != "–" for cell in cells):
            rows.append([f"`{name}`", tool["about"], *cells])
    lines = table(head, rows if subjects else [])
    if any(figures["shaky"] for subject in subjects.values() for figures in subject["tools"].values()):
        lines += [f"~: the process is off that of `none` by more than {NOISE} even untraced.", ""]
    void = [name for name, subject in subjects.items() if subject["void"]]
    if void:
        lines += [f"Void, since nothing against nothing is off 1 by more than {NOISE}: {', '.join(void)}.", ""]
    return lines


def _cost(figures: dict[str, Any] | None, one: bool) -> str:
    if figures is None:
        return "–"
    ns = figures["ns_hot" if one else "ns"]
    return f"{'~' if figures['shaky'] else ''}{ns:.1f} (x{figures['ratio']:.2f})"


def _beside(subjects: dict[str, Any], tools: dict[str, Any], mean: bool = False) -> list[str]:
    rows = []
    for name, tool in tools.items():
        for other in tool["versus"]:
            ratios = [beside(subject, name, other) for subject in subjects.values()]
            if any(ratio is not None for ratio in ratios):
                cells = ["–" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
                rows.append([f"`{name}` ÷ `{other}`", *cells, *([_mean(ratios)] if mean else [])])
    return table(["what one adds over what the other adds", *subjects, *(["mean"] if mean else [])], rows)


def _mean(ratios: list[float | None]) -> str:
    """The geometric mean, if each ratio is known and above 0."""
    known = [ratio for ratio in ratios if ratio is not None and ratio > 0]
    return f"{statistics.geometric_mean(known):.2f}" if len(known) == len(ratios) else "–"


def programs(programs: dict[str, Any], tools: dict[str, Any]) -> list[str]:
    """The tables of the real workloads: the slow-down by the best of the rounds, and in brackets by their median."""
    marked = (f"{name}{' **void**' if workload['void'] else ''}" for name, workload in programs.items())
    head = ["real workloads", "", *marked, "mean"]
    rows = []
    for name, tool in tools.items():
        figures = [workload["tools"].get(name) for workload in programs.values()]
        if any(figures):
            cells = ["–" if found is None else f"x{found['ratio']:.2f} ({found['median']:.2f})" for found in figures]
            rows.append([f"`{name}`", tool["about"], *cells, _mean([found and found["ratio"] for found in figures])])
    lost = {
        name: workload["tools"].get("messages_file", {}).get("told", {}).get("lost")
        for name, workload in programs.items()
    }
    lines = [
        f"- {name}: `messages_file` lost {number:,} messages of its last run" for name, number in lost.items() if number
    ]
    return [*table(head, rows), *_beside(programs, tools, mean=True), *lines, *([""] if lines else [])]


def _passing(passing: dict[str, Any]) -> list[str]:
    rows = (
        [
            f"{name}: {row['about']}",
            f"{row['ns']:,.0f}",
            *(f"x{row[mode]:.2f}" for mode in ("idle", "other", "traced")),
            f"x{row['bar']:.2f}" if row["bar"] else "–",
        ]
        for name, row in passing.items()
    )
    head = ["messages and the like", "untraced, ns", "a session idle", "another is traced", "traced", "should be"]
    return table(head, rows)


def _threads(threads: dict[str, Any], free: bool) -> list[str]:
    rows = (
        [name, f"{row['ns_1']}", f"{row['ns_2']}", f"{row['efficiency']:.2f}", f"{row['kept']:.2f}"]
        for name, row in threads.items()
    )
    lines = table(["threads", "ns a call in one", "in each of two", "efficiency", "of the untraced one"], rows)
    plain = [row["efficiency"] for name, row in threads.items() if name.startswith("none")]
    if free and any(abs(efficiency - 1) > NOISE for efficiency in plain):
        lines += ["Void, since two untraced threads already disturb each other: the machine has no two free cores.", ""]
    return lines


def _once(once: dict[str, Any]) -> list[str]:
    rows = []
    if imports := once.get("imports"):
        rows.append(
            ["import", f"{imports['ms']} ms; third-party packages: {', '.join(imports['third_party']) or 'none'}"]
        )
    if line := once.get("start_line"):
        rows.append(["start files, where nothing is to be traced", f"{line['us']} µs"])
    if arming := once.get("arming"):
        for name, ms in arming["ms"].items():
            count = arming["functions"].get(name.rpartition(":")[0])
            rows.append([f"arming {name}", f"{ms:.3g} ms" + (f" ({count:,} functions)" if count and count > 1 else "")])
    for name, what in ("sessions", "sessions made and destroyed"), ("tasks", "short tasks under call_time"):
        if grown := once.get(name):
            rows.append([
                f"{grown['times']:,} {what}",
                f"{grown['us']} µs each; the process grows by {grown['first_tenth_kib']:,} KiB in the first tenth, "
                f"by {grown['rest_kib']:,} KiB in the rest",
            ])  # fmt: skip
    return table(["once", ""], rows)


def put_into(path: Path, results: list[dict[str, Any]]) -> None:
    """Replaces the text between the page's marks.

    Raises:
        ValueError: a quick run among the results, or a page without marks.
    """
    if any(result["quick"] for result in results):
        raise ValueError("a quick run is not for the page: run without --quick")
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no place for figures: {BEGIN} and {END}, each on a line of its own")
    results = sorted(results, key=lambda result: [int(n) for n in result["python"]["numbers"]])
    path.write_text(f"{before}{BEGIN}\n{chr(10).join(page(result) for result in results)}{END}{after}")


def main() -> None:
    """Makes tables as the docstring of the module tells."""
    parser = argparse.ArgumentParser(prog="benches.python.report", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--into", type=Path)
    words = parser.parse_args()
    results = [json.loads(path.read_text()) for path in words.results]
    if words.into:
        put_into(words.into, results)
    else:
        print("\n".join(page(result) for result in results))


if __name__ == "__main__":
    main()
