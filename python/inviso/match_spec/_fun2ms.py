"""Translates a function's source into a match specification: see :func:`inviso.match_spec.ms`.

A condition of a match specification must be exactly True or False. So where Python takes a truth value, only
expressions with such a result are allowed. ``len(x)`` and ``x[0]`` are another function for each type of ``x``: their
condition becomes one alternative for each type. Where Python would raise, the specification doesn't match.
"""

from __future__ import annotations
import __future__

import ast
import functools
import itertools
import linecache
import reprlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from inviso.errors import BadArg

from ._spec import Prefix, is_variable
from ._syntax import by_name, codes, computed, conjuncts, object_of, pairs
from ._values import (
    after_first,
    any_of,
    constant,
    copied,
    decides_itself,
    either,
    is_no_number,
    may_raise,
    quoted,
)

__all__ = ["clause", "forget", "of_source"]

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "/=",
    ast.Lt: "<",
    ast.LtE: "=<",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.LShift: "bsl",
    ast.RShift: "bsr",
    ast.BitAnd: "band",
    ast.BitOr: "bor",
    ast.BitXor: "bxor",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "bnot"}

_TESTS = frozenset({
    "is_atom", "is_binary", "is_bitstring", "is_boolean", "is_float", "is_function", "is_integer", "is_list", "is_map",
    "is_map_key", "is_number", "is_pid", "is_port", "is_record", "is_reference", "is_seq_trace", "is_tuple",
})  # fmt: skip
_FUNCTIONS = _TESTS | {
    "abs", "binary_part", "bit_size", "byte_size", "ceil", "element", "float", "floor", "get_seq_token", "get_tcw",
    "hd", "length", "map_get", "map_size", "max", "min", "node", "self", "size", "tl", "trunc", "tuple_size",
}  # fmt: skip
_ACTIONS = frozenset({
    "caller", "caller_line", "current_stacktrace", "disable_trace", "display", "dump", "enable_trace",
    "exception_trace", "message", "process_dump", "return_trace", "set_seq_token", "set_tcw", "silent", "trace",
})  # fmt: skip

# The function for a len, and the types that have an index. The function for the last type raises for all other types.
_SIZES = {"is_list": "length", "is_tuple": "tuple_size", "is_map": "map_size", "is_binary": "byte_size"}
_INDEXED = ("is_tuple", "is_list", "is_map")
_MOST_ALTERNATIVES = 100
_CLASSES: dict[Any, Callable[[Any], Any]] = {
    object: lambda x: True,
    int: lambda x: ("orelse", ("is_integer", x), ("is_boolean", x)),
    float: lambda x: ("is_float", x),
    bool: lambda x: ("is_boolean", x),
    tuple: lambda x: ("is_tuple", x),
    list: lambda x: ("is_list", x),
    dict: lambda x: ("is_map", x),
    type(None): lambda x: ("=:=", x, None),
}


def clause(function: Any) -> tuple[Any, list[Any], list[Any]]:
    """Translates a lambda, or a function that only returns an expression, into a clause ``(head, guards, body)``."""
    if not isinstance(function, types.FunctionType):
        raise BadArg("ms/1", "functions", f"{function!r} is not a function; pass a lambda")
    return _Compiler(function).clause()


def of_source(source: str) -> types.FunctionType:
    """Makes the function of a lambda's source, without running the source. The function sees no names from outside."""
    file = f"<ms {next(_sources)}>"
    lines = [line + "\n" for line in source.strip().splitlines()]
    text = "".join(lines)
    try:
        tree = ast.parse(text, file, "eval")
        inner = [*codes(compile(text, file, "exec", dont_inherit=True))]
    except SyntaxError as error:
        why = f"{reprlib.repr(source)}, column {error.offset}: {error.msg}; write a lambda"
        raise BadArg("ms/1", "functions", why) from None
    except (ValueError, RecursionError, MemoryError):
        why = "the lambda can't be read; it is nested too deep, or has null bytes"
        raise BadArg("ms/1", "functions", why) from None
    if not isinstance(tree.body, ast.Lambda):
        why = f"{reprlib.repr(source)} is not a lambda; pass one such as 'lambda a, b: a > b'"
        raise BadArg("ms/1", "functions", why)
    linecache.cache[file] = (len(text), None, lines, file)
    return types.FunctionType(next(code for code in inner if code.co_name == "<lambda>"), {})


