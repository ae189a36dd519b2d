"""The fixture module of the recorded scenarios: functions with the calls and results of Erlang's.

42 functions, 35 of them exported, and nothing else that is a function: no helper, no class, no comprehension, as the
counts that wildcard patterns return are part of the cases. Python has no tail calls; the functions that Erlang calls
last (``tail_local`` and the like) are called all the same, and ``inexpressible`` knows where the difference shows. None
has annotations: from 3.14 on these are a function more each.
"""

from tests.conformance.errors import CAUGHT, ErlError, ErlExit, ErlThrow, class_of, reason_of
from tests.conformance.fixtures import load, overloaded, through_module
from tests.conformance.product import atom, inviso

__all__ = [
    "add",
    "apply_id",
    "body_sum",
    "calls_global",
    "calls_local",
    "calls_local_twice",
    "calls_three",
    "catch_deep",
    "catches",
    "catches_outer",
    "deep",
    "even",
    "fun_call",
    "id",
    "list_of",
    "middle",
    "module_info",
    "multi",
    "nested",
    "outer",
    "outer_tail",
    "pair",
    "pass_through",
    "ping",
    "raise_",
    "send_to",
    "tail_global",
    "tail_local",
    "tail_raise",
    "tail_sum",
    "tuple_of",
    "two",
]

NUMBERS = (int, float)
BADARITH = atom("badarith")
FUNCTION_CLAUSE = atom("function_clause")
APPLIED, CAUGHT_TAG, DONE, FUN_CALLED, IN_FUN = map(atom, ("applied", "caught", "done", "fun_called", "in_fun"))
INNER, LOC, LOC2, MIDDLE, NESTED, NEVER = map(atom, ("inner", "loc", "loc2", "middle", "nested", "never"))
OK, ONE, OUTER, PONG, SENT, THREE, TWO, X = map(atom, ("ok", "one", "outer", "pong", "sent", "three", "two", "x"))
CLASSES = {"error": atom("error"), "throw": atom("throw"), "exit": atom("exit")}
erlang = load("erlang")


def ping():
    return PONG


def id(x):
    return x


def add(x, y):
    if type(x) not in NUMBERS or type(y) not in NUMBERS:
        raise ErlError(BADARITH)
    return x + y


def two(_x, _y):
    return OK


def loc(x):
    return (LOC, x)


def loc2(x):
    return (LOC2, x)


def calls_local(x):
    y = loc(x)
    return (DONE, y)


def calls_global(x):
    y = through_module.id(x)
    return (DONE, y)


def calls_local_twice(x):
    a = loc(x)
    b = loc2(x)
    return (a, b)


def tail_local(x):
    return loc(x)


def tail_global(x):
    return through_module.id(x)


def tail_sum(n, total):
    if type(n) is int and n == 0:
        return total
    if type(n) not in NUMBERS or type(total) not in NUMBERS:
        raise ErlError(BADARITH)
    return tail_sum(n - 1, total + n)


def body_sum(n):
    if type(n) is int and n == 0:
        return 0
    if type(n) not in NUMBERS:
        raise ErlError(BADARITH)
    return n + body_sum(n - 1)


def even(n):
    if type(n) is int and n == 0:
        return True
    if type(n) not in NUMBERS:
        raise ErlError(BADARITH)
    return odd(n - 1)


def odd(n):
    if type(n) is int and n == 0:
        return False
    if type(n) not in NUMBERS:
        raise ErlError(BADARITH)
    return even(n - 1)


def raise_(c, r):
    if c == "error":
        raise ErlError(r)
    if c == "throw":
        raise ErlThrow(r)
    if c == "exit":
        raise ErlExit(r)
    raise ErlError(FUNCTION_CLAUSE)


def catches(c, r):
    try:
        return raise_(c, r)
    except CAUGHT as error:
        return (CAUGHT_TAG, CLASSES[class_of(error)], reason_of(error))


def catches_outer(c, r):
    try:
        return pass_through(c, r)
    except CAUGHT as error:
        return (CAUGHT_TAG, CLASSES[class_of(error)], reason_of(error))


def pass_through(c, r):
    x = raise_(c, r)
    return (NEVER, x)


def tail_raise(c, r):
    return raise_(c, r)


def deep(n, c, r):
    if type(n) is int and n == 0:
        return raise_(c, r)
    x = deep(n - 1, c, r)
    return (NEVER, x)


def catch_deep(n, c, r):
    try:
        return deep(n, c, r)
    except CAUGHT as error:
        return (CAUGHT_TAG, CLASSES[class_of(error)], reason_of(error))


@overloaded
def multi(x):
    return (ONE, x)


@overloaded  # type: ignore[no-redef]
def multi(x, y):  # noqa: F811
    return (TWO, x, y)


@overloaded  # type: ignore[no-redef]
def multi(x, y, z):  # noqa: F811
    return (THREE, x, y, z)


def list_of(n):
    if type(n) is int and n == 0:
        return []
    return [n, *list_of(n - 1)]


def tuple_of(n):
    return erlang.make_tuple(n, X)


def pair(x, y):
    return (x, y)


def outer(x):
    m = middle(x)
    return (OUTER, m)


def middle(x):
    i = inner(x)
    return (MIDDLE, i)


def inner(x):
    return (INNER, x)


def outer_tail(x):
    return middle_tail((OUTER, x))


def middle_tail(x):
    return inner((MIDDLE, x))


def fun_call(x):
    f = mkfun()
    r = f(x)
    return (FUN_CALLED, r)


def mkfun():
    return lambda y: (IN_FUN, loc(y))


def apply_id(x):
    r = through_module.id(x)
    return (APPLIED, r)


def calls_three(x):
    a = id(x)
    b = loc(a)
    c = through_module.id(b)
    return (THREE, c)


def send_to(p, m):
    inviso.send(p, m)
    return SENT


def nested(x):
    a = calls_local(x)
    return (NESTED, a)


@overloaded
def module_info():
    return [(atom("module"), atom("fx"))]


@overloaded  # type: ignore[no-redef]
def module_info(key):  # noqa: F811
    if key != "module":
        raise ErlError(atom("badarg"))
    return atom("fx")
