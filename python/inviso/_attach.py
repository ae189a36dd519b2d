"""Attaches to a running process: starts a listener in it, as in a prepared program. Needs Python 3.14 or later, for
``sys.remote_exec``.

The interpreter runs a script at a safe point of its main thread. The script is in a folder that only the process's user
can enter, and answers through a pipe there. While the main thread runs no Python code (it waits, or is in native code),
it doesn't run the script. Then the attempt is withdrawn after a time: an empty script replaces the first one, because
the process may still read it later. The folder is removed by the next attempt after the process has ended.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inviso._link._folder import Folder
from inviso._link._frame import BadFrame, pack
from inviso._link._meet import Met
from inviso.errors import BadArg, shown
from inviso.terms import Atom

__all__ = [
    *("AnotherUser", "Attached", "CannotAttach", "NoProcess", "NotPermitted", "NotPython", "OtherBuild"),
    *("RemoteDebugDisabled", "StillPending", "TooOld", "attach", "detach"),
]

FIRST = (3, 14)
"""The first version of Python that supports attaching."""

PREFIX = "inviso-attach-"


class CannotAttach(RuntimeError):
    """Attaching or detaching failed; the attempt has no effect."""


class NoProcess(CannotAttach):
    """There is no process with that number."""


class AnotherUser(CannotAttach):
    """The process belongs to another user."""


class NotPython(CannotAttach):
    """The process doesn't run Python."""


class TooOld(CannotAttach):
    """The process has no listener, and its Python doesn't support attaching."""


class OtherBuild(CannotAttach):
    """The process can't load this package: its Python is of another version or build, or in another file system."""


class RemoteDebugDisabled(CannotAttach):
    """The process was started, or its Python was built, with attaching disabled."""


class NotPermitted(CannotAttach):
    """The system does not permit it, because of ``ptrace_scope`` or a container's rights."""


class StillPending(CannotAttach):
    """The process's main thread ran no Python code in time; the attempt was withdrawn."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A process that can be traced from outside.

    >>> Attached("shop-1@h", 4711, True).node
    'shop-1@h'
    """

    node: str
    pid: int
    is_new: bool
    """Whether this attempt has started its listener."""


def attach(
    pid: int, *, node: str | None = None, log_dir: str | None = None, allow: tuple[str, ...] = (), timeout: float = 5.0
) -> Attached:
    """Starts a listener in a process, if it has none.

    Args:
        pid: the process's number.
        node: the name of the node; ``{program}-{pid}`` by default.
        log_dir: the folder for its logs; ``inviso-logs`` in its working directory by default.
        allow: modules whose functions a control may name.
        timeout: seconds in which its main thread must run Python code.

    Raises:
        CannotAttach: one of its subclasses, whose text has the cause and the remedy.
        BadArg: an argument has a wrong type or value.

    >>> attach(2**22 + 1)
    Traceback (most recent call last):
    ...
    inviso._attach.NoProcess: there is no process 4194305
    """
    _check_number("attach", pid, timeout)
    known = _node_of(pid, timeout)
    if known is not None:
        return Attached(known, pid, False)
    uid = _user_of(pid)
    if os.geteuid() not in (0, uid):
        raise AnotherUser(f"process {pid} belongs to user {uid}; attach as that user, or as root")
    version, program = _python_of(pid)
    if version < FIRST:
        raise TooOld(
            f"process {pid} runs Python {version[0]}.{version[1]}, and only {FIRST[0]}.{FIRST[1]} and later can be "
            f"attached to; start it with 'inviso run', or with INVISO_AUTOSTART set to a config file"
        )
    _remove_old_folders()
    with _Attempt(pid, uid) as attempt:
        attempt.write_script({"node": node, "log_dir": log_dir, "allow": list(allow)})
        until = time.monotonic() + timeout
        _ask_interpreter(pid, program, version, attempt.script, timeout)
        answer = attempt.wait(until)
        if answer is None:
            raise StillPending(
                f"the main thread of process {pid} ran no Python code for {timeout:g} s (it waits, or is in native "
                f"code); the attempt was withdrawn. Try again later, or give it longer"
            )
    if "node" not in answer:
        kind = OtherBuild if answer.get("kind") == "import" else CannotAttach
        raise kind(f"process {pid}: {answer.get('error', 'it answered nonsense')}")
    return Attached(str(answer["node"]), pid, True)


