"""A real Erlang node that answers cases, started anew when it crashes."""

from __future__ import annotations

import base64
import os
import selectors
import shlex
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from .etf import pack, unpack

__all__ = ["Case", "Crashed", "Node"]

PROGRAM = Path(__file__).with_name("answer.erl")

BOOT = """
Port = open_port({fd, 0, 1}, [binary, eof, {line, 65536}]),
Read = fun Read(Line) ->
           receive
               {Port, {data, {noeol, Part}}} -> Read([Line, Part]);
               {Port, {data, {eol, Part}}} -> iolist_to_binary([Line, Part])
           end
       end,
Source = binary_to_list(base64:decode(Read([]))),
{ok, Tokens, _} = erl_scan:string(Source),
Split = fun Split([], _, Forms) -> lists:reverse(Forms);
            Split([{dot, _} = Dot | More], Form, Forms) ->
                {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
                Split(More, [], [Parsed | Forms]);
            Split([Token | More], Form, Forms) -> Split(More, [Token | Form], Forms)
        end,
{ok, Module, Binary} = compile:forms(Split(Tokens, [], [])),
{module, Module} = code:load_binary(Module, "answer.erl", Binary),
Module:main(Port).
"""
"""The program goes over standard input too: the node may run where this file is not."""


class Case(NamedTuple):
    """A specification and its subject, as terms of the case files."""

    mode: str
    spec: Any
    subject: Any


class Crashed(Exception):
    """The node ended, or did not answer for a long time."""


class Node:
    """A node that a command starts: ``erl``, or a command that starts one elsewhere."""

    def __init__(
        self, command: str, atoms: tuple[str, ...] = (), patience: float = 60.0, program: Path = PROGRAM
    ) -> None:
        self.command = [*shlex.split(command), "-noinput", "-boot", "start_clean", "-eval", " ".join(BOOT.split())]
        self.atoms = atoms
        self.patience = patience
        self.program = program
        self.release = ""
        self.starts = 0
        self._start()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "ERL_CRASH_DUMP_SECONDS": "0"},  # a crash is an answer, and leaves no file
        )
        self.left = b""
        ready = self._ask(base64.b64encode(self.program.read_bytes()))
        self.release = "".join(map(chr, ready["t"][1]))
        atoms = [{"b": base64.b64encode(name.encode()).decode()} for name in self.atoms]
        self._ask(base64.b64encode(pack({"t": [{"a": "atoms"}, atoms]})))

    def answers(self, cases: list[Case]) -> list[Any]:
        """An answer for each case, or None for one that crashes the node."""
        return self.ask([{"t": [{"a": case.mode}, case.spec, case.subject]} for case in cases])

    def ask(self, asked: list[Any]) -> list[Any]:
        """The program's answer to each of these terms, or None for one that crashes the node."""
        try:
            answers: list[Any] = self._ask(base64.b64encode(pack(asked)))
            return answers
        except Crashed:
            self.close()
            self._start()
        if len(asked) < 2:
            return [None] * len(asked)
        middle = len(asked) // 2
        return [*self.ask(asked[:middle]), *self.ask(asked[middle:])]

    def _ask(self, line: bytes) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + b"\n")
        except BrokenPipeError:
            raise Crashed from None
        until = time.monotonic() + self.patience
        while True:
            said = self._line(until)
            if said.startswith(b"="):
                return unpack(base64.b64decode(said[1:]))

    def _line(self, until: float) -> bytes:
        """The next line, or Crashed if none comes in time."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.left:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise Crashed
                part = self.process.stdout.read(1 << 20)
                if not part:
                    raise Crashed
                self.left += part
        line, _, self.left = self.left.partition(b"\n")
        return line

    def close(self) -> None:
        """Ends the node."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
