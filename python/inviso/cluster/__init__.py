"""Trace many processes of this host together: those started by ``inviso run``, and others that listen.

::

    from inviso import Cluster

    with Cluster("shop-*") as shop:
        shop.trace("shop.**", messages=True, folder="logs")
        ...                     # the processes continue meanwhile
        print(shop.stop())      # a table: node, records, lost, log

Each call goes to all nodes at once, and returns a mapping from node to result (:class:`Answers`). A node that fails
does not affect the answers of the others. By default tracing ends by itself after 60 seconds.
"""

from __future__ import annotations

from ._answers import Answers, NodeError
from ._cluster import Cluster

__all__ = ["Answers", "Cluster", "NodeError"]

for _name in __all__:  # errors and the documentation show this module's name
    globals()[_name].__module__ = __name__
del _name
