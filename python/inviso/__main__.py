"""``python -m inviso``: the command line."""

import sys

from inviso.cli import main

if __name__ == "__main__":
    sys.exit(main())
