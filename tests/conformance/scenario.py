"""One case, executed: its processes and collectors, its steps, and the first difference to what is expected."""

from __future__ import annotations

import gc
import json
from typing import Any

from .actions import ACTIONS, look, token_function
from .cases import Case
from .compare import Names, as_atoms, encode, first_difference, message, same
from .driver import Driver, refusal
from .errors import CAUGHT, class_of, reason_of
from .fixtures import load, python_target, resolve, through_module
from .inexpressible import calls_from_other_modules
from .product import BadArg, Missing, Pid, atom, inviso, submodule
from .rendezvous import Command, Outcome, Rendezvous, Stuck, rendezvous, wait_until
from .terms import Term, decode, is_atom, text

__all__ = ["run"]

COLLECTORS = ("T1", "T2", "T3")
SIGNALS = ("exit", "exit_signal", "link", "unlink", "kill")
"""Steps that can send exit signals. A thread is told at its next call into the package, so each is made to make one."""

TOKENS = ("get_token", "set_token", "save_token")
SPECS = ("function", "send_pattern", "recv_pattern")


def run(case: Case) -> tuple[str | None, bool]:
    """Executes a case: its first difference or None, and whether another case can follow in this interpreter."""
    scenario = Scenario(case)
    try:
        difference = scenario.play()
        scenario.close()
    except Stuck as stuck:
        return f"{scenario.where()}: {stuck}", False
    return difference, True


def nothing() -> None:
    """The function of the process that the cases call DEAD."""


