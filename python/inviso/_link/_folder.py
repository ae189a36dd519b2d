"""The folder of sockets: one for each prepared process of a user, named by its process id.

``INVISO_DIR``, else ``$XDG_RUNTIME_DIR/inviso``, else ``/tmp/inviso-UID``. Only its owner may enter it. It is opened
once, without following a symbolic link, and everything below it is reached by the descriptor. So replacing the folder
later has no effect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from inviso._descriptor import Own, moved

__all__ = ["AGENT", "CONTROL", "SUFFIX", "Folder", "place"]

SUFFIX = ".sock"
CONTROL = "control"
"""The subfolder in which control components listen."""

AGENT = "agent"
"""The subfolder in which the agent listens for controls of this host."""

NAMES = "names"
"""The subfolder with a link from each node's name to its process's socket."""

BEGAN = "began"
"""The subfolder in which a leaving control notes the nodes that trace: a link each, with process id and log folder."""

_TIME = struct.Struct("ll")
"""Seconds and microseconds, in the kernel's form."""

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def place() -> str:
    """The path of the folder, by the environment.

    >>> import os
    >>> os.environ["INVISO_DIR"] = "/run/mine"
    >>> place()
    '/run/mine'
    >>> del os.environ["INVISO_DIR"]
    """
    if named := os.environ.get("INVISO_DIR"):
        return named
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "inviso")
    return f"/tmp/inviso-{os.getuid()}"