def detach(pid: int, *, timeout: float = 5.0) -> str:
    """Ends the listener of a process and its runtime component. No thread, socket, session or file of ours stays there,
    but the loaded modules do.

    Returns:
        The node's name.

    Raises:
        CannotAttach: there is no listener, or a living control uses it.

    >>> detach(2**22 + 1)
    Traceback (most recent call last):
    ...
    inviso._attach.NoProcess: nobody can be detached from process 4194305: it has no listener
    """
    _check_number("detach", pid, timeout)
    until = time.monotonic() + timeout
    try:
        with Folder.open(make=False) as folder, Met(folder, pid, f"detach-{os.getpid()}", until) as met:
            met.send(pack((Atom("call"), 1, Atom("detach"), [])))
            for term in met.terms():
                match term:
                    case ("answer", 1, "ok"):
                        met.wait_for_end()  # the listener has ended then
                        break
                    case ("answer", 1, ("error", ("refused", control, number))):
                        why = f"{met.node} belongs to the control {control} (process {number}); stop that first"
                        raise CannotAttach(why)
                    case ("answer", 1, other):
                        raise CannotAttach(f"{met.node} answered {other!r:.200}")
            return met.node
    except (FileNotFoundError, ConnectionRefusedError):
        raise NoProcess(f"nobody can be detached from process {pid}: it has no listener") from None
    except (OSError, BadFrame) as error:
        raise CannotAttach(f"process {pid} does not answer: {error}") from None


def _check_number(function: str, pid: Any, timeout: Any) -> None:
    if type(pid) is not int or pid <= 0:
        raise BadArg(function, "pid", f"{shown(pid)} is not a number of a process; pass one from 1")
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not 0 < timeout < float("inf"):
        raise BadArg(function, "timeout", f"{shown(timeout)} is not a number of seconds; pass one above 0")


def _node_of(pid: int, timeout: float) -> str | None:
    """The node's name of a process with a listener; None without a listener."""
    until = time.monotonic() + timeout
    try:
        with Folder.open(make=False) as folder, Met(folder, pid, f"attach-{os.getpid()}", until) as met:
            return met.node
    except (OSError, BadFrame):
        return None


def _user_of(pid: int) -> int:
    """The effective user of a process."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^Uid:\t\d+\t(\d+)", file.read(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        found = None
    if found is None:
        raise NoProcess(f"there is no process {pid}")
    return int(found[1])


_LIBRARY = re.compile(r"/libpython3\.(\d+)(t?)[.\w]*\.so")
_PROGRAM = re.compile(r"python3\.(\d+)(t?)$")


def _python_of(pid: int) -> tuple[tuple[int, int], str | None]:
    """The version of Python in a process, and its interpreter; None if Python is embedded in another program."""
    try:
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            library = _LIBRARY.search(file.read())
        is_elsewhere = not os.path.samestat(os.stat(f"/proc/{pid}/root/"), os.stat("/"))
    except (FileNotFoundError, ProcessLookupError):
        raise NoProcess(f"there is no process {pid} any more") from None
    except PermissionError:
        raise NotPermitted(_about_ptrace(pid)) from None
    interpreter = _PROGRAM.search(program)
    found = interpreter or library
    if found is None:
        raise NotPython(f"process {pid} runs {program}, which is not Python")
    if is_elsewhere:
        raise OtherBuild(f"process {pid} has a root directory of its own; attach from within its container")
    return (3, int(found[1])), program if interpreter else None


def _about_ptrace(pid: int) -> str:
    scope = None
    with suppress(OSError, ValueError), open("/proc/sys/kernel/yama/ptrace_scope") as file:
        scope = int(file.read())
    mend = "run this as root, or in a container with the right SYS_PTRACE"
    if scope:
        mend = (
            f"kernel.yama.ptrace_scope is {scope}; set it to 0 (sysctl kernel.yama.ptrace_scope=0), or run this as root"
        )
    return f"the system does not let process {pid} be attached to: {mend}"


_CODE = """
import sys
try:
    sys.remote_exec(int(sys.argv[1]), sys.argv[2])
except BaseException as error:
    print(type(error).__name__, getattr(error, "errno", None) or 0, error, sep="\\t")