def forget(function: types.FunctionType) -> None:
    """Drops the text that :func:`of_source` keeps."""
    linecache.cache.pop(function.__code__.co_filename, None)


_sources = itertools.count(1)


class _Compiler:
    def __init__(self, function: types.FunctionType) -> None:
        self._function = function
        self._file = function.__code__.co_filename
        node = self._node()
        self._body = self._expression(node)
        self._parameters: dict[str, Any] = {}
        self._head = self._head_of(node.args)

    def clause(self) -> tuple[Any, list[Any], list[Any]]:
        guards, body = self._parts(self._body)
        made = [self._truth(guard, outermost=True) for guard in guards], [self._value(action) for action in body]
        return (self._head, [guard for guard in made[0] if guard is not True], made[1])

    # the source

    def _node(self) -> Any:
        why = ""
        for lines in self._sources():
            found, why = self._found("".join(lines))
            if found is not None:
                return found
        self._unknown(
            why
            or "its source is not known; pass its text, as in ms('lambda n: n > 1'), define it in a file or a notebook "
            "cell, or write the specification by hand"
        )

    def _sources(self) -> Iterator[list[str]]:
        """The possible sources of the file: as first read, and as it is now."""
        cached = linecache.getlines(self._file, self._function.__globals__)
        if cached:
            yield cached
            linecache.checkcache(self._file)
            if (fresh := linecache.getlines(self._file, self._function.__globals__)) != cached:
                yield fresh
        else:
            import inspect  # finds the lines of newer prompts

            try:
                yield inspect.findsource(self._function)[0]
            except (OSError, TypeError, IndexError):
                return

    def _found(self, source: str) -> tuple[Any, str]:
        """Finds the function's node in the source; or the reason why it isn't there."""
        code = self._function.__code__
        flags = code.co_flags & _FUTURE
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
                whole = compile(tree, self._file, "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None, "its source can't be read; define it in a file of plain Python"
        # The text may have changed: it must compile to the function's code.
        if code not in codes(whole):
            return None, "its source has changed since it was loaded; reload it"
        kinds = ast.Lambda if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node for node in ast.walk(tree) if isinstance(node, kinds) and self._is(node)]
        if len(found) > 1:
            found = self._innermost(found)
        if len({ast.dump(node) for node in found}) != 1:
            return None, "there are several functions in its line; put each in a line of its own"
        return found[0], ""

    def _is(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        code = self._function.__code__
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        names += [a.arg for a in (node.args.vararg, node.args.kwarg) if a]
        return first == code.co_firstlineno and tuple(names) == code.co_varnames[: len(names)]

    def _innermost(self, nodes: list[Any]) -> list[Any]:
        """The nodes whose body contains all positions of the code, without those that contain another such node."""
        own = [(p[0], p[2], p[1], p[3]) for p in self._function.__code__.co_positions() if None not in p and p[3]]
        spans: list[tuple[Any, Any, Any]] = []
        for node in nodes:
            body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
            start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
            if all(start <= p[:2] and p[2:] <= end for p in own):
                spans.append((start, end, node))
        return [
            node
            for start, end, node in spans
            if not any((start, end) != (s, e) and start <= s and e <= end for s, e, _ in spans)
        ]

    def _expression(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr:
        if isinstance(node, ast.Lambda):
            return node.body
        if isinstance(node, ast.AsyncFunctionDef):
            self._refuse(node, "a coroutine function", "write a lambda")
        body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        match body:
            case [ast.Return(value=ast.expr() as value)]:
                return value
        self._refuse(body[0] if body else node, "a function of statements", "return one expression")

    # the head

    def _head_of(self, given: ast.arguments) -> Any:
        used = {node.id for node in ast.walk(self._body) if isinstance(node, ast.Name)}
        for default in (*given.defaults, *(d for d in given.kw_defaults if d)):
            self._refuse(default, "a default value", "leave it out: a call always has a value, compare it")
        if given.kwarg:
            self._refuse(given.kwarg, f"**{given.kwarg.arg}", "name the parameters that are looked at after a '*'")
        for parameter in given.kwonlyargs:
            self._parameters[parameter.arg] = ("arg", parameter.arg)
        positional = [*given.posonlyargs, *given.args]
        head: list[Any] = []
        for number, parameter in enumerate(positional, 1):
            variable = f"${number}" if parameter.arg in used else "_"
            self._parameters[parameter.arg] = variable
            head.append(variable)
        rest = given.vararg
        if rest is None and given.kwonlyargs:
            return Prefix(*head) if head else "_"
        if rest is None:
            return head
        if rest.arg not in used:
            return Prefix(*head) if head else "_"
        if head:
            self._parameters[rest.arg] = after_first(len(head), "$_")
            return Prefix(*head)
        self._parameters[rest.arg] = "$1"
        return "$1"

    # conditions and actions

    def _parts(self, body: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """Splits a body into conditions and the actions after them."""
        if isinstance(body, ast.Tuple):
            parts = body.elts
            for part in parts:
                if not self._acts(part):
                    self._refuse(part, "a tuple with something that is not an action", "join conditions by 'and'")
                if not isinstance(part, ast.Call):
                    self._refuse(part, "an action in something else", "write the actions one after the other")
            return [], list(parts)
        parts = conjuncts(body)
        first = next((n for n, part in enumerate(parts) if self._acts(part)), len(parts))
        guards, actions = parts[:first], parts[first:]
        flat: list[ast.expr] = []
        for action in actions:
            if isinstance(action, ast.Tuple):
                flat += self._parts(action)[1]
            elif isinstance(action, ast.Call) and isinstance(action.func, ast.Name) and action.func.id in _ACTIONS:
                flat.append(action)
            else:
                self._refuse(
                    action,
                    "a condition after an action, or an action in it",
                    "write conditions first, 'and' the actions last",
                )
        return guards, flat

    def _acts(self, node: ast.AST) -> bool:
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in _ACTIONS for n in ast.walk(node)
        )

    # truth values

    def _truth(self, node: ast.expr, *, outermost: bool = False) -> Any:
        """Translates a condition. ``outermost``: it is a guard, where False and an error have the same effect."""
        if self._acts(node):
            self._refuse(node, "an action in a condition", "write conditions first, 'and' the actions last")
        match node:
            case ast.Constant(value=bool() as value):
                return value
            case ast.BoolOp(op=op, values=values):
                return ("andalso" if isinstance(op, ast.And) else "orelse", *map(self._truth, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ("not", self._truth(operand))
            case ast.IfExp(test=test, body=body, orelse=other):
                return either(self._truth(test), self._truth(body), self._truth(other))
            case ast.Compare(ops=[op], comparators=[other]):
                return self._by_type(node, lambda: self._comparison(node, op, node.left, other), outermost)
            case ast.Compare():
                return ("andalso", *(self._truth(pair, outermost=outermost) for pair in pairs(node)))
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, _], keywords=[]):
                return self._by_type(node, lambda: self._isinstance(node), outermost)
            case ast.Call(func=ast.Name(id=name)) if name in _TESTS and name not in self._parameters:
                return self._by_type(node, lambda: self._value(node), outermost)
            case ast.Call(func=ast.Name(id=name)) if name != "len":
                self._call(node)  # refuses functions that match specifications don't have
            case ast.Name() | ast.Attribute() if self._is_outside(node):
                if isinstance(value := self._outside(node), bool):
                    return value
        self._refuse(node, f"{ast.unparse(node)!r} as a condition", "compare it: only True and False are conditions")

    def _by_type(self, node: ast.expr, make: Callable[[], Any], outermost: bool) -> Any:
        """A condition with an alternative for each type that the operands of its ``len`` and indices may have."""
        places: dict[str, list[Any]] = {}  # by operand: those of one operand have one type
        for inner in reversed([*computed(node)]):  # inner ones first: they may be the operands of outer ones
            if self._depends(inner) and not hasattr(inner, "decided"):
                places.setdefault(ast.dump(object_of(inner)), []).append(inner)
        count = 1
        for group in places.values():
            count *= len(self._types(group))
        if count > _MOST_ALTERNATIVES:
            why = "name the function: length, tuple_size, map_size, byte_size, element(n, x), hd(x), map_get(k, x)"
            self._refuse(node, f"{ast.unparse(node)!r}, of {count} alternatives by type,", why)
        if outermost and places:
            alternatives: list[Any] = []
            self._choose([*places.values()], [], make, alternatives)
            return ("orelse", *alternatives)
        return self._chosen([*places.values()], make)

    def _choose(
        self, groups: list[list[Any]], tests: list[Any], make: Callable[[], Any], alternatives: list[Any]
    ) -> None:
        """Independent alternatives: False if no type fits."""
        if not groups:
            alternatives.append(("andalso", *tests, make()))
            return
        for test in self._types(groups[0]):
            self._decide(groups[0], test)
            x = self._value(object_of(groups[0][0]))
            self._choose(groups[1:], [*tests, (test, x)], make, alternatives)
        self._undecide(groups[0])

    def _chosen(self, groups: list[list[Any]], make: Callable[[], Any]) -> Any:
        """Nested alternatives: an error if no type fits."""
        if not groups:
            return make()
        made: Any = None
        for test in reversed(self._types(groups[0])):
            self._decide(groups[0], test)
            inner = self._chosen(groups[1:], make)
            made = inner if made is None else either((test, self._value(object_of(groups[0][0]))), inner, made)
        self._undecide(groups[0])
        return made

    def _types(self, group: list[Any]) -> list[str]:
        """The type tests for the operand of a group. The function for the last type raises for all other types."""
        if all(isinstance(place, ast.Call) for place in group):
            return [*_SIZES]
        return [*_INDEXED]

    def _decide(self, group: list[Any], test: str) -> None:
        for place in group:
            x = self._value(object_of(place))
            if isinstance(place, ast.Call):
                place.decided = (_SIZES[test], x)  # type: ignore[attr-defined]
                continue
            index = place.slice.value
            if test == "is_tuple":
                place.decided = ("element", index + 1, x)
            elif test == "is_list":
                place.decided = ("hd", after_first(index, x))
            else:
                place.decided = ("map_get", index, x)

    def _undecide(self, group: list[Any]) -> None:
        for place in group:
            del place.decided

    def _depends(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[_], keywords=[]):
                return "len" not in self._parameters
            case ast.Subscript(slice=ast.Constant(value=int() as index)):
                return type(index) is int
        return False

    def _comparison(self, node: ast.Compare, op: ast.cmpop, a: ast.expr, b: ast.expr) -> Any:
        match op:
            case ast.In() | ast.NotIn():
                x, members = self._value(a), self._members(node, b)
                found = any_of([("==", x, each) for each in members], lazily=not any(map(may_raise, members[1:])))
                return ("not", found) if isinstance(op, ast.NotIn) else found
            case ast.Is() | ast.IsNot():
                if not (isinstance(b, ast.Constant) and (b.value is None or isinstance(b.value, bool))):
                    self._refuse(node, "'is' with something else than None, True or False", "compare with ==")
                return ("=/=" if isinstance(op, ast.IsNot) else "=:=", self._value(a), b.value)
        return (_COMPARISONS[type(op)], self._value(a), self._value(b))

    def _members(self, node: ast.Compare, several: ast.expr) -> list[Any]:
        """The values of the right side of ``in``."""
        if isinstance(several, ast.Tuple | ast.List | ast.Set) and several.elts:
            return [self._value(each) for each in several.elts]
        if isinstance(several, ast.Name | ast.Attribute) and self._is_outside(several):
            value = self._free(several)
            if isinstance(value, tuple) and isinstance(value[1], tuple | list | set | frozenset) and value[1]:
                return [quoted(each) for each in value[1]]
        self._refuse(node, "'in' something that is not a literal", "write one value or more: x in (1, 2, 3)")

    def _isinstance(self, node: Any) -> Any:
        x, classes = node.args
        tests = [self._is_a(self._value(x), one, classes) for one in self._classes(classes)]
        return tests[0] if len(tests) == 1 else ("orelse", *tests)

    def _classes(self, node: ast.expr) -> list[Any]:
        if isinstance(node, ast.Tuple):
            return [one for part in node.elts for one in self._classes(part)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self._classes(node.left), *self._classes(node.right)]
        if isinstance(node, ast.Constant) and node.value is None:
            return [type(None)]
        value = self._outside(node)
        return list(value) if isinstance(value, tuple) else list(getattr(value, "__args__", ())) or [value]

    def _is_a(self, x: Any, one: Any, node: ast.expr) -> Any:
        if not isinstance(one, type):
            self._refuse(node, f"{ast.unparse(node)!r} as a class", "name a class that exists where the function does")
        match x:
            case ("const", value) | (str() as value) if x is not value or not is_variable(value):
                return isinstance(value, one)
        if one in _CLASSES:
            return _CLASSES[one](x)
        if decides_itself(one):
            why = "name the classes that are meant, or a type test such as is_map"
            self._refuse(node, f"{ast.unparse(node)!r}, which takes what doesn't inherit from it,", why)
        return ("is_instance", x, f"{one.__module__}.{one.__qualname__}")

    # values

    def _value(self, node: ast.expr) -> Any:
        if hasattr(node, "decided"):
            return node.decided
        match node:
            case ast.Constant(value=value) if not isinstance(value, complex | types.EllipsisType):
                return constant(value)
            case ast.Name(id=name) if name in self._parameters:
                return self._parameters[name]
            case ast.Name() | ast.Attribute() if self._is_outside(node):
                return self._free(node)
            case ast.Attribute(value=value, attr=name):
                return ("attr", self._value(value), self._mangled(name))
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)):
                return ("map_get", constant(key), self._value(value))
            case ast.Tuple(elts=elements):
                return (tuple(map(self._value, elements)),)
            case ast.List(elts=elements):
                return [*map(self._value, elements)]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                made = [(self._key(key), self._value(value)) for key, value in zip(keys, values, strict=True)]
                return dict(made)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                value = self._value(operand)
                return -value if isinstance(op, ast.USub) and type(value) in (int, float) else (_UNARY[type(op)], value)
            case ast.BinOp(left=left, op=op, right=right):
                return self._arithmetic(node, op, self._value(left), self._value(right))
            case ast.Compare() | ast.BoolOp() | ast.IfExp() | ast.UnaryOp(op=ast.Not()):
                return self._truth(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(slice=ast.UnaryOp(op=ast.USub())):
                self._refuse(node, f"{ast.unparse(node)!r}, which counts from the end,", "count from the beginning")
        if self._depends(node):
            self._refuse(node, f"{ast.unparse(node)!r} where its type decides what it is", by_name(node))
        what = f"{ast.unparse(node)!r} ({type(node).__name__})"
        self._refuse(node, what, "it has no counterpart in a match specification")

    def _key(self, node: Any) -> Any:
        value = self._value(node)
        try:
            hash(value)
        except TypeError:
            self._refuse(node, f"{ast.unparse(node)!r} as a key", "keys are plain values, or tuples of them")
        return value

    def _mangled(self, name: str) -> str:
        """The mangled form of a private name in a class body; any other name as it is."""
        if name.startswith("__") and not name.endswith("__"):
            for other in self._function.__code__.co_names:
                if other.startswith("_") and other.endswith(name) and other != name:
                    return other
        return name

    def _arithmetic(self, node: ast.expr, op: ast.operator, a: Any, b: Any) -> Any:
        if any(is_no_number(operand) for operand in (a, b)):
            self._refuse(node, f"{ast.unparse(node)!r}, which is not about numbers,", "compare with what it gives")
        if type(op) in _ARITHMETIC:
            return (_ARITHMETIC[type(op)], a, b)
        remainder = ("rem", ("+", ("rem", a, b), b), b)  # with the sign of b, as in Python
        if isinstance(op, ast.Mod):
            return remainder
        if isinstance(op, ast.FloorDiv):
            return ("div", ("-", a, remainder), b)
        self._refuse(node, f"{ast.unparse(node)!r}", "there is no such operator in a match specification")

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id in self._parameters:
            self._refuse(
                node, f"a call of {ast.unparse(node.func)!r}", "no code of the program runs in a match specification"
            )
        name = node.func.id
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self._refuse(node, f"keywords or * in a call of {name!r}", "pass the arguments by position")
        if name in ("len", "isinstance"):
            if self._depends(node):
                self._refuse(node, f"{ast.unparse(node)!r} outside a condition", by_name(node))
            return self._truth(node)
        if name not in _FUNCTIONS | _ACTIONS:
            why = (
                "round() rounds otherwise there; use trunc"
                if name == "round"
                else "no code of the program runs in a match specification"
            )
            self._refuse(node, f"a call of {name!r}", why)
        return (name, *map(self._value, node.args))

    # names from outside the function

    def _is_outside(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self._parameters

    def _outside(self, node: ast.expr) -> Any:
        match node:
            case ast.Attribute(value=value, attr=name):
                found = self._outside(value)
                try:
                    return getattr(found, self._mangled(name))
                except Exception as error:
                    self._refuse(node, f"{ast.unparse(node)!r} ({error})", "name what exists when ms is called")
            case ast.Name(id=name):
                code, cells = self._function.__code__, self._function.__closure__ or ()
                known = dict(zip(code.co_freevars, cells, strict=True))
                if name in known:
                    try:
                        return known[name].cell_contents
                    except ValueError:
                        self._refuse(node, f"{name!r}, which has no value yet,", "call ms after it has one")
                builtins: dict[str, Any] = getattr(self._function, "__builtins__", {})
                for place in (self._function.__globals__, builtins):
                    if name in place:
                        return place[name]
                self._refuse(node, f"the unknown name {name!r}", "pass a parameter, or define it before")
        self._refuse(node, f"{ast.unparse(node)!r} here", "use a name")

    def _free(self, node: ast.expr) -> Any:
        value = self._outside(node)
        try:
            return quoted(copied(value))
        except TypeError:
            what = f"{ast.unparse(node)!r}, a {type(value).__name__},"
            self._refuse(node, what, "only plain values can be taken from outside")

    # refusals

    def _refuse(self, node: Any, what: str, mend: str) -> NoReturn:
        line = getattr(node, "lineno", self._function.__code__.co_firstlineno)
        column = getattr(node, "col_offset", 0)  # in bytes of UTF-8
        before = linecache.getline(self._file, line, self._function.__globals__).encode(errors="replace")[:column]
        where = f"{self._file}:{line}:{(len(before.decode(errors='replace')) if before else column) + 1}"
        raise BadArg("ms/1", "functions", f"{where}: {what} can't be expressed; {mend}")

    def _unknown(self, why: str) -> NoReturn:
        where = f"{self._file}:{self._function.__code__.co_firstlineno}"
        raise BadArg("ms/1", "functions", f"{where}: {self._function.__qualname__}: {why}")


_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)
