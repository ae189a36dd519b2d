"""The command ``inviso agent``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from inviso._descriptor import as_many_as_may

from ._options import parsed

__all__ = ["main", "parser"]

LISTEN = "tcp/127.0.0.1:7447"
CLUSTER = "default"

PATIENCE = 10.0
"""Seconds in which an agent must begin."""


def parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments.

    >>> parser().parse_args(["--connect", "tcp/192.0.2.1:7447"]).connect
    ['tcp/192.0.2.1:7447']
    """
    made = argparse.ArgumentParser(
        prog="inviso agent",
        description="Connect the processes of this host that can be traced with those of other hosts, by zenoh.",
        epilog="It listens on the loopback interface by default: name an address of this host with --listen.",
        allow_abbrev=False,
    )
    made.add_argument(
        "--listen",
        action="append",
        metavar="ENDPOINT",
        help=f"the address at which other agents reach this one (default: {LISTEN}); may be given several times",
    )
    made.add_argument(
        "--connect",
        action="append",
        default=[],
        metavar="ENDPOINT",
        help="the address of another agent or a router; may be given several times",
    )
    made.add_argument(
        "--cluster",
        default=CLUSTER,
        metavar="NAME",
        help=f"the cluster; agents of other clusters are ignored (default: {CLUSTER})",
    )
    made.add_argument(
        "--host", metavar="NAME", help="this host's name in names of nodes (default: INVISO_HOST, or the system's)"
    )
    made.add_argument(
        "--ca",
        metavar="FILE",
        help="the authority that signs the certificates of all agents (PEM); needed for endpoints tls/...",
    )
    made.add_argument("--cert", metavar="FILE", help="this agent's certificate (PEM)")
    made.add_argument("--key", metavar="FILE", help="the key of the certificate (PEM)")
    made.add_argument(
        "--rights",
        metavar="FILE",
        help="the rights of names in certificates on this host (TOML); without it they have all rights",
    )
    made.add_argument(
        "--insecure",
        action="store_true",
        help="accept endpoints without TLS, which are open to anyone who reaches them",
    )
    made.add_argument("--router", action="store_true", help="forward messages between other agents")
    made.add_argument(
        "--window", type=float, metavar="SECONDS", help="the time that a node may be unreachable (default: 1)"
    )
    made.add_argument("--detach", action="store_true", help="run in the background")
    made.add_argument(
        "--status", action="store_true", help="show the running agents of this host, and the nodes that they reach"
    )
    made.add_argument("--json", action="store_true", help="show the status as JSON")
    return made


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status: 1 if there is no agent, or it can't begin, 2 for a wrong
    command line.
    """
    given = parsed(parser(), words)
    if isinstance(given, int):
        return given
    if given.host is not None:
        os.environ["INVISO_HOST"] = given.host
    if given.status:
        return _status(given)
    from inviso.errors import BadArg, SystemLimit

    try:
        if given.detach:
            return _detached(words)
        from inviso import agent

        as_many_as_may()
        files = [given.ca, given.cert, given.key]
        if None in files and any(files):
            raise BadArg("agent", "tls", "--ca, --cert and --key belong together; pass all three")
        agent.run(
            given.listen or [LISTEN],
            given.connect,
            cluster=given.cluster,
            mode="router" if given.router else "peer",
            tls=agent.Tls(*files) if all(files) else None,
            rights=agent.read_rights(given.rights) if given.rights else None,
            insecure=given.insecure,
            **({} if given.window is None else {"window": given.window}),
        )
        return 0
    except BadArg as wrong:
        print(f"inviso agent: {wrong.argument}: {wrong.why}", file=sys.stderr)
        return 2
    except (SystemLimit, OSError) as error:
        print(f"inviso agent: {error}", file=sys.stderr)
        return 1


def _status(given: Any) -> int:
    found = agents()
    if given.json:
        print(json.dumps(found, indent=1))
    for each in [] if given.json else found:
        print(f"agent {each['pid']}\tcluster {each['cluster']}\thost {each['host']}\t{each['connections']} connections")
        for node in each["nodes"]:
            print(f"\t{node}")
        if each["routers"]:
            print(f"\t{each['routers']} of them a router, which is trusted with all that it forwards")
        for stranger in each["without_rights"]:
            print(f"\twithout rights: {stranger}")
        for foreign in each["not_joined"]:
            print(f"\tnot joined: {foreign}")
        if (refused := each["refused"])["lines"]:
            print(f"\trefused: {refused['lines']} lines of zenoh's log on TLS, the last: {refused['last']}")
    if not found:
        print("inviso agent: none runs on this host", file=sys.stderr)
    return 0 if found else 1


def agents(timeout: float = 5.0) -> list[dict[str, Any]]:
    """The running agents of this host. Each is a dict: ``pid``, ``cluster``, ``host``; ``nodes`` of other hosts; the
    number of ``connections`` to other agents, and of ``routers`` among them; neighbours ``without_rights`` here; agents
    of other clusters and versions, which are ``not_joined``; ``refused``: the number of ``lines`` in zenoh's log about
    refused TLS connections, for example because of a certificate, and the ``last`` of these lines.
    """
    from inviso._link._folder import AGENT, Folder
    from inviso._link._frame import BadFrame, pack
    from inviso._link._meet import Met
    from inviso.terms import Atom

    found = []
    with Folder.open(is_control=True) as folder:
        if not folder.has(AGENT):
            return []
        below = folder.below(AGENT)
    with below:
        for pid in below.pids():
            with suppress(OSError, BadFrame), Met(below, pid, "", time.monotonic() + timeout) as met:
                met.send(pack((Atom("call"), 1, "status", [], int(1000 * timeout))))
                match next(met.terms()):
                    case ("answer", 1, ("ok", dict(about))):
                        found.append({"pid": pid, **about})
    return found


def _detached(words: Sequence[str]) -> int:
    """Starts an agent in the background, and waits until it answers or has reported an error."""
    began = {each["pid"] for each in agents()}
    made = subprocess.Popen(
        [sys.executable, "-m", "inviso", "agent", *(word for word in words if word != "--detach")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if made.poll() is not None:
            assert made.stderr is not None
            sys.stderr.write(made.stderr.read())
            return made.returncode or 1
        if made.pid in {each["pid"] for each in agents(timeout=1.0)} - began:
            print(f"agent {made.pid}")
            return 0
        time.sleep(0.05)
    made.kill()
    print(f"inviso agent: it did not begin in {PATIENCE:g} s", file=sys.stderr)
    return 1
