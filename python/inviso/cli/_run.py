"""``inviso run``: runs a program that can be traced from outside, by ``inviso start`` and other commands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._command import CannotBegin, carry_out
from ._options import Given, Options
from ._runner import Program

if TYPE_CHECKING:
    from inviso.autostart._file import Plan

__all__ = ["main"]

HELP = """\
usage: inviso run [options] SCRIPT [ARG ...]
       inviso run [options] -m MODULE [ARG ...]

Run a program that can be traced from outside: by 'inviso start' and the other
commands, or from Python by inviso.Cluster. Until then nothing is traced, and
there is no overhead.

options:
  --node NAME            its name, up to 64 letters, digits, '_', '.' and '-';
                         {pid} and {program} are replaced
                         (default: INVISO_NODE, or {program}-{pid})
  --log-dir FOLDER       the folder of logs (default: inviso-logs in the working
                         directory)
  --no-children          processes that the program starts can't be traced;
                         without it each one listens with its own name, NAME-PID
  --allow MODULE         a module, with all below it, whose functions may be
                         named as handlers from outside; may be given several
                         times
  -m MODULE              run a module, as python -m does
  -h, --help             show this text

Everything after SCRIPT or MODULE belongs to the program. Its exit status is
the command's.

examples:
  inviso run --node shop-1 app.py --port 8000
  inviso run -m celery -A tasks worker
"""

RUN = Options(
    short={"-m": "-m"},
    with_value=("-m", "--node", "--log-dir"),
    without_value=("--no-children",),
    several=("--allow",),
)


def main(words: list[str]) -> int:
    """Carries out the command. Returns the exit status."""
    return carry_out("run", RUN, HELP, words, _prepared)


def _prepared(given: Given, program: Program) -> _Prepared:
    from inviso import runtime
    from inviso._config import effective
    from inviso.autostart._file import Plan

    options = given.options
    settings = effective({
        "node": options.get("--node"),
        "log_dir": options.get("--log-dir"),
        "allow": given.lists["--allow"] or None,
        "follow": False if "--no-children" in options else None,
    })  # fmt: skip
    folder = settings["dir"].value
    if folder is not None:
        os.environ["INVISO_DIR"] = folder
    template = settings["node"].value or "{program}-{pid}"
    base = runtime.node_name("{program}", program.name).partition("@")[0]
    plan = Plan(
        node=template,
        log_dir=os.path.abspath(settings["log_dir"].value),
        allow=settings["allow"].value,
        follow=settings["follow"].value or settings["follow"].source == "default",
    )
    return _Prepared(runtime.node_name(template, program.name), base, plan)


@dataclass(frozen=True, slots=True)
class _Prepared:
    name: str
    program: str
    """The program's name in names of nodes."""
    plan: Plan

    def prepare(self) -> None:
        """Starts the listener before the program, also in processes that the program starts."""
        from inviso import runtime
        from inviso.autostart._process import lead

        try:
            runtime.listen(self.name, log_dir=self.plan.log_dir or "inviso-logs", allow=self.plan.allow)
        except OSError as error:
            raise CannotBegin(f"{error.filename or 'the folder of sockets'}: {error.strerror}") from None
        lead(self.plan, self.program)

    def begin(self) -> None:
        """Does nothing: tracing is started from outside."""

    def cancel(self) -> None:
        """Ends the listener: there is no program."""
        from inviso import runtime

        runtime.stop_listening()