class Folder:
    """The folder, open."""

    def __init__(self, path: str, descriptor: int, owner: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._own = Own(descriptor)
        self.owner = owner
        """The user whose processes listen here."""

    @classmethod
    def open(cls, path: str | None = None, *, make: bool = True, is_control: bool = False) -> Folder:
        """Opens the folder. With ``make`` it is created if it is missing. ``is_control``: root may open another user's.

        Raises:
            OSError: it does not exist, or can't be created; PermissionError if it belongs to another user, or others
                may enter it.
        """
        path = place() if path is None else path
        if make:
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
        try:
            descriptor = moved(os.open(path, _FLAGS))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise PermissionError(errno.EPERM, "it is not a folder; remove it, or set INVISO_DIR", path) from None
            raise
        found = os.fstat(descriptor)
        is_ours = found.st_uid == os.geteuid() or (is_control and os.geteuid() == 0)
        if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(descriptor)
            why = "others may enter it, or it is another user's; chmod 700 it, or set INVISO_DIR"
            raise PermissionError(errno.EPERM, why, path)
        return cls(path, descriptor, found.st_uid)

    def close(self) -> None:
        """Closes the descriptor, if the program hasn't closed it."""
        self.descriptor = -1
        self._own.close()

    def is_there(self) -> bool:
        """Whether it has not been removed."""
        return self._own.is_there() and os.fstat(self.descriptor).st_nlink > 0

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def below(self, name: str) -> Folder:
        """Opens a subfolder, which is created if it is missing."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.descriptor)
            self._give(name)
        return Folder(f"{self.path}/{name}", os.open(name, _FLAGS, dir_fd=self.descriptor), self.owner)

    def has(self, name: str) -> bool:
        """Whether it has an entry of this name."""
        try:
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except OSError:
            return False
        return True

    def pids(self) -> list[int]:
        """The processes that have a socket here, alive or not."""
        names = [name.removesuffix(SUFFIX) for name in os.listdir(self.descriptor) if name.endswith(SUFFIX)]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def claim(self, name: str, pid: int) -> str:
        """Claims a node's name for a process, and returns it. If a living process has it, ``-PID`` is appended."""
        with self._lock(), self.below(NAMES) as names:
            taken = names._links()
            other = taken.get(name)
            if other is not None and other != pid and self._answers(other):
                base, _, host = name.partition("@")
                name = f"{base}-{pid}@{host}"
            for known, owner in taken.items():
                if owner == pid or known == name:
                    os.unlink(known, dir_fd=names.descriptor)
            os.symlink(f"{pid}{SUFFIX}", name, dir_fd=names.descriptor)
        return name

    def disclaim(self, pid: int) -> None:
        """Releases the name of a process."""
        with self._lock(), self.below(NAMES) as names:
            for known, owner in names._links().items():
                if owner == pid:
                    os.unlink(known, dir_fd=names.descriptor)

    def names(self) -> dict[str, int]:
        """Process ids by the names of nodes, of processes alive or not."""
        with self.below(NAMES) as names:
            return names._links()

    def names_changed(self) -> int:
        """The time of the last change of names: a number that a change alters."""
        with self.below(NAMES) as names:
            return os.fstat(names.descriptor).st_mtime_ns

    def named(self, name: str) -> int | None:
        """The process id for a node's name, of a process alive or not. None if the name is not known."""
        with self.below(NAMES) as names, suppress(OSError, ValueError):
            if os.sep not in name:
                return int(os.readlink(name, dir_fd=names.descriptor).removesuffix(SUFFIX))
        return None

    def note(self, node: str, pid: int, log_dir: str) -> None:
        """Notes that a node traces, and its log folder. Later controls need it if the process has ended by then.

        Raises:
            OSError: the note can't be written.
        """
        with self.below(BEGAN) as began, suppress(FileExistsError):
            if os.sep not in node:
                with suppress(FileNotFoundError):
                    os.unlink(node, dir_fd=began.descriptor)
                os.symlink(f"{pid}:{log_dir}", node, dir_fd=began.descriptor)

    def noted(self) -> dict[str, tuple[int, str]]:
        """The noted nodes: process id and log folder of each."""
        found = {}
        with self.below(BEGAN) as began:
            for node in os.listdir(began.descriptor):
                with suppress(OSError, ValueError):
                    pid, _, log_dir = os.readlink(node, dir_fd=began.descriptor).partition(":")
                    found[node] = int(pid), log_dir
        return found

    def take_note(self, node: str) -> None:
        """Removes the note on a node."""
        with self.below(BEGAN) as began, suppress(OSError):
            os.unlink(node, dir_fd=began.descriptor)

    def _links(self) -> dict[str, int]:
        found = {}
        for name in os.listdir(self.descriptor):
            with suppress(OSError, ValueError):
                found[name] = int(os.readlink(name, dir_fd=self.descriptor).removesuffix(SUFFIX))
        return found

    def _answers(self, pid: int) -> bool:
        """Whether a process listens at its socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._by_descriptor(f"{pid}{SUFFIX}"))
            except BlockingIOError:
                return True  # its queue of connections is full
            except OSError:
                return False
        return True

    def listen(self, pid: int) -> socket.socket:
        """Makes this process's listening socket, which other processes of the user reach by ``pid``.

        Raises:
            OSError: it can't be made.
        """
        with self._lock():
            name = f"{pid}{SUFFIX}"
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.descriptor)  # left by an earlier process with this id
            made = socket.socket(fileno=moved(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()))
            try:
                made.bind(self._by_descriptor(name))
                os.chmod(name, 0o600, dir_fd=self.descriptor)
                made.listen(64)
            except BaseException:
                made.close()
                raise
            return made

    def connect(self, pid: int, wait: float = 0.0) -> socket.socket:
        """A non-blocking connection to a process's socket. The socket of a process that has ended is removed.

        Args:
            pid: the process.
            wait: seconds to wait for a place in the process's queue of connections.

        Raises:
            FileNotFoundError: there is no such socket.
            ConnectionRefusedError: its process has ended.
            BlockingIOError: its queue of connections is full.
            OSError: anything else.
        """
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if wait > 0:
                # Python's timeout would not work: it polls, and poll shows no free place for sockets of this family
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(int(wait), int(wait % 1 * 1e6) or 1))
            else:
                made.setblocking(False)
            made.connect(self._by_descriptor(f"{pid}{SUFFIX}"))
            made.setblocking(False)
        except ConnectionRefusedError:
            made.close()
            self.remove(pid)
            raise
        except BaseException:
            made.close()
            raise
        return made

    def remove(self, pid: int) -> None:
        """Removes the socket of a process that has ended, unless a new process has it now."""
        with self._lock():
            if self._answers(pid):
                return
            with suppress(FileNotFoundError):
                os.unlink(f"{pid}{SUFFIX}", dir_fd=self.descriptor)
            with self.below(NAMES) as names:
                for known, owner in names._links().items():
                    if owner == pid:
                        os.unlink(known, dir_fd=names.descriptor)

    def _give(self, name: str) -> None:
        """Gives an entry that root made to the folder's owner."""
        if self.owner != os.geteuid():
            os.chown(name, self.owner, -1, dir_fd=self.descriptor, follow_symlinks=False)

    def _by_descriptor(self, name: str) -> str:
        """A path into the open folder that is short enough for a socket's address."""
        return f"/proc/self/fd/{self.descriptor}/{name}"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Held while the sockets of the folder change."""
        lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=self.descriptor)
        try:
            if os.fstat(lock).st_uid != self.owner:
                self._give("lock")
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
