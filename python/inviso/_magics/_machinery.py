"""What is between a notebook and its cells."""

from __future__ import annotations

__all__ = ["MACHINERY", "is_machinery"]

MACHINERY = ("inviso", "IPython", "ipykernel", "jupyter_client", "traitlets", "zmq")
"""Packages that are between the notebook and its cells. Only a pattern that names one of them takes its functions."""


def is_machinery(module: str) -> bool:
    """Whether a module belongs to what is between the notebook and its cells."""
    return module.partition(".")[0] in MACHINERY
