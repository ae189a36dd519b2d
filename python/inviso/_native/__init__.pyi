"""The native half of inviso, in modules by topic. Its names are private to the package. The Python half checks
arguments and words errors."""

from . import (
    ending as ending,
)
from . import (
    etf as etf,
)
from . import (
    export as export,
)
from . import (
    interpreter as interpreter,
)
from . import (
    log as log,
)
from . import (
    mailbox as mailbox,
)
from . import (
    match_spec as match_spec,
)
from . import (
    port as port,
)
from . import (
    process as process,
)
from . import (
    relations as relations,
)
from . import (
    seq as seq,
)
from . import (
    trace as trace,
)
from . import (
    trace_port as trace_port,
)

__all__ = [
    "ending",
    "etf",
    "export",
    "interpreter",
    "log",
    "mailbox",
    "match_spec",
    "port",
    "process",
    "relations",
    "seq",
    "trace",
    "trace_port",
]
