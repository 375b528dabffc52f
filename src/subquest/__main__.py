"""`python -m subquest` is the `subquest` command."""

import sys

from .cli import main

sys.exit(main())
