"""Control and runtime components when processes, sockets, disks and files fail: nothing hangs, and nobody else notices."""

from __future__ import annotations

from inviso.control._control import Control
from inviso_tools import HOST, Place, until


def test_a_node_is_there(place: Place) -> None:
    node = place.node("a")
    control = Control(name=f"tests@{HOST}")
    try:
        assert control.add([node.node], "mine", {}) == [(node.node, ("ok", "new"))]
        assert control.call(None, "tpl", [("__main__", "work", "_", True)]) == [(node.node, ("ok", [1]))]
    finally:
        control.close()
    until(lambda: node.ask("listener.host.owner is None"))
