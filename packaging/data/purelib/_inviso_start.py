"""Called when an interpreter starts: by ``inviso_start.pth``, from Python 3.15 on by ``inviso_start.start``.

Nothing of inviso is imported unless the environment asks for it. INVISO_AUTOSTART traces this process from its first
line. INVISO_CHILDREN measures it together with its parent. (For pytest: PYTEST_DONT_REWRITE.)
"""


def begin():
    """Does what the environment asks for. Errors here do not reach the program."""
    import os

    if "INVISO_AUTOSTART" not in os.environ and "INVISO_CHILDREN" not in os.environ:
        return
    import sys

    known = set(sys.modules)
    try:
        from inviso._begin import begin
    except ImportError:
        return
    begin(known)
