"""Connections between a control component and the runtime components of one host: sockets, frames, peers.

* ``_frame``: a length, then one term in the external term format.
* ``_folder``: the private folder that has a socket for each prepared process.
* ``_meet``: a blocking connection: greetings, then frames until a deadline.
* ``_peer``: the process at the other end of a connection, and its end.
"""
