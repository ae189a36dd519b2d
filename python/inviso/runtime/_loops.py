"""Measures how long event loops take to reach a callback."""

from __future__ import annotations

from contextlib import suppress

from inviso._native.interpreter import LoopProbe, event_loops

__all__ = ["Loops"]


class Loops:
    """The running event loops, each with a callback of ours in its queue. No trace shows that callback."""

    def __init__(self) -> None:
        self._probes: dict[int, LoopProbe] = {}
        self._answered: set[int] = set()

    def lag(self) -> int:
        """The longest time of a loop to its callback since the last call, in milliseconds. A callback still waiting
        counts.

        A loop counts after its first callback since tracing began: tracing did not cause an earlier delay.
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
            with suppress(Exception):  # the loop is closing, or of an unknown kind
                event_loop.call_soon_threadsafe(fresh := LoopProbe())
                self._probes[name] = fresh
        return lag
