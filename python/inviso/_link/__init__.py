"""How a control component and the runtime components of one host reach each other: sockets, frames, who is there.

* ``_frame``: one term of the external term format behind its length.
* ``_folder``: the private folder that has a socket for each prepared process.
* ``_meet``: a connection by a caller that waits: greetings, then frames until a time.
* ``_peer``: who is at the other end of a connection, and when that process ends.
"""
