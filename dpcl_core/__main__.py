"""python -m dpcl_core: the command line."""

import sys

from dpcl_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
