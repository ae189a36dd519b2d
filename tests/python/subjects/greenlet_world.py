"""Random programs of greenlets that note the begin and end of their calls. None knows the tracer."""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Iterator

import greenlet

HERE = threading.local()


class Boom(Exception):
    """The exceptions that greenlets raise, and throw into each other."""


class World:
    """The greenlets of one thread."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.steps = steps
        self.numbers = iter(range(1_000_000))
        self.said: list[tuple[str, str, int | None]] = []
        self.main = greenlet.getcurrent()
        self.others: list[greenlet.greenlet] = []
        self.all: weakref.WeakSet[greenlet.greenlet] = weakref.WeakSet()
        self.left: dict[int, bool] = {}
        self.switches = 0

    def say(self, what: str, function: str, number: int | None = None) -> None:
        self.said.append((what, function, number))
        if what == "exception_from":
            self.left[id(greenlet.getcurrent())] = True

    def caught(self, function: str) -> None:
        """A handler of this function is entered: calls that the exception has left here return to it."""
        if self.left.pop(id(greenlet.getcurrent()), False):
            self.said.append(("return_to", function, None))

    def pick(self) -> greenlet.greenlet | None:
        self.others = [other for other in self.others if not other.dead]
        found = [other for other in [*self.others, self.main] if other is not greenlet.getcurrent()]
        return self.random.choice(found) if found else None

    def act(self) -> None:
        """One random step."""
        what = self.random.choice(
            ["call", "call", "catch", "each", "spawn", "switch", "switch", "throw", "kill", "raise"]
        )
        if what == "call":
            step(next(self.numbers))
            self.said.append(("return_to", "World.act", None))
        elif what == "catch":
            try:
                step(next(self.numbers))
                self.said.append(("return_to", "World.act", None))
            except BaseException as error:
                self.caught("World.act")
                if not isinstance(error, Boom):
                    raise
        elif what == "each":
            self.walk()
        elif what == "spawn" and len(self.others) < 6:
            self.others.append(greenlet.greenlet(self.run))
            self.all.add(self.others[-1])
        elif what == "switch":
            self.turn(None)
        elif what == "throw":
            self.turn(Boom())
        elif what == "kill" and self.others:
            # without references: greenlet ends it, at any place and time
            self.switches += 1
            del self.others[self.random.randrange(len(self.others))]
        elif what == "raise":
            raise Boom

    def walk(self) -> None:
        for _ in each(next(self.numbers)):
            if self.random.random() < 0.5:
                self.turn(None)
        self.said.append(("return_to", "World.walk", None))

    def turn(self, error: Boom | None) -> None:
        other = self.pick()
        if other is None:
            return
        self.switches += 1
        if error is None:
            other.switch()
        elif other is not self.main and other:
            other.throw(error)

    def body(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            if self.steps > 0:
                self.steps -= 1
                self.act()

    def run(self, *_: object) -> None:
        self.left.pop(id(greenlet.getcurrent()), None)
        step(next(self.numbers))
        self.said.append(("return_to", "World.run", None))

    def play(self) -> None:
        HERE.world = self
        while self.steps > 0:
            try:
                self.act()
            except Boom:
                self.caught("World.play")
        self.others.clear()
        # dropped greenlets may live on as parents of others
        while living := [other for other in self.all if other]:
            try:
                living[0].throw()
            except Boom:
                self.caught("World.play")


def step(number: int) -> int:
    world = HERE.world
    world.say("call", "step", number)
    try:
        world.body()
    except BaseException:
        world.caught("step")
        world.say("exception_from", "step")
        raise
    world.say("return_from", "step", number)
    return number


def each(number: int) -> Iterator[int]:
    world = HERE.world
    world.say("call", "each", number)
    try:
        for item in range(world.random.randint(0, 3)):
            world.body()
            yield item
    except GeneratorExit:
        raise
    except BaseException:
        world.caught("each")
        world.say("exception_from", "each")
        raise
    world.say("return_from", "each", number)
    return number
