"""``python -m inviso``: the command line."""

import os
import sys

if not sys.flags.safe_path:  # files beside the program may have names that we import; the script ``inviso`` finds none there
    sys.path[0] = os.path.dirname(sys.executable)

from inviso.cli import main

if __name__ == "__main__":
    sys.exit(main())
