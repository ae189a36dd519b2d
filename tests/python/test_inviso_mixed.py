"""A control on one version of Python, nodes on another: terms, times and logs are the same for both."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from inviso import log
from inviso_tools import HOST, Place
from waiting import until

ROOT = Path(__file__).resolve().parents[2]


@cache
def other() -> str | None:
    """Another version's interpreter that has this package, built from these sources."""
    for path in sorted(ROOT.glob(".venv*/bin/python")) + sorted(ROOT.glob(".dev-*/bin/python")):
        text = "import sys, inviso._native, inviso.control; print(*sys.version_info[:2])"
        try:
            done = subprocess.run([path, "-c", text], capture_output=True, text=True, timeout=60)
        except OSError:  # a link to an interpreter that is not here
            continue
        if done.returncode == 0 and done.stdout.split() != [str(part) for part in sys.version_info[:2]]:
            return str(path)
    return None


@pytest.mark.parametrize("is_control", [True, False])
def test_a_control_and_nodes_of_two_versions(place: Place, is_control: bool) -> None:
    found = other()
    if found is None:
        pytest.skip("no other version of Python has a build of this package here; scripts/ready.sh makes one")
    of_control, of_nodes = (found, sys.executable) if is_control else (sys.executable, found)
    nodes = [place.node(name, python=of_nodes) for name in "ab"]
    control = place.control(python=of_control)
    names = [node.node for node in nodes]
    assert control.ask("sys.version_info[:2]") != nodes[0].ask("sys.version_info[:2]")
    assert control.ask(f"control.add({names!r}, ('a tag', 1.5, None), {{}})") == [
        (name, ("ok", "new")) for name in names
    ]
    for name in names:
        control.ask(f"control.call([{name!r}], 'init_tracing', ('file', {name!r}))")
    spec = [("_", [], [("return_trace",)])]
    tpl = f"control.call(None, 'tpl', [('__main__', 'step', '_', {spec!r})])"
    assert control.ask(tpl) == [(name, ("ok", [1])) for name in names]
    control.ask("control.call(None, 'tf', [('all', ['call', 'timestamp'])])")
    for node in nodes:
        node.ask("work(10)")
    assert control.ask("control.call(None, 'stop_tracing')") == [(name, ("ok", "idle")) for name in names]
    for name in names:
        kinds = [message[2] for message in log.read(place.path / "logs" / name)]
        assert (kinds.count("call"), kinds.count("return_from")) == (10, 10)
    nodes[0].kill()
    until(lambda: control.ask("control.nodes()") == [names[1]])
    assert control.ask(f"control.call({names!r}, 'get_status')") == [
        (names[0], ("error", "not_an_added_node")),
        (names[1], ("ok", ("idle", "running"))),
    ]
    assert {each for _, each in control.ask("[(at, event[1]) for at, event in events]")} <= {*names}
    assert HOST in names[0]
