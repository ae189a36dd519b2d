"""The packages between a notebook and its cells."""

from __future__ import annotations

__all__ = ["MACHINERY", "is_machinery"]

MACHINERY = ("inviso", "IPython", "ipykernel", "jupyter_client", "traitlets", "zmq")
"""Packages between the notebook and its cells. Their functions are hidden, unless a pattern names them."""


def is_machinery(module: str) -> bool:
    """Whether a module belongs to one of these packages."""
    return module.partition(".")[0] in MACHINERY