class Scenario:
    """The world of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.names = Names()
        self.driver = Driver(self.names, self._kill)
        self.driver.want_weak = {s[2][:-1] for s in case.steps if s[0] == "drv" and str(s[2:3]).endswith("w']")}
        self.processes: dict[str, Rendezvous] = {}
        self.seen = dict.fromkeys(COLLECTORS, 0)
        self.sequential = all(step[0] != "drv" for step in case.steps)
        self.shows_token = "get_seq_token" in json.dumps(case.steps)
        self.step = -1

    def where(self) -> str:
        """The current step, in words."""
        if self.step < 0:
            return "setup"
        who, name, *arguments = self.case.steps[self.step]
        shown = " ".join(a if isinstance(a, str) else text(a) for a in arguments)
        return f"step {self.step} ({f'{who} {name} {shown}'.rstrip()})"

    def play(self) -> str | None:
        """Sets up the world and runs the steps."""
        try:
            self._set_up()
        except CAUGHT as error:
            return f"setup: {type(error).__name__}: {error}"
        for number, step in enumerate(self.case.steps):
            self.step = number
            difference = self._play_step(step)
            if difference is not None:
                return f"{self.where()}: {difference}"
        return None

    def _set_up(self) -> None:
        gc.collect()
        through_module.choose(calls_from_other_modules(self.case))
        for name in (*self.case.procs, *COLLECTORS):
            self._adopt(name, rendezvous(name, create=True), inviso.spawn(load("host").proc, atom(name)))
        dead = inviso.spawn(nothing)
        wait_until(lambda: not dead.is_alive(), "a process that returned at once stayed alive")
        self.names.pids[dead] = "DEAD"
        self.names.pids[inviso.self()] = "driver"
        if self.sequential:
            submodule("seq_trace").set_system_tracer(self._pid("T1"))

    def _adopt(self, name: str, meeting: Rendezvous, pid: Any) -> None:
        meeting.pid = pid
        self.processes[name] = meeting
        self.names.pids[pid] = name
        meeting.started()

    def _play_step(self, step: list[Any]) -> str | None:
        who, name, *arguments = step
        outcome = self._drive(name, arguments) if who in ("drv", "all") else self._do(who, name, arguments)
        if name in SIGNALS:
            self._let_signals_in()
        try:
            self.driver.settle()
        except TimeoutError as late:
            return str(late)
        expected = self.case.returns[self.step]
        difference = self._outcome_difference(name, arguments, expected, outcome)
        return difference or self._trace_difference()

    def _drive(self, name: str, arguments: list[Any]) -> Outcome:
        """A step of ``drv`` or ``all``, in this thread."""
        try:
            function = getattr(self.driver, name, None)
            if function is not None:
                return Outcome("ok", function(*self._driver_arguments(name, arguments)))
            values = [self._named(a) if isinstance(a, str) else self._decode(a) for a in arguments]
            name = "set_system_tracer" if name == "set_bad_system_tracer" else name
            return Outcome("ok", as_atoms(encode(token_function(name)(Rendezvous(), *values), self.names)))
        except CAUGHT as error:
            return self._raised(error)

    def _driver_arguments(self, name: str, arguments: list[Any]) -> list[Any]:
        spec = name in SPECS
        if name == "session_create":
            return [arguments[0], self._pid(arguments[1]), *(self._decode(a) for a in arguments[2:])]
        return [a if isinstance(a, str) else python_target(self._decode(a, spec=spec)) for a in arguments]

    def _do(self, who: str, name: str, arguments: list[Any]) -> Outcome:
        """A step of a process, in its own thread."""
        meeting = self.processes[who]
        try:
            command = self._command(meeting, name, arguments)
        except CAUGHT as error:
            return self._raised(error)
        before = len(self._mailbox(arguments[0])) if name == "send_after" else 0
        outcome = meeting.ask(command)
        if outcome.kind == "ok":
            if name.startswith("spawn") and isinstance(outcome.value, Pid):
                self._adopt(arguments[0], rendezvous(arguments[0]), outcome.value)
            if name == "send_after":
                wait_until(lambda: len(self._mailbox(arguments[0])) > before, "the timer's message did not come")
            return Outcome("ok", encode(outcome.value, self.names))
        return outcome if outcome.error is None else self._raised(outcome.error)

    def _command(self, meeting: Rendezvous, name: str, arguments: list[Any]) -> Command:
        if name in ("call", "catch_call"):
            module, function, values = (self._decode(a) for a in arguments)
            return Command(name, resolve(module, function, len(values)), values)
        if name.startswith("spawn"):
            rendezvous(arguments[0], create=True)
            return Command("do", ACTIONS[name], [meeting, arguments[0]])
        values = [self._named(a) if isinstance(a, str) else self._decode(a) for a in arguments]
        if name == "exit":
            return Command("exit", look, values)
        return Command("do", ACTIONS[name], [meeting, *values])

    def _raised(self, error: BaseException) -> Outcome:
        return Outcome(class_of(error), encode(reason_of(error), self.names), error)

    def _outcome_difference(self, name: str, arguments: list[Any], expected: Any, got: Outcome) -> str | None:
        if got.kind == "exited" or "exited" in expected:
            return None if "exited" in expected and got.kind == "exited" else self._other(expected, got)
        if got.kind not in expected:
            return self._other(expected, got)
        token = name in TOKENS or self.shows_token
        wanted = expected[got.kind]
        if not same(wanted, self._as_recorded(name, wanted, got), token=token):
            return self._other(expected, got)
        if "bad_args" in expected:
            assert got.error is not None
            return refusal(name, arguments, expected["bad_args"], got.error)
        return None

    def _as_recorded(self, name: str, wanted: Term, got: Outcome) -> Term:
        """An answer in the form of the case, where Erlang's harness could give one of several forms.

        ``delivered`` has its message as answer, the reference in it, or ``ok``; a dropped session has ``true``.
        A value that is no token gets a ``BadArg`` here; Erlang's library has no clause for it, or computes with it.
        """
        if name == "set_token" and isinstance(got.error, BadArg) and is_atom(wanted, "function_clause", "badarith"):
            return wanted
        if got.kind != "ok" or name not in ("delivered", "drop_session"):
            return got.value
        if is_atom(wanted, "ok", "true"):
            return wanted
        return got.value["t"][2] if isinstance(wanted, dict) and "ref" in wanted and "t" in got.value else got.value

    def _other(self, expected: dict[str, Any], got: Outcome) -> str:
        wanted = next(k for k in expected if k != "bad_args")
        shown = "" if got.kind == "exited" else f" {text(got.value)}"
        cause = f" ({type(got.error).__name__}: {got.error})" if got.error is not None else ""
        term = "" if wanted == "exited" else f" {text(expected[wanted])}"
        return f"expected {wanted}{term}, got {got.kind}{shown}{cause}"

    def _trace_difference(self) -> str | None:
        expected = self.case.messages(self.step)
        for name in (*COLLECTORS, *(n for n in expected if n not in COLLECTORS)):
            difference = first_difference(expected.get(name, []), self._news(name), token=self.shows_token)
            if difference is not None:
                return f"{name}: {difference}"
        return None

    def _news(self, name: str) -> list[Term]:
        """The messages that a collector got since the last look."""
        if name not in self.processes or self.processes[name].ended:
            return []
        mailbox = self._mailbox(name)
        news = mailbox[self.seen[name] :] if name in self.seen else []
        if name in self.seen:
            self.seen[name] = len(mailbox)
        return [message(m, self.names) for m in news]

    def _mailbox(self, name: str) -> list[Any]:
        meeting = self.processes[name]
        outcome = meeting.ask(Command("do", look, [meeting]))
        return list(outcome.value) if outcome.kind == "ok" else []

    def _let_signals_in(self) -> None:
        """Has every process look at its mailbox, until no process ends because of that."""
        ended = True
        while ended:
            ended = False
            for name, meeting in self.processes.items():
                if not meeting.ended:
                    self._mailbox(name)
                    ended = ended or meeting.ended

    def _kill(self, name: str) -> None:
        meeting = self.processes[name]
        if not meeting.ended:
            meeting.ask(Command("exit", look, [atom("killed")]))

    def _pid(self, name: str) -> Any:
        for pid, role in self.names.pids.items():
            if role == name:
                return pid
        raise Missing(f"there is no process {name}")

    def _named(self, name: str) -> Any:
        return False if name == "false" else self._pid(name)

    def _decode(self, term: Term, *, spec: bool = False) -> Any:
        def named(kind: str, name: str) -> Any:
            if kind == "pid":
                return self._pid(name)
            raise Missing(f"a {kind} as an argument")

        return decode(term, named, spec=spec)

    def close(self) -> None:
        """Ends the case's sessions, names and processes."""
        try:
            if self.sequential:
                submodule("seq_trace").set_system_tracer(False)
            if hasattr(self.driver.trace, "control_word"):
                self.driver.trace.control_word(0)
        except CAUGHT:
            pass
        self.driver.close()
        for meeting in self.processes.values():
            meeting.dismiss()
        try:
            while True:
                inviso.receive(timeout=0)
        except TimeoutError:
            pass