"""


def _ask_interpreter(pid: int, program: str | None, version: tuple[int, int], script: str, timeout: float) -> None:
    """Asks the process to run the script. A second process with the same interpreter does so, because both sides must
    be of one build.
    """
    if program is None and sys.version_info[:2] != version:
        raise OtherBuild(
            f"process {pid} has Python {version[0]}.{version[1]} as a part of another program; "
            f"attach with an inviso of that version"
        )
    executable = f"/proc/{pid}/exe" if program is not None else sys.executable
    words = [program or sys.executable, "-I", "-S", "-c", _CODE, str(pid), script]
    try:
        done = subprocess.run(
            words, executable=executable, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotAttach(f"the interpreter {program} did not answer in {timeout:g} s") from None
    except OSError as error:
        raise CannotAttach(f"the interpreter {program} can't be run: {error.strerror}") from None
    if done.returncode:
        raise CannotAttach(f"the interpreter {program} failed: {done.stderr.strip()[-500:]}")
    if done.stdout:
        raise _refusal(pid, *done.stdout.rstrip("\n").split("\t", 2))


def _refusal(pid: int, kind: str, number: str, text: str) -> CannotAttach:
    if kind == "PermissionError" or "ermission" in text or "not permitted" in text:
        return NotPermitted(_about_ptrace(pid))
    if kind == "ProcessLookupError" or "No such process" in text:
        return NoProcess(f"there is no process {pid} any more")
    if "not enabled" in text or "disabled" in text:
        return RemoteDebugDisabled(
            f"process {pid} lets nobody attach; it was started with -X disable-remote-debug or "
            f"PYTHON_DISABLE_REMOTE_DEBUG, or its Python was built so"
        )
    if "version" in text or "release" in text:
        return OtherBuild(f"process {pid} is of another build of Python: {text}")
    return CannotAttach(f"process {pid}: {kind}: {text}")


class _Attempt:
    """The folder of one attempt, with the script and the pipe for its answer."""

    def __init__(self, pid: int, uid: int) -> None:
        self._folder = tempfile.mkdtemp(prefix=f"{PREFIX}{pid}-")
        self.script = os.path.join(self._folder, "attach.py")
        self._pipe = os.path.join(self._folder, "answer")
        os.mkfifo(self._pipe, 0o600)
        self._reader = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._uid = uid
        self._is_pending = False
        if uid != os.geteuid():
            os.chown(self._pipe, uid, -1)

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)
        if self._is_pending:
            with suppress(OSError):
                os.unlink(self._pipe)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)

    def write_script(self, arguments: dict[str, Any]) -> None:
        """Writes the script, and makes the process's user the owner of the folder."""
        above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        given = {**arguments, "pipe": self._pipe}
        self._put(_SCRIPT.format(path=above, version=sys.version_info[:2], arguments=given, pipe=self._pipe))
        if self._uid != os.geteuid():
            os.chown(self._folder, self._uid, -1)

    def wait(self, until: float) -> dict[str, Any] | None:
        """Waits for the process's answer. None without one; the process won't answer later, either."""
        answer = self._read(until)
        if answer is None:
            self._put("")
            self._is_pending = True
            answer = self._read(time.monotonic() + 0.1)  # the process may have read the script just before
            if answer is not None:
                self._is_pending = False
        return answer

    def _read(self, until: float) -> dict[str, Any] | None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        data = b""
        while not data.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return None
            part = os.read(self._reader, 1 << 16)
            if not part and not data:
                return None
            if not part:
                break
            data += part
        try:
            found = json.loads(data)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _put(self, text: str) -> None:
        """Replaces the script in one step."""
        part = f"{self.script}.part"
        with open(part, "w", encoding="utf-8", opener=_private) as file:
            file.write(text)
        if self._uid != os.geteuid():
            os.chown(part, self._uid, -1)
        os.rename(part, self.script)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


_SCRIPT = """\
def _inviso_attach():
    import sys
    error = None
    try:
        import inviso
    except ImportError as missing:
        error = missing
        if sys.version_info[:2] == {version!r}:
            sys.path.append({path!r})
            try:
                import inviso
                error = None
            except ImportError as missing:
                error = missing
            finally:
                sys.path.remove({path!r})
    if error is None:
        from inviso._attached import begin
        begin(**{arguments!r})
        return
    import json, os
    try:
        pipe = os.open({pipe!r}, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    why = "it can't load inviso (%s); install inviso for its Python %s" % (error, sys.version.split()[0])
    os.write(pipe, json.dumps(dict(kind="import", error=why)).encode() + b"\\n")
    os.close(pipe)


_inviso_attach()
del _inviso_attach
"""


def _remove_old_folders() -> None:
    """Removes the folders of withdrawn attempts whose processes have ended."""
    above = tempfile.gettempdir()
    for name in os.listdir(above):
        found = re.fullmatch(rf"{PREFIX}(\d+)-\w+", name)
        if found is None or os.path.exists(f"/proc/{found[1]}"):
            continue
        path = os.path.join(above, name)
        with suppress(OSError):
            if os.lstat(path).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
