"""``inviso top``: what nodes do at the moment, by counters alone; nothing is written anywhere.

``_sample`` makes rates of answers, ``_live`` asks nodes, ``_table`` and ``_screen`` show what they say, ``cli._top`` is
the command.
"""

__all__: list[str] = []
