"""``python -m blindsum`` is the ``blindsum`` command."""

from __future__ import annotations

import sys

from blindsum.cli import main

if __name__ == "__main__":
    sys.exit(main())
