"""A function's source as a match specification: see :func:`inviso.match_spec.ms`.

What is boolean in a match specification is True or False and nothing else, so only what gives one of them may stand
where
Python asks for a truth value. ``len(x)`` and ``x[0]`` mean another function for each type of ``x``: the condition that
they
are in becomes one alternative for each type.
"""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import BadArg
from .match_spec import Prefix
from .terms import Atom, BitString, ImproperList, Map

__all__ = ["clause"]

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
    "caller", "caller_line", "current_stacktrace", "disable_trace", "display", "enable_trace", "exception_trace",
    "message", "process_dump", "return_trace", "set_seq_token", "set_tcw", "silent", "trace",
})  # fmt: skip

_SIZES = (("is_list", "length"), ("is_tuple", "tuple_size"), ("is_map", "map_size"), ("is_binary", "byte_size"))
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
    """The clause ``(head, guards, body)`` of a lambda, or of a function that only returns an expression."""
    if not isinstance(function, types.FunctionType):
        raise BadArg("ms/1", "functions", f"{function!r} is no function; pass a lambda")
    return _Compiler(function).clause()


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
        made = [self._truth(guard) for guard in guards], [self._value(action) for action in body]
        return (self._head, [guard for guard in made[0] if guard is not True], made[1])

    # the source

    def _node(self) -> ast.Lambda | ast.FunctionDef:
        code = self._function.__code__
        lines = linecache.getlines(self._file, self._function.__globals__)
        if not lines:
            self._unknown("its source is not known; define it in a file or a notebook cell, or write the specification")
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            self._unknown("its source can't be read; define it in a file of plain Python")
        kinds = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
        found = [node for node in ast.walk(tree) if isinstance(node, kinds) and self._is(node)]
        if len(found) > 1:
            found = [node for node in found if self._covers(node)] or found
        if not found:
            self._unknown("its source has changed since it was loaded; reload it")
        if len({ast.dump(node) for node in found}) > 1:
            self._unknown("there are several functions in its line; put each in a line of its own")
        node = found[0]
        assert isinstance(node, ast.Lambda | ast.FunctionDef)
        return node

    def _is(self, node: ast.Lambda | ast.FunctionDef) -> bool:
        code = self._function.__code__
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        names += [a.arg for a in (node.args.vararg, node.args.kwarg) if a]
        return first == code.co_firstlineno and tuple(names) == code.co_varnames[: len(names)]

    def _covers(self, node: ast.Lambda | ast.FunctionDef) -> bool:
        """Whether the code's own positions are just those of the node's body."""
        body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
        own = [p for p in self._function.__code__.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
        start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
        inside = [p for p in own if start <= (p[0], p[2]) and (p[1], p[3]) <= end]
        return any((p[0], p[2], p[1], p[3]) == (*start, *end) for p in own) and len(inside) == len(own)

    def _expression(self, node: ast.Lambda | ast.FunctionDef) -> ast.expr:
        if isinstance(node, ast.Lambda):
            return node.body
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
            self._refuse(rest, f"*{rest.arg} after other parameters", "name each parameter, or take *args alone")
        self._parameters[rest.arg] = "$1"
        return "$1"

    # conditions and actions

    def _parts(self, body: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """The conditions, and the actions after them."""
        if isinstance(body, ast.Tuple):
            parts = body.elts
            for part in parts:
                if not self._acts(part):
                    self._refuse(part, "a tuple with something that is no action", "join conditions by 'and'")
            return [], parts
        parts = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
        first = next((n for n, part in enumerate(parts) if self._acts(part)), len(parts))
        guards, actions = parts[:first], parts[first:]
        flat: list[ast.expr] = []
        for action in actions:
            if isinstance(action, ast.Tuple):
                flat += self._parts(action)[1]
            elif isinstance(action, ast.Call):
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

    # what is true or false

    def _truth(self, node: ast.expr) -> Any:
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
                yes = ("andalso", self._truth(test), self._truth(body))
                return ("orelse", yes, ("andalso", ("not", self._truth(test)), self._truth(other)))
            case ast.Compare():
                return self._by_type(node, lambda: self._compare(node))
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, _], keywords=[]):
                return self._by_type(node, lambda: self._isinstance(node))
            case ast.Call(func=ast.Name(id=name)) if name in _TESTS and name not in self._parameters:
                return self._by_type(node, lambda: self._value(node))
            case ast.Call(func=ast.Name(id=name)) if name != "len":
                self._call(node)  # refuses what is no function of the language
        self._refuse(node, f"{ast.unparse(node)!r} as a condition", "compare it: only True and False are conditions")

    def _by_type(self, node: ast.expr, make: Callable[[], Any]) -> Any:
        """A condition, with an alternative for each type that a ``len`` or an index in it may be of."""
        places = [inner for inner in ast.walk(node) if self._depends(inner)]
        if not places:
            return make()
        alternatives: list[Any] = []
        self._choose(places, [], make, alternatives)
        return alternatives[0] if len(alternatives) == 1 else ("orelse", *alternatives)

    def _choose(self, places: list[Any], tests: list[Any], make: Callable[[], Any], alternatives: list[Any]) -> None:
        # innermost first, so that what an outer one is about is decided
        if not places:
            alternatives.append(("andalso", *tests, make()))
            return
        place = places[-1]
        for test, value in self._alternatives(place):
            place.decided = value
            self._choose(places[:-1], [*tests, test], make, alternatives)
        del place.decided

    def _depends(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[_], keywords=[]):
                return True
            case ast.Subscript(slice=ast.Constant(value=int() as index)):
                return type(index) is int
        return False

    def _alternatives(self, place: Any) -> list[tuple[Any, Any]]:
        if isinstance(place, ast.Call):
            x = self._value(place.args[0])
            return [((test, x), (size, x)) for test, size in _SIZES]
        x, index = self._value(place.value), place.slice.value
        tail = functools.reduce(lambda rest, _: ("tl", rest), range(index), x)
        return [
            (("is_tuple", x), ("element", index + 1, x)),
            (("is_list", x), ("hd", tail)),
            (("is_map", x), ("map_get", index, x)),
        ]

    def _compare(self, node: ast.Compare) -> Any:
        sides = [node.left, *node.comparators]
        made = [self._comparison(node, op, a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False)]
        return made[0] if len(made) == 1 else ("andalso", *made)

    def _comparison(self, node: ast.Compare, op: ast.cmpop, a: ast.expr, b: ast.expr) -> Any:
        match op:
            case ast.In() | ast.NotIn():
                if not isinstance(b, ast.Tuple | ast.List | ast.Set):
                    self._refuse(node, "'in' something that is no literal", "write the values: x in (1, 2, 3)")
                same = [("==", self._value(a), self._value(each)) for each in b.elts]
                found = ("orelse", *same) if len(same) > 1 else same[0] if same else False
                return ("not", found) if isinstance(op, ast.NotIn) else found
            case ast.Is() | ast.IsNot():
                if not (isinstance(b, ast.Constant) and (b.value is None or isinstance(b.value, bool))):
                    self._refuse(node, "'is' with something else than None, True or False", "compare with ==")
                return ("=/=" if isinstance(op, ast.IsNot) else "=:=", self._value(a), b.value)
        return (_COMPARISONS[type(op)], self._value(a), self._value(b))

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
        if one in _CLASSES:
            return _CLASSES[one](x)
        return ("is_instance", x, f"{one.__module__}.{one.__qualname__}")

    # values

    def _value(self, node: ast.expr) -> Any:
        if hasattr(node, "decided"):
            return node.decided
        match node:
            case ast.Constant(value=value) if value is not ...:
                return _constant(value)
            case ast.Name(id=name) if name in self._parameters:
                return self._parameters[name]
            case ast.Name() | ast.Attribute() if self._is_outside(node):
                return self._free(node)
            case ast.Attribute(value=value, attr=name):
                return ("attr", self._value(value), name)
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)):
                return ("map_get", _constant(key), self._value(value))
            case ast.Tuple(elts=elements):
                return (tuple(map(self._value, elements)),)
            case ast.List(elts=elements):
                return [*map(self._value, elements)]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self._key(key): self._value(value) for key, value in zip(keys, values, strict=True)}
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                value = self._value(operand)
                return -value if isinstance(op, ast.USub) and type(value) in (int, float) else (_UNARY[type(op)], value)
            case ast.BinOp(left=left, op=op, right=right):
                return self._arithmetic(node, op, self._value(left), self._value(right))
            case ast.Compare() | ast.BoolOp() | ast.IfExp() | ast.UnaryOp(op=ast.Not()):
                return self._truth(node)
            case ast.Call():
                return self._call(node)
        if self._depends(node):
            self._refuse(
                node,
                f"{ast.unparse(node)!r} where its type decides what it is",
                "name the function: "
                + (
                    "length, tuple_size, map_size or byte_size"
                    if isinstance(node, ast.Call)
                    else "element(n, x), hd(x), map_get(k, x)"
                ),
            )
        self._refuse(node, type(node).__name__, "it has no counterpart in a match specification")

    def _key(self, node: Any) -> Any:
        value = self._value(node)
        return ("const", tuple(value)) if isinstance(value, list) else value

    def _arithmetic(self, node: ast.expr, op: ast.operator, a: Any, b: Any) -> Any:
        if type(op) in _ARITHMETIC:
            return (_ARITHMETIC[type(op)], a, b)
        remainder = ("rem", ("+", ("rem", a, b), b), b)  # with the sign of b, as Python has it
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
                why = "name the function: length, tuple_size, map_size or byte_size"
                self._refuse(node, f"{ast.unparse(node)!r} outside a condition", why)
            return self._truth(node)
        if name not in _FUNCTIONS | _ACTIONS:
            why = (
                "round() rounds otherwise there; use trunc"
                if name == "round"
                else "no code of the program runs in a match specification"
            )
            self._refuse(node, f"a call of {name!r}", why)
        return (name, *map(self._value, node.args))

    # names of the function's surroundings

    def _is_outside(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self._parameters

    def _outside(self, node: ast.expr) -> Any:
        match node:
            case ast.Attribute(value=value, attr=name):
                return getattr(self._outside(value), name)
            case ast.Name(id=name):
                code, cells = self._function.__code__, self._function.__closure__ or ()
                known = dict(zip(code.co_freevars, cells, strict=True))
                if name in known:
                    return known[name].cell_contents
                builtins: dict[str, Any] = getattr(self._function, "__builtins__", {})
                for place in (self._function.__globals__, builtins):
                    if name in place:
                        return place[name]
                self._refuse(node, f"the unknown name {name!r}", "pass a parameter, or define it before")
        self._refuse(node, f"{ast.unparse(node)!r} here", "use a name")

    def _free(self, node: ast.expr) -> Any:
        value = self._outside(node)
        if not _is_plain(value):
            self._refuse(
                node, f"{ast.unparse(node)!r}, a {type(value).__name__}", "only plain values can be taken from outside"
            )
        return value if isinstance(value, int | float | bytes | None) else ("const", value)

    # refusals

    def _refuse(self, node: Any, what: str, mend: str) -> NoReturn:
        line = getattr(node, "lineno", self._function.__code__.co_firstlineno)
        where = f"{self._file}:{line}:{getattr(node, 'col_offset', 0) + 1}"
        raise BadArg("ms/1", "functions", f"{where}: {what} can't be expressed; {mend}")

    def _unknown(self, why: str) -> NoReturn:
        where = f"{self._file}:{self._function.__code__.co_firstlineno}"
        raise BadArg("ms/1", "functions", f"{where}: {self._function.__qualname__}: {why}")


def _constant(value: Any) -> Any:
    """A literal; a str that would be taken for a variable as a constant."""
    is_variable = isinstance(value, str) and (value in ("_", "$_", "$$") or (value[:1] == "$" and value[1:].isdigit()))
    return ("const", value) if is_variable else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, Map | BitString | ImproperList):
        return True
    from . import Pid, Port, Ref

    return value is None or isinstance(value, int | float | str | bytes | Atom | Pid | Port | Ref)
