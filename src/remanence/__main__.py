"""`python -m remanence` is the command `remanence`."""

import sys

from remanence.cli import main

sys.exit(main())
