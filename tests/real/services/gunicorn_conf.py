"""Gunicorn's settings: each worker listens."""

from inviso.integrations.gunicorn import post_fork

__all__ = ["post_fork"]

proc_name = "shop"
