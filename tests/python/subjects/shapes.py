"""Functions of every shape, for the tests of ``inviso.trace``."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools

__all__ = ["Shape", "plain"]


def plain(x):
    return x


def _hidden(x):
    return x


def many(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a


def nothing():
    pass


def outer(n):
    def inner(k):
        return k + n

    return inner


def again(x):
    return x


first_again = again


def again(x):
    return x + 1


adders = [lambda x: x + 1, lambda x: x + 2]
pair = lambda x, y: (x, y)  # noqa: E731


class Shape:
    """Methods of all kinds."""

    def __init__(self, size=1):
        self.size = size

    def __call__(self, x):
        return x

    def __getitem__(self, i):
        return i

    def __len__(self):
        return 3

    def __eq__(self, other):
        return self is other

    __hash__ = None

    def method(self, x):
        return x

    def _private(self):
        return 1

    @classmethod
    def made(cls, x):
        return x

    @staticmethod
    def still(x):
        return x

    @property
    def area(self):
        return self.size

    @area.setter
    def area(self, value):
        self.size = value

    @functools.cached_property
    def kept(self):
        return self.size

    class Inner:
        def deep(self):
            return 1


class Child(Shape):
    def method(self, x):
        return super().method(x)


class Meta(type):
    def __call__(cls, *args, **more):
        return super().__call__(*args, **more)


class Metaed(metaclass=Meta):
    pass


class Base(abc.ABC):
    @abc.abstractmethod
    def act(self):
        return 0


class Real(Base):
    def act(self):
        return super().act() + 1


class Slotted:
    __slots__ = ("x",)

    def set(self, x):
        self.x = x


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0

    def __post_init__(self):
        self.z = 1


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args, **more):
        return function(*args, **more)

    return wrapper


@decorator
def wrapped(x):
    return x


@functools.cache
def cached(x):
    return x


@functools.singledispatch
def dispatched(x):
    return "any"


@dispatched.register
def _(x: int):
    return "int"


partial = functools.partial(plain, 1)


@contextlib.contextmanager
def managed(x):
    yield x


def recursive(n):
    return 0 if n == 0 else 1 + recursive(n - 1)


def fail(n):
    if n == 0:
        raise ValueError("deep")
    fail(n - 1)


def catches(n):
    try:
        fail(n)
    except ValueError:
        return "caught"


def numbers(n):
    for i in range(n):  # noqa: UP028  # a loop of its own
        yield i


def delegating(n):
    yield from numbers(n)
    return "end"


async def coroutine(x):
    return x


async def asynchronous(n):
    for i in range(n):
        yield i


def listed(n):
    return [i for i in range(n)]


def lazily(n):
    return sum(i for i in range(n))
