"""`python -m expfam`: the command line."""

import sys

from expfam.cli import main

if __name__ == "__main__":
    sys.exit(main())
