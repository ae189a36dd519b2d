"""Functions and generators that carry out a list of steps, each under several names.

A step is a tuple: an action, and mostly the name and the steps of a function for it. Every function does its steps in
its own frame, so its frame is the one that catches, yields and delegates.
"""

from __future__ import annotations

import types
from contextlib import suppress  # noqa: F401
from typing import Any


class Oops(Exception):
    """The exception of a step."""


class Run:
    """One run of steps: counts of entries into each function, and the generators that any of them may resume."""

    def __init__(self) -> None:
        self.entered = dict.fromkeys(NAMES, 0)
        self.pool: list[Any] = []

    def generator(self, number: int) -> Any:
        """The generator of that number; None if there is none or it is running."""
        found = self.pool[number % len(self.pool)] if self.pool else None
        return None if found is None or found.gi_running else found


BODY = '''
def {name}(run, name, steps):
    run.entered[name] += 1
    for kind, *what in steps:
        if kind == "call":
            FUNCTIONS[what[0]](run, *what)
        elif kind == "catch":
            try:
                FUNCTIONS[what[0]](run, *what)
            except Oops as error:
                del error
        elif kind == "catch other":
            try:
                FUNCTIONS[what[0]](run, *what)
            except KeyError:
                pass
        elif kind == "finally":
            try:
                FUNCTIONS[what[0]](run, *what)
            finally:
                run = run
        elif kind == "with":
            with suppress(Oops):
                FUNCTIONS[what[0]](run, *what)
        elif kind == "raise":
            raise Oops
        elif kind == "make":
            run.pool.append(FUNCTIONS[what[0]](run, *what))
        elif kind == "next":
            if (found := run.generator(what[0])) is not None:
                next(found, None)
        elif kind == "close":
            if (found := run.generator(what[0])) is not None:
                found.close()
        elif kind == "throw":
            if (found := run.generator(what[0])) is not None and found.gi_suspended:
                try:
                    found.throw(Oops())
                except StopIteration:
                    pass
{more}
'''
YIELDS = '''
        elif kind == "yield":
            yield
        elif kind == "guarded yield":
            try:
                yield
            except Oops:
                pass
        elif kind == "delegate":
            yield from FUNCTIONS[what[0]](run, *what)
'''

PLAIN = ("plain_a", "plain_b", "plain_c", "plain_d")
GENERATORS = ("generator_a", "generator_b", "generator_c")
NAMES = (*PLAIN, *GENERATORS)
exec(BODY.format(name="plain", more="") + BODY.format(name="generator", more=YIELDS))


def named(body: Any, name: str) -> Any:
    """A function of its own with that body and name."""
    return types.FunctionType(body.__code__.replace(co_name=name, co_qualname=name), globals(), name)


FUNCTIONS = {name: named(globals()[name[:-2]], name) for name in NAMES}


def root(run: Run, name: str, steps: Any) -> None:
    """Runs one function and catches its exceptions."""
    try:  # in this frame, which is the one that continues
        FUNCTIONS[name](run, name, steps)
    except Oops:
        run.pool.clear()
