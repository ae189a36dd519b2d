"""How long event loops take to get to a callback."""

from __future__ import annotations

from contextlib import suppress

from inviso._native import LoopProbe, event_loops

__all__ = ["Loops"]


class Loops:
    """The event loops that run, each with a callback of ours that it is to get to; no trace shows it."""

    def __init__(self) -> None:
        self._probes: dict[int, LoopProbe] = {}
        self._answered: set[int] = set()

    def lag(self) -> int:
        """Milliseconds that the slowest has taken since the last look, or takes.

        A loop counts once it has got to a callback since tracing began: what kept it before is not tracing's doing.
        """
        probes, self._probes = self._probes, {}
        answered, self._answered = self._answered, set()
        lag = 0
        for event_loop in event_loops():
            name = id(event_loop)
            probe = probes.get(name)
            if probe is not None:
                if name in answered:
                    lag = max(lag, probe.waited // 1_000_000)
                if name in answered or probe.came:
                    self._answered.add(name)
                if not probe.came:
                    self._probes[name] = probe
                    continue
            with suppress(Exception):  # it closes, or the loop is of another kind
                event_loop.call_soon_threadsafe(fresh := LoopProbe())
                self._probes[name] = fresh
        return lag
