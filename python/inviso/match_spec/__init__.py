"""Match specifications: decide which calls give a message, and what the message carries (OTP's match specs).

A specification is a list of clauses ``(head, guards, body)``. The first clause whose head matches the arguments and
whose guards are all True decides. A specification is checked and compiled when it is set. It looks at live objects and
runs no code of the program. Write one by hand, or let :func:`ms` make it from a lambda:

>>> spec = ms(lambda self, amount: amount > 100 and return_trace())
>>> spec
MatchSpec([(['_', '$2'], [('>', '$2', 100)], [('return_trace',)])])
>>> print(spec)
[_, $2] when $2 > 100 -> return_trace()
"""

from __future__ import annotations

from ._compile import Problem, match_spec_test
from ._ms import ms
from ._spec import MatchSpec, Prefix, format

__all__ = ["MatchSpec", "Prefix", "Problem", "format", "match_spec_test", "ms"]

for _name in __all__:  # errors, pickles and the documentation name this module
    globals()[_name].__module__ = __name__
del _name
