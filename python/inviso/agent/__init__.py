"""The agent of a host: connects the prepared processes of this host with those of others, by zenoh
(``inviso[cluster]``).

Through it, controls of this host (``inviso start``, :class:`inviso.Cluster`, :mod:`inviso.control`) reach nodes of
other hosts like local ones. No other process opens a connection to the network. The agent has no state that a new one
would need. When it ends, the nodes of this host follow their dependency, and the controls lose the nodes of other
hosts.

By default an agent listens on the loopback interface. It does not search for other agents: each has to be named.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from inviso._link._bell import say
from inviso._link._folder import AGENT, SUFFIX, Folder
from inviso._link._names import host
from inviso.errors import BadArg, shown

from ._access import Rights, Tls, read_rights, rules
from ._engine import Engine, is_private
from ._far import WINDOW, Far
from ._keys import PRESENCE, Keys
from ._near import Near
from ._refusals import Refusals

__all__ = ["Rights", "Tls", "read_rights", "run"]


async def _run(
    folder: Folder, engine: Engine, keys: Keys, rights: Rights | None, window: float, refusals: Refusals
) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    with folder.below(AGENT) as below, below.listen(os.getpid()) as listening:
        try:
            near, far = Near(folder, engine, keys), Far(listening, engine, keys, refusals, window)
            if rights is not None:
                known = rights

                def on_link(name: str | None, at: str, is_there: bool) -> None:
                    loop.call_soon_threadsafe(_stranger, far, known, name, at, is_there)

                engine.watch_links(on_link)

            def present(key: str, is_there: bool) -> None:
                loop.call_soon_threadsafe(_foreign, far, keys.foreign(key), is_there)

            engine.watch(f"{PRESENCE}/**", present)
            tokens = [engine.token(key) for key in (keys.agent(engine.name), keys.presence(engine.name))]
            working = [asyncio.create_task(near.run()), asyncio.create_task(far.run())]
            stopped = asyncio.create_task(over.wait())
            await asyncio.wait([stopped, *working], return_when=asyncio.FIRST_COMPLETED)
            for gone in tokens:
                gone()
            for one in working:
                if one.done():
                    one.result()
                one.cancel()
        finally:
            engine.close()  # first, as it calls the loop
            with suppress(OSError):
                os.unlink(f"{os.getpid()}{SUFFIX}", dir_fd=below.descriptor)


def _stranger(far: Far, rights: Rights, name: str | None, at: str, is_there: bool) -> None:
    """Records and reports a neighbour that has no right on this host."""
    if name in rights:
        return
    shown_name = f"{name or 'nobody'} at {at}"
    if is_there and shown_name not in far.strangers:
        far.strangers = [*far.strangers[-99:], shown_name]
        say(f"agent: {shown_name} has no right on this host")


def _foreign(far: Far, what: str | None, is_there: bool) -> None:
    """Records and reports an agent of another cluster or version."""
    if what is None:
        return
    if not is_there:
        far.not_joined = [each for each in far.not_joined if each != what]
    elif what not in far.not_joined:
        far.not_joined = [*far.not_joined[-99:], what]
        say(f"agent: not joined: {what}")


def run(
    listen: Sequence[str] = ("tcp/127.0.0.1:7447",),
    connect: Sequence[str] = (),
    *,
    cluster: str = "default",
    mode: str = "peer",
    tls: Tls | None = None,
    rights: Rights | None = None,
    insecure: bool = False,
    window: float = WINDOW,
) -> None:
    """Runs the agent of this host in the main thread, until SIGINT or SIGTERM.

    Args:
        listen: endpoints at which other agents reach this one, such as ``"tls/192.0.2.1:7447"``.
        connect: endpoints of other agents.
        cluster: the cluster's name. Agents of other clusters are ignored.
        mode: ``"peer"``, or ``"router"``.
        tls: the certificates of this agent and of the authority that signs all; needed for endpoints ``"tls/..."``.
        rights: the rights on this host by the name in a certificate, as of :func:`read_rights`. Without it each agent
            with a certificate may do everything.
        insecure: accept endpoints on other hosts without certificates. Then anyone who reaches them may do everything.
        window: seconds that a vanished node has to come back before it counts as ended.

    Raises:
        BadArg: a wrong name or endpoint, or zenoh is not installed.
        SystemLimit: an endpoint is in use.
        OSError: there can be no folder of sockets.
    """
    keys = Keys(cluster, host())
    if not (isinstance(window, (int, float)) and 0 <= window < 3600):
        raise BadArg("agent", "window", f"{shown(window)} is not a time; pass seconds from 0 to 3600")
    if rights is not None and tls is None:
        raise BadArg("agent", "rights", "they go by the names in certificates; pass tls=, too")
    for argument, endpoints in (("listen", listen), ("connect", connect)):
        for each in endpoints:
            if not insecure and not is_private(each):
                why = f"{shown(each)} shows no certificate; pass tls= and 'tls/...', or insecure=True"
                raise BadArg("agent", argument, why)
    with Folder.open() as folder, Refusals() as refusals:
        engine = Engine(listen, connect, mode, tls, None if rights is None else rules(keys, rights))
        asyncio.run(_run(folder, engine, keys, rights, window, refusals))
