"""``python -m tests.differential.blame --erl COMMAND --to FILE``: the argument that Erlang blames, by pairs of wrong
ones.

For each function of the trace module: all good arguments, every argument wrong in every way that is known here, and
every pair of two wrong ones. An argument that must fit another one is tried with each: an item, a value of an event,
flags beside a match specification. The answers of an Erlang/OTP 29 are in ``tests/data/live/blame.jsonl``, a call a
line; ``tests/python/test_otp_blame.py`` makes the same calls here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from .erlang import Crashed, Node
from .world import PROGRAM, World, a, call, t

__all__ = ["SETUP", "calls", "different", "recorded"]

Term = Any

S, DEAD_S = {"session": "s1"}, {"session": "s2"}
P, DEAD_P = {"pid": "p1"}, {"pid": "p2"}
PORT, CLOSED_O = {"port": "o1"}, {"port": "o2"}
SUBJECT = t("world", "subject", 0)

SETUP: list[Term] = [
    t("create", "s1", "one", {"pid": "t1"}, []),
    t("create", "s2", "two", {"pid": "t1"}, []),
    call("session_destroy", DEAD_S),
    t("spawn", "p1"),
    t("spawn", "p2"),
    t("end", DEAD_P),
    t("open", "o1", P),
    t("open", "o2", P),
    t("close", P, CLOSED_O),
]
"""What is there when a call is made."""

ODD: list[Term] = [1, {"f": 1.5}, {"b": ""}, [], t(), {"ref": "r1"}, a("nosuch"), {"m": []}]
"""What fits hardly anywhere."""
GUARD = [t([a("$1"), a("_")], [t("nosuch", a("$1"))], [])]
SPEC = [t(a("_"), [], [])]
CALLER = [t(a("_"), [], [t("message", t("caller"))])]

WORDS = (
    "all",
    "existing",
    "new",
    "processes",
    "existing_processes",
    "new_processes",
    "ports",
    "existing_ports",
    "new_ports",
)
FLAGS: list[Term] = [a("call"), 1, {"il": [a("call")], "tail": a("x")}, [a("nosuch")], [1], [a("call"), a("nosuch")],
                     [t("tracer", P)], {"il": [a("nosuch")], "tail": a("x")}, a("nosuch")]  # fmt: skip
KINDS: list[Term] = [a("local"), 1, {"il": [a("local")], "tail": a("x")}, [a("nosuch")], [1], [a("local"), a("nosuch")],
                     [a("global"), a("local")], [a("call_count"), a("global")]]  # fmt: skip
MFAS: list[Term] = [*ODD, t("world", "subject"), t("world", "_", 0), t("_", "subject", "_"), t("world", 1, 0),
t(1, "subject", 0),
                    t("world", "subject", "x"), P]  # fmt: skip
SPECS: list[Term] = [*ODD[:3], ODD[5], a("nosuch"), [1], GUARD, t(a("_"), [], [])]
ITEMS: list[Term] = [a(item) for item in ("flags", "tracer", "traced", "match_spec", "meta", "meta_match_spec",
"call_count", "call_time", "call_memory", "all")]  # fmt: skip
THINGS: list[Term] = [P, DEAD_P, PORT, CLOSED_O, SUBJECT, t("world", "nosuch", 0),
*map(a, ("new", "new_processes", "new_ports", "on_load", "send", "receive", "system"))]  # fmt: skip

SESSIONS: list[Term] = [*ODD[:5], {"ref": "r1"}, a("nosuch"), DEAD_S]

ARGUMENTS: dict[str, list[tuple[list[Term], list[Term]]]] = {
    "session_create": [
        ([a("name"), a("true")], [1, {"f": 1.5}, {"b": ""}, [], t(), {"ref": "r1"}]),
        ([{"pid": "t1"}, DEAD_P], [1, {"f": 1.5}, {"b": ""}, [], {"ref": "r1"}, a("nosuch")]),
        ([[]], [1, a("nosuch"), [a("nosuch")], [t("nosuch", 1)]]),
    ],
    "session_destroy": [([], SESSIONS[:-1])],
    "session_info": [([P, a("all"), SUBJECT],
    [*(m for m in MFAS[:-1] if m != t("world", "_", 0)), t("world", "subject", "_"), a("existing")])],
    "process": [
        ([S], SESSIONS),
        ([P, a("all"), a("existing"), a("new")], [*ODD, DEAD_P, PORT, CLOSED_O, *map(a, WORDS[6:])]),
        ([a("true"), a("false")], [a("nosuch"), 1, [], a("undefined")]),
        ([[a("call")], []], FLAGS),
    ],
    "port": [
        ([S], SESSIONS),
        ([PORT, a("all"), a("existing"), a("new")], [*ODD, CLOSED_O, P, DEAD_P, *map(a, WORDS[3:6])]),
        ([a("true"), a("false")], [a("nosuch"), 1, [], a("undefined")]),
        ([[a("send")], []], FLAGS),
    ],
    "function": [
        ([S], SESSIONS),
        ([SUBJECT, a("on_load"), a("send"), a("receive")], MFAS),
        ([a("true"), a("false"), a("pause"), a("restart"), [], SPEC], SPECS),
        ([[a("local")], [], [a("meta")], [a("call_count")]], KINDS),
    ],
    "send": [([S], SESSIONS), ([a("true"), a("false"), [], SPEC], [*SPECS, CALLER, a("pause")]),
    ([[]], [a("nosuch"), 1, [a("nosuch")], [1], [a("local")]])],
    "recv": [([S], SESSIONS), ([a("true"), a("false"), [], SPEC], [*SPECS, CALLER, a("pause")]),
    ([[]], [a("nosuch"), 1, [a("nosuch")], [1], [a("local")]])],
    "system": [
        ([S], SESSIONS),
        ([a("long_gc"), a("busy_port"), a("long_message_queue")], [*ODD]),
        ([a("false"), a("true"), 5, t(2, 5)], [a("nosuch"), -1, t(5, 2), t(1), []]),
    ],
    "delivered": [([S], SESSIONS[:-1]), ([P, a("all")], [*ODD, PORT, a("new")])],
    "info": [([S], SESSIONS), (THINGS,
    [*ODD, t("world", "subject", "_"), t("world", "subject"), a("all"), a("existing")]), (ITEMS, [*ODD, a("send")])],
}  # fmt: skip
"""Good and wrong values of each argument."""

DEPENDENT: dict[str, list[tuple[int, ...]]] = {
    "info": [(1, 2)],
    "system": [(1, 2)],
    "function": [(1, 2), (1, 3), (2, 3)],
    "process": [(1, 3)],
    "port": [(1, 3)],
}
"""Arguments that have to fit each other, by their places: every combination of them is tried, good or wrong."""

CPU: dict[str, list[Term]] = {"process": [P, *map(a, WORDS), a("nosuch")], "port": [PORT, *map(a, WORDS), a("nosuch")]}
"""Whom cpu_timestamp is asked for."""


def calls() -> list[Term]:
    """Every call, as a step, once."""
    made: dict[str, Term] = {}

    def add(function: str, arguments: list[Term]) -> None:
        if (function, arguments[1:]) == ("delivered", [P]) and arguments[0] != S:
            return  # OTP does not check the session; here it has to be one
        if function == "info" and arguments[1] == a("on_load") and arguments[2] not in ITEMS:
            return  # OTP answers False for any item
        step = call(function, *arguments)
        made[json.dumps(step)] = step

    for function, places in ARGUMENTS.items():
        good = [values[0] if values else wrong[0] for values, wrong in places]
        add(function, good)
        for chosen in (*range(len(places)), *itertools.combinations(range(len(places)), 2)):
            wrong_places = (chosen,) if isinstance(chosen, int) else chosen
            for wrong in itertools.product(*(places[n][1] for n in wrong_places)):
                add(
                    function,
                    [dict(zip(wrong_places, wrong, strict=True)).get(n, value) for n, value in enumerate(good)],
                )
        for chosen in DEPENDENT.get(function, []):
            for values in itertools.product(*(places[n][0] + places[n][1] for n in chosen)):
                add(function, [dict(zip(chosen, values, strict=True)).get(n, value) for n, value in enumerate(good)])
    for function, whom in CPU.items():
        for who, how, flags in itertools.product(
            whom, [a("true"), 1], [[a("cpu_timestamp")], [a("cpu_timestamp"), a("nosuch")]]
        ):
            if not (who == a("all") and how == a("true")):  # see the test of OTP's own manual
                add(function, [S, who, how, flags])
    return list(made.values())


def short(answer: Term) -> Any:
    """The arguments that are blamed; ``"ok"`` if none is."""
    verdict, value = answer["t"]
    return "ok" if verdict == a("ok") else value


def recorded(node: Node, batch: int = 200) -> list[Any]:
    """Each call in a world of its own: the function, its arguments, and what Erlang blames."""
    steps = calls()
    lines = []
    for n in range(0, len(steps), batch):
        some = steps[n : n + batch]
        for step, answers in zip(some, node.ask([[*SETUP, step] for step in some]), strict=True):
            lines.append([step["t"][1]["a"], step["t"][2], short(answers[len(SETUP)])])
    return lines


def different(lines: list[Any]) -> list[Any]:
    """The calls that this system answers in another way, each with the arguments that it blames."""
    found = []
    for function, arguments, blamed in lines:
        here = World().play([*SETUP, call(function, *arguments)])[len(SETUP)]
        ours = short(here)
        # Erlang blames several arguments at once, or gives no positions
        if ours != blamed and (blamed == "ok" or ours == "ok" or (blamed and not set(ours) & set(blamed))):
            found.append([function, arguments, blamed, ours])
    return found


def main(arguments: list[str] | None = None) -> int:
    """Records as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.blame", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--erl", default="erl", metavar="COMMAND", help="starts an Erlang node (default: erl)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="where the answers go")
    options = parser.parse_args(arguments)
    try:
        node = Node(options.erl, program=PROGRAM)
    except (OSError, Crashed) as error:
        print(f"{options.erl!r} starts no Erlang: {error}", file=sys.stderr)
        return 2
    try:
        lines = recorded(node)
    finally:
        node.close()
    if options.to:
        options.to.write_text(
            "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8"
        )
    print(f"OTP {node.release}: {len(lines)} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
