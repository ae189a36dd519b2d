"""What this process uses of its interpreter and its machine, and what it costs: ``inviso.about``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from ._native import interpreter

__all__ = ["About", "Part", "about"]


@dataclass(frozen=True, slots=True)
class Part:
    """One means of the package, as :func:`inviso.about` found it.

    Attributes:
        form: the form in use, in words.
        fast: whether it is the fast form. False also if no session can begin.
        installed: whether the program runs under it now; None for a means that is not installed.
        cost: what a slow form costs, or why no session can begin; "" for a fast one.
        remedy: what to do about that; "" for a fast form.

    >>> inviso.about().allocator
    Part(form="in front of Python's allocators", fast=True, installed=False, cost='', remedy='')
    """

    form: str
    fast: bool = True
    installed: bool | None = None
    cost: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        state = {None: "", True: ", installed", False: ", not installed"}[self.installed]
        return self.form + state


@dataclass(frozen=True, slots=True)
class About:
    """The result of :func:`inviso.about`. As text it is a table for a terminal; ``dataclasses.asdict`` makes a dict
    that ``json`` can write.

    Attributes:
        version: of this package.
        implementation: of Python, such as ``"CPython"``.
        python: its version, such as ``"3.13.0"``.
        build: what differs from a usual build: ``"debug"``, ``"free-threaded"``, ``"jit"`` (it runs; known from 3.14
            on), ``"trace-refs"``.
        system: the operating system and its release.
        machine: the processor's kind, such as ``"x86_64"``.
        libc: the C library, such as ``"glibc 2.36"``.
        ready: whether sessions can begin. If not, ``frames.cost`` has the reason.
        hook: how calls reach the package.
        frames: how arguments, callers and names are read.
        clock: what timestamps are read from.
        barrier: how a change waits for the threads that use the old state.
        record: how a thread's own record is found.
        thread: how the interpreter's state of a thread is found.
        task: where the running asyncio task is read from.
        allocator: the hook in front of Python's allocators (``call_memory``).

    >>> inviso.about().ready
    True
    """

    version: str
    implementation: str
    python: str
    build: tuple[str, ...]
    system: str
    machine: str
    libc: str
    ready: bool
    hook: Part
    frames: Part
    clock: Part
    barrier: Part
    record: Part
    thread: Part
    task: Part
    allocator: Part

    def __str__(self) -> str:
        build = f" ({', '.join(self.build)})" if self.build else ""
        lines = [
            f"inviso {self.version}, {self.implementation} {self.python}{build}",
            f"{self.system}, {self.machine}, {self.libc}",
            *(f"{name + ':':11}{getattr(self, name)}" for name in _PARTS),
        ]
        for name in _PARTS:
            part: Part = getattr(self, name)
            if not part.fast:
                lines += [f"{name}: {part.cost}", f"  {part.remedy}"]
        return "\n".join(lines)


KNOWN = "CPython 3.11 to 3.15 on x86-64 Linux"
"""The interpreters whose memory is known."""

_PARTS = ("hook", "frames", "clock", "barrier", "record", "thread", "task", "allocator")


def about() -> About:
    """Reports what the package uses in this process, and what it costs. Nothing in the program changes.

    Returns an :class:`inviso.About` with a :class:`Part` for each means. A part that has its slow form says what that
    costs, and what to do. The first call in a process without a session takes some 10 ms: it measures the clock.

    >>> here = inviso.about()
    >>> here.python.startswith("3."), here.hook.installed
    (True, False)
    >>> print(here)  # doctest: +ELLIPSIS
    inviso ...
    """
    from inviso import __version__

    facts = interpreter.facts()
    system = os.uname()
    return About(
        version=__version__,
        implementation={"cpython": "CPython"}.get(sys.implementation.name, sys.implementation.name),
        python=_version(),
        build=_build(),
        system=f"{system.sysname} {system.release}",
        machine=system.machine,
        libc="musl" if facts["musl"] else _glibc(),
        ready=facts["unreadable"] is None,
        hook=_hook(facts["monitoring"], facts["tool"], facts["installed"]),
        frames=_frames(facts["public"], facts["unreadable"]),
        clock=_clock(facts["processors_clock"], facts["tick"]),
        barrier=_barrier(facts["membarrier"]),
        record=_record(facts["initial_exec"]),
        thread=_thread(facts["monitoring"], facts["state_word"]),
        task=_task(facts["task"]),
        allocator=_allocator(facts["allocator"]),
    )


def _version() -> str:
    release = {"final": "", "alpha": f"a{sys.version_info.serial}", "beta": f"b{sys.version_info.serial}"}
    end = release.get(sys.version_info.releaselevel, f"rc{sys.version_info.serial}")
    return ".".join(map(str, sys.version_info[:3])) + end


def _build() -> tuple[str, ...]:
    jit = getattr(sys, "_jit", None)
    found = {
        "debug": hasattr(sys, "gettotalrefcount"),
        "free-threaded": "t" in sys.abiflags,
        "jit": jit is not None and jit.is_enabled(),
        "trace-refs": hasattr(sys, "getobjects"),
    }
    return tuple(name for name, there in found.items() if there)


def _glibc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown C library"
    except (OSError, ValueError):
        return "unknown C library"


def _hook(monitoring: bool, tool: int | None, installed: bool) -> Part:
    if monitoring:
        return Part("sys.monitoring" + (f", tool id {tool}" if tool is not None else ""), installed=installed)
    return Part(
        "frame evaluation function (PEP 523)",
        fast=False,
        installed=installed,
        cost="while anything is traced, every Python call passes through it, and takes some 500 bytes of C stack",
        remedy="use CPython 3.12 or later, where only traced functions have events",
    )


def _frames(public: bool, unreadable: str | None) -> Part:
    if public:
        return Part(
            "CPython's public functions",
            fast=False,
            cost="a count takes 10 ns more, other events 0.1 to 1 µs; a renamed function has its code's name",
            remedy=f"use a wheel for {KNOWN}",
        )
    if unreadable is None:
        return Part("the interpreter's memory, by checked layouts")
    return Part(
        "not readable",
        fast=False,
        cost=f"no session can begin: {unreadable}",
        remedy=f"use {KNOWN}, a newer version of inviso, or build it with INVISO_PUBLIC_API=1 (from 3.12 on; slower)",
    )


def _clock(processors: bool, tick: float) -> Part:
    if processors:
        return Part(f"counter of the processor, {tick:.2f} ns a tick")
    return Part(
        f"clock of the operating system, {tick:.2f} ns a tick",
        fast=False,
        cost="a timestamp takes some 20 ns more",
        remedy="use a processor, or a virtual machine, whose time stamp counter is invariant",
    )


def _barrier(membarrier: bool) -> Part:
    if membarrier:
        return Part("membarrier")
    return Part(
        "a fence at each event",
        fast=False,
        cost="each event takes some 10 ns more",
        remedy="use Linux 4.14 or later, and allow the system call membarrier (seccomp, containers)",
    )


def _record(initial_exec: bool) -> Part:
    if initial_exec:
        return Part("thread-local word at a fixed distance (initial-exec)")
    return Part(
        "thread-local word by the loader's function",
        fast=False,
        cost="each event takes some 5 ns more",
        remedy="use a wheel for glibc on x86-64",
    )


def _thread(monitoring: bool, near: bool) -> Part:
    if near:
        return Part("thread-local word of the interpreter")
    if not monitoring:
        return Part("PyThreadState_Get")
    return Part(
        "PyThreadState_Get",
        fast=False,
        cost="each event takes some 10 ns more",
        remedy=f"use a wheel for {KNOWN} with glibc, and a Python that no program loads later (embedding)",
    )


def _task(place: str) -> Part:
    if place == "asked":
        return Part(
            "asyncio's functions",
            fast=False,
            cost="each event takes some 30 ns more while an event loop runs",
            remedy=f"use asyncio's own task class, and a wheel for {KNOWN}",
        )
    return Part("the interpreter's memory" + (", checked at the first task" if place == "unknown" else ""))


def _allocator(state: str) -> Part:
    if state == "buried":
        return Part(
            "in front of Python's allocators",
            fast=False,
            installed=True,
            cost="it stays behind another tool's hook, and each allocation takes some ns more",
            remedy="end the other tool (tracemalloc) before the session that measures call_memory",
        )
    return Part("in front of Python's allocators", installed=state == "installed")
