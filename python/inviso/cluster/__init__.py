"""Trace many processes together: those of this host that were started by ``inviso run``, or that listen otherwise.

::

    from inviso import Cluster

    with Cluster("shop-*") as shop:
        shop.trace("shop.**", messages=True, folder="logs")
        ...                     # the processes go on meanwhile
        print(shop.stop())      # a table: node, records, lost, log

Each call goes to all nodes at once, and answers a mapping from node to result (:class:`Answers`); a node that fails hides
no other's answer. Tracing ends by itself after 60 seconds, unless asked otherwise.
"""

from __future__ import annotations

from ._answers import Answers, NodeError
from ._cluster import Cluster

__all__ = ["Answers", "Cluster", "NodeError"]

for _name in __all__:  # errors and the documentation know them by this module
    globals()[_name].__module__ = __name__
del _name
