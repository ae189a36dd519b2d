"""Called when an interpreter starts: by ``inviso_start.pth``, from Python 3.15 on by ``inviso_start.start``.

Nothing of inviso is imported unless the environment asks for it: INVISO_AUTOSTART has this process traced from its
first line, INVISO_CHILDREN has it measured with the one that started it. (For pytest: PYTEST_DONT_REWRITE.)
"""


def begin():
    """Does what the environment asks for; what goes wrong is not the program's."""
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
