"""``python -m inviso``: the command line."""

import os
import sys

# Files in the working directory may have names that we import. As for the script ``inviso``, they must not be found.
if not sys.flags.safe_path:
    sys.path[0] = os.path.dirname(sys.executable)

from inviso.cli import main

if __name__ == "__main__":
    sys.exit(main())
