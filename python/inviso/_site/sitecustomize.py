"""Starts measuring or tracing in a child process, as ``inviso_start.pth`` does, if this package is only on the path and
not installed. ``inviso._children`` puts this folder on the path. Then the program's own ``sitecustomize`` is imported,
if there is one.
"""

import sys

_known = set(sys.modules)
try:
    from inviso import _begin

    _begin.begin(_known)
except ImportError:
    pass
sys.path[:] = [folder for folder in sys.path if folder != __file__.rpartition("/")[0]]
_ours = sys.modules.pop("sitecustomize", None)
try:
    __import__("sitecustomize")
except ModuleNotFoundError as _error:
    if _error.name != "sitecustomize":
        raise
finally:
    if _ours is not None:
        sys.modules.setdefault("sitecustomize", _ours)
