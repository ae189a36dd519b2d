"""``inviso top``: the present activity of nodes, by counters only. Nothing is written to files.

``_live`` polls nodes, ``_sample`` makes rates of their answers, ``_table`` and ``_screen`` show them, ``cli._top`` is
the command.
"""

__all__: list[str] = []
